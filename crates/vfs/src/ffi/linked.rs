//! The C functions of a statically linked library: `packages/c/oneflush.h` declares them.

use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use libsqlite3_sys as sqlite;

use super::api;
use super::entry::{RegisterError, answered, register, register_default};

/// Registers the VFS. Called again, it reads the environment anew.
#[unsafe(no_mangle)]
pub extern "C" fn oneflush_register() -> c_int {
    registered_by(register)
}

/// The same, and makes the VFS the default of the process.
#[unsafe(no_mangle)]
pub extern "C" fn oneflush_register_default() -> c_int {
    registered_by(register_default)
}

/// For `-DSQLITE_EXTRA_INIT=oneflush_vfs_extra_init`. SQLite calls it at the end of every
/// `sqlite3_initialize()`, and the VFS becomes the default.
#[unsafe(no_mangle)]
pub extern "C" fn oneflush_vfs_extra_init(_unused: *const c_char) -> c_int {
    registered_by(register_default)
}

fn registered_by(register: fn() -> Result<(), RegisterError>) -> c_int {
    answered(catch_unwind(register), &api::linked(), ptr::null_mut())
}

/// The entry point of a statically linked extension, for `sqlite3_auto_extension()`.
///
/// SQLite calls it for each connection, when that is open already. So the first call registers,
/// and the VFS serves what is opened afterwards. The answer is never "load permanently", which
/// `sqlite3_auto_extension()` takes for an error.
///
/// # Safety
/// `error_out` is null or what SQLite passes ("Statically Linking A Run-Time Loadable Extension").
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_oneflush_init(
    _db: *mut sqlite::sqlite3,
    error_out: *mut *mut c_char,
    _routines: *const c_void,
) -> c_int {
    static REGISTERED: Mutex<bool> = Mutex::new(false);
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if *registered {
        return sqlite::SQLITE_OK;
    }
    let code = answered(catch_unwind(register), &api::linked(), error_out);
    *registered = code == sqlite::SQLITE_OK;
    code
}
