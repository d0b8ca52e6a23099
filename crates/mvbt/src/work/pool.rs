//! The pool: free pages in memory, and freed ones that somebody may still reach.
//!
//! A transaction that is rolled back gives back the pool that it began with. So a pool is cloned
//! often, and changed by few: its parts are shared until then.

use std::collections::VecDeque;
use std::sync::Arc;

use oneflush_blocklog::invariant;
use rustc_hash::FxHashSet;

use crate::anchor;
use crate::mutant::{self, Mutant};
use crate::ring::Expected;
use crate::{Error, PageNo, Result, Version};

/// Pages that a transaction has freed. Readers of its version, and later ones, do not reach them.
#[derive(Clone, Debug, Default)]
pub struct Freed {
    pub version: Version,
    pub pages: Arc<Vec<PageNo>>,
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
    /// All pages of the pool. In a hostile file two cells may lead to one, and both free it.
    known: Known,
    pub is_filling: bool,
}

/// A set of pages that is cheap to clone: what a transaction changes in it is noted beside it.
#[derive(Clone, Debug, Default)]
struct Known {
    base: Arc<FxHashSet<PageNo>>,
    added: FxHashSet<PageNo>,
    removed: FxHashSet<PageNo>,
}

impl Known {
    /// False: it was there.
    fn insert(&mut self, no: PageNo) -> bool {
        match self.base.contains(&no) {
            true => self.removed.remove(&no),
            false => self.added.insert(no),
        }
    }

    fn remove(&mut self, no: PageNo) {
        if !self.added.remove(&no) && self.base.contains(&no) {
            self.removed.insert(no);
        }
    }

    /// To be called when no clone is left.
    fn settle(&mut self) {
        let base = Arc::make_mut(&mut self.base);
        for no in self.removed.drain() {
            base.remove(&no);
        }
        base.extend(self.added.drain());
    }
}

impl Pool {
    /// What the close before has left: pages that are free from a version on.
    pub fn add_kept(&mut self, kept: Vec<(PageNo, Version)>) {
        for (no, version) in kept {
            self.add_freed(version, vec![no]);
        }
        if mutant::is(Mutant::KeptPagesReused) {
            self.ripen(Version::MAX);
        }
    }

