//! The methods of an open file that came with a fork, until its first use ([`forked`]).
//!
//! Each use makes the connection anew if that is possible, and goes on by the ordinary methods.
//! Otherwise the use is an error. A call that gives something back goes to the VFS below. No call
//! here does any work of a last close.

use std::ffi::{c_int, c_void};

use libsqlite3_sys as sqlite;

use super::below::BelowFile;
use super::callback;
use super::forked::{self, Refused};
use super::open_file::{OpenFile, State};
use crate::error::{Code, Error};
use crate::port::{Below, LockLevel, ShmLock, WalIndex};

type SqliteFile = *mut sqlite::sqlite3_file;

/// # Safety
/// `file` is open and has these methods.
unsafe fn state<'a>(file: SqliteFile) -> &'a State {
    // SAFETY: as the caller promises.
    unsafe { (*file.cast::<OpenFile>()).state.assume_init_ref() }
}

/// # Safety
/// As for [`state`].
unsafe fn below(file: SqliteFile) -> BelowFile {
    // SAFETY: as the caller promises.
    unsafe { state(file) }.file.below().clone()
}

/// # Safety
/// As for [`state`].
unsafe fn attach(file: SqliteFile) -> c_int {
    // SAFETY: as the caller promises; the API outlives the state.
    let api = unsafe { state(file) }.api;
    // The connection may still be the parent's, whose locks a thread that is not here may hold.
    let after = || {};
    callback(api, "a call after a fork", after, || {
        // SAFETY: SQLite lets one thread at a time use a connection.
        unsafe { forked::attach(file.cast()) }.map_err(|Refused { code, why }| {
            if let Some(why) = why {
                api.log(code.0, &why);
            }
            Error::Below(code)
        })
    })
}

/// A use: makes the connection anew, then calls the ordinary method of that name.
macro_rules! used {
    ($name:ident, $method:ident $(, $argument:ident: $type:ty)*) => {
        unsafe extern "C" fn $name(file: SqliteFile $(, $argument: $type)*) -> c_int {
            // SAFETY: SQLite passes an open file, and its arguments go on unchanged. The methods
            // are the ordinary ones now.
            unsafe {
                match attach(file) {
                    sqlite::SQLITE_OK => match (*(*file).pMethods).$method {
                        Some(method) => method(file $(, $argument)*),
                        None => sqlite::SQLITE_IOERR,
                    },
                    code => code,
                }
            }
        }
    };
}

/// A call that goes to the VFS below.
macro_rules! given_back {
    ($name:ident, $method:ident $(, $argument:ident: $type:ty)*) => {
        unsafe extern "C" fn $name(file: SqliteFile $(, $argument: $type)*) -> c_int {
            // SAFETY: SQLite passes an open file, and its arguments go on unchanged.
            unsafe {
                let below = below(file);
                match below.methods().$method {
                    Some(method) => method(below.raw() $(, $argument)*),
                    None => sqlite::SQLITE_IOERR,
                }
            }
        }
    };
}

used!(x_read, xRead, buffer: *mut c_void, amount: c_int, offset: sqlite::sqlite3_int64);
used!(x_write, xWrite, data: *const c_void, amount: c_int, offset: sqlite::sqlite3_int64);
used!(x_truncate, xTruncate, size: sqlite::sqlite3_int64);
used!(x_sync, xSync, flags: c_int);
used!(x_file_size, xFileSize, size: *mut sqlite::sqlite3_int64);
used!(use_lock, xLock, wanted: c_int);
used!(x_check_reserved_lock, xCheckReservedLock, result: *mut c_int);
used!(use_file_control, xFileControl, op: c_int, argument: *mut c_void);
used!(x_shm_map, xShmMap, region: c_int, size: c_int, extend: c_int, result: *mut *mut c_void);
used!(use_shm_lock, xShmLock, offset: c_int, n: c_int, flags: c_int);
used!(x_fetch, xFetch, offset: sqlite::sqlite3_int64, amount: c_int, result: *mut *mut c_void);
given_back!(pass_file_control, xFileControl, op: c_int, argument: *mut c_void);
given_back!(unmap_index, xShmUnmap, delete: c_int);
given_back!(x_unfetch, xUnfetch, offset: sqlite::sqlite3_int64, page: *mut c_void);
given_back!(x_sector_size, xSectorSize);
given_back!(x_device_characteristics, xDeviceCharacteristics);

