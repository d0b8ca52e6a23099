//! Listing directories.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use fuser::{FileAttr, FileHandle, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use super::super::answer::TTL;
use super::listings::Name;
use super::names::{NOTHING, is_hidden};
use super::served::{Entry, Served};

impl Served {
    pub fn open_directory(&self, number: INodeNo) -> io::Result<FileHandle> {
        let object = self.nodes.get(number)?;
        Ok(self.listings.add(object.node.open_directory()?))
    }

    pub fn close_directory(&self, handle: FileHandle) {
        self.listings.remove(handle);
    }

    /// `add` answers whether there was no room for a name any more.
    fn add_names(
        &self,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut add: impl FnMut(&Name) -> bool,
    ) -> io::Result<()> {
        let listing = self.listings.get(handle)?;
        let mut listing = listing.lock();
        listing.go_to(offset)?;
        while let Some(name) = listing.next()? {
            if !is_hidden(number, &name.name) && add(&name) {
                listing.give_back(name);
                break;
            }
            listing.took(&name);
        }
        Ok(())
    }

    pub fn list(
        &self,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> io::Result<()> {
        self.add_names(number, handle, offset, |name| {
            reply.add(name.number, name.next, name.kind, OsStr::from_bytes(&name.name))
        })
    }

    pub fn list_with_attributes(
        &self,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> io::Result<()> {
        self.add_names(number, handle, offset, |name| {
            let is_dots = matches!(name.name.as_slice(), b"." | b"..");
            let found = if is_dots { None } else { self.look_up(number, &name.name).ok() };
            let is_entered = found.is_some();
            // Of the others the kernel is told no more than the name.
            let (attributes, generation): Entry = found.unwrap_or_else(|| {
                let told = if is_dots { name.number } else { INodeNo(0) };
                (FileAttr { ino: told, kind: name.kind, ..NOTHING }, Generation(0))
            });
            let is_full = reply.add(
                attributes.ino,
                name.next,
                OsStr::from_bytes(&name.name),
                &TTL,
                &attributes,
                generation,
            );
            if is_full && is_entered {
                self.forget(attributes.ino, 1);
            }
            is_full
        })
    }
}
