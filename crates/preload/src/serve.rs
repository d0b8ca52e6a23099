//! The one SQLite of a process that Oneflush is loaded into: the first that opens a database and
//! can be. Others are left alone.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::objects::Object;
use crate::{say, sqlite};

const SQLITE_OK: c_int = 0;
const SQLITE_OPEN_READWRITE: c_int = 0x2;
const SQLITE_OPEN_CREATE: c_int = 0x4;
const SQLITE_OK_LOAD_PERMANENTLY: c_int = 256;
/// What the extension needs at least. It says so itself, but by then it is too late to do without.
const VERSION_MIN: c_int = 3_040_000;

/// The parts of SQLite's handles that pass through here are never looked into.
pub type Db = c_void;

pub type OpenV2 = unsafe extern "C" fn(*const c_char, *mut *mut Db, c_int, *const c_char) -> c_int;
type EntryPoint = unsafe extern "C" fn(*mut Db, *mut *mut c_char, *const c_void) -> c_int;
type Version = unsafe extern "C" fn() -> *const c_char;
type VersionNumber = unsafe extern "C" fn() -> c_int;
type AutoExtension = unsafe extern "C" fn(EntryPoint) -> c_int;
type ErrMsg = unsafe extern "C" fn(*mut Db) -> *const c_char;
type IsIn = unsafe extern "C" fn(usize, usize) -> bool;
type Close = unsafe extern "C" fn(*mut Db) -> c_int;

/// Where the SQLite lies that Oneflush is in.
static SERVED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// Where those begin that have opened a database. More than so many in a process are left alone.
static MET: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];
/// Only for one that is not known yet: a fork may happen at any time, and the child would wait.
static MEETING: Mutex<()> = Mutex::new(());

enum Trouble {
    /// Oneflush was asked for, and is not usable in any SQLite: the program ends.
    Unusable(String),
    /// This SQLite goes on alone.
    Unfit(String),
}

/// True if this address is in the SQLite that we have loaded Oneflush into.
pub fn is_served(address: usize) -> bool {
    // The end is written last.
    let end = SERVED[1].load(Ordering::Acquire);
    (SERVED[0].load(Ordering::Acquire)..end).contains(&address)
}

pub fn is_any_served() -> bool {
    SERVED[1].load(Ordering::Acquire) != 0
}

/// True if Oneflush is in a SQLite that lies there, whoever loaded it. Users of a program with
/// SQLite built in are told to load the extension into that.
pub fn is_loaded_by_the_program(all: &[Object], sqlite: Range<usize>) -> bool {
    all.iter().filter_map(|object| object.function(c"oneflush_is_in")).any(|is_in| {
        // SAFETY: the extension's function of this name has this type, and needs nothing.
        unsafe { std::mem::transmute::<usize, IsIn>(is_in)(sqlite.start, sqlite.end) }
    })
}

/// A database is being opened by this SQLite. `ours`: see [`sqlite::refer_to_itself`].
pub fn serve(sqlite: &Object, ours: &[(&CStr, usize)]) {
    let range = sqlite.range();
    let is_met = || MET.iter().any(|start| start.load(Ordering::Acquire) == range.start);
    if is_met() {
        return;
    }
    let _alone = MEETING.lock();
    let free = MET.iter().find(|start| start.load(Ordering::Acquire) == 0);
    let Some(free) = free.filter(|_| !is_met()) else { return };
    sqlite::refer_to_itself(sqlite, ours);
    if !is_any_served() {
        meet(sqlite);
    }
    free.store(range.start, Ordering::Release);
}

fn meet(sqlite: &Object) {
    let range = sqlite.range();
    match begin(sqlite) {
        Ok(()) => {
            SERVED[0].store(range.start, Ordering::Release);
            SERVED[1].store(range.end, Ordering::Release);
        }
        Err(Trouble::Unfit(message)) => say::once(&message),
        Err(Trouble::Unusable(message)) => say::fail(&message),
    }
}

fn unfit(sqlite: &Object, why: &str) -> Trouble {
    Trouble::Unfit(format!(
        "{}: the SQLite in it {why}, so it goes on without Oneflush [OF-512]",
        sqlite.path().display()
    ))
}

fn begin(sqlite: &Object) -> Result<(), Trouble> {
    if let Some(wanted) = std::env::var_os("ONEFLUSH_SQLITE") {
        is_wanted(sqlite, Path::new(&wanted))?;
    }
    if let Some(extension) = std::env::var_os("ONEFLUSH_EXTENSION") {
        load(sqlite, &extension)?;
    }
    stay(sqlite);
    Ok(())
}

