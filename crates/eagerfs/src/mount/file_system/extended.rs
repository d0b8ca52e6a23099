//! Extended attributes, and the access control lists among them.

use std::io;

use fuser::{Errno, INodeNo, ReplyXattr};

use super::super::acl;
use super::super::answer::{errno, refused};
use super::super::control;
use super::served::{Caller, Served};
use crate::directory::{Extended, is_mark};
use crate::lower::Attribute;

/// The value, or how long it is.
pub fn answer(reply: ReplyXattr, size: u32, value: io::Result<Vec<u8>>) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() <= size as usize => reply.data(&value),
        Ok(_) => reply.error(Errno::ERANGE),
        Err(error) => reply.error(errno(&error)),
    }
}

/// The mark in the lower is not seen through the mount.
fn is_hidden(number: INodeNo, name: &[u8]) -> bool {
    number == INodeNo::ROOT && is_mark(name)
}

impl Served {
    pub fn extended(&self, number: INodeNo, name: &[u8]) -> io::Result<Vec<u8>> {
        if is_hidden(number, name) {
            return refused(libc::ENODATA);
        }
        let object = self.nodes.get(number)?;
        self.tree.lower().extended(&object.node, name)
    }

    /// Those that only an administrator may read are named to root only.
    pub fn extended_names(&self, caller: Caller, number: INodeNo) -> io::Result<Vec<u8>> {
        let object = self.nodes.get(number)?;
        let names = self.tree.lower().extended_names(&object.node)?;
        let is_seen = |name: &&[u8]| {
            let is_of_all = caller.uid == 0 || !name.starts_with(b"trusted.");
            is_of_all && !is_hidden(number, name.strip_suffix(&[0]).unwrap_or(name))
        };
        let all = names.split_inclusive(|byte| *byte == 0);
        Ok(all.filter(is_seen).flatten().copied().collect())
    }

    /// The kernel keeps others out while this runs.
    pub fn set_extended(
        &self,
        caller: Caller,
        number: INodeNo,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> io::Result<()> {
        if control::is_ours(name) || is_hidden(number, name) {
            return refused(libc::EOPNOTSUPP);
        }
        let object = self.nodes.get(number)?;
        if flags != 0 {
            let there = self.tree.lower().extended(&object.node, name);
            match there.map_err(|error| error.raw_os_error()) {
                Ok(_) if flags & libc::XATTR_CREATE != 0 => return refused(libc::EEXIST),
                Err(Some(libc::ENODATA)) if flags & libc::XATTR_REPLACE != 0 => {
                    return refused(libc::ENODATA);
                }
                _ => {}
            }
        }
        let value = Some(value.to_vec());
        self.tree.set(object.id, Attribute::Extended { name: name.to_vec(), value })?;
        self.note_mode(caller, number, name)
    }

    pub fn remove_extended(&self, number: INodeNo, name: &[u8]) -> io::Result<()> {
        if control::is_ours(name) || is_hidden(number, name) {
            return refused(libc::EOPNOTSUPP);
        }
        let object = self.nodes.get(number)?;
        match self.tree.lower().extended(&object.node, name) {
            // Without a list there is the mode, which says the same, and for new files the umask.
            Err(error) if error.raw_os_error() == Some(libc::ENODATA) && acl::is_list(name) => {}
            there => drop(there?),
        }
        self.tree.set(object.id, Attribute::Extended { name: name.to_vec(), value: None })
    }

    /// A list brings a mode with it. The log gets that behind the list, because recovery sets modes
    /// last. Who is not of the file's group loses set-group-ID by it.
    fn note_mode(&self, caller: Caller, number: INodeNo, name: &[u8]) -> io::Result<()> {
        if name != acl::ACCESS {
            return Ok(());
        }
        let object = self.nodes.get(number)?;
        let stat = self.tree.lower().stat(&object.node)?;
        let mut mode = u32::from(stat.stx_mode) & 0o7777;
        if mode & libc::S_ISGID != 0 && !caller.is_in(stat.stx_gid) {
            mode &= !libc::S_ISGID;
        }
        self.tree.set(object.id, Attribute::Mode(mode))
    }
}
