//! A panic while a request is answered is stopped here. The library would end the thread, and with
//! its first thread the daemon would take the mount for unmounted. Whoever asked is told `EIO`:
//! what answers is dropped.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};

use super::FileSystem;

pub struct Watched(pub FileSystem);

macro_rules! watched {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $name(&self, request: &Request, $($argument: $type),*) {
            self.0.0.watch(|| self.0.$name(request, $($argument),*));
        })*
    };
}

/// All requests that [`FileSystem`] answers. One that is missing here is unknown to the kernel.
#[rustfmt::skip]
impl Filesystem for Watched {
    fn init(&mut self, request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.0.init(request, config)
    }

    watched! {
        lookup(parent: INodeNo, name: &OsStr, reply: ReplyEntry);
        forget(number: INodeNo, lookups: u64);
        getattr(number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr);
        setattr(number: INodeNo, mode: Option<u32>, uid: Option<u32>, gid: Option<u32>,
            size: Option<u64>, accessed: Option<TimeOrNow>, modified: Option<TimeOrNow>,
            changed: Option<SystemTime>, handle: Option<FileHandle>, crtime: Option<SystemTime>,
            chgtime: Option<SystemTime>, bkuptime: Option<SystemTime>,
            flags: Option<BsdFileFlags>, reply: ReplyAttr);
        readlink(number: INodeNo, reply: ReplyData);
        mknod(parent: INodeNo, name: &OsStr, mode: u32, umask: u32, device: u32,
            reply: ReplyEntry);
        mkdir(parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry);
        symlink(parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry);
        unlink(parent: INodeNo, name: &OsStr, reply: ReplyEmpty);
        rmdir(parent: INodeNo, name: &OsStr, reply: ReplyEmpty);
        rename(parent: INodeNo, name: &OsStr, new_parent: INodeNo, new_name: &OsStr,
            flags: RenameFlags, reply: ReplyEmpty);
        link(number: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry);
        open(number: INodeNo, flags: OpenFlags, reply: ReplyOpen);
        create(parent: INodeNo, name: &OsStr, mode: u32, umask: u32, flags: i32,
            reply: ReplyCreate);
        read(number: INodeNo, handle: FileHandle, offset: u64, size: u32, flags: OpenFlags,
            owner: Option<LockOwner>, reply: ReplyData);
        write(number: INodeNo, handle: FileHandle, offset: u64, bytes: &[u8],
            how: WriteFlags, flags: OpenFlags, owner: Option<LockOwner>, reply: ReplyWrite);
        flush(number: INodeNo, handle: FileHandle, owner: LockOwner, reply: ReplyEmpty);
        release(number: INodeNo, handle: FileHandle, flags: OpenFlags,
            owner: Option<LockOwner>, flush: bool, reply: ReplyEmpty);
        fsync(number: INodeNo, handle: FileHandle, datasync: bool, reply: ReplyEmpty);
        opendir(number: INodeNo, flags: OpenFlags, reply: ReplyOpen);
        readdir(number: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory);
        readdirplus(number: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectoryPlus);
        releasedir(number: INodeNo, handle: FileHandle, flags: OpenFlags, reply: ReplyEmpty);
        fsyncdir(number: INodeNo, handle: FileHandle, datasync: bool, reply: ReplyEmpty);
        statfs(number: INodeNo, reply: ReplyStatfs);
        setxattr(number: INodeNo, name: &OsStr, value: &[u8], flags: i32, position: u32,
            reply: ReplyEmpty);
        getxattr(number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr);
        listxattr(number: INodeNo, size: u32, reply: ReplyXattr);
        removexattr(number: INodeNo, name: &OsStr, reply: ReplyEmpty);
        fallocate(number: INodeNo, handle: FileHandle, offset: u64, length: u64, mode: i32,
            reply: ReplyEmpty);
        lseek(number: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek);
        copy_file_range(from: INodeNo, from_handle: FileHandle, from_offset: u64, to: INodeNo,
            to_handle: FileHandle, to_offset: u64, length: u64, flags: CopyFileRangeFlags,
            reply: ReplyWrite);
    }
}
