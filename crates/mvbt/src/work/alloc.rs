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

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::anchor;
use crate::mutant::{self, Mutant};
use crate::ring::Expected;
use crate::search::Probe;
use crate::work::catalog::{FREE_TREE, page_count};
use crate::work::{CATALOG, Work};
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

/// Pages that a transaction has freed.
#[derive(Clone, Debug, Default)]
pub struct Freed {
    pub version: Version,
    pub pages: Vec<PageNo>,
}

#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// The next is at the end.
    fresh: Vec<PageNo>,
    /// By earlier transactions, oldest first.
    freed: VecDeque<Freed>,
    /// By this one.
    freed_now: Vec<PageNo>,
    /// In the list of the newest commit block that was flushed. While a later transaction is in
    /// flight, recovery may look at them to judge that block (I12).
    held: Arc<FxHashSet<PageNo>>,
    /// All pages of the pool. In a hostile file two cells may lead to one, and both free it.
    known: FxHashSet<PageNo>,
    is_filling: bool,
}

impl Pool {
    /// What the next opening may have. Nobody reads any more.
    pub fn left(&self) -> Vec<PageNo> {
        self.all().take(anchor::POOL_MAX).collect()
    }

    /// All pages that nobody reaches, or that only older readers do.
    pub fn all(&self) -> impl Iterator<Item = PageNo> {
        let freed = self.freed.iter().flat_map(|freed| &freed.pages);
        self.fresh.iter().chain(freed).copied()
    }

    /// Another user has written since, and a commit block of this list was flushed last.
    pub fn hold(&mut self, listed: Option<Vec<(PageNo, Expected)>>) {
        let listed = listed.into_iter().flatten();
        self.held = Arc::new(listed.map(|(no, _)| no).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty()
    }

    /// The pages that no reader of any user reaches.
    pub fn take_fresh(&mut self) -> Vec<PageNo> {
        let fresh = std::mem::take(&mut self.fresh);
        for no in &fresh {
            self.known.remove(no);
        }
        fresh
    }

    /// The lowest is taken first, so that neighbours are written together.
    pub fn add(&mut self, mut pages: Vec<PageNo>) {
        pages.retain(|&no| self.known.insert(no));
        pages.sort_unstable_by(|one, other| other.cmp(one));
        self.fresh.splice(0..0, pages);
    }

    /// A page that this transaction makes for older readers alone.
    pub fn free_later(&mut self, no: PageNo) -> Result<()> {
        self.learn(no)?;
        self.freed_now.push(no);
        Ok(())
    }

    fn learn(&mut self, no: PageNo) -> Result<()> {
        if self.known.insert(no) { Ok(()) } else { Err(Error::ReachedTwice { page: no }) }
    }

    /// The pool of the next transaction, after this one is durable. `listed`: the pages of its
    /// commit block.
    pub fn after_commit(mut self, version: Version, listed: Option<Vec<PageNo>>) -> Pool {
        if let Some(listed) = listed.filter(|_| !mutant::is(Mutant::HeldReused)) {
            self.held = Arc::new(listed.into_iter().collect());
        }
        let pages = std::mem::take(&mut self.freed_now);
        if !pages.is_empty() {
            self.freed.push_back(Freed { version, pages });
        }
        self
    }

    /// True if more than so many may be taken now. Called for each page that is taken.
    fn has_more_than(&self, least: usize) -> bool {
        self.fresh.iter().rev().filter(|no| !self.held.contains(no)).nth(least).is_some()
    }

    fn len(&self) -> usize {
        self.fresh.len() + self.freed.iter().map(|freed| freed.pages.len()).sum::<usize>()
    }

    /// Makes those fresh that no reader reaches: all have begun at the version that freed them, or
    /// later.
    fn ripen(&mut self, horizon: Version) {
        while self.freed.front().is_some_and(|freed| freed.version <= horizon) {
            self.fresh.extend(self.freed.pop_front().into_iter().flat_map(|freed| freed.pages));
        }
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
        let is_free = |no: &PageNo| !self.pool.held.contains(no);
        let last = self.pool.fresh.iter().rposition(is_free).ok_or(full)?;
        let no = self.pool.fresh.remove(last);
        self.pool.known.remove(&no);
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
        self.pool.ripen(self.horizon);
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
            // The pages first: to note their number, the catalog may need one.
            self.pool.add((count + 1..=count + more).map(PageNo).collect());
            self.set_page_count(count + more)?;
        }
        Ok(())
    }

    /// Takes the first pages out of the tree of free pages.
    fn take_free(&mut self, most: usize, count: u64) -> Result<Vec<PageNo>> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some(key) = self.first_key(&FREE_TREE)? else { break };
            if key <= FREE_TREE.root.0 as i64 || key as u64 > count {
                let page = FREE_TREE.root;
                return Err(Error::Damaged { page, what: "a free page is none of the pages" });
            }
            self.delete(&FREE_TREE, Probe::Integer(key))?;
            taken.push(PageNo(key as u64));
        }
        Ok(taken)
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
        if mutant::is(Mutant::FreedReused) || (!is_needed && self.fresh.remove(&no)) {
            self.spilled.remove(&no);
            self.pool.fresh.push(no);
        } else {
            self.pool.freed_now.push(no);
        }
        Ok(())
    }

    pub(super) fn pool_is_filling(&self) -> bool {
        self.pool.is_filling
    }

    /// Puts pages of the pool into the tree of free pages: all of them, or those that are too many.
    pub fn deposit(&mut self, all: bool) -> Result<()> {
        let keep = if all { anchor::POOL_MAX } else { POOL_MAX };
        self.pool.ripen(self.horizon);
        if self.pool.len() <= keep {
            return Ok(());
        }
        while self.pool.fresh.len() > keep {
            // All at once: to take them off the front one by one would move the others each time.
            let many = self.pool.fresh.len() - keep;
            for no in self.pool.fresh.drain(..many).collect::<Vec<_>>() {
                self.pool.known.remove(&no);
                self.insert(&FREE_TREE, Some(no.0 as i64), Probe::Integer(no.0 as i64), &[])?;
            }
        }
        Ok(())
    }

    /// The catalog and the tree of free pages are never dropped.
    pub(super) fn is_fixed(root: PageNo) -> bool {
        root == CATALOG || root == FREE_TREE.root
    }
}
