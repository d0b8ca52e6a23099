//! The file system itself. One thread answers one request after the other, and none of them waits
//! for anything.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLock, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::history::{Naming, Node, Step};
use super::{Answer, Cache, Locks, State, Sync, lock};

/// The kernel asks each time, so that it sees at once what a test does to the folder below.
const TTL: Duration = Duration::ZERO;
const BLOCK_BYTES: u32 = 4096;
/// 4 GiB, all of it free.
const BLOCKS: u64 = 1 << 20;

pub struct FileSystem {
    lower: PathBuf,
    state: Arc<State>,
    open: Mutex<Open>,
    flocks: Mutex<Flocks>,
}

/// Who has the lock of an inode, and whether alone.
#[derive(Default)]
struct Flocks(HashMap<u64, Vec<(LockOwner, bool)>>);

impl Flocks {
    fn release(&mut self, inode: INodeNo, owner: LockOwner) {
        self.0.entry(inode.0).or_default().retain(|&(holder, _)| holder != owner);
    }

    /// False: others are in the way. What the owner had is given up in any case, as flock(2) has
    /// it.
    fn take(&mut self, inode: INodeNo, owner: LockOwner, alone: bool) -> bool {
        self.release(inode, owner);
        let holders = self.0.entry(inode.0).or_default();
        let is_free = holders.iter().all(|&(_, other_alone)| !alone && !other_alone);
        if is_free {
            holders.push((owner, alone));
        }
        is_free
    }
}

#[derive(Default)]
struct Open {
    files: HashMap<u64, Arc<OpenFile>>,
    last: u64,
}

struct OpenFile {
    file: File,
    inode: INodeNo,
    writes: bool,
}

impl FileSystem {
    pub fn over(lower: &Path, state: Arc<State>) -> FileSystem {
        FileSystem {
            lower: lower.to_owned(),
            state,
            open: Mutex::default(),
            flocks: Mutex::default(),
        }
    }

    fn path(&self, inode: INodeNo) -> Result<PathBuf, Errno> {
        lock(&self.state.names).path(inode).map(Path::to_owned).ok_or(Errno::ENOENT)
    }

