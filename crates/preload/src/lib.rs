//! Loads Oneflush into an unmodified program that links `libsqlite3.so`.
//!
//! `oneflush run` puts this library into `LD_PRELOAD`. The library stands before SQLite's
//! `sqlite3_open`, `sqlite3_open_v2` and `sqlite3_open16`, wherever `libsqlite3.so` is linked. That
//! is the program itself, or a module that it loads later, such as Python's `_sqlite3`.
//!
//! At the first open the program has done its `sqlite3_config()` calls. The library then has SQLite
//! itself load the extension, and passes every open on unchanged. The extension makes its VFS the
//! default because `oneflush run` sets `ONEFLUSH_DEFAULT=1`.
//!
//! A program that asked for Oneflush must not go on without it. If the extension cannot be loaded,
//! the process ends with a message and exit code 1.
//!
//! | environment variable | meaning |
//! |---|---|
//! | `ONEFLUSH_EXTENSION` | path of `liboneflush.so`; unset: none is loaded |
//! | `ONEFLUSH_SQLITE` | path of the SQLite that the program must have (`own.rs`); unset: any |
//! | `ONEFLUSH_EXPECTED_VERSION` | the program's version; an extension of another one is refused |
//! | `ONEFLUSH_RUN_PID` | the process that `oneflush run` became (`unused.rs`) |

mod own;
mod unused;

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Once;

const SQLITE_OK: c_int = 0;
const SQLITE_OPEN_READWRITE: c_int = 0x2;
const SQLITE_OPEN_CREATE: c_int = 0x4;
const SQLITE_OK_LOAD_PERMANENTLY: c_int = 256;

/// The parts of SQLite's handles that pass through here are never looked into.
type Db = c_void;

type Open = unsafe extern "C" fn(*const c_char, *mut *mut Db) -> c_int;
type OpenV2 = unsafe extern "C" fn(*const c_char, *mut *mut Db, c_int, *const c_char) -> c_int;
type Open16 = unsafe extern "C" fn(*const c_void, *mut *mut Db) -> c_int;
type EntryPoint = unsafe extern "C" fn(*mut Db, *mut *mut c_char, *const c_void) -> c_int;
type Version = unsafe extern "C" fn() -> *const c_char;
type AutoExtension = unsafe extern "C" fn(EntryPoint) -> c_int;
type ErrMsg = unsafe extern "C" fn(*mut Db) -> *const c_char;
type Close = unsafe extern "C" fn(*mut Db) -> c_int;

/// # Safety
/// As SQLite's function of this name, which it passes the call on to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open(name: *const c_char, db: *mut *mut Db) -> c_int {
    load_once();
    // SAFETY: the symbol has SQLite's documented type, and the arguments are the caller's.
    unsafe { std::mem::transmute::<*mut c_void, Open>(sqlite(c"sqlite3_open"))(name, db) }
}

/// # Safety
/// As SQLite's function of this name, which it passes the call on to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open_v2(
    name: *const c_char,
    db: *mut *mut Db,
    flags: c_int,
    vfs: *const c_char,
) -> c_int {
    load_once();
    // SAFETY: the symbol has SQLite's documented type, and the arguments are the caller's.
    unsafe {
        std::mem::transmute::<*mut c_void, OpenV2>(sqlite(c"sqlite3_open_v2"))(name, db, flags, vfs)
    }
}

/// # Safety
/// As SQLite's function of this name, which it passes the call on to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open16(name: *const c_void, db: *mut *mut Db) -> c_int {
    load_once();
    // SAFETY: the symbol has SQLite's documented type, and the arguments are the caller's.
    unsafe { std::mem::transmute::<*mut c_void, Open16>(sqlite(c"sqlite3_open16"))(name, db) }
}

fn load_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        unused::is_used();
        if let Some(wanted) = std::env::var_os("ONEFLUSH_SQLITE")
            && let Err(message) = own::check(&wanted)
        {
            fail(&message);
        }
        if let Some(extension) = std::env::var_os("ONEFLUSH_EXTENSION")
            && let Err(message) = load(&extension)
        {
            fail(&message);
        }
    });
}

/// Lets SQLite run the extension's entry point, by opening a database in memory while it is an
/// automatic extension.
fn load(extension: &OsStr) -> Result<(), String> {
    let path = CString::new(extension.as_bytes());
    let extension = extension.display();
    let path = path.map_err(|_| format!("{extension}: not a path [OF-508]"))?;
    // SAFETY: the library's entry point has the type that SQLite's extension contract gives it;
    // SQLite's functions have their documented types; all strings end with a NUL.
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
        ENTRY.store(entry, std::sync::atomic::Ordering::Release);

        let register: AutoExtension = std::mem::transmute(sqlite(c"sqlite3_auto_extension"));
        let cancel: AutoExtension = std::mem::transmute(sqlite(c"sqlite3_cancel_auto_extension"));
        let open: OpenV2 = std::mem::transmute(sqlite(c"sqlite3_open_v2"));
        let close: Close = std::mem::transmute(sqlite(c"sqlite3_close"));
        let errmsg: ErrMsg = std::mem::transmute(sqlite(c"sqlite3_errmsg"));

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
        if code == SQLITE_OK { Ok(()) } else { Err(message) }
    }
}

static ENTRY: std::sync::atomic::AtomicPtr<c_void> =
    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());

/// The extension's entry point, for `sqlite3_auto_extension()`, which takes every code other than 0
/// for an error.
unsafe extern "C" fn entry_ok(db: *mut Db, message: *mut *mut c_char, api: *const c_void) -> c_int {
    let entry = ENTRY.load(std::sync::atomic::Ordering::Acquire);
    // SAFETY: stored before this function was registered; the arguments are SQLite's.
    match unsafe { std::mem::transmute::<*mut c_void, EntryPoint>(entry)(db, message, api) } {
        SQLITE_OK_LOAD_PERMANENTLY => SQLITE_OK,
        code => code,
    }
}

/// A function of the SQLite that the program uses: after us in the search order, or, where
/// `libsqlite3.so` came with a module that was loaded privately, in that library.
fn sqlite(name: &CStr) -> *mut c_void {
    // SAFETY: both are only look-ups; a library that is found is loaded already and stays.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if !next.is_null() {
            return next;
        }
        let library =
            libc::dlopen(c"libsqlite3.so.0".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        let found = if library.is_null() {
            std::ptr::null_mut()
        } else {
            libc::dlsym(library, name.as_ptr())
        };
        if found.is_null() {
            fail(&format!("{} is in no library of this program [OF-512]", name.to_string_lossy()));
        }
        found
    }
}

fn fail(message: &str) -> ! {
    eprintln!("oneflush run: {message}");
    // SAFETY: ends the process at once, without the program's exit handlers: it has done nothing
    // with SQLite yet.
    unsafe { libc::_exit(1) }
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
