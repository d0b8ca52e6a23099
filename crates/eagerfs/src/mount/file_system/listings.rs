//! Directories that are open for listing.
//!
//! A listing's offsets are those of the lower. What was read ahead is kept for the next request,
//! which mostly goes on where the last one stopped.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;

use fuser::{FileHandle, FileType, INodeNo};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustix::fs::{RawDir, SeekFrom, seek};

use super::super::answer::{file_type, refused};

/// Read from the lower at once.
const READ_BYTES: usize = 32 << 10;

#[derive(Debug, Default)]
pub struct Listings {
    open: Mutex<FxHashMap<u64, Arc<Mutex<Listing>>>>,
    last: Mutex<u64>,
}

impl Listings {
    pub fn add(&self, file: File) -> FileHandle {
        let listing = Listing { file, offset: 0, ahead: VecDeque::new() };
        let handle = {
            let mut last = self.last.lock();
            *last += 1;
            *last
        };
        self.open.lock().insert(handle, Arc::new(Mutex::new(listing)));
        FileHandle(handle)
    }

    pub fn remove(&self, handle: FileHandle) {
        let removed = self.open.lock().remove(&handle.0);
        drop(removed);
    }

    pub fn get(&self, handle: FileHandle) -> io::Result<Arc<Mutex<Listing>>> {
        match self.open.lock().get(&handle.0) {
            Some(listing) => Ok(Arc::clone(listing)),
            None => refused(libc::EBADF),
        }
    }
}

#[derive(Debug)]
pub struct Listing {
    file: File,
    /// Where the next name of `ahead` stands, or the next one of the file.
    offset: u64,
    ahead: VecDeque<Name>,
}

#[derive(Debug)]
pub struct Name {
    pub name: Vec<u8>,
    pub number: INodeNo,
    pub kind: FileType,
    /// Where the next one stands.
    pub next: u64,
}

impl Listing {
    pub fn go_to(&mut self, offset: u64) -> io::Result<()> {
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
    pub fn next(&mut self) -> io::Result<Option<Name>> {
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

    pub fn took(&mut self, name: &Name) {
        self.offset = name.next;
    }

    pub fn give_back(&mut self, name: Name) {
        self.ahead.push_front(name);
    }
}

fn kind_of(kind: rustix::fs::FileType) -> FileType {
    file_type(kind.as_raw_mode())
}
