//! Names: looking up, making, linking, moving and removing.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use fuser::{FileAttr, FileType, INodeNo, RenameFlags};

use super::super::acl;
use super::super::answer::refused;
use super::super::nodes::{RealObject, number_of};
use super::served::{Caller, Entry, Served};
use crate::directory::Extended;
use crate::entry::ROOT;
use crate::lower::{Attribute, Kind, Made, What};
use crate::replay::PLACE;

/// A name in a directory, as the kernel calls it.
pub type At = (INodeNo, Vec<u8>);

/// Of no object: its number is 0.
pub const NOTHING: FileAttr = FileAttr {
    ino: INodeNo(0),
    size: 0,
    blocks: 0,
    atime: UNIX_EPOCH,
    mtime: UNIX_EPOCH,
    ctime: UNIX_EPOCH,
    crtime: UNIX_EPOCH,
    kind: FileType::RegularFile,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 0,
    flags: 0,
};

/// What recovery could give no name lies in the root, and is not seen through the mount.
pub fn is_hidden(dir: INodeNo, name: &[u8]) -> bool {
    dir == INodeNo::ROOT && name == PLACE
}

fn not_hidden(dir: INodeNo, name: &[u8]) -> io::Result<()> {
    if is_hidden(dir, name) { refused(libc::EPERM) } else { Ok(()) }
}

impl Served {
    pub fn look_up(&self, dir: INodeNo, name: &[u8]) -> io::Result<Entry> {
        if is_hidden(dir, name) {
            return refused(libc::ENOENT);
        }
        let dir = self.nodes.get(dir)?;
        self.enter(|| self.tree.lookup(dir.id, name))
    }

    /// Looks up or makes an object, and counts that the kernel is told of it.
    fn enter(&self, find: impl FnOnce() -> io::Result<RealObject>) -> io::Result<Entry> {
        let looking_up = self.nodes.looking_up();
        let object = find()?;
        let number = number_of(&object);
        if object.id != ROOT && number.0 <= INodeNo::ROOT.0 {
            // The kernel has these numbers for itself.
            return refused(libc::EIO);
        }
        self.nodes.enter(&object);
        drop(looking_up);
        let entry = self.entry(&object);
        if entry.is_err() {
            self.forget(number, 1);
        }
        entry
    }

    pub fn forget(&self, number: INodeNo, lookups: u64) {
        if let Some(object) = self.nodes.leave(number, lookups)
            && self.tree.let_go(object.id)
        {
            object.node.unpin();
        }
    }

    pub fn make(
        &self,
        caller: Caller,
        parent: INodeNo,
        name: &OsStr,
        what: What,
        mode: u32,
        umask: u32,
    ) -> io::Result<Entry> {
        let name = name.as_bytes();
        not_hidden(parent, name)?;
        let dir = self.nodes.get(parent)?;
        let (made, has_list) = self.made(caller, &dir, what, mode, umask)?;
        let (attributes, generation) =
            self.enter(|| self.tree.make(Some((dir.id, name)), &made))?;
        if has_list {
            self.note_lists(&*self.nodes.get(attributes.ino)?)?;
        }
        Ok((attributes, generation))
    }

    /// What it is to be, and whether the directory gives it an access control list.
    fn made(
        &self,
        caller: Caller,
        dir: &RealObject,
        what: What,
        mode: u32,
        umask: u32,
    ) -> io::Result<(Made, bool)> {
        let lower = self.tree.lower();
        let parent = lower.stat(&dir.node)?;
        let mut mode = mode & 0o7777;
        let is_link = matches!(what, What::Symlink { .. });
        let mut has_list = false;
        if self.masks.load(Ordering::Relaxed) && !is_link {
            let list = lower.extended(&dir.node, acl::DEFAULT).ok();
            let given = list.and_then(|list| acl::mode_in(&list, mode));
            has_list = given.is_some();
            mode = given.unwrap_or(mode & !umask);
        }
        let gives_group = u32::from(parent.stx_mode) & libc::S_ISGID != 0;
        let gid = if gives_group { parent.stx_gid } else { caller.gid };
        if gives_group && what == What::Directory {
            mode |= libc::S_ISGID;
        } else if gives_group && mode & 0o2010 == 0o2010 && !caller.is_in(gid) {
            // Kernels before 6.0 leave this to the file system.
            mode &= !libc::S_ISGID;
        }
        Ok((Made { what, mode, uid: caller.uid, gid }, has_list))
    }

