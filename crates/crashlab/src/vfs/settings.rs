//! What a run sets in SQLite, in one of its connections, and in the C library.

use std::ffi::c_int;

use libsqlite3_sys as sqlite;

/// glibc gives large buffers back to the kernel when they are freed. Every state needs some again,
/// and their page faults would take more time than all the rest.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, bytes) in [
        (libc::M_MMAP_THRESHOLD, 1 << 30),
        (libc::M_TRIM_THRESHOLD, 1 << 30),
        (libc::M_TOP_PAD, 64 << 20),
    ] {
        // SAFETY: takes two numbers, and ignores those that it does not like.
        unsafe {
            libc::mallopt(parameter, bytes);
        }
    }
}

/// Starts SQLite's random numbers (salts, nonces) from a seed, for the whole process.
pub fn seed_sqlite(seed: u64) {
    // SAFETY: "SQLITE_TESTCTRL_PRNG_SEED, int x, sqlite3 *db": db may be NULL; zero would mean
    // "unpredictable".
    unsafe {
        let db: *mut sqlite::sqlite3 = std::ptr::null_mut();
        sqlite::sqlite3_test_control(sqlite::SQLITE_TESTCTRL_PRNG_SEED, (seed as c_int) | 1, db);
    }
}

/// A new database of this connection has so many reserved bytes at the end of each page.
pub fn reserve_bytes(connection: &rusqlite::Connection, bytes: u8) -> rusqlite::Result<()> {
    let mut bytes = c_int::from(bytes);
    // SAFETY: the connection is open. SQLITE_FCNTL_RESERVE_BYTES reads a number and writes the one
    // before.
    let rc = unsafe {
        sqlite::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            sqlite::SQLITE_FCNTL_RESERVE_BYTES,
            (&raw mut bytes).cast(),
        )
    };
    match rc {
        sqlite::SQLITE_OK => Ok(()),
        rc => Err(rusqlite::Error::SqliteFailure(sqlite::Error::new(rc), None)),
    }
}
