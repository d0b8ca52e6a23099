//! Which SQLite of this process may open a database.
//!
//! Locks of processes keep two libraries of one process neither from each other's writes, nor from
//! each other's locks: what one gives up, both lose. So a database belongs to the library that has
//! it open, until its last connection is closed.

use std::ffi::CStr;

use rustix::fs::stat;

use super::index::{Claim, TABLE};

/// A claim, which is given up when this goes.
pub struct Claimed(Claim);

impl Claimed {
    /// `None`: another library has the database, or is about to open it.
    pub fn to(name: &CStr, library: usize) -> Option<Claimed> {
        let mut table = TABLE.lock();
        let mut others = table.databases.iter().filter(|open| open.library != library).peekable();
        // Most programs have one library, and need not look.
        let id = others.peek().and_then(|_| stat(name).ok()).map(|file| (file.st_dev, file.st_ino));
        if others.any(|open| Some(open.id) == id)
            || table.claims.iter().any(|one| one.library != library && *one.name == *name)
        {
            return None;
        }
        let claim = Claim { name: name.into(), library };
        table.claims.push(claim.clone());
        Some(Claimed(claim))
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let mut table = TABLE.lock();
        if let Some(at) = table.claims.iter().position(|one| *one == self.0) {
            table.claims.swap_remove(at);
        }
    }
}
