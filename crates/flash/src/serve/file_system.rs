//! The file system: a folder with the files "disk" and "counters", both without the page cache.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use super::disk::Disk;
use super::options::Options;

/// Nothing here changes its attributes.
const TTL: Duration = Duration::from_secs(3600);

/// The kernel's largest request.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

const ROOT: INodeNo = INodeNo(1);
const DISK: INodeNo = INodeNo(2);
const COUNTERS: INodeNo = INodeNo(3);
const FILES: [(INodeNo, &str); 2] = [(DISK, "disk"), (COUNTERS, "counters")];

pub(super) struct FileSystem {
    disk: Disk,
    options: Options,
    reports: Mutex<Reports>,
}

/// Counters as they were when a handle was opened.
#[derive(Default)]
struct Reports {
    by_handle: HashMap<u64, Vec<u8>>,
    last: u64,
}

impl FileSystem {
    pub fn new(disk: Disk, options: Options) -> FileSystem {
        FileSystem { disk, options, reports: Mutex::default() }
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            ROOT => (FileType::Directory, 0o755, 0),
            DISK => (FileType::RegularFile, 0o600, self.disk.bytes()),
            COUNTERS => (FileType::RegularFile, 0o444, 0),
            _ => return None,
        };
        let epoch = SystemTime::UNIX_EPOCH;
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            crtime: epoch,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn finish(&self, reply: ReplyEmpty, due: Result<Instant, Errno>) {
        match due {
            Ok(due) => self.disk.answers.at(due, move || reply.ok()),
            Err(errno) => reply.error(errno),
        }
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without these it is slower, and not wrong.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(256);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = FILES.iter().find(|(_, of_file)| parent == ROOT && name == *of_file);
        match found.and_then(|&(inode, _)| self.attributes(inode)) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if inode != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        for (at, (inode, name)) in FILES.iter().enumerate().skip(offset as usize) {
            if reply.add(*inode, at as u64 + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        let mut handle = 0;
        if inode == COUNTERS {
            let report = self.disk.report(&self.options);
            let mut reports = self.reports();
            reports.last += 1;
            handle = reports.last;
            reports.by_handle.insert(handle, report);
        }
        reply.opened(FileHandle(handle), flags);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.reports().by_handle.remove(&handle.0);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if inode == COUNTERS {
            let reports = self.reports();
            let report = reports.by_handle.get(&handle.0).map_or(&[][..], Vec::as_slice);
            let from = report.len().min(offset as usize);
            let to = report.len().min(from + size as usize);
            return reply.data(&report[from..to]);
        }
        match self.disk.read(offset, size) {
            Ok((due, bytes)) => self.disk.answers.at(due, move || reply.data(&bytes)),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if inode != DISK {
            return reply.error(Errno::EBADF);
        }
        let written = data.len() as u32;
        match self.disk.write(offset, data) {
            Ok(due) => self.disk.answers.at(due, move || reply.written(written)),
            Err(errno) => reply.error(errno),
        }
    }

    /// Of a descriptor, at its close: not a flush of the device.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if inode != DISK {
            return reply.ok();
        }
        self.finish(reply, self.disk.flush());
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if inode != DISK {
            return reply.error(Errno::EBADF);
        }
        self.finish(reply, self.disk.fallocate(offset, length, mode));
    }
}
