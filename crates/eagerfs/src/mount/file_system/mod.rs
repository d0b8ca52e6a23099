//! The requests of the kernel, each handed on and answered. What they do is in the files beside
//! this one.

mod attributes;
mod contents;
mod extended;
mod listing;
mod listings;
mod names;
mod questions;
mod served;
mod watched;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::answer::{TTL, errno};
use super::control;
use crate::lower::What;
use attributes::Changes;
use served::Entry;
pub use served::Served;
pub use watched::Watched;

#[derive(Clone)]
pub struct FileSystem(pub Arc<Served>);

fn answer_entry(reply: ReplyEntry, entry: io::Result<Entry>) {
    match entry {
        Ok((attributes, generation)) => reply.entry(&TTL, &attributes, generation),
        Err(error) => reply.error(errno(&error)),
    }
}

fn answer_empty(reply: ReplyEmpty, done: io::Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

fn answer_written(reply: ReplyWrite, written: io::Result<u32>) {
    match written {
        Ok(bytes) => reply.written(bytes),
        Err(error) => reply.error(errno(&error)),
    }
}

impl FileSystem {
    fn sync(&self, number: INodeNo, reply: ReplyEmpty) {
        match self.0.nodes.get(number) {
            Ok(object) => {
                let answer = Box::new(move |synced| answer_empty(reply, synced));
                self.0.tree.sync_then(object.id, answer);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.0.agree(config);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.0.look_up(parent, name.as_bytes());
        if found.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENOENT)) {
            // Number 0: the kernel keeps it that there is no such name.
            return reply.entry(&TTL, &names::NOTHING, Generation(0));
        }
        answer_entry(reply, found);
    }

    fn forget(&self, _request: &Request, number: INodeNo, lookups: u64) {
        self.0.forget(number, lookups);
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.0.nodes.get(number).and_then(|object| self.0.attributes(&object)) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size_bytes: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes { mode, uid, gid, size_bytes, accessed, modified, changed };
        match self.0.change_attributes(request.into(), number, &changes) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        match self.0.read_link(number) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let what = match mode & libc::S_IFMT {
            libc::S_IFREG | 0 => What::File,
            kind => What::Special { kind, device: super::answer::device(device) },
        };
        answer_entry(reply, self.0.make(request.into(), parent, name, what, mode, umask));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.0.make(request.into(), parent, name, What::Directory, mode, umask);
        answer_entry(reply, made);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let what = What::Symlink { target: target.as_os_str().as_bytes().to_vec() };
        answer_entry(reply, self.0.make(request.into(), parent, name, what, 0o777, 0));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.0.unlink(parent, name.as_bytes(), false));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.0.unlink(parent, name.as_bytes(), true));
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let from = (parent, name.as_bytes().to_vec());
        let to = (new_parent, new_name.as_bytes().to_vec());
        let served = Arc::clone(&self.0);
        match served.fetched_before_rename(&from, &to, flags) {
            Err(error) => reply.error(errno(&error)),
            Ok(numbers) if numbers.is_empty() => {
                answer_empty(reply, served.rename(&from, &to, flags));
            }
            Ok(numbers) => self.0.run(
                |served| &served.fetching,
                move |served| {
                    numbers.into_iter().for_each(|number| served.fetch(number));
                    answer_empty(reply, served.rename(&from, &to, flags));
                },
            ),
        }
    }

    fn link(
        &self,
        _request: &Request,
        number: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        answer_entry(reply, self.0.link(number, new_parent, new_name.as_bytes()));
    }

    fn open(&self, _request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.0.open(number, flags.0) {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.0.make(request.into(), parent, name, What::File, mode, umask);
        let opened = made.and_then(|entry| {
            let opened = self.0.open(entry.0.ino, flags);
            if opened.is_err() {
                self.0.forget(entry.0.ino, 1);
            }
            Ok((entry, opened?))
        });
        match opened {
            Ok(((attributes, generation), handle)) => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&TTL, &attributes, generation, handle, flags);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        contents::with_buffer(size as usize, |buffer| match self.0.read(number, offset, buffer) {
            Ok(read) => reply.data(&buffer[..read]),
            Err(error) => reply.error(errno(&error)),
        });
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.0.write(request.into(), number, offset, bytes, write_flags, flags.0);
        answer_written(reply, written);
    }

    /// The kernel writes what it has cached before it asks. There is nothing more to do at a close,
    /// so it need not ask again.
    fn flush(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        answer_empty(reply, self.0.release(number, handle));
    }

    fn fsync(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.sync(number, reply);
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.0.open_directory(number) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.0.list(number, handle, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        match self.0.list_with_attributes(number, handle, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.close_directory(handle);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.sync(number, reply);
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        match self.0.tree.lower().stat_file_system() {
            Ok(stat) => reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                stat.f_bsize as u32,
                stat.f_namemax as u32,
                stat.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let set = self.0.set_extended(request.into(), number, name.as_bytes(), value, flags);
        answer_empty(reply, set);
    }

    fn getxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let Some(question) = control::question(number, name.as_bytes()) else {
            let value = self.0.extended(number, name.as_bytes());
            return extended::answer(reply, size, value);
        };
        self.0.answer(question, size, reply);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        extended::answer(reply, size, self.0.extended_names(request.into(), number));
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.0.remove_extended(number, name.as_bytes()));
    }

    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer_empty(reply, self.0.allocate(request.into(), number, offset, length, mode));
    }

    fn lseek(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let seek = move |served: &Served| match served.seek(number, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(errno(&error)),
        };
        if !self.0.nodes.is_written(number) {
            return seek(&self.0);
        }
        // What the kernel has cached fills holes.
        self.0.run(
            |served| &served.fetching,
            move |served| {
                served.fetch(number);
                seek(served);
            },
        );
    }

    fn copy_file_range(
        &self,
        request: &Request,
        from: INodeNo,
        _from_handle: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _to_handle: FileHandle,
        to_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = ((from, from_offset), (to, to_offset));
        answer_written(reply, self.0.copy(request.into(), from, to, length));
    }
}
