//! Listing directories.
//!
//! A listing's offsets are those of the lower. What was read ahead is kept for the next request,
//! which mostly goes on where the last one stopped.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuser::{
    FileAttr, FileHandle, FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus,
};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustix::fs::{RawDir, SeekFrom, seek};

use super::super::answer::{TTL, refused};
use super::names::{NOTHING, is_hidden};
use super::{Entry, Served};

/// Read from the lower at once.
const READ_BYTES: usize = 32 << 10;

#[derive(Debug, Default)]
pub struct Listings {
    open: Mutex<FxHashMap<u64, Arc<Mutex<Listing>>>>,
    last: Mutex<u64>,
}

#[derive(Debug)]
struct Listing {
    file: File,
    /// Where the next name of `ahead` stands, or the next one of the file.
    offset: u64,
    ahead: VecDeque<Name>,
}

#[derive(Debug)]
struct Name {
    name: Vec<u8>,
    number: INodeNo,
    kind: FileType,
    /// Where the next one stands.
    next: u64,
}

impl Listing {
    fn go_to(&mut self, offset: u64) -> io::Result<()> {
        // At the beginning what was made since is seen.
        if offset != self.offset || offset == 0 {
            self.ahead.clear();
            // Offsets of some file systems use all 64 bits.
            seek(&self.file, SeekFrom::Start(offset))?;
            self.offset = offset;
        }
        Ok(())
    }

    /// `None`: there are no more.
    fn next(&mut self) -> io::Result<Option<Name>> {
        if self.ahead.is_empty() {
            let mut buffer = [MaybeUninit::uninit(); READ_BYTES];
            let mut names = RawDir::new(&self.file, &mut buffer);
            while let Some(entry) = names.next() {
                let entry = entry?;
                self.ahead.push_back(Name {
                    name: entry.file_name().to_bytes().to_vec(),
                    number: INodeNo(entry.ino()),
                    kind: kind_of(entry.file_type()),
                    next: entry.next_entry_cookie(),
                });
                if names.is_buffer_empty() {
                    break;
                }
            }
        }
        Ok(self.ahead.pop_front())
    }

    fn took(&mut self, name: &Name) {
        self.offset = name.next;
    }

    fn give_back(&mut self, name: Name) {
        self.ahead.push_front(name);
    }
}

fn kind_of(kind: rustix::fs::FileType) -> FileType {
    super::super::answer::file_type(kind.as_raw_mode())
}

impl Served {
    pub fn open_directory(&self, number: INodeNo) -> io::Result<FileHandle> {
        let object = self.nodes.get(number)?;
        let file = object.node.open_directory()?;
        let listing = Listing { file, offset: 0, ahead: VecDeque::new() };
        let handle = {
            let mut last = self.listings.last.lock();
            *last += 1;
            *last
        };
        self.listings.open.lock().insert(handle, Arc::new(Mutex::new(listing)));
        Ok(FileHandle(handle))
    }

    pub fn close_directory(&self, handle: FileHandle) {
        let closed = self.listings.open.lock().remove(&handle.0);
        drop(closed);
    }

    fn listing(&self, handle: FileHandle) -> io::Result<Arc<Mutex<Listing>>> {
        match self.listings.open.lock().get(&handle.0) {
            Some(listing) => Ok(Arc::clone(listing)),
            None => refused(libc::EBADF),
        }
    }

    /// `add` answers whether there was no room for a name any more.
    fn add_names(
        &self,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut add: impl FnMut(&Name) -> bool,
    ) -> io::Result<()> {
        let listing = self.listing(handle)?;
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
