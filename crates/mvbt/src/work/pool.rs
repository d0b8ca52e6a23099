//! The pool: free pages in memory, and freed ones that somebody may still reach.
//!
//! A transaction that is rolled back gives back the pool that it began with. So a pool is cloned
//! often, and changed by few: its parts are shared until then.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::anchor;
use crate::mutant::{self, Mutant};
use crate::{PageNo, Version};

/// Pages that a transaction has freed. Readers of its version, and later ones, do not reach them.
#[derive(Clone, Debug, Default)]
pub struct Freed {
    pub version: Version,
    pub pages: Vec<PageNo>,
}

#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// The next is at the end.
    fresh: Arc<Vec<PageNo>>,
    /// By earlier transactions, oldest first.
    freed: Arc<VecDeque<Freed>>,
    /// How many those are.
    freed_count: usize,
    /// By this one.
    freed_now: Vec<PageNo>,
    /// In the list of the newest commit block that was flushed. While a later transaction is in
    /// flight, recovery may look at them to judge that block (I12).
    held: Arc<FxHashSet<PageNo>>,
    pub is_filling: bool,
}

impl Pool {
    /// What the close before has left: free pages, and those that are free from a version on.
    pub fn of(fresh: Vec<PageNo>, kept: Vec<(PageNo, Version)>) -> Pool {
        let mut pool = Pool { fresh: Arc::new(fresh), ..Pool::default() };
        for (no, version) in kept {
            let is_reused = mutant::is(Mutant::KeptPagesReused);
            pool.add_freed(if is_reused { Version(0) } else { version }, vec![no]);
        }
        pool
    }

    /// Free pages for the next opening, and those that are free from a version on.
    pub fn left(&self) -> (Vec<PageNo>, Vec<(PageNo, Version)>) {
        let freed = self.freed.iter();
        let kept = freed.flat_map(|freed| freed.pages.iter().map(|&no| (no, freed.version)));
        let fresh = self.fresh.iter().copied().take(anchor::POOL_MAX);
        (fresh.collect(), kept.take(anchor::KEPT_MAX).collect())
    }

    /// All pages that nobody reaches, or that only older readers do.
    pub fn all(&self) -> impl Iterator<Item = PageNo> {
        let freed = self.freed.iter().flat_map(|freed| &freed.pages);
        self.fresh.iter().chain(freed).copied()
    }

    /// The lowest is taken first, so that neighbours are written together.
    pub fn add(&mut self, mut pages: Vec<PageNo>) {
        pages.sort_unstable_by(|one, other| other.cmp(one));
        Arc::make_mut(&mut self.fresh).splice(0..0, pages);
    }

    /// Pages that are free for readers of this version and later ones. It is above all that were
    /// given before.
    pub fn add_freed(&mut self, version: Version, pages: Vec<PageNo>) {
        if !pages.is_empty() {
            self.freed_count += pages.len();
            Arc::make_mut(&mut self.freed).push_back(Freed { version, pages });
        }
    }

    /// A page that this transaction makes for older readers alone, or has freed.
    pub fn free_later(&mut self, no: PageNo) {
        self.freed_now.push(no);
    }

    /// A page that this transaction has taken, and does not need.
    pub fn give_back(&mut self, no: PageNo) {
        Arc::make_mut(&mut self.fresh).push(no);
    }

    pub fn freed_now(&self) -> &[PageNo] {
        &self.freed_now
    }

    /// The pool of the next transaction, after this one is durable. `listed`: the pages of its
    /// commit block.
    pub fn after_commit(mut self, version: Version, listed: Option<Vec<PageNo>>) -> Pool {
        if let Some(listed) = listed.filter(|_| !mutant::is(Mutant::HeldReused)) {
            self.held = Arc::new(listed.into_iter().collect());
        }
        let pages = std::mem::take(&mut self.freed_now);
        self.add_freed(version, pages);
        self
    }

    /// True if more than so many may be taken now. Called for each page that is taken.
    pub fn has_more_than(&self, least: usize) -> bool {
        self.fresh.iter().rev().filter(|no| !self.held.contains(no)).nth(least).is_some()
    }

    /// The next page that may be taken. None: there is no such page.
    pub fn take(&mut self) -> Option<PageNo> {
        let last = self.fresh.iter().rposition(|no| !self.held.contains(no))?;
        Some(Arc::make_mut(&mut self.fresh).remove(last))
    }

    /// Takes those off the front that are more than so many.
    pub fn take_surplus(&mut self, keep: usize) -> Vec<PageNo> {
        let many = self.fresh.len().saturating_sub(keep);
        if many == 0 { Vec::new() } else { Arc::make_mut(&mut self.fresh).drain(..many).collect() }
    }

    pub fn freed_count(&self) -> usize {
        self.freed_count
    }

    /// Takes what the newest transaction has freed that is in memory.
    pub fn take_newest_freed(&mut self) -> Option<Freed> {
        self.freed.back()?;
        let freed = Arc::make_mut(&mut self.freed).pop_back()?;
        self.freed_count -= freed.pages.len();
        Some(freed)
    }

    /// Makes those fresh that no reader reaches: all have begun at the version that freed them, or
    /// later.
    pub fn ripen(&mut self, horizon: Version) {
        while self.freed.front().is_some_and(|freed| freed.version <= horizon) {
            let Some(freed) = Arc::make_mut(&mut self.freed).pop_front() else { return };
            self.freed_count -= freed.pages.len();
            Arc::make_mut(&mut self.fresh).extend(freed.pages);
        }
    }
}
