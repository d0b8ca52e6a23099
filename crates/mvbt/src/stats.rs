//! What a database has done since it was opened, and how full its file is.

use std::sync::atomic::Ordering::Relaxed;

use crate::cursor::Cursor;
use crate::history;
use crate::work::{self, FREE_TREE};
use crate::{Database, Error, Read, Result, Version};

const RETRIES: u32 = 100;

/// Counts of this opening, and the state of the file at the last committed version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that have changed something.
    pub commits: u64,
    /// Pages that were split, also by transactions that were rolled back.
    pub splits: u64,
    /// Pages that the newest version does not reach any more.
    pub freed: u64,
    /// Pages written to the file.
    pub pages_written: u64,
    /// Pages read from the file.
    pub pages_read: u64,
    /// Anchors and commit blocks written, of 4,096 bytes each.
    pub blocks_written: u64,
    /// Flushes, and durable writes of one page.
    pub flushes: u64,
    /// Pages that the database has, used and free.
    pub pages: u64,
    /// Those of them that the file lists as free, or as kept for older versions. Those that a
    /// writer has at hand are not listed.
    pub free_pages: u64,
    /// The oldest version that can be read.
    pub from: Version,
    /// The newest one.
    pub to: Version,
}

impl Database {
    /// What was done since the file was opened. Reads the list of free pages.
    pub fn stats(&self) -> Result<Stats> {
        let newest = self.begin_read()?;
        let free_pages = self.free_pages()?;
        let counters = self.counters();
        Ok(Stats {
            commits: counters.commits.load(Relaxed),
            splits: counters.splits.load(Relaxed),
            freed: counters.freed.load(Relaxed),
            pages_written: counters.pages.load(Relaxed),
            pages_read: counters.reads.load(Relaxed),
            blocks_written: counters.blocks.load(Relaxed),
            flushes: counters.flushes.load(Relaxed),
            pages: newest.page_count()?,
            free_pages,
            from: history::kept_from(&newest)?.unwrap_or(newest.version()),
            to: newest.version(),
        })
    }

    /// A transaction that is committed meanwhile may take the list from a reader (H6). A newer one
    /// has it.
    fn free_pages(&self) -> Result<u64> {
        let mut counted = free_pages(&self.begin_read()?);
        for _ in 0..RETRIES {
            if !matches!(counted, Err(Error::SnapshotGone { .. })) {
                break;
            }
            counted = free_pages(&self.begin_read()?);
        }
        counted
    }
}

fn free_pages(reader: &impl Read) -> Result<u64> {
    let source = reader.source();
    let (mut cursor, mut count) = (Cursor::new(source, FREE_TREE), 0);
    cursor.first(source)?;
    while let (Some(key), Some(payload)) = (cursor.integer_key(source)?, cursor.payload(source)?) {
        count += work::listed_pages(key, &payload).len() as u64;
        cursor.next(source)?;
    }
    Ok(count)
}
