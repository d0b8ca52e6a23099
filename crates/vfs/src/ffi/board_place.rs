//! What a file system must do for a board: keep others out by a `flock` and by a record lock, and let processes share memory by a file.
//!
//! It is tried and not believed: each board that is made is the first user of all three, by calls that it makes in any case or that cost some
//! microseconds. A lock that is granted to two at once is worse than none, and no type of file system says that it does so.
//!
//! | answer | seen with |
//! |---|---|
//! | `ENOLCK`, `ENOSYS`, `EOPNOTSUPP` | NFS and 9p without a lock manager, FUSE programs that refuse locks |
//! | a lock that two have | FUSE programs that grant every lock |
//! | `EBADF` | NFS: an exclusive `flock` wants a descriptor that may write, so there is one (`own_file.rs`) |
//! | `ENODEV`, `EINVAL` | files of 9p without a cache and of FUSE with `FOPEN_DIRECT_IO`: `mmap` with `MAP_SHARED` |

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::own_file::open_to_lock;

/// Why there can be no board. Short: SQLite's error log cuts a line at 210 bytes, of which the file's name takes some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("flock fails here ({}); use a local disk, or strategy=plain", io::Error::from(*.0))]
    Flock(Errno),
    #[error("record locks fail here ({}), which SQLite needs as well; use a local disk", io::Error::from(*.0))]
    RecordLock(Errno),
    #[error("flock keeps nobody out here: two have one lock; use a local disk, or strategy=plain")]
    FlockOfTwo,
    #[error("record locks keep nobody out here, on which SQLite relies as well; use a local disk")]
    RecordLockOfTwo,
    #[error("mmap with MAP_SHARED fails here ({}), as for SQLite's WAL; use a local disk, or a rollback mode", io::Error::from(*.0))]
    Map(Errno),
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> io::Error {
        io::Error::other(unfit)
    }
}

/// `board` has just been made and is open for writing; this process has its exclusive `flock`.
pub fn keeps_others_out(board: &File, path: &Path) -> io::Result<()> {
    let other = open_to_lock(path)?;
    flock_excludes(&other)?;
    record_locks_exclude(board, &other)?;
    Ok(())
}

/// By another open file than the one that has the lock.
pub fn flock_excludes(other: &File) -> Result<(), Unfit> {
    match flock(other, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Ok(()),
        Err(errno) => Err(Unfit::Flock(errno)),
        // It goes when the file is closed.
        Ok(()) => Err(Unfit::FlockOfTwo),
    }
}

/// Record locks of open files, which are asked of a file system as those of a process are, but need no other process to be tried. Both files are
/// the same; the first is open for writing.
pub fn record_locks_exclude(file: &File, other: &File) -> Result<(), Unfit> {
    match record_lock(file, libc::F_OFD_SETLK, libc::F_WRLCK) {
        // Linux before 3.15 does not know them, so they cannot be tried.
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

/// A record lock of the open file, on its first byte: `command` takes one or asks who is in its way. The answer is the kind of the lock.
pub fn record_lock(file: &File, command: libc::c_int, kind: libc::c_int) -> Result<libc::c_int, Errno> {
    // SAFETY: all zeros is a value of this structure; `l_pid` has to be 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_len = 1;
    // SAFETY: an open file, and a structure that lives for the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) } {
        0 => Ok(libc::c_int::from(lock.l_type)),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
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
        // Nothing is left locked.
        assert_eq!(record_lock(&other, libc::F_OFD_GETLK, libc::F_WRLCK), Ok(libc::F_UNLCK));
    }

    #[test]
    fn a_lock_that_two_have_is_seen() {
        let (_dir, file, other) = twice();
        assert_eq!(flock_excludes(&other), Err(Unfit::FlockOfTwo), "nobody has locked it");
        // One open file is one owner, so it is not in its own way.
        assert_eq!(record_locks_exclude(&file, &file), Err(Unfit::RecordLockOfTwo));
    }
}