    /// Another user has written since, and a commit block of this list was flushed last.
    pub fn hold(&mut self, listed: Option<Vec<(PageNo, Expected)>>) {
        let listed = listed.into_iter().flatten();
        self.held = Arc::new(listed.map(|(no, _)| no).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.freed.is_empty()
    }

    /// Takes all pages out. Answers those that no reader of any user reaches.
    pub fn take_fresh(&mut self) -> Vec<PageNo> {
        let left = Pool { held: Arc::clone(&self.held), ..Pool::default() };
        Arc::unwrap_or_clone(std::mem::replace(self, left).fresh)
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
        let freed = self.freed.iter().flat_map(|freed| &*freed.pages);
        self.fresh.iter().chain(freed).copied()
    }

    /// The lowest is taken first, so that neighbours are written together.
    pub fn add(&mut self, mut pages: Vec<PageNo>) {
        pages.retain(|&no| self.known.insert(no));
        pages.sort_unstable_by(|one, other| other.cmp(one));
        Arc::make_mut(&mut self.fresh).splice(0..0, pages);
    }

    /// Pages that are free for readers of this version and later ones.
    pub fn add_freed(&mut self, version: Version, mut pages: Vec<PageNo>) {
        pages.retain(|&no| self.known.insert(no));
        self.put_freed(version, pages);
    }

    fn put_freed(&mut self, version: Version, pages: Vec<PageNo>) {
        if !pages.is_empty() {
            self.freed_count += pages.len();
            let behind = self.freed.partition_point(|freed| freed.version <= version);
            let freed = Freed { version, pages: Arc::new(pages) };
            Arc::make_mut(&mut self.freed).insert(behind, freed);
        }
    }

    /// A page that this transaction makes for older readers alone.
    pub fn free_later(&mut self, no: PageNo) -> Result<()> {
        self.learn(no)?;
        self.note_freed(no);
        Ok(())
    }

    /// The page comes into the pool. An error: it is there.
    pub fn learn(&mut self, no: PageNo) -> Result<()> {
        if self.known.insert(no) { Ok(()) } else { Err(Error::ReachedTwice { page: no }) }
    }

    /// A page that this transaction has freed, and that the pool has learned of.
    pub fn note_freed(&mut self, no: PageNo) {
        self.freed_now.push(no);
    }

    /// Pages may be used again, or those that may not are held.
    fn check_reuse(holds: bool) {
        invariant!(
            "I12",
            "no transaction uses pages that it has freed, or that the newest flushed block lists",
            holds,
        );
    }

    /// A page that this transaction has taken, and does not need. The pool has learned of it.
    pub fn give_back(&mut self, no: PageNo, was_taken: bool) {
        Pool::check_reuse(was_taken);
        Arc::make_mut(&mut self.fresh).push(no);
    }

    /// Only a mutant uses again what its own transaction has freed.
    pub fn take_freed_now(&mut self) -> Option<PageNo> {
        let no = self.freed_now.pop()?;
        self.known.remove(no);
        Some(no)
    }

    pub fn freed_now(&self) -> &[PageNo] {
        &self.freed_now
    }

    /// The pool of the next transaction, after this one is durable. `listed`: the pages of its
    /// commit block.
    pub fn after_commit(mut self, version: Version, listed: Option<&[PageNo]>) -> Pool {
        if let Some(listed) = listed.filter(|_| !mutant::is(Mutant::HeldReused)) {
            self.held = Arc::new(listed.iter().copied().collect());
        }
        let is_held = |listed: &[PageNo]| {
            let first = listed.first();
            self.held.len() == listed.len() && first.is_none_or(|no| self.held.contains(no))
        };
        Pool::check_reuse(listed.is_none_or(is_held));
        let pages = std::mem::take(&mut self.freed_now);
        self.put_freed(version, pages);
        self.known.settle();
        self
    }

    /// True if more than so many may be taken now. Called for each page that is taken.
    pub fn has_more_than(&self, least: usize) -> bool {
        self.fresh.iter().rev().filter(|no| !self.held.contains(no)).nth(least).is_some()
    }

    /// The next page that may be taken. None: there is no such page.
    pub fn take(&mut self) -> Option<PageNo> {
        let last = self.fresh.iter().rposition(|no| !self.held.contains(no))?;
        let no = Arc::make_mut(&mut self.fresh).remove(last);
        self.known.remove(no);
        Some(no)
    }

    /// Takes those off the front that are more than so many.
    pub fn take_surplus(&mut self, keep: usize) -> Vec<PageNo> {
        let many = self.fresh.len().saturating_sub(keep);
        if many == 0 {
            return Vec::new();
        }
        let surplus: Vec<PageNo> = Arc::make_mut(&mut self.fresh).drain(..many).collect();
        surplus.iter().for_each(|&no| self.known.remove(no));
        surplus
    }

    /// Has the lowest taken first, and forgets those that are the last ones of so many, but for
    /// `keep` of those that may be taken now. Answers how many pages are left.
    pub fn cut_behind(&mut self, mut count: u64, keep: usize) -> u64 {
        let fresh = Arc::make_mut(&mut self.fresh);
        fresh.sort_unstable_by(|one, other| other.cmp(one));
        let takeable = fresh.iter().filter(|no| !self.held.contains(no)).count();
        let mut spare = takeable.saturating_sub(keep);
        let mut many = 0;
        while let Some(no) = fresh.get(many).filter(|no| no.0 == count) {
            let is_takeable = !self.held.contains(no);
            if is_takeable && spare == 0 {
                break;
            }
            spare -= usize::from(is_takeable);
            (count, many) = (count - 1, many + 1);
        }
        fresh.drain(..many).for_each(|no| self.known.remove(no));
        count
    }

    pub fn fresh_count(&self) -> u64 {
        self.fresh.len() as u64
    }

    pub fn freed_count(&self) -> usize {
        self.freed_count
    }

    /// Takes what the newest transaction has freed that is in memory.
    pub fn take_newest_freed(&mut self) -> Option<Freed> {
        self.freed.back()?;
        let freed = Arc::make_mut(&mut self.freed).pop_back()?;
        self.freed_count -= freed.pages.len();
        freed.pages.iter().for_each(|&no| self.known.remove(no));
        Some(freed)
    }

    /// Makes those fresh that no reader reaches: all have begun at the version that freed them, or
    /// later.
    pub fn ripen(&mut self, horizon: Version) {
        while self.freed.front().is_some_and(|freed| freed.version <= horizon) {
            let Some(freed) = Arc::make_mut(&mut self.freed).pop_front() else { return };
            self.freed_count -= freed.pages.len();
            Arc::make_mut(&mut self.fresh).extend(freed.pages.iter());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_with_notes_beside_it_is_the_set_that_it_stands_for() {
        let mut rng = fastrand::Rng::with_seed(5);
        let (mut known, mut set) = (Known::default(), FxHashSet::default());
        for _ in 0..2000 {
            let no = PageNo(rng.u64(..30));
            match rng.u8(..8) {
                0 => known.settle(),
                1..=3 => {
                    known.remove(no);
                    set.remove(&no);
                }
                _ => assert_eq!(known.insert(no), set.insert(no)),
            }
        }
        known.settle();
        assert_eq!(*known.base, set);
    }

    #[test]
    fn freed_pages_become_fresh_in_the_order_of_their_versions() {
        let mut pool = Pool::default();
        pool.add_freed(Version(9), vec![PageNo(9)]);
        pool.add_kept(vec![(PageNo(5), Version(5)), (PageNo(7), Version(7))]);
        // It is there.
        pool.add_freed(Version(3), vec![PageNo(9)]);
        assert_eq!(pool.freed_count(), 3);
        pool.ripen(Version(7));
        let fresh: FxHashSet<PageNo> = pool.take_fresh().into_iter().collect();
        assert_eq!(fresh, FxHashSet::from_iter([PageNo(5), PageNo(7)]));
        assert!(pool.is_empty() && pool.freed_count() == 0);
    }
}
