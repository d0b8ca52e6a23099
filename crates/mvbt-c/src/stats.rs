//! What a database has done.

use crate::call::Out;
use crate::code::Code;
use crate::database::{DatabaseHandle, with_database};

/// Counts since this handle was opened, and the state of the file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stats {
    /// Transactions that have changed something.
    pub commits: u64,
    /// Pages that were split, also by transactions that were rolled back.
    pub splits: u64,
    /// Pages that the newest version does not reach any more.
    pub freed: u64,
    pub pages_written: u64,
    /// Pages read from the file.
    pub pages_read: u64,
    /// Anchors and commit blocks, of 4,096 bytes each.
    pub blocks_written: u64,
    /// Flushes, and durable writes of one page.
    pub flushes: u64,
    /// Pages that the database has, used and free.
    pub pages: u64,
    /// Those of them that the file lists as free, or as kept for older versions.
    pub free_pages: u64,
    /// The oldest version that can be read.
    pub from: u64,
    /// The newest one.
    pub to: u64,
}

/// What was done with this handle since it was opened, and how full the file is. Reads the list of
/// free pages.
///
/// # Safety
/// `db` is null or a handle, and `stats` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_stats(db: *const DatabaseHandle, stats: *mut Stats) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        with_database(db, Out::Needed(stats), |database| {
            let found = database.stats()?;
            Ok(Stats {
                commits: found.commits,
                splits: found.splits,
                freed: found.freed,
                pages_written: found.pages_written,
                pages_read: found.pages_read,
                blocks_written: found.blocks_written,
                flushes: found.flushes,
                pages: found.pages,
                free_pages: found.free_pages,
                from: found.from.0,
                to: found.to.0,
            })
        })
    }
}
