//! How many pages a connection of SQLite has written: a counter that only its C API tells.

use rusqlite::Connection;
use rusqlite::ffi;

/// Pages to the database, or to its WAL; none if SQLite does not say. Journal and checkpoints are
/// not among them.
pub fn pages_written(connection: &Connection) -> Option<u64> {
    let (mut current, mut highest) = (0, 0);
    // SAFETY: the handle is open as long as the connection, which is borrowed, and is used before
    // this returns. Both numbers are written before the call returns, and not kept.
    let answer = unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_CACHE_WRITE,
            &raw mut current,
            &raw mut highest,
            0,
        )
    };
    (answer == ffi::SQLITE_OK).then(|| u64::try_from(current).ok()).flatten()
}
