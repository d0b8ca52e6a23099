//! Open, close, check.

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::time::Duration;

use mvbt::{Database, Error, Version};

use crate::call::{self, Failure, Handle, LastError, Out, boxed, emptied, path};
use crate::code::Code;
use crate::opened::Opened;
use crate::place::{self, Place};

/// An open database.
pub struct DatabaseHandle {
    opened: Opened,
    error: LastError,
}

impl DatabaseHandle {
    pub fn database(&self) -> &Database {
        self.opened.database()
    }
}

impl Handle for DatabaseHandle {
    const NULL: &std::ffi::CStr = c"the database is null";

    fn error(&self) -> &LastError {
        &self.error
    }
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
    /// While readers alone hold so many freed pages, no transaction that writes begins:
    /// ONEFLUSH_MVBT_BUSY, whose message names the reader's version.
    pub reader_limit_pages: u64,
    /// Nothing is written: what a crash has left is recovered in memory alone.
    pub read_only: bool,
    /// Lazy split (FAST'14, section 4.2). Off for comparison: more pages are written.
    pub lazy_split: bool,
    /// Metadata embedding (section 5.2). Off for comparison: more blocks are written.
    pub metadata_embedding: bool,
    /// Sibling redistribution (section 5.3), which is off. On for comparison.
    pub redistribution: bool,
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
    /// Pages that only older versions reach: the history, and readers that have begun.
    pub history_pages: u64,
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
    let fill = || {
        let default = mvbt::Options::default();
        Ok(Options {
            page_bytes: default.page_bytes as u32,
            cache_bytes: default.cache_bytes as u64,
            spill_bytes: default.spill_bytes as u64,
            pages_max: default.pages_max,
            reader_limit_pages: default.reader_limit_pages,
            read_only: default.read_only,
            lazy_split: default.lazy_split,
            metadata_embedding: default.metadata_embedding,
            redistribution: default.redistribution,
        })
    };
    // SAFETY: by the contract of this function.
    unsafe { call::without_handle(Out::Needed(options), fill) }
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
    unsafe {
        begin(path, options, db, |place, path, options| {
            place.create(path, options).map(Opened::alone)
        })
    }
}

/// Opens a database, and recovers it if a crash has left it. `options` may be null; the file's own
/// size of pages counts. After a failure `*db` is null. Several processes may have a file open.
/// Handles of one process on one file share its pages in memory, limits and counts, unless an
/// earlier write or flush has failed.
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
    unsafe { begin(path, options, db, Opened::open) }
}

/// True if this process is a child of a fork, and its parent has opened the handle. Nothing else
/// can be done with it than to close it, which leaves alone what the parent has, and
/// oneflush_mvbt_open_anew().
///
/// # Safety
/// `db` is null or a handle, and `inherited` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_is_inherited(
    db: *const DatabaseHandle,
    inherited: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { call::with(db, Out::Needed(inherited), |db| Ok(db.opened.is_inherited())) }
}

/// Opens the database of an inherited handle for this process, as oneflush_mvbt_open(). `path` is
/// that of the handle. It fails if another file is there now. Both handles are to be closed.
///
/// # Safety
/// `inherited` is null or a handle. Otherwise as oneflush_mvbt_open().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_open_anew(
    inherited: *const DatabaseHandle,
    path: *const c_char,
    options: *const Options,
    db: *mut *mut DatabaseHandle,
) -> Code {
    let open = |place: &dyn Place, path: &Path, options| {
        // SAFETY: by the contract of this function.
        let inherited = unsafe { inherited.as_ref() };
        let opened = Opened::open(place, path, options)?;
        // Asked now: the new handle keeps the number of its file from being given again.
        match inherited.is_some_and(|inherited| inherited.opened.is_at(place, path)) {
            true => Ok(opened),
            false => {
                opened.close()?;
                let what = "another file is there since the fork; open the database anew [OF-822]";
                Err(mvbt::Error::Misuse { what })
            }
        }
    };
    // SAFETY: by the contract of this function.
    unsafe { begin(path, options, db, open) }
}

unsafe fn begin(
    name: *const c_char,
    options: *const Options,
    db: *mut *mut DatabaseHandle,
    open: impl FnOnce(&dyn Place, &Path, mvbt::Options) -> mvbt::Result<Opened>,
) -> Code {
    // SAFETY: by the contract of the caller.
    unsafe {
        call::without_handle(emptied(db), || {
            let path = path(name)?;
            let opened = open(&*place::of(path), path, wanted(options.as_ref()))?;
            Ok(boxed(DatabaseHandle { opened, error: LastError::default() }))
        })
    }
}

