//! Files of Oneflush that carry a lock.
//!
//! A `flock` belongs to the open file, which the child of a fork shares with its parent. If the
//! parent were killed, the lock would stay as long as the child lives. So the child gets rid of its
//! copies before anything else runs there.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::{FlockOperation, fcntl_lock};

use crate::sync::{StaticMutex, StaticMutexGuard};

static OPEN: LazyLock<StaticMutex<Vec<RawFd>>> = LazyLock::new(StaticMutex::default);

pub struct OwnFile(File);

/// Opens a file whose exclusive `flock` is wanted.
///
/// NFS gives that lock only to a descriptor that may write. A caller who may not write gets a
/// descriptor that reads.
pub fn open_to_lock(path: &Path) -> io::Result<File> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            File::open(path)
        }
        opened => opened,
    }
}

impl OwnFile {
    /// Opens the file and notes it. No fork comes between the two.
    pub fn open(open: impl FnOnce() -> io::Result<File>) -> io::Result<OwnFile> {
        let mut all = all();
        let file = open()?;
        all.push(file.as_raw_fd());
        Ok(OwnFile(file))
    }
}

/// The descriptors of all files of this kind. None is opened or closed while the answer lives.
pub fn all() -> StaticMutexGuard<'static, Vec<RawFd>> {
    OPEN.lock()
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let own = self.0.as_raw_fd();
        // The file itself is closed afterwards. A child forked in between has a copy, but its
        // parent has no lock by that file.
        all().retain(|&descriptor| descriptor != own);
    }
}

impl Deref for OwnFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl AsFd for OwnFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes the exclusive lock on the database file. None: a connection has the file open, which in
/// WAL mode means a shared lock on it.
///
/// The lock is one of the process. It ends when the file is closed.
pub fn lock_alone(database: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).write(true).open(database)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
