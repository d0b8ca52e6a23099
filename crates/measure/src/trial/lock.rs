//! Read locks on a file that SQLite uses, as another reader of SQLite would take them.
//!
//! They belong to the open file (`F_OFD_SETLK`) and not to the process. So no other descriptor that
//! this process closes takes them away. A read lock needs no right to write.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `PENDING_BYTE` of SQLite's `os.h`. The byte behind it is the reserved one, then come the shared
/// ones.
const PENDING: i64 = 0x4000_0000;
const RESERVED: i64 = PENDING + 1;
const SHARED: i64 = PENDING + 2;
const SHARED_BYTES: i64 = 510;
/// `WAL_CKPT_LOCK` of SQLite's `wal.c`, in the WAL index.
const CHECKPOINT: i64 = 121;

/// What is wanted is locked by somebody else. Any other error: the file system has no such locks.
pub fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}

/// While it is held, nobody writes to the database file in a rollback mode. Nobody makes the last
/// checkpoint of a WAL or changes the journal mode.
pub fn share(database: &File) -> io::Result<()> {
    // A writer that waits for its readers has the pending byte.
    set(database, libc::F_RDLCK, PENDING, 1)?;
    let shared = set(database, libc::F_RDLCK, SHARED, SHARED_BYTES);
    set(database, libc::F_UNLCK, PENDING, 1)?;
    shared
}

/// While it is held, no checkpoint runs.
pub fn hold_checkpoints(wal_index: &File) -> io::Result<()> {
    set(wal_index, libc::F_RDLCK, CHECKPOINT, 1)
}

/// Whether a writer in a rollback mode is in a transaction.
pub fn is_reserved(database: &File) -> io::Result<bool> {
    let found = call(database, libc::F_OFD_GETLK, libc::F_RDLCK, RESERVED, 1)?;
    Ok(found != libc::F_UNLCK)
}

fn set(file: &File, kind: libc::c_int, from: i64, bytes: i64) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, kind, from, bytes).map(drop)
}

/// The answer is the kind of the lock that is in the way, or the one that was set.
fn call(
    file: &File,
    command: libc::c_int,
    kind: libc::c_int,
    from: i64,
    bytes: i64,
) -> io::Result<libc::c_int> {
    // SAFETY: all zeros is a value of this structure; `l_pid` has to be 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = from as libc::off_t;
    lock.l_len = bytes as libc::off_t;
    // SAFETY: an open file, and a structure that lives during the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) } {
        0 => Ok(libc::c_int::from(lock.l_type)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// A file, and a second open file of it, as another program would have.
    fn database(mode: &str) -> (tempfile::TempDir, Connection, File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode = {mode}; CREATE TABLE t(v); PRAGMA busy_timeout = 0"
        ))
        .unwrap();
        let file = File::open(&path).unwrap();
        (dir, db, file)
    }

    #[test]
    fn a_shared_lock_lets_read_and_begin_but_not_write_the_file() {
        let (_dir, db, file) = database("delete");
        share(&file).unwrap();
        assert_eq!(db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)), Ok(0));
        assert!(!is_reserved(&file).unwrap());
        db.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(1)").unwrap();
        assert!(is_reserved(&file).unwrap());
        assert!(db.execute_batch("COMMIT").is_err(), "the file is read");
        // The writer waits for its readers now, and keeps new ones away.
        assert!(is_taken(&share(&file).unwrap_err()));
        drop(file);
        db.execute_batch("COMMIT").unwrap();
    }

    #[test]
    fn a_writer_that_holds_the_file_is_seen_as_taken() {
        let (_dir, db, file) = database("delete");
        db.execute_batch("BEGIN EXCLUSIVE").unwrap();
        assert!(is_taken(&share(&file).unwrap_err()));
        db.execute_batch("COMMIT").unwrap();
        share(&file).unwrap();
    }

    #[test]
    fn a_held_checkpoint_lets_commit() {
        let (dir, db, _file) = database("wal");
        let index = File::open(dir.path().join("a.db-shm")).unwrap();
        hold_checkpoints(&index).unwrap();
        db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
        let busy: bool =
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        assert!(busy);
        drop(index);
        let busy: bool =
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        assert!(!busy);
    }
}
