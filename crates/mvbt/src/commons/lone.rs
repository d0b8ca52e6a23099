//! One who may only read, where no memory can be shared: on a file system without writing, or in a
//! folder of somebody else.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use oneflush_blocklog::record_lock::record_lock_at;

use super::Commons;
use super::mapped::{USE, path_of};
use super::memory::Memory;
use crate::{Error, Result};

/// Comes in. *use* keeps out those who write, as long as the user is there.
pub fn join<R>(path: &Path, call: impl FnOnce(Arc<dyn Commons>) -> Result<R>) -> Result<R> {
    let failed = |doing| move |source| Error::Io { path: path.to_owned(), doing, source };
    let database = File::open(path).map_err(failed("open it to lock it"))?;
    let locked = record_lock_at(&database, libc::F_OFD_SETLK, libc::F_RDLCK, USE);
    locked.map_err(|_| in_use())?;
    // Others read it alone, or they share memory that this user cannot have.
    match record_lock_at(&database, libc::F_OFD_GETLK, libc::F_WRLCK, USE) {
        Ok(libc::F_UNLCK) => {}
        _ if path_of(path).exists() => return Err(in_use()),
        _ => {}
    }
    Memory::new().join_with(Some(database), |alone, _| call(alone))
}

fn in_use() -> Error {
    Error::Busy {
        what: "other processes use it, and this user may not write beside it. Close them first, or \
               read it as a user who may",
    }
}
