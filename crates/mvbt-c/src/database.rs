//! Open, close, check.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mvbt::Database;

use crate::call::{self, Failure, LastError, misuse, put};
use crate::code::Code;

/// An open database.
pub struct DatabaseHandle {
    pub database: Database,
    pub error: LastError,
}

/// How a database is opened. oneflush_mvbt_options_default() fills it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    /// Bytes of a page of a new database: a power of two from 512 to 65,536.
    pub page_bytes: u32,
    /// Memory for pages that were read, in bytes.
    pub cache_bytes: u64,
    /// A transaction that has changed so many bytes of pages writes some of them early.
    pub spill_bytes: u64,
    /// The database never has more pages.
    pub pages_max: u64,
    /// Nothing is written: what a crash has left is recovered in memory alone.
    pub read_only: bool,
}

/// What a check has found.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Report {
    /// Of the database.
    pub pages: u64,
    /// Of its trees.
    pub tree_pages: u64,
    /// Of long payloads.
    pub overflow_pages: u64,
    pub free_pages: u64,
    /// Pages that belong to nobody. A crash leaves some; they are lost room, and no fault.
    pub lost_pages: u64,
    /// Cells of leaves.
    pub cells: u64,
    /// What is wrong. No more than 100 are told.
    pub faults: u64,
}

/// Is called with a line of text for each fault.
pub type FaultFunction = Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char)>;

/// The options that a null pointer stands for.
///
/// # Safety
/// `options` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_options_default(options: *mut Options) -> Code {
    call::without_handle(|| {
        let default = mvbt::Options::default();
        let filled = Options {
            page_bytes: default.page_bytes as u32,
            cache_bytes: default.cache_bytes as u64,
            spill_bytes: default.spill_bytes as u64,
            pages_max: default.pages_max,
            read_only: default.read_only,
        };
        // SAFETY: by the contract of this function.
        unsafe { put(options, filled) }
    })
}

/// Makes a new database in a file that must not exist. `options` may be null. After a failure
/// there is no file, and `*db` is null.
///
/// # Safety
/// `path` is a text that ends with a zero, `options` null or filled, and `db` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_create(
    path: *const c_char,
    options: *const Options,
    db: *mut *mut DatabaseHandle,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { begin(path, options, db, Database::create) }
}

/// Opens a database, and recovers it if a crash has left it. `options` may be null; the file's own
/// size of pages counts. After a failure `*db` is null. One process may have a file open.
///
/// # Safety
/// As oneflush_mvbt_create().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_open(
    path: *const c_char,
    options: *const Options,
    db: *mut *mut DatabaseHandle,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { begin(path, options, db, Database::open) }
}

unsafe fn begin(
    path: *const c_char,
    options: *const Options,
    db: *mut *mut DatabaseHandle,
    open: impl FnOnce(&Path, mvbt::Options) -> mvbt::Result<Database>,
) -> Code {
    call::without_handle(|| {
        // SAFETY: by the contract of the caller.
        unsafe { put(db, std::ptr::null_mut()) }?;
        if path.is_null() {
            return Err(misuse("the path is null"));
        }
        // SAFETY: the path is a text, and the options are null or filled.
        let (path, options) = unsafe { (CStr::from_ptr(path), options.as_ref()) };
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let database = open(path, wanted(options))?;
        let handle = Box::new(DatabaseHandle { database, error: LastError::default() });
        // SAFETY: by the contract of the caller.
        unsafe { put(db, Box::into_raw(handle)) }
    })
}

fn wanted(options: Option<&Options>) -> mvbt::Options {
    let mut wanted = mvbt::Options::default();
    if let Some(options) = options {
        wanted.page_bytes = options.page_bytes as usize;
        wanted.cache_bytes = usize::try_from(options.cache_bytes).unwrap_or(usize::MAX);
        wanted.spill_bytes = usize::try_from(options.spill_bytes).unwrap_or(usize::MAX);
        wanted.pages_max = options.pages_max;
        wanted.read_only = options.read_only;
    }
    wanted
}

/// Gives the handle back, also if this fails. Null is right. ONEFLUSH_MVBT_BUSY: a transaction is
/// open, and goes on; the file is closed when it ends. After any failure the next opening recovers
/// as after a crash, and has all that was committed. The message is oneflush_mvbt_open_error()'s.
///
/// # Safety
/// `db` is null or a handle that no call uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_close(db: *mut DatabaseHandle) -> Code {
    call::without_handle(|| {
        if db.is_null() {
            return Ok(());
        }
        // SAFETY: `begin` made it by `Box::into_raw`, and it is given back once.
        let handle = unsafe { Box::from_raw(db) };
        Ok(handle.database.close()?)
    })
}

/// The message of the last call with this handle that failed. It stays until the next one.
///
/// # Safety
/// `db` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_db_error(db: *const DatabaseHandle) -> *const c_char {
    // SAFETY: by the contract of this function.
    unsafe { db.as_ref() }.map_or(c"the database is null".as_ptr(), |db| db.error.text())
}

/// Runs a call with a database.
///
/// # Safety
/// As `call::with`.
pub unsafe fn with_database(
    db: *const DatabaseHandle,
    work: impl FnOnce(&Database) -> Result<(), Failure>,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { call::with(db, |db| &db.error, |db| work(&db.database)) }
}

/// A number that changes with each commit that changed something, of this database handle.
///
/// # Safety
/// `db` is null or a handle, and `version` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_data_version(
    db: *const DatabaseHandle,
    version: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_database(db, |database| put(version, database.data_version().0)) }
}

/// Bytes of a page.
///
/// # Safety
/// `db` is null or a handle, and `bytes` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_page_bytes(
    db: *const DatabaseHandle,
    bytes: *mut u32,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_database(db, |database| put(bytes, database.page_bytes() as u32)) }
}

/// Looks at every page of the last committed version. `fault` may be null. ONEFLUSH_MVBT_OK says
/// that the check is done: `report->faults` counts what it has found. Waits for who writes, and
/// keeps writers out meanwhile.
///
/// # Safety
/// `db` is null or a handle, `report` may be written, and `fault` may be called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_check(
    db: *const DatabaseHandle,
    report: *mut Report,
    fault: FaultFunction,
    context: *mut c_void,
) -> Code {
    let check = |database: &Database| {
        let found = database.check(None)?;
        for text in &found.faults {
            let text = call::c_text(text);
            if let Some(fault) = fault {
                // SAFETY: the caller gives both, and the text outlives the call.
                unsafe { fault(context, text.as_ptr()) };
            }
        }
        let told = Report {
            pages: found.pages,
            tree_pages: found.tree_pages,
            overflow_pages: found.overflow_pages,
            free_pages: found.free_pages,
            lost_pages: found.lost.len() as u64,
            cells: found.cells,
            faults: found.faults.len() as u64,
        };
        // SAFETY: by the contract of this function.
        unsafe { put(report, told) }
    };
    // SAFETY: by the contract of this function.
    unsafe { with_database(db, check) }
}