/// SQLite asks for the exclusive lock of an idle connection only when it closes it. The answer
/// "busy" says that other connections exist, so this close is never the last one.
unsafe extern "C" fn x_lock(file: SqliteFile, wanted: c_int) -> c_int {
    if wanted == sqlite::SQLITE_LOCK_EXCLUSIVE {
        return sqlite::SQLITE_BUSY;
    }
    // SAFETY: as SQLite called.
    unsafe { use_lock(file, wanted) }
}

unsafe extern "C" fn x_shm_lock(file: SqliteFile, offset: c_int, n: c_int, flags: c_int) -> c_int {
    // SAFETY: as SQLite called.
    unsafe {
        if flags & sqlite::SQLITE_SHM_UNLOCK != 0 {
            code_of(below(file).shm_lock(ShmLock {
                first: offset as u8,
                count: n as u8,
                acquire: false,
                exclusive: flags & sqlite::SQLITE_SHM_EXCLUSIVE != 0,
            }))
        } else {
            use_shm_lock(file, offset, n, flags)
        }
    }
}

unsafe extern "C" fn x_shm_unmap(file: SqliteFile, _delete: c_int) -> c_int {
    // SAFETY: as SQLite called. The WAL index is not deleted, because others may use it.
    code_of(unsafe { below(file).unmap_index(|| unmap_index(file, 0)) })
}

unsafe extern "C" fn x_unlock(file: SqliteFile, wanted: c_int) -> c_int {
    let level = match wanted {
        sqlite::SQLITE_LOCK_NONE => LockLevel::None,
        _ => LockLevel::Shared,
    };
    // SAFETY: as SQLite called.
    code_of(unsafe { below(file) }.unlock(level))
}

fn code_of(answer: Result<(), Code>) -> c_int {
    answer.map_or_else(|code| code.0, |()| sqlite::SQLITE_OK)
}

unsafe extern "C" fn x_shm_barrier(file: SqliteFile) {
    // SAFETY: SQLite passes a file that is open.
    unsafe {
        let below = below(file);
        if let Some(method) = below.methods().xShmBarrier {
            method(below.raw());
        }
    }
}

/// A PRAGMA, a busy handler and a commit are uses. Every other operation goes to the VFS below, for
/// example those of a close.
unsafe extern "C" fn x_file_control(file: SqliteFile, op: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: as SQLite called.
    unsafe {
        match op {
            sqlite::SQLITE_FCNTL_PRAGMA | sqlite::SQLITE_FCNTL_BUSYHANDLER
                if attach(file) == sqlite::SQLITE_OK =>
            {
                use_file_control_of(file, op, argument)
            }
            sqlite::SQLITE_FCNTL_COMMIT_PHASETWO => use_file_control(file, op, argument),
            _ => pass_file_control(file, op, argument),
        }
    }
}

/// # Safety
/// As for the ordinary method, which is called.
unsafe fn use_file_control_of(file: SqliteFile, op: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        (*(*file).pMethods)
            .xFileControl
            .map_or(sqlite::SQLITE_NOTFOUND, |method| method(file, op, argument))
    }
}

unsafe extern "C" fn x_close(file: SqliteFile) -> c_int {
    forked::closing(file.cast());
    // SAFETY: SQLite closes a file once. Our state is the parent's and is not dropped (invariant 1
    // of `forked.rs`).
    unsafe {
        let below = below(file);
        (*file.cast::<OpenFile>()).methods = std::ptr::null();
        below.close()
    }
}

method_tables!();
