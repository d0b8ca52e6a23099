//! Where fresh pages come from, and where freed ones go.
//!
//! Fresh pages come from a *pool* in memory, so a split dirties no map of free pages. An empty pool
//! is filled again, in this order, by
//!
//! 1. pages that an earlier transaction freed, and no reader can reach (I12);
//! 2. pages of the tree of free pages, which an earlier opening has left;
//! 3. pages behind the last one.
//!
//! A close leaves a small pool in the anchor, and puts the rest into the tree of free pages. A
//! crash loses the pool: its pages belong to nobody until a check finds them.

use oneflush_blocklog::invariant;

use crate::anchor;
use crate::bytes::{get_u48, push_u48};
use crate::cursor::Cursor;
use crate::mutant::{self, Mutant};
use crate::search::{Probe, TreeRef};
use crate::work::Work;
use crate::work::catalog::{CATALOG, FIRST_TREE, FREE_TREE, MARKS, page_count};
use crate::work::pool::Freed;
use crate::{Error, PageNo, Result, Version};

/// So many pages are taken at once: a part of the database, within these.
const TAKEN_PART: u64 = 64;
const TAKEN_MIN: u64 = 16;
const TAKEN_MAX: u64 = 256;
/// Filling the pool may itself split pages of catalog and free tree.
const POOL_MIN: usize = 8;
/// What a change of the catalog or of the tree of free pages may need.
pub(super) const POOL_OF_SYSTEM: usize = 24;
/// So many pages of the pool are for deletes alone: on a full disk, or at the limit of pages. At
/// most this part of that limit.
const RESERVE: u64 = 16;
const RESERVE_PART: u64 = 8;
/// So many pages are in memory at most; more go to the tree of free pages.
const POOL_MAX: usize = 4096;
/// So many freed ones that somebody may still reach.
const FREED_MAX: usize = 2048;

/// Which pages of the pool go to the tree of free pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deposit {
    /// Those that are too many to be in memory.
    Surplus,
    /// All that find no place in the anchor.
    AllButAnchored,
    /// All that readers may still reach, and of the others those that are too many.
    AllFreed,
}

/// So many pages stand in a cell of those that are free from a version on.
const KEPT_IN_A_CELL: usize = 16;
/// A version may have so many of those cells.
const KEPT_CELLS_BITS: u32 = 15;

/// The key of a cell in the tree of free pages: pages that are free from a version on (H5). It is
/// below zero, and the cells of older versions come first.
fn kept_key(version: Version, index: u64) -> i64 {
    i64::MIN + (version.0 << KEPT_CELLS_BITS | index) as i64
}

/// The version of such a key. None: it is a free page.
pub fn version_of_key(key: i64) -> Option<Version> {
    (key < 0).then(|| Version(key.wrapping_sub(i64::MIN) as u64 >> KEPT_CELLS_BITS))
}

/// The pages that a cell of the tree of free pages stands for.
pub fn listed_pages(key: i64, payload: &[u8]) -> Vec<PageNo> {
    match version_of_key(key) {
        None => vec![PageNo(key as u64)],
        Some(_) => payload.chunks_exact(6).map(|no| PageNo(get_u48(no, 0))).collect(),
    }
}

impl Work {
    /// A page that nobody can reach.
    pub(super) fn take_page(&mut self) -> Result<PageNo> {
        self.note_pool();
        let full = Error::Full { limit: self.store.pages_max() };
        if self.edits_of_system == 0 {
            let reserve = self.reserve();
            let filled = self.fill(POOL_MIN.max(reserve));
            if !self.pool.has_more_than(reserve) {
                return filled.and(Err(full));
            }
            // A full disk is met by who needs a page that is not there.
            filled.or_else(|error| if error.is_full_disk() { Ok(()) } else { Err(error) })?;
        }
        let no = self.pool.take().ok_or(full)?;
        let is_in_use = self.drafts.contains_key(&no) || self.raw.contains_key(&no);
        if no.0 <= FREE_TREE.root.0 || is_in_use || !self.fresh.insert(no) {
            return Err(Error::Damaged { page: no, what: "it is free, and in use" });
        }
        Ok(no)
    }