    fn below(&self, path: &Path) -> PathBuf {
        self.lower.join(path)
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<OpenFile>, Errno> {
        lock(&self.open).files.get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    fn keep(&self, file: File, inode: INodeNo, flags: i32) -> FileHandle {
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let mut open = lock(&self.open);
        open.last += 1;
        let handle = open.last;
        open.files.insert(handle, Arc::new(OpenFile { file, inode, writes }));
        FileHandle(handle)
    }

    fn open_flags(&self) -> FopenFlags {
        match self.state.flaws.cache {
            Cache::Yes => FopenFlags::empty(),
            Cache::No | Cache::NoMaps => FopenFlags::FOPEN_DIRECT_IO,
        }
    }

    fn attributes(&self, inode: INodeNo) -> Result<FileAttr, Errno> {
        let there = self.path(inode).and_then(|path| Ok(fs::symlink_metadata(self.below(&path))?));
        // A file that was removed is still there for those who have it open.
        let found = there.or_else(|error| {
            let open = lock(&self.open);
            let file = open.files.values().find(|open| open.inode == inode).ok_or(error)?;
            Ok::<_, Errno>(file.file.metadata()?)
        })?;
        Ok(attributes(inode, &found))
    }

    fn entry(&self, path: &Path) -> Result<FileAttr, Errno> {
        let found = fs::symlink_metadata(self.below(path))?;
        Ok(attributes(lock(&self.state.names).number(path), &found))
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf, Errno> {
        Ok(self.path(parent)?.join(name))
    }

    fn written(&self, inode: INodeNo) {
        if let Ok(path) = self.path(inode) {
            lock(&self.state.unsynced).insert(path);
        }
    }

    fn named(&self, parent: INodeNo, name: &OsStr, node: Option<Node>) {
        let changes = vec![(name.to_owned(), node)];
        self.state.note(|| Step::Name(Naming { folder: parent.0, changes }));
    }

    /// A direct request is refused.
    fn check_direct(&self, flags: OpenFlags) -> Result<(), Errno> {
        let refused = self.state.flaws.refuses_direct && flags.0 & libc::O_DIRECT != 0;
        if refused { Err(Errno::EINVAL) } else { Ok(()) }
    }

    fn sync(&self) -> Result<(), Errno> {
        match *lock(&self.state.sync) {
            Sync::Kept => Ok(()),
            Sync::Ignored => Err(Errno::ENOSYS),
            Sync::Fails => Err(Errno::EIO),
        }
    }

    fn remove(
        &self,
        parent: INodeNo,
        name: &OsStr,
        remove: fn(&Path) -> io::Result<()>,
    ) -> Result<(), Errno> {
        let path = self.child(parent, name)?;
        remove(&self.below(&path))?;
        self.named(parent, name, None);
        lock(&self.state.names).removed(&path);
        lock(&self.state.unsynced).remove(&path);
        Ok(())
    }

    fn change(&self, inode: INodeNo, change: &Change) -> Result<FileAttr, Errno> {
        let path = self.path(inode).map(|path| self.below(&path));
        if let Some(bytes) = change.bytes {
            match change.handle.map(|handle| self.file(handle)) {
                Some(file) => file?.file.set_len(bytes)?,
                None => OpenOptions::new().write(true).open(path.clone()?)?.set_len(bytes)?,
            }
            self.written(inode);
            self.state.note(|| Step::Cut { node: inode.0, bytes });
        }
        if let Some(mode) = change.mode {
            fs::set_permissions(path.clone()?, Permissions::from_mode(mode & 0o7777))?;
        }
        if change.user.is_some() || change.group.is_some() {
            chown(path?, change.user, change.group)?;
        }
        self.attributes(inode)
    }
}

/// What of a file is to be changed.
struct Change {
    mode: Option<u32>,
    user: Option<u32>,
    group: Option<u32>,
    bytes: Option<u64>,
    handle: Option<FileHandle>,
}

fn attributes(inode: INodeNo, found: &Metadata) -> FileAttr {
    let time = |seconds: i64, nanoseconds: i64| {
        UNIX_EPOCH
            + Duration::new(seconds.try_into().unwrap_or(0), nanoseconds.try_into().unwrap_or(0))
    };
    let is_directory = found.is_dir();
    FileAttr {
        ino: inode,
        size: found.len(),
        blocks: found.blocks(),
        atime: time(found.atime(), found.atime_nsec()),
        mtime: time(found.mtime(), found.mtime_nsec()),
        ctime: time(found.ctime(), found.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: if is_directory { FileType::Directory } else { FileType::RegularFile },
        perm: (found.mode() & 0o7777) as u16,
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// One that answers nothing but "done".
fn answer(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let locks = match self.state.flaws.locks {
            Locks::Kept => InitFlags::empty(),
            Locks::Flock(_) => InitFlags::FUSE_FLOCK_LOCKS,
            Locks::Posix(_) => InitFlags::FUSE_POSIX_LOCKS,
        };
        let maps = match self.state.flaws.cache {
            // Linux 6.6.
            Cache::No => InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            Cache::Yes | Cache::NoMaps => InitFlags::empty(),
        };
        config
            .add_capabilities(locks | maps)
            .map_err(|missing| io::Error::other(format!("this kernel does not have {missing:?}")))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.child(parent, name).and_then(|path| self.entry(&path)) {
            Ok(found) => reply.entry(&TTL, &found, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Ok(found) => reply.attr(&TTL, &found),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        bytes: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.change(inode, &Change { mode, user, group, bytes, handle }) {
            Ok(found) => reply.attr(&TTL, &found),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.child(parent, name).and_then(|path| {
            fs::DirBuilder::new().mode(mode & !umask).create(self.below(&path))?;
            let found = self.entry(&path)?;
            self.named(parent, name, Some(Node::Folder(found.ino.0)));
            Ok(found)
        });
        match made {
            Ok(found) => reply.entry(&TTL, &found, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(parent, name, |path| fs::remove_file(path)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(parent, name, |path| fs::remove_dir(path)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let rename = || {
            let (from, to) = (self.child(parent, name)?, self.child(new_parent, new_name)?);
            if flags == RenameFlags::RENAME_NOREPLACE {
                // Nobody else answers requests meanwhile.
                if fs::symlink_metadata(self.below(&to)).is_ok() {
                    return Err(Errno::EEXIST);
                }
            } else if !flags.is_empty() {
                return Err(Errno::EINVAL);
            }
            let found = self.entry(&from)?;
            fs::rename(self.below(&from), self.below(&to))?;
            let node = match found.kind {
                FileType::Directory => Node::Folder(found.ino.0),
                _ => Node::File(found.ino.0),
            };
            if parent == new_parent {
                let changes = vec![(name.to_owned(), None), (new_name.to_owned(), Some(node))];
                self.state.note(|| Step::Name(Naming { folder: parent.0, changes }));
            } else {
                self.named(new_parent, new_name, Some(node));
                self.named(parent, name, None);
            }
            lock(&self.state.names).renamed(&from, &to);
            let mut unsynced = lock(&self.state.unsynced);
            unsynced.remove(&to);
            if unsynced.remove(&from) {
                unsynced.insert(to);
            }
            Ok(())
        };
        answer(reply, rename());
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // The kernel writes back what was stored to a map by any handle that writes, and reads by
        // any.
        let opened = self.path(inode).and_then(|path| {
            let writes = flags.0 & libc::O_ACCMODE != libc::O_RDONLY;
            let cuts = flags.0 & libc::O_TRUNC != 0;
            let file = OpenOptions::new()
                .read(true)
                .write(writes)
                .truncate(cuts)
                .open(self.below(&path))?;
            if cuts {
                self.state.note(|| Step::Cut { node: inode.0, bytes: 0 });
            }
            Ok(file)
        });
        match opened {
            Ok(file) => reply.opened(self.keep(file, inode, flags.0), self.open_flags()),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = self.child(parent, name).and_then(|path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).truncate(flags & libc::O_TRUNC != 0).mode(mode & !umask);
            if flags & libc::O_EXCL != 0 {
                options.create_new(true);
            } else {
                options.create(true);
            }
            let is_new = fs::symlink_metadata(self.below(&path)).is_err();
            let file = options.open(self.below(&path))?;
            let found = self.entry(&path)?;
            if is_new {
                self.named(parent, name, Some(Node::File(found.ino.0)));
            } else if flags & libc::O_TRUNC != 0 {
                self.state.note(|| Step::Cut { node: found.ino.0, bytes: 0 });
            }
            Ok((file, found))
        });
        match created {
            Ok((file, found)) => {
                let handle = self.keep(file, found.ino, flags);
                reply.created(&TTL, &found, Generation(0), handle, self.open_flags());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = || {
            self.check_direct(flags)?;
            let opened = self.file(handle)?;
            let mut buffer = vec![0; size as usize];
            let mut done = 0;
            while done < buffer.len() {
                match opened.file.read_at(&mut buffer[done..], offset + done as u64)? {
                    0 => break,
                    read => done += read,
                }
            }
            buffer.truncate(done);
            Ok::<_, Errno>(buffer)
        };
        match read() {
            Ok(buffer) => reply.data(&buffer),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = || {
            self.check_direct(flags)?;
            self.file(handle)?.file.write_all_at(data, offset)?;
            self.written(inode);
            self.state.note(|| Step::Write { node: inode.0, offset, bytes: data.to_owned() });
            Ok::<_, Errno>(data.len() as u32)
        };
        match write() {
            Ok(written) => reply.written(written),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let result = self.sync().inspect(|()| {
            if let Ok(path) = self.path(inode) {
                lock(&self.state.unsynced).remove(&path);
            }
            self.state.note(|| Step::SyncFile(inode.0));
        });
        answer(reply, result);
    }

    fn fsyncdir(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let result = self.sync();
        answer(reply, result.inspect(|()| self.state.note(|| Step::SyncFolder(inode.0))));
    }

    fn release(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        owner: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        lock(&self.open).files.remove(&handle.0);
        if let Some(owner) = owner {
            lock(&self.flocks).release(inode, owner);
        }
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let list = || {
            let folder = self.path(inode)?;
            let mut found = Vec::new();
            for entry in fs::read_dir(self.below(&folder))? {
                let entry = entry?;
                let kind = if entry.file_type()?.is_dir() {
                    FileType::Directory
                } else {
                    FileType::RegularFile
                };
                found.push((entry.file_name(), kind));
            }
            found.sort_by(|(one, _), (other, _)| one.cmp(other));
            Ok::<_, Errno>((folder, found))
        };
        match list() {
            Ok((folder, found)) => {
                for (at, (name, kind)) in found.iter().enumerate().skip(offset as usize) {
                    let number = lock(&self.state.names).number(&folder.join(name));
                    if reply.add(number, at as u64 + 1, *kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCK_BYTES, 255, BLOCK_BYTES);
    }

    fn getlk(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: LockOwner,
        start: u64,
        end: u64,
        _: i32,
        _: u32,
        reply: ReplyLock,
    ) {
        match self.state.flaws.locks {
            Locks::Flock(Answer::Refused(errno)) | Locks::Posix(Answer::Refused(errno)) => {
                reply.error(Errno::from_i32(errno));
            }
            _ => reply.locked(start, end, libc::F_UNLCK, 0),
        }
    }

    fn setlk(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        _: u64,
        _: u64,
        kind: i32,
        _: u32,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let (Locks::Flock(told) | Locks::Posix(told)) = self.state.flaws.locks else {
            return reply.error(Errno::ENOSYS);
        };
        let result = match told {
            _ if kind == libc::F_UNLCK => {
                lock(&self.flocks).release(inode, owner);
                Ok(())
            }
            Answer::Refused(errno) => Err(Errno::from_i32(errno)),
            Answer::Granted => Ok(()),
            Answer::WriterOnly => self.file(handle).and_then(|opened| {
                let alone = kind == libc::F_WRLCK;
                if alone && !opened.writes {
                    return Err(Errno::EBADF);
                }
                // Also to who would wait: nobody here does.
                if lock(&self.flocks).take(inode, owner, alone) {
                    Ok(())
                } else {
                    Err(Errno::EAGAIN)
                }
            }),
        };
        answer(reply, result);
    }
}
