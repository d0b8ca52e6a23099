//! What a file system must do for a board: exclude others by a `flock` and by a record lock, and
//! let processes share memory by a file.
//!
//! This is tried, because no type of file system can be believed. Each board that is made is the
//! first user of all three. The tries are calls that are made anyway, or that cost some
//! microseconds. A lock that two get at once is worse than none, and no file system says that it
//! grants such locks.
//!
//! | answer | seen with |
//! |---|---|
//! | `ENOLCK`, `ENOSYS`, `EOPNOTSUPP` | NFS, 9p without a lock manager; FUSE that refuses locks |
//! | a lock that two have | FUSE programs that grant every lock |
//! | `EBADF` | NFS: an exclusive `flock` wants a writable descriptor (`own_file.rs` has one) |
//! | `ENODEV`, `EINVAL` | shared `mmap`: 9p without a cache, FUSE with `FOPEN_DIRECT_IO` |

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::path::Path;

use oneflush_blocklog::belonging::create_beside;
use oneflush_blocklog::record_lock::record_lock_at;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::own_file::open_to_lock;

/// Why there can be no board. The messages are short: SQLite's error log cuts a line at 210 bytes,
/// and the file's name takes some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("flock fails here ({}); use a local disk, or strategy=plain [OF-126]",
        io::Error::from(*.0))]
    Flock(Errno),
    #[error("record locks fail here ({}), which SQLite needs as well; use a local \
        disk [OF-127]", io::Error::from(*.0))]
    RecordLock(Errno),
    #[error(
        "flock keeps nobody out here: two have one lock; use a local disk, or \
        strategy=plain [OF-128]"
    )]
    FlockOfTwo,
    #[error(
        "record locks keep nobody out here, on which SQLite relies as well; use a local \
        disk [OF-129]"
    )]
    RecordLockOfTwo,
    #[error("mmap with MAP_SHARED fails here ({}), as for SQLite's WAL; use a local disk, or a \
        rollback mode [OF-130]", io::Error::from(*.0))]
    Map(Errno),
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> io::Error {
        io::Error::other(unfit)
    }
}

/// Tries both kinds of locks. `board` has just been made and is open for writing. This process has
/// its exclusive `flock`.
pub fn keeps_others_out(board: &File, path: &Path) -> io::Result<()> {
    let other = open_to_lock(path)?;
    flock_excludes(&other)?;
    record_locks_exclude(board, &other)?;
    Ok(())
}

/// `other` is another open file of the board than the one that has the lock.
pub fn flock_excludes(other: &File) -> Result<(), Unfit> {
    match flock(other, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Ok(()),
        Err(errno) => Err(Unfit::Flock(errno)),
        // The lock ends when the file is closed.
        Ok(()) => Err(Unfit::FlockOfTwo),
    }
}

/// Tries record locks of open files. A file system is asked for them as for record locks of a
/// process, but one process is enough to try them. Both files are the same one; the first is open
/// for writing.
pub fn record_locks_exclude(file: &File, other: &File) -> Result<(), Unfit> {
    match record_lock(file, libc::F_OFD_SETLK, libc::F_WRLCK) {
        // Linux before 3.15 does not know these locks, so they cannot be tried.
        Err(Errno::INVAL) => return Ok(()),
        Err(errno) => return Err(Unfit::RecordLock(errno)),
        Ok(_) => {}
    }
    let seen = record_lock(other, libc::F_OFD_GETLK, libc::F_WRLCK);
    let _ = record_lock(file, libc::F_OFD_SETLK, libc::F_UNLCK);
    match seen {
        Ok(libc::F_WRLCK) => Ok(()),
        Ok(_) => Err(Unfit::RecordLockOfTwo),
        Err(errno) => Err(Unfit::RecordLock(errno)),
    }
}

/// Whether record locks keep anybody out in the folder of a database. Where no file can be made,
/// nobody writes.
pub fn locks_keep_out(database: &Path) -> bool {
    let random = RandomState::new().hash_one(std::process::id());
    let path = format!("{}-oneflush-tried-{random:016x}", database.display());
    let Ok(file) = create_beside(Path::new(&path), database) else { return true };
    let keep_out = open_to_lock(Path::new(&path))
        .map_or(true, |other| record_locks_exclude(&file, &other).is_ok());
    let _ = std::fs::remove_file(path);
    keep_out
}

/// The byte of a log whose record lock says who has joined.
const SHOWN: i64 = 0;
/// The byte whose record lock says who reads, or holds, frames.
pub const FRAMES: i64 = 1;

/// A record lock of the open file, on the byte that says who has joined.
pub fn record_lock(
    file: &File,
    command: libc::c_int,
    kind: libc::c_int,
) -> Result<libc::c_int, Errno> {
    record_lock_at(file, command, kind, SHOWN)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn twice() -> (tempfile::TempDir, File, File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("board");
        let file = File::create_new(&path).unwrap();
        let other = open_to_lock(&path).unwrap();
        (dir, file, other)
    }

    #[test]
    fn locks_of_a_file_system_of_this_machine_keep_others_out() {
        let (_dir, file, other) = twice();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(flock_excludes(&other), Ok(()));
        assert_eq!(record_locks_exclude(&file, &other), Ok(()));
        // No lock is left.
        assert_eq!(record_lock(&other, libc::F_OFD_GETLK, libc::F_WRLCK), Ok(libc::F_UNLCK));
    }

    #[test]
    fn a_lock_that_two_have_is_seen() {
        let (_dir, file, other) = twice();
        assert_eq!(flock_excludes(&other), Err(Unfit::FlockOfTwo), "nobody has locked it");
        // One open file is one owner, and an owner is not in its own way.
        assert_eq!(record_locks_exclude(&file, &file), Err(Unfit::RecordLockOfTwo));
    }
}
