//! Contents of files: opening, reading, writing, space, holes, copies.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use fuser::{FileHandle, INodeNo, WriteFlags};
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use rustix::io::Errno;

use super::super::answer::refused;
use super::served::{Caller, Served};
use crate::lower::{Kind, Lower};

/// The only thing that is asked of a handle: whether its owner may write.
const READS: FileHandle = FileHandle(0);
const WRITES: FileHandle = FileHandle(1);

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// This thread's buffer, so long.
pub fn with_buffer(length: usize, read: impl FnOnce(&mut [u8])) {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        read(&mut buffer[..length]);
    });
}

impl Served {
    /// `O_APPEND` and `O_DIRECT` are the kernel's, and the lower never sees them.
    pub fn open(&self, number: INodeNo, flags: i32) -> io::Result<FileHandle> {
        let object = self.nodes.get(number)?;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        object.node.open(writes)?;
        if writes {
            self.nodes.opened_to_write(number);
        }
        Ok(if writes { WRITES } else { READS })
    }

    pub fn release(&self, number: INodeNo, handle: FileHandle) -> io::Result<()> {
        let object = self.nodes.get(number)?;
        if handle == WRITES {
            self.nodes.closed_to_write(number);
        }
        if object.node.close() { self.tree.closed(object.id) } else { Ok(()) }
    }

    pub fn read(&self, number: INodeNo, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let object = self.nodes.get(number)?;
        self.tree.lower().read(&object.node, offset, buffer)
    }

    pub fn write(
        &self,
        caller: Caller,
        number: INodeNo,
        offset: u64,
        bytes: &[u8],
        how: WriteFlags,
        flags: i32,
    ) -> io::Result<u32> {
        let object = self.nodes.get(number)?;
        let takes_bits = how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        if takes_bits {
            self.take_special_bits(caller, &object)?;
        }
        self.tree.write(object.id, offset, bytes)?;
        // Such a write is not cached, and then some kernels do not ask for its sync.
        if takes_bits && flags & libc::O_DSYNC != 0 {
            self.tree.sync(object.id)?;
        }
        self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len() as u32)
    }

    pub fn allocate(
        &self,
        caller: Caller,
        number: INodeNo,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> io::Result<()> {
        let object = self.nodes.get(number)?;
        if object.kind != Kind::File {
            return refused(libc::ENODEV);
        }
        self.take_special_bits_unasked(caller, &object)?;
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let allocate = |node: &crate::directory::Node| -> io::Result<()> {
            let allocate = |file: &File| Ok(fallocate(file, flags, offset, length)?);
            self.tree.lower().change(node, allocate)
        };
        if flags == FallocateFlags::KEEP_SIZE {
            // No byte and no size changes.
            return allocate(&object.node);
        }
        if flags.is_empty() {
            return self.tree.change(object.id, 0..0, true, allocate);
        }
        self.tree.change_beyond_log(object.id, allocate)
    }

    /// Looks for data or for a hole.
    pub fn seek(&self, number: INodeNo, offset: i64, whence: i32) -> io::Result<i64> {
        let object = self.nodes.get(number)?;
        let Ok(offset) = u64::try_from(offset) else { return refused(libc::ENXIO) };
        let from = match whence {
            libc::SEEK_DATA => SeekFrom::Data(offset),
            libc::SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return refused(libc::EINVAL),
        };
        // All who have it open share the descriptor. Its position is asked for by nobody else.
        Ok(seek(&*object.node.file(false)?, from)? as i64)
    }

    /// The kernel has handed over what it has cached of both.
    pub fn copy(
        &self,
        caller: Caller,
        from: (INodeNo, u64),
        to: (INodeNo, u64),
        length: u64,
    ) -> io::Result<u32> {
        let (source, target) = (self.nodes.get(from.0)?, self.nodes.get(to.0)?);
        self.take_special_bits_unasked(caller, &target)?;
        // What was copied is told in 32 bits.
        let length = length.min(u64::from(u32::MAX >> 1));
        let Some(end) = to.1.checked_add(length) else { return refused(libc::EFBIG) };
        let source = source.node.file(false)?;
        let copied = self.tree.change(target.id, to.1..end, true, |node| {
            self.tree.lower().change(node, |target| {
                let (mut read_at, mut write_at) = (from.1, to.1);
                let (read_at, write_at) = (Some(&mut read_at), Some(&mut write_at));
                match copy_file_range(&*source, read_at, target, write_at, length as usize) {
                    // The caller reads and writes then.
                    Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP) => refused(libc::EOPNOTSUPP),
                    copied => Ok(copied?),
                }
            })
        })?;
        Ok(copied as u32)
    }
}
