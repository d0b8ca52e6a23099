//! New databases with `waldio` get 24 reserved bytes at the end of each page, for the header of a
//! frame (`SQLITE_FCNTL_RESERVE_BYTES`).
//!
//! A VFS has no connection. SQLite tells each file where its connection is (`SQLITE_FCNTL_PDB`).
//! The number of reserved bytes can be set until the first page is made. So it is set at the first
//! shared lock of an empty file, inside a call of SQLite's.
//!
//! An application that has asked for reserved bytes itself keeps its number.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use libsqlite3_sys as sqlite;

use super::api::Api;
use crate::wal_file::FRAME_HEADER_BYTES;

/// "Used internally by SQLite": the argument is where the file's connection is kept.
pub const SQLITE_FCNTL_PDB: c_int = 30;

/// The place where SQLite keeps the connection of a main database file. Null: not told, or not
/// needed any more.
#[derive(Default)]
pub struct Handle(AtomicPtr<*mut sqlite::sqlite3>);

impl Handle {
    /// SQLite tells where the connection is. The place is valid as long as the file is open.
    pub fn told(&self, place: *mut c_void) {
        self.0.store(place.cast(), Relaxed);
    }

    /// The place, once.
    pub fn take(&self) -> Option<*mut *mut sqlite::sqlite3> {
        let place = self.0.swap(ptr::null_mut(), Relaxed);
        (!place.is_null()).then_some(place)
    }
}

/// Asks for reserved bytes in the new database that `file` is to become.
///
/// # Safety
/// SQLite is in a call for `file`, which is open, and `place` is what it told the file.
pub unsafe fn ask_for_bytes(
    api: &Api,
    place: *mut *mut sqlite::sqlite3,
    file: *mut sqlite::sqlite3_file,
) {
    // SAFETY: the place is valid while the file is open. The connection is in use by this thread,
    // which holds its mutex. The mutex may be taken again by its thread.
    unsafe {
        let db = *place;
        if db.is_null() {
            return;
        }
        let mut number = 0;
        loop {
            let name = (api.db_name)(db, number);
            if name.is_null() {
                return;
            }
            let control =
                |op: c_int, argument: *mut c_void| (api.file_control)(db, name, op, argument);
            let mut found: *mut sqlite::sqlite3_file = ptr::null_mut();
            let code = control(sqlite::SQLITE_FCNTL_FILE_POINTER, (&raw mut found).cast());
            if code == sqlite::SQLITE_OK && found == file {
                // A negative number only asks.
                let mut bytes: c_int = -1;
                let asked = control(sqlite::SQLITE_FCNTL_RESERVE_BYTES, (&raw mut bytes).cast());
                if asked == sqlite::SQLITE_OK && bytes == 0 {
                    bytes = FRAME_HEADER_BYTES as c_int;
                    control(sqlite::SQLITE_FCNTL_RESERVE_BYTES, (&raw mut bytes).cast());
                }
                return;
            }
            number += 1;
        }
    }
}