    /// How many pages the change that is made leaves in the pool.
    fn reserve(&self) -> usize {
        match self.is_freeing {
            true => 0,
            false => RESERVE.min(self.store.pages_max() / RESERVE_PART) as usize,
        }
    }

    /// Does something that leaves less than was there. It may take the reserve.
    pub fn freeing<R>(&mut self, change: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let was_freeing = std::mem::replace(&mut self.is_freeing, true);
        let changed = change(self);
        self.is_freeing = was_freeing;
        changed
    }

    /// Has `least` pages in the pool. This changes the catalog and the tree of free pages, so it is
    /// not called while one of both is being changed.
    pub(super) fn fill(&mut self, least: usize) -> Result<()> {
        if self.pool.is_filling || self.pool.has_more_than(least) {
            return Ok(());
        }
        self.note_pool();
        self.pool.ripen(self.horizon.version);
        if self.pool.has_more_than(least) {
            return Ok(());
        }
        self.pool.is_filling = true;
        let mut filled = self.fill_from_file(least);
        // To note the number of pages, the catalog may have taken some.
        if filled.is_ok() && !self.pool.has_more_than(least) {
            filled = self.fill_from_file(least);
        }
        self.pool.is_filling = false;
        filled
    }

    fn fill_from_file(&mut self, least: usize) -> Result<()> {
        let count = page_count(self)?;
        if count > self.store.pages()? {
            return Err(Error::Damaged { page: CATALOG, what: "the file has not so many pages" });
        }
        let wanted = (count / TAKEN_PART).clamp(TAKEN_MIN, TAKEN_MAX);
        // Taking pages out of the tree may itself need some.
        if self.pool.has_more_than(POOL_MIN - 1) {
            let taken = self.take_free(wanted as usize, count)?;
            self.pool.add(taken);
        }
        if self.pool.has_more_than(least) {
            return Ok(());
        }
        let more = wanted.max(least as u64 + 1).min(self.store.pages_max().saturating_sub(count));
        if more > 0 {
            self.store.grow(count + more)?;
            invariant!(
                "I11a",
                "the file is flushed where it has grown, before its new pages are counted",
                !self.store.has_unflushed_growth(),
            );
            // The pages first: to note their number, the catalog may need one.
            self.pool.add((count + 1..=count + more).map(PageNo).collect());
            self.set_page_count(count + more)?;
        }
        Ok(())
    }

