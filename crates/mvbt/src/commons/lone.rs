//! One who may only read, where no memory can be shared: on a file system without writing, or in a
//! folder of somebody else.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use oneflush_blocklog::record_lock::record_lock_at;

use super::mapped::USE;
use super::memory::Memory;
use super::{Commons, Then};
use crate::{Error, Result};

/// Keeps others out by *use*, as far as they write.
pub struct Lone {
    alone: Arc<dyn Commons>,
    _database: File,
}

impl Lone {
    pub fn join<R>(path: &Path, call: impl FnOnce(Arc<dyn Commons>) -> Result<R>) -> Result<R> {
        let failed = |doing| move |source| Error::Io { path: path.to_owned(), doing, source };
        let database = File::open(path).map_err(failed("open it to lock it"))?;
        let asked = |command| record_lock_at(&database, command, libc::F_RDLCK, USE);
        asked(libc::F_OFD_SETLK).map_err(|_| in_use())?;
        // Others read it alone, or they share memory that this user cannot have.
        match record_lock_at(&database, libc::F_OFD_GETLK, libc::F_WRLCK, USE) {
            Ok(libc::F_UNLCK) => {}
            _ if super::mapped::path_of(path).exists() => return Err(in_use()),
            _ => {}
        }
        Memory::new().join(|alone, _| call(Arc::new(Lone { alone, _database: database })))
    }
}

fn in_use() -> Error {
    Error::Busy {
        what: "other processes use it, and this user may not write beside it. Close them first, or \
               read it as a user who may",
    }
}

impl Commons for Lone {
    fn load(&self, index: usize) -> u64 {
        self.alone.load(index)
    }

    fn store(&self, index: usize, value: u64) {
        self.alone.store(index, value);
    }

    fn add(&self, index: usize, more: u64) {
        self.alone.add(index, more);
    }

    fn raise(&self, index: usize, least: u64) {
        self.alone.raise(index, least);
    }

    fn check_user(&self) -> Result<()> {
        self.alone.check_user()
    }

    fn slot(&self) -> usize {
        self.alone.slot()
    }

    fn is_held(&self, slot: usize) -> bool {
        self.alone.is_held(slot)
    }

    fn lock_writer(&self, until: Option<Instant>) -> Result<bool> {
        self.alone.lock_writer(until)
    }

    fn unlock_writer(&self) {
        self.alone.unlock_writer();
    }

    fn has_writer(&self) -> bool {
        self.alone.has_writer()
    }

    fn settle(&self, call: &mut dyn FnMut(bool) -> Result<Then>) -> Result<()> {
        self.alone.settle(call)
    }
}
