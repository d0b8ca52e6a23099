//! Loads Oneflush into an unmodified program that links `libsqlite3.so`.
//!
//! `oneflush run` puts this library into `LD_PRELOAD`. The library stands before SQLite's
//! `sqlite3_open`, `sqlite3_open_v2` and `sqlite3_open16`, wherever `libsqlite3.so` is linked. That
//! is the program itself, or a module that it loads later, such as Python's `_sqlite3`.
//!
//! A process may have several SQLites, so each call is passed on to the one that the caller means
//! (`sqlite.rs`). At the first open the program has done its `sqlite3_config()` calls. The library
//! then has that SQLite itself load the extension (`serve.rs`). The extension makes its VFS the
//! default because `oneflush run` sets `ONEFLUSH_DEFAULT=1`.
//!
//! A program that asked for Oneflush must not go on with one that is unusable. If the extension
//! cannot be loaded, the process ends with a message and exit code 1. A SQLite that Oneflush is not
//! in is left alone, and `watch.rs` says so when it opens a file.
//!
//! | environment variable | meaning |
//! |---|---|
//! | `ONEFLUSH_EXTENSION` | path of `liboneflush.so`; unset: none is loaded |
//! | `ONEFLUSH_SQLITE` | path of the SQLite that the program must have; unset: any |
//! | `ONEFLUSH_SHELL_SOURCE` | what the shell of SQLite was built from (`source.rs`) |
//! | `ONEFLUSH_EXPECTED_VERSION` | the program's version; an extension of another one is refused |
//! | `ONEFLUSH_RUN_PID` | the process that `oneflush run` became (`unused.rs`) |
//! | `ONEFLUSH_RUN_REQUIRE` | set: a process that opens a database without Oneflush ends |
//! | `ONEFLUSH_RUN_STDERR` | what standard error is (`say.rs`) |
//! | `ONEFLUSH_RUN_TOLD` | the process that `oneflush run` has told of its own SQLite already |

mod caller;
mod objects;
mod say;
mod serve;
mod source;
mod sqlite;
mod unused;
mod watch;

use std::ffi::{CStr, c_char, c_int, c_void};

use serve::{Db, OpenV2};

const SQLITE_ERROR: c_int = 1;

type Open = unsafe extern "C" fn(*const c_char, *mut *mut Db) -> c_int;
type Open16 = unsafe extern "C" fn(*const c_void, *mut *mut Db) -> c_int;

caller::with_caller! {
    /// # Safety
    /// As SQLite's function of this name, which it passes the call on to.
    fn sqlite3_open(name: *const c_char, db: *mut *mut Db) => 2 open
}

caller::with_caller! {
    /// # Safety
    /// As SQLite's function of this name, which it passes the call on to.
    fn sqlite3_open_v2(name: *const c_char, db: *mut *mut Db, flags: c_int, vfs: *const c_char)
        => 4 open_v2
}

caller::with_caller! {
    /// # Safety
    /// As SQLite's function of this name, which it passes the call on to.
    fn sqlite3_open16(name: *const c_void, db: *mut *mut Db) => 2 open16
}

unsafe extern "C" fn open(name: *const c_char, db: *mut *mut Db, caller: usize) -> c_int {
    // SAFETY: the symbol has SQLite's documented type, and the arguments are the caller's.
    unsafe {
        match real(c"sqlite3_open", caller) {
            Some(real) => std::mem::transmute::<usize, Open>(real)(name, db),
            None => refused(db),
        }
    }
}

unsafe extern "C" fn open_v2(
    name: *const c_char,
    db: *mut *mut Db,
    flags: c_int,
    vfs: *const c_char,
    caller: usize,
) -> c_int {
    // SAFETY: the symbol has SQLite's documented type, and the arguments are the caller's.
    unsafe {
        match real(c"sqlite3_open_v2", caller) {
            Some(real) => std::mem::transmute::<usize, OpenV2>(real)(name, db, flags, vfs),
            None => refused(db),
        }
    }
}

unsafe extern "C" fn open16(name: *const c_void, db: *mut *mut Db, caller: usize) -> c_int {
    // SAFETY: the symbol has SQLite's documented type, and the arguments are the caller's.
    unsafe {
        match real(c"sqlite3_open16", caller) {
            Some(real) => std::mem::transmute::<usize, Open16>(real)(name, db),
            None => refused(db),
        }
    }
}

/// The function of the SQLite that the caller means, which is served by now or left alone.
fn real(name: &CStr, caller: usize) -> Option<usize> {
    unused::is_used();
    let found = sqlite::used_by(caller, name);
    if let Some(sqlite) = &found {
        serve::serve(sqlite, &ours());
    }
    let real = found.and_then(|sqlite| sqlite.function(name));
    if real.is_none() {
        say::once(&format!(
            "which SQLite is meant by a call of {} cannot be known, so that call fails [OF-534]",
            name.to_string_lossy()
        ));
    }
    real
}

/// The functions that a SQLite has, too, and their addresses here.
fn ours() -> [(&'static CStr, usize); 3] {
    [
        (c"sqlite3_open", sqlite3_open as *const () as usize),
        (c"sqlite3_open_v2", sqlite3_open_v2 as *const () as usize),
        (c"sqlite3_open16", sqlite3_open16 as *const () as usize),
    ]
}

/// # Safety
/// `db` is null, or the place for a handle.
unsafe fn refused(db: *mut *mut Db) -> c_int {
    if !db.is_null() {
        // SAFETY: as the caller promises.
        unsafe { *db = std::ptr::null_mut() };
    }
    SQLITE_ERROR
}
