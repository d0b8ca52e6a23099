//! SQLite's own descriptor of a database file, for calls that a VFS does not have.
//!
//! A descriptor of our own would do harm: POSIX releases all locks of a process on a file when it
//! closes any descriptor of it. Another connection's would be worse. Its thread may close it in the
//! middle of a call, and the number may then be another file's.
//!
//! So the descriptor is taken out of the "unix" VFS's own file (`struct unixFile` in os_unix.c),
//! whose fourth member it is. That is checked in two ways before it is used: the second member is
//! the VFS, and the descriptor is of the database's device and inode.

use std::ffi::{c_int, c_void};
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use libsqlite3_sys as sqlite;
use rustix::fs::{OFlags, fcntl_getfl, fstat};

use crate::port::Below;

#[repr(C)]
struct UnixFile {
    methods: *const c_void,
    vfs: *const sqlite::sqlite3_vfs,
    inode: *const c_void,
    descriptor: c_int,
}

/// The descriptor of a file that this "unix" VFS has opened. None: its files look different.
///
/// # Safety
/// `vfs` is a registered VFS, and `file` is an open file of it.
pub unsafe fn of_unix_file(
    vfs: *const sqlite::sqlite3_vfs,
    file: *const sqlite::sqlite3_file,
) -> Option<RawFd> {
    // SAFETY: the VFS lives for ever. `szOsFile` bytes were allocated for the file, aligned to 8,
    // and all bytes that are read here are among them and were set by `xOpen`.
    unsafe {
        let has_room = usize::try_from((*vfs).szOsFile).ok()? >= size_of::<UnixFile>();
        let file = file.cast::<UnixFile>();
        (has_room && (*file).vfs == vfs).then(|| (*file).descriptor).filter(|&number| number >= 0)
    }
}

/// The open files of this process: the number, and device and inode.
pub fn open_files() -> io::Result<impl Iterator<Item = (RawFd, (u64, u64))>> {
    let of = |entry: fs::DirEntry| {
        let file = fs::metadata(entry.path()).ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, (file.dev(), file.ino())))
    };
    Ok(fs::read_dir("/proc/self/fd")?.flatten().filter_map(of))
}

/// Tells whether a descriptor is a database's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    inode: u64,
    pub owner: u32,
}

impl Identity {
    pub fn of(database: &Path) -> io::Result<Identity> {
        let file = fs::metadata(database)?;
        Ok(Identity { device: file.dev(), inode: file.ino(), owner: file.uid() })
    }

    /// SQLite's descriptor of `main`, if it is this database's, open for reading and writing.
    pub fn descriptor_of<'a>(&self, main: &'a dyn Below) -> Option<BorrowedFd<'a>> {
        // SAFETY: the file is open, so SQLite has its descriptor open. SQLite does not close a file
        // during a call on it.
        let descriptor = unsafe { BorrowedFd::borrow_raw(main.descriptor()?) };
        let stat = fstat(descriptor).ok()?;
        let is_it = (stat.st_dev, stat.st_ino) == (self.device, self.inode);
        let mode = fcntl_getfl(descriptor).ok()? & OFlags::RWMODE;
        (is_it && mode == OFlags::RDWR).then_some(descriptor)
    }
}