    /// The lower has given lists to a new object: the log gets them, too.
    fn note_lists(&self, object: &crate::tree::Object<crate::directory::Node>) -> io::Result<()> {
        for name in [acl::ACCESS, acl::DEFAULT] {
            if let Ok(value) = self.tree.lower().extended(&object.node, name) {
                let value = Some(value);
                let list = Attribute::Extended { name: name.to_vec(), value };
                self.tree.set(object.id, list)?;
            }
        }
        Ok(())
    }

    pub fn link(&self, number: INodeNo, parent: INodeNo, name: &[u8]) -> io::Result<Entry> {
        not_hidden(parent, name)?;
        let (object, dir) = (self.nodes.get(number)?, self.nodes.get(parent)?);
        self.enter(|| {
            self.tree.link(object.id, dir.id, name)?;
            Ok(object)
        })
    }

    pub fn unlink(&self, parent: INodeNo, name: &[u8], is_directory: bool) -> io::Result<()> {
        not_hidden(parent, name)?;
        let dir = self.nodes.get(parent)?;
        let _looking_up = self.nodes.looking_up();
        self.tree.unlink(dir.id, name, is_directory)
    }

    /// Of which files the kernel must hand over what it has cached, before they are renamed. A file
    /// that replaces another comes with its contents (rule 7 of the design, T7).
    pub fn fetched_before_rename(
        &self,
        from: &At,
        to: &At,
        flags: RenameFlags,
    ) -> io::Result<Vec<INodeNo>> {
        not_hidden(from.0, &from.1)?;
        not_hidden(to.0, &to.1)?;
        let (from_dir, to_dir) = (self.nodes.get(from.0)?, self.nodes.get(to.0)?);
        let _looking_up = self.nodes.looking_up();
        let moved = self.tree.lookup(from_dir.id, &from.1)?;
        let replaced = match self.tree.lookup(to_dir.id, &to.1) {
            Ok(replaced) => replaced,
            Err(_) => return Ok(Vec::new()),
        };
        let mut fetched = vec![moved];
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            fetched.push(replaced);
        }
        fetched.retain(|object| object.kind == Kind::File);
        let mut numbers: Vec<INodeNo> = fetched.iter().map(|object| number_of(object)).collect();
        numbers.retain(|number| self.nodes.is_written(*number));
        Ok(numbers)
    }

    /// A whiteout is a device that the rename would have to leave in the same step.
    pub fn rename(&self, from: &At, to: &At, flags: RenameFlags) -> io::Result<()> {
        let known = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
        if !known.contains(flags) || flags == known {
            return refused(libc::EINVAL);
        }
        let (from_dir, to_dir) = (self.nodes.get(from.0)?, self.nodes.get(to.0)?);
        let (from, to) = ((from_dir.id, from.1.as_slice()), (to_dir.id, to.1.as_slice()));
        let _looking_up = self.nodes.looking_up();
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            self.tree.exchange(from, to)
        } else {
            self.tree.rename(from, to, !flags.contains(RenameFlags::RENAME_NOREPLACE))
        }
    }

    pub fn read_link(&self, number: INodeNo) -> io::Result<Vec<u8>> {
        let object = self.nodes.get(number)?;
        self.tree.lower().read_link(&object.node)
    }
}

impl Caller {
    /// True if the caller is of this group, or root.
    pub fn is_in(self, group: u32) -> bool {
        if self.uid == 0 || self.gid == group {
            return true;
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
        let status = status.unwrap_or_default();
        let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        groups.unwrap_or_default().split_whitespace().any(|one| one.parse() == Ok(group))
    }
}