/// Null stands for the default.
pub fn wanted(options: Option<&Options>) -> mvbt::Options {
    let mut wanted = mvbt::Options::default();
    if let Some(options) = options {
        wanted.page_bytes = options.page_bytes as usize;
        wanted.cache_bytes = usize::try_from(options.cache_bytes).unwrap_or(usize::MAX);
        wanted.spill_bytes = usize::try_from(options.spill_bytes).unwrap_or(usize::MAX);
        wanted.pages_max = options.pages_max;
        wanted.reader_limit_pages = options.reader_limit_pages;
        wanted.read_only = options.read_only;
        wanted.lazy_split = options.lazy_split;
        wanted.metadata_embedding = options.metadata_embedding;
        wanted.redistribution = options.redistribution;
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
    // SAFETY: `begin` made it, and it is given back once.
    unsafe { call::take_back(db, |handle| Ok(handle.opened.close()?)) }
}

/// The message of the last call with this handle that failed. It stays until the next one.
///
/// # Safety
/// `db` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_db_error(db: *const DatabaseHandle) -> *const c_char {
    // SAFETY: by the contract of this function.
    unsafe { call::message(db) }
}

/// Runs a call with a database.
///
/// # Safety
/// As `call::with`.
pub unsafe fn with_database<T: Copy>(
    db: *const DatabaseHandle,
    out: Out<T>,
    work: impl FnOnce(&Database) -> Result<T, Failure>,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { call::with(db, out, |db| work(db.database())) }
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
    unsafe { with_database(db, Out::Needed(version), |database| Ok(database.data_version().0)) }
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
    unsafe { with_database(db, Out::Needed(bytes), |database| Ok(database.page_bytes() as u32)) }
}

/// Cuts the free pages at the end off the file. Those before are used lowest first from now on. So
/// a database that is written anew after a first call has its free pages at the end. `version` is
/// the one that is committed, and gets the one that this call has made of it, with the same rows.
/// `looks_for_lost`: it looks for pages that belong to nobody since a crash, which reads the whole
/// database, up to 1 GiB.
/// `pages` gets how many are left, and `free` how many of those no reader needs; both may be null.
/// BUSY: another process uses the database, a transaction writes, or the version is another one.
///
/// # Safety
/// `db` is null or a handle; `version` may be read and written; `pages` and `free` are null or may
/// be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_shrink(
    db: *const DatabaseHandle,
    version: *mut u64,
    looks_for_lost: bool,
    pages: *mut u64,
    free: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        with_database(db, Out::Needed(version), |database| {
            let shrunk = database.shrink(Version(version.read()), looks_for_lost);
            // A disk may have become full in the middle of a write.
            let shrunk = shrunk
                .map_err(|error| if database.is_usable() { error } else { Error::Poisoned })?;
            for (to, value) in [(pages, shrunk.pages), (free, shrunk.free)] {
                if !to.is_null() {
                    to.write(value);
                }
            }
            Ok(shrunk.version.0)
        })
    }
}

/// The database gets no more pages than this. Beside oneflush_mvbt_page_count().
///
/// # Safety
/// `db` is null or a handle, and `pages` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_pages_max(
    db: *const DatabaseHandle,
    pages: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_database(db, Out::Needed(pages), |database| Ok(database.pages_max())) }
}

/// Sets it, for this handle of the database. It is never less than the pages that there are. `set`
/// may be null; it gets what it is now. A transaction that writes meets it with its next page.
///
/// # Safety
/// `db` is null or a handle, and `set` null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_set_pages_max(
    db: *const DatabaseHandle,
    pages: u64,
    set: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_database(db, Out::IfAsked(set), |database| Ok(database.set_pages_max(pages)?)) }
}

/// Sets how much memory pages that were read may have, for this handle: 64 pages at least.
///
/// # Safety
/// `db` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_set_cache_bytes(
    db: *const DatabaseHandle,
    bytes: u64,
) -> Code {
    let set = |database: &Database| {
        database.set_cache_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(())
    };
    // SAFETY: by the contract of this function.
    unsafe { with_database(db, Out::NOTHING, set) }
}

/// Looks at every page of the last committed version. `fault` may be null. ONEFLUSH_MVBT_OK says
/// that the check is done: `report->faults` counts what it has found. Waits so many milliseconds
/// for who writes, as oneflush_mvbt_begin_write(), and keeps writers out meanwhile.
///
/// # Safety
/// `db` is null or a handle, `report` may be written, and `fault` may be called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_check(
    db: *const DatabaseHandle,
    wait_ms: i64,
    report: *mut Report,
    fault: FaultFunction,
    context: *mut c_void,
) -> Code {
    let check = |database: &Database| {
        let found = match u64::try_from(wait_ms) {
            Ok(time) => database.check_within(Duration::from_millis(time), None)?,
            Err(_) => database.check(None)?,
        };
        for text in &found.faults {
            let text = call::c_text(text);
            if let Some(fault) = fault {
                // SAFETY: the caller gives both, and the text outlives the call.
                unsafe { fault(context, text.as_ptr()) };
            }
        }
        Ok(Report {
            pages: found.pages,
            tree_pages: found.tree_pages,
            overflow_pages: found.overflow_pages,
            free_pages: found.free_pages,
            history_pages: found.history_pages,
            lost_pages: found.lost.len() as u64,
            cells: found.cells,
            faults: found.faults.len() as u64,
        })
    };
    // SAFETY: by the contract of this function.
    unsafe { with_database(db, Out::Needed(report), check) }
}
