//! Bytes of files.
//!
//! A change of them leaves the time of modification as it is. The kernel, which gathers writes, has
//! its own time for them and tells it when it is another one. The lower's would be a little later,
//! and would be seen only when the kernel has forgotten the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, futimens};
use rustix::io::Errno;

use super::identity;
use super::node::Node;

/// A time that stays as it is.
pub const OMITTED: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };

pub fn write(node: &Node, offset: u64, bytes: &[u8]) -> io::Result<()> {
    change(node, |file| file.write_all_at(bytes, offset))
}

/// Changes the contents of a file, and not the time of it.
pub fn change<T>(node: &Node, change: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    let file = node.file(true)?;
    let mut modified = node.modified.lock();
    let time = match *modified {
        Some(time) => time,
        None => {
            let time = identity::stat(&*file)?.stx_mtime;
            Timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec.into() }
        }
    };
    let changed = change(&file)?;
    let times = Timestamps { last_access: OMITTED, last_modification: time };
    match futimens(&*file, &times) {
        Ok(()) => *modified = Some(time),
        // Another's file, which this process may only write.
        Err(Errno::PERM | Errno::ACCESS) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(changed)
}

/// Reads until the buffer is full, or the file ends.
pub fn read(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