/// Whether this SQLite is the one that `oneflush run --engine` wants the program to have.
///
/// The program may have got another `libsqlite3.so`: by `DT_RPATH`, which the dynamic linker looks
/// into first. Such a SQLite takes databases of LS-MVBT for damaged ones. One that is built in is
/// left alone, as it is where its functions have no names.
fn is_wanted(sqlite: &Object, wanted: &Path) -> Result<(), Trouble> {
    let found = sqlite.path();
    let real = |path: &Path| path.canonicalize().unwrap_or(path.to_owned());
    if real(&found) == real(wanted) {
        return Ok(());
    }
    let is_library =
        found.file_name().is_some_and(|name| name.as_bytes().starts_with(b"libsqlite3.so"));
    if !is_library {
        return Err(unfit(sqlite, "is not the one of --engine"));
    }
    Err(Trouble::Unusable(format!(
        "the program has a SQLite of its own, {}, and not {}, so --engine cannot be kept; run it \
            without --engine [OF-516]",
        found.display(),
        wanted.display()
    )))
}

/// A SQLite that has our VFS is not unloaded any more.
fn stay(sqlite: &Object) {
    if let Some(name) = sqlite.name() {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: the library is loaded already.
        unsafe { libc::dlopen(name.as_ptr(), flags) };
    }
}

/// Lets SQLite run the extension's entry point, by opening a database in memory while it is an
/// automatic extension.
fn load(sqlite: &Object, extension: &OsStr) -> Result<(), Trouble> {
    let function = |name: &CStr| {
        let found = sqlite.function(name).map(|function| function as *mut c_void);
        found.ok_or_else(|| unfit(sqlite, &format!("has no {}", name.to_string_lossy())))
    };
    let (register, cancel) =
        (function(c"sqlite3_auto_extension")?, function(c"sqlite3_cancel_auto_extension")?);
    let (open, close) = (function(c"sqlite3_open_v2")?, function(c"sqlite3_close")?);
    let (errmsg, version) = (function(c"sqlite3_errmsg")?, function(c"sqlite3_libversion_number")?);
    // SAFETY: SQLite's functions have their documented types.
    let (register, cancel, open, close, errmsg, version) = unsafe {
        (
            std::mem::transmute::<*mut c_void, AutoExtension>(register),
            std::mem::transmute::<*mut c_void, AutoExtension>(cancel),
            std::mem::transmute::<*mut c_void, OpenV2>(open),
            std::mem::transmute::<*mut c_void, Close>(close),
            std::mem::transmute::<*mut c_void, ErrMsg>(errmsg),
            std::mem::transmute::<*mut c_void, VersionNumber>(version),
        )
    };
    // SAFETY: takes nothing and may be called at any time.
    let version = unsafe { version() };
    if version < VERSION_MIN {
        let why = format!("is version {version}, and Oneflush needs {VERSION_MIN}");
        return Err(unfit(sqlite, &why));
    }
    find_entry(extension).map_err(Trouble::Unusable)?;
    // SAFETY: as above; all strings end with a NUL.
    unsafe {
        let mut db = std::ptr::null_mut();
        let mut code = register(entry_ok);
        if code == SQLITE_OK {
            code = open(
                c":memory:".as_ptr(),
                &mut db,
                SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                std::ptr::null(),
            );
        }
        let message = text(errmsg(db));
        close(db);
        cancel(entry_ok);
        if code == SQLITE_OK { Ok(()) } else { Err(Trouble::Unusable(message)) }
    }
}

fn find_entry(extension: &OsStr) -> Result<(), String> {
    let path = CString::new(extension.as_bytes());
    let extension = extension.display();
    let path = path.map_err(|_| format!("{extension}: not a path [OF-508]"))?;
    // SAFETY: the library's entry point has the type that SQLite's extension contract gives it; all
    // strings end with a NUL.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            return Err(format!("{} [OF-509]", text(libc::dlerror())));
        }
        let entry = libc::dlsym(library, c"sqlite3_oneflush_init".as_ptr());
        let version = libc::dlsym(library, c"oneflush_version".as_ptr());
        if entry.is_null() || version.is_null() {
            return Err(format!(
                "{extension}: not the Oneflush extension: no sqlite3_oneflush_init [OF-510]"
            ));
        }
        let version = text(std::mem::transmute::<*mut c_void, Version>(version)());
        if let Ok(expected) = std::env::var("ONEFLUSH_EXPECTED_VERSION")
            && version != expected
        {
            return Err(format!(
                "{extension} is version {version}, the oneflush program is {expected}; install \
                    both from one build [OF-511]"
            ));
        }
        ENTRY.store(entry, Ordering::Release);
    }
    Ok(())
}

static ENTRY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The extension's entry point, for `sqlite3_auto_extension()`, which takes every code other than 0
/// for an error.
unsafe extern "C" fn entry_ok(db: *mut Db, message: *mut *mut c_char, api: *const c_void) -> c_int {
    let entry = ENTRY.load(Ordering::Acquire);
    // SAFETY: stored before this function was registered; the arguments are SQLite's.
    match unsafe { std::mem::transmute::<*mut c_void, EntryPoint>(entry)(db, message, api) } {
        SQLITE_OK_LOAD_PERMANENTLY => SQLITE_OK,
        code => code,
    }
}

/// # Safety
/// `string` is null or ends with a NUL.
unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into()
}