    /// Takes the first pages out of the tree of free pages: first those that no reader reaches any
    /// more, then those that were free.
    fn take_free(&mut self, most: usize, count: u64) -> Result<Vec<PageNo>> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some((key, payload)) = self.next_free()? else { break };
            let pages = listed_pages(key, &payload);
            if pages.iter().any(|no| no.0 <= FREE_TREE.root.0 || no.0 > count) {
                let page = FREE_TREE.root;
                return Err(Error::Damaged { page, what: "a free page is none of the pages" });
            }
            self.delete(&FREE_TREE, Probe::Integer(key))?;
            taken.extend(pages);
        }
        Ok(taken)
    }

    /// Takes the free pages at the end out of the database: they are in no list, and it counts less
    /// pages. All others are taken lowest first from now on. Answers how many pages there are, and
    /// how many of them are free.
    pub fn cut(&mut self) -> Result<(u64, u64)> {
        self.fill(POOL_OF_SYSTEM)?;
        let count = page_count(self)?;
        // Neither of the following may ask for more pages.
        self.pool.is_filling = true;
        let cut = self.cut_behind(count);
        self.pool.is_filling = false;
        let pages = cut?;
        Ok((pages, self.pool.fresh_count()))
    }

    fn cut_behind(&mut self, count: u64) -> Result<u64> {
        self.pool.ripen(self.horizon.version);
        let free = self.take_free(usize::MAX, count)?;
        self.pool.add(free);
        // To note the number of pages, the catalog may need some.
        let pages = self.pool.cut_behind(count, POOL_OF_SYSTEM);
        if pages < count {
            self.set_page_count(pages)?;
        }
        Ok(pages)
    }

    fn next_free(&self) -> Result<Option<(i64, Vec<u8>)>> {
        let mut cursor = Cursor::new(self, FREE_TREE);
        cursor.first(self)?;
        let is_kept = |version: Version| {
            version > self.horizon.version && !mutant::is(Mutant::KeptPagesReused)
        };
        if cursor.integer_key(self)?.and_then(version_of_key).is_some_and(is_kept) {
            cursor.seek(self, Probe::Integer(0))?;
        }
        Ok(cursor.integer_key(self)?.zip(cursor.payload(self)?))
    }

    /// The page will not be used after this transaction.
    pub(super) fn free_page(&mut self, no: PageNo) -> Result<()> {
        self.note_pool();
        self.pool.learn(no)?;
        self.note(no);
        if self.fresh.contains(&no) || !self.spilled.contains_key(&no) {
            self.drafts.remove(&no);
        }
        // Else the file has a directory of this transaction, which must be right for older readers.
        if let Some((bytes, _)) = self.raw.remove(&no) {
            self.raw_bytes -= bytes.len();
        }
        // A savepoint may bring back what is in the file.
        let is_needed = self.spilled.contains_key(&no) && self.savepoint_count() > 0;
        let was_taken = self.fresh.contains(&no);
        if mutant::is(Mutant::FreedReused) || (!is_needed && self.fresh.remove(&no)) {
            self.spilled.remove(&no);
            self.pool.give_back(no, was_taken);
        } else {
            self.pool.note_freed(no);
        }
        Ok(())
    }

    pub(super) fn pool_is_filling(&self) -> bool {
        self.pool.is_filling
    }

    /// Puts pages of the pool into the tree of free pages.
    pub fn deposit(&mut self, which: Deposit) -> Result<()> {
        let (fresh_max, freed_max) = match which {
            Deposit::Surplus => (POOL_MAX, FREED_MAX),
            Deposit::AllButAnchored => (anchor::POOL_MAX, anchor::KEPT_MAX),
            Deposit::AllFreed => (anchor::POOL_MAX, 0),
        };
        if which != Deposit::Surplus || self.pool.freed_count() > freed_max {
            self.pool.ripen(self.horizon.version);
        }
        for no in self.pool.take_surplus(fresh_max) {
            self.insert(&FREE_TREE, Some(no.0 as i64), Probe::Integer(no.0 as i64), &[])?;
        }
        if self.pool.freed_count() > freed_max {
            // Half of them, so that this is not to be done again soon.
            while self.pool.freed_count() > freed_max / 2 {
                let Some(freed) = self.pool.take_newest_freed() else { break };
                self.deposit_freed(freed)?;
            }
        }
        Ok(())
    }

    /// Readers may still reach these, so the tree says from which version on they are free.
    fn deposit_freed(&mut self, freed: Freed) -> Result<()> {
        let (mut version, mut index) = (freed.version, 0);
        for pages in freed.pages.chunks(KEPT_IN_A_CELL) {
            let mut payload = Vec::with_capacity(6 * KEPT_IN_A_CELL);
            pages.iter().for_each(|no| push_u48(&mut payload, no.0));
            // A key that is taken: what is free from a later version on is so, too.
            while self.has_key(&FREE_TREE, kept_key(version, index))? {
                index += 1;
                if index >> KEPT_CELLS_BITS > 0 {
                    (version, index) = (version.next(), 0);
                }
            }
            let key = kept_key(version, index);
            self.insert(&FREE_TREE, Some(key), Probe::Integer(key), &payload)?;
        }
        Ok(())
    }

    /// The roots of the system's trees never move.
    pub(super) fn is_fixed(tree: &TreeRef) -> bool {
        tree.id < FIRST_TREE || tree.id == MARKS
    }
}
