//! What processes with `plain` tell each other of the directory entry of the WAL.
//!
//! SQLite syncs the directory at the first sync of each WAL that it was asked to create, new or
//! not. For a program with a connection a request that is a flush for each commit. So a process
//! whose first flush has made the entry durable shows a record lock on the WAL, on a byte of its
//! own. Who opens the WAL and sees such a lock of another process opens a file that is not new.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. The lock is taken only when the entry is durable: after this process has synced the WAL, or
//!    while another process shows the same file.
//! 2. While the lock is there the WAL keeps its name, or is deleted. A WAL is renamed or deleted
//!    under the database's exclusive lock. Each connection with an open WAL has the shared lock,
//!    and the lock here goes with the last of them. A process that dies may lose the shared lock
//!    first. So a WAL that somebody still shows is not renamed: it would come back by that name.
//! 3. Only who may write the WAL can show it.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::ops::Range;

use oneflush_blocklog::belonging::is_at;
use oneflush_blocklog::record_lock::{record_lock_at, record_lock_in};

use crate::own_file::OwnFile;
use crate::sync::{Mutex, lock, ranks};

/// A byte for each process. SQLite itself never locks the WAL.
const BYTES: Range<i64> = 0x4000_0000..0x8000_0000;

/// The WAL of a database, as this process shows it.
pub struct Shown {
    path: String,
    /// The file with the lock. None: this process shows nothing.
    file: Mutex<Option<OwnFile>, { ranks::FILES }>,
}

impl Shown {
    pub fn new(path: String) -> Shown {
        Shown { path, file: Mutex::default() }
    }

    /// The entry is durable.
    pub fn show(&self) {
        let mut shown = lock(&self.file);
        if shown.is_none() {
            *shown = self.open().filter(take_lock);
        }
    }

    /// True if the entry of the file with this name is durable, as far as is known: this process
    /// shows it, or another one does. The caller has the database's shared lock.
    pub fn is_durable(&self) -> bool {
        let mut shown = lock(&self.file);
        if shown.is_none() {
            // Invariant 1: the other lock is still there when this one is.
            let is_shown = |file: &OwnFile| is_locked(file) && take_lock(file) && is_locked(file);
            *shown = self.open().filter(is_shown);
        }
        shown.as_ref().is_some_and(|file| is_at(file, &self.path))
    }

    /// Another process has not ended to show the file with this name, as far as is known. This one
    /// shows nothing.
    pub fn is_shown_by_others(&self) -> bool {
        match self.try_open() {
            Ok(file) => is_locked(&file),
            // No kernel knows the files of the crash simulator.
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    /// The last connection of this process closes the WAL.
    pub fn end(&self) {
        *lock(&self.file) = None;
    }

    fn open(&self) -> Option<OwnFile> {
        self.try_open().ok()
    }

    fn try_open(&self) -> std::io::Result<OwnFile> {
        OwnFile::open(|| -> std::io::Result<File> {
            OpenOptions::new().read(true).write(true).open(&self.path)
        })
    }
}

/// Where the kernel has no such locks, nothing is shown.
fn take_lock(file: &OwnFile) -> bool {
    let own = BYTES.start + i64::from(std::process::id());
    record_lock_at(file, libc::F_OFD_SETLK, libc::F_WRLCK, own).is_ok()
}

/// Another open file has such a lock.
fn is_locked(file: &OwnFile) -> bool {
    record_lock_in(file, libc::F_OFD_GETLK, libc::F_WRLCK, BYTES) == Ok(libc::F_WRLCK)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn shown(path: &std::path::Path) -> Shown {
        Shown::new(path.display().to_string())
    }

    /// Locks of one process are on one byte. So another process is a lock on another one.
    #[test]
    fn what_another_process_shows_is_durable_until_it_ends_and_is_shown_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db-wal");
        std::fs::write(&path, "WAL").unwrap();
        let own = shown(&path);
        assert!(!own.is_durable(), "nobody shows it");
        let other = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let byte = BYTES.start + i64::from(std::process::id()) + 1;
        record_lock_at(&other, libc::F_OFD_SETLK, libc::F_WRLCK, byte).unwrap();
        assert!(own.is_durable());
        let third = shown(&path);
        assert!(third.is_shown_by_others());
        drop(other);
        assert!(own.is_durable(), "this process shows it now");
        std::fs::rename(&path, dir.path().join("elsewhere")).unwrap();
        std::fs::write(&path, "another").unwrap();
        assert!(!own.is_durable(), "another file");
        own.end();
        assert!(!own.is_durable());
        own.show();
        assert!(own.is_durable());
    }
}
