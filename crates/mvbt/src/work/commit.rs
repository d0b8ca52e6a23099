//! Writing a transaction: its pages where they stand, and one flush.

use std::collections::{BTreeMap, BTreeSet};

use oneflush_blocklog::invariant;
use rustc_hash::FxHashSet;

use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::page::draft::Draft;
use crate::page::image::Image;
use crate::ring::{CommitBlock, Expected, PAGES_MAX};
use crate::store::Store;
use crate::work::pool::Pool;
use crate::work::{FREE, MARKS, Work, overlap};
use crate::{PageNo, Result, Version};

/// A transaction that is in the file and durable, and that readers do not see yet (I20).
pub struct Written {
    pub version: Version,
    /// All pages that were written.
    changed: Vec<PageNo>,
    /// Pages to be collected by the next one.
    pub uncollected: BTreeSet<PageNo>,
    pool: Pool,
    pages: Pages,
    images: Vec<Image>,
    /// Pages of long payloads. They are not in the cache.
    overflow: FxHashSet<PageNo>,
}

/// What was written.
enum Pages {
    /// Nothing had changed, and no version was used.
    None,
    /// One page, and no commit block (I9).
    Single,
    /// Several, and a commit block.
    Several,
}

impl Written {
    pub fn is_nothing(&self) -> bool {
        matches!(self.pages, Pages::None)
    }

    pub fn used_ring(&self) -> bool {
        matches!(self.pages, Pages::Several)
    }

    /// How many pages it has freed.
    pub fn freed(&self) -> u64 {
        self.pool.freed_now().len() as u64
    }

    /// Puts what was written into the cache, for those who begin now. Answers the pool of the next
    /// transaction, and which pages have changed.
    pub fn publish(self, store: &Store) -> (Pool, Vec<PageNo>) {
        self.overflow.iter().for_each(|&no| store.forget(no));
        self.images.into_iter().for_each(|image| store.keep(image));
        let pool = match self.pages {
            Pages::None => self.pool,
            Pages::Single => self.pool.after_commit(self.version, None),
            Pages::Several => {
                let listed = if lists(self.changed.len()) { &self.changed[..] } else { &[] };
                self.pool.after_commit(self.version, Some(listed))
            }
        };
        (pool, self.changed)
    }

    /// After this the version can be made void: each of its directories is *multi* (I20).
    pub fn make_voidable(&self, store: &Store) -> Result<()> {
        let (Pages::Single, [image]) = (&self.pages, &self.images[..]) else { return Ok(()) };
        if mutant::is(Mutant::SingleUnmarked) {
            return Ok(());
        }
        store.write_page_durable(image.no, &image.as_multi(store.uuid))
    }
}

/// True if a commit block lists so many pages. One that lists none stands behind a flush (I11).
fn lists(pages: usize) -> bool {
    (1..=PAGES_MAX).contains(&pages)
}

/// Pages as they are to be written, and the checksums of their directories.
struct Finished {
    /// Nobody else reaches them yet. They are written first if a directory in the others may lead
    /// readers of older versions to them (P6).
    fresh: BTreeMap<PageNo, Box<[u8]>>,
    pages: BTreeMap<PageNo, Box<[u8]>>,
    /// Those of them that are of long payloads.
    overflow: FxHashSet<PageNo>,
    checksums: BTreeMap<PageNo, Expected>,
}

impl Work {
    /// True if a commit would write something.
    pub fn has_changes(&self) -> bool {
        let is_changed = self.drafts.values().any(Draft::is_changed);
        is_changed || !self.raw.is_empty() || self.has_spilled
    }

    /// True if pages of this transaction are in the file, even if they do not count any more: its
    /// version must not be given again.
    pub fn has_spilled(&self) -> bool {
        self.has_spilled
    }

    /// Writes the transaction, and flushes. `ring` is the place of its commit block, if it needs
    /// one.
    pub fn write(mut self, ring: u64) -> Result<Written> {
        self.drafts.retain(|_, draft| draft.is_changed());
        let count = self.drafts.len() + self.raw.len();
        let version = self.version;
        if count == 0 && !self.has_spilled {
            let (pages, pool, changed) = (Pages::None, self.pool, Vec::new());
            let (images, overflow) = (Vec::new(), FxHashSet::default());
            let uncollected = self.uncollected;
            return Ok(Written { version, changed, uncollected, pool, pages, images, overflow });
        }
        let early = self.spilled.len();
        let is_alone = !self.has_spilled || mutant::is(Mutant::EarlyPagesForgotten);
        let is_single = count == 1 && self.fresh.is_empty() && is_alone;
        let finished = self.finish(!is_single)?;
        let mut all = std::mem::take(&mut self.spilled);
        all.extend(&finished.checksums);
        let changed = all.keys().copied().collect();
        let pages = if is_single {
            invariant!(
                "I9",
                "who commits without a block writes one page, and has written no other",
                all.len() == 1 && !self.has_spilled,
            );
            for (no, bytes) in &finished.pages {
                self.store.write_page_durable(*no, bytes)?;
            }
            Pages::Single
        } else {
            // A page that was written early counts as it is written last.
            let is_last = |(no, expected)| early == 0 || all.get(no) == Some(expected);
            invariant!(
                "I10",
                "a commit block lists each page of its transaction, as it was written last",
                finished.checksums.len() == finished.fresh.len() + finished.pages.len()
                    && all.len() >= early.max(finished.checksums.len())
                    && finished.checksums.last_key_value().is_none_or(is_last),
            );
            self.write_several(&finished, all, ring)?;
            Pages::Several
        };
        let overflow = finished.overflow;
        let voids = self.store.voids.read();
        let all = finished.fresh.into_iter().chain(finished.pages);
        let of_trees = all.filter(|(no, _)| !overflow.contains(no));
        let images = of_trees.map(|(no, bytes)| Image::read(bytes, no, self.store.uuid, &voids));
        let images = images.collect::<Result<_>>()?;
        drop(voids);
        let (pool, mut uncollected) = (self.pool, self.uncollected);
        for no in pool.freed_now() {
            uncollected.remove(no);
        }
        Ok(Written { version, changed, uncollected, pool, pages, images, overflow })
    }

    /// Writes pages and commit block, and flushes.
    fn write_several(
        &self,
        finished: &Finished,
        all: BTreeMap<PageNo, Expected>,
        ring: u64,
    ) -> Result<()> {
        let Finished { fresh, pages: in_place, .. } = finished;
        let is_large = !lists(all.len());
        let mut together = vec![fresh, in_place];
        if self.leads_to_fresh {
            self.store.write_pages(fresh)?;
            KillPoint::Written.reached();
            together.remove(0);
        }
        if is_large {
            // I11: the list says that all of them are there.
            self.store.write_all(together.drain(..), None)?;
            if !mutant::is(Mutant::LargeUnflushed) {
                self.store.flush()?;
            }
        }
        let pages = if is_large { Vec::new() } else { all.into_iter().collect() };
        let block = CommitBlock { version: self.version, pages };
        invariant!(
            "I11",
            "a commit block lists pages, or all that was written before it is flushed",
            !block.pages.is_empty() || self.store.is_flushed(),
        );
        self.store.write_all(together, Some((&block, ring)))?;
        KillPoint::Listed.reached();
        if mutant::is(Mutant::CommitUnflushed) { Ok(()) } else { self.store.flush() }
    }

    fn finish(&mut self, is_multi: bool) -> Result<Finished> {
        let (mut fresh, mut pages) = (BTreeMap::new(), BTreeMap::new());
        let mut checksums = BTreeMap::new();
        let overflow = self.raw.keys().copied().collect();
        let has_history = self.horizon.kept.is_some();
        let is_kept = |tree| has_history && tree != FREE && tree != MARKS;
        for (no, draft) in self.drafts.drain() {
            let is_fresh = self.fresh.contains(&no);
            invariant!(
                "I6",
                "a fresh page has no directory of an earlier transaction",
                !(is_fresh && draft.keeps_older()),
            );
            invariant!(
                "H2",
                "while there is a history each directory has all that is kept",
                !(draft.keeps_older() && is_kept(draft.tree)) || draft.serves_older(),
            );
            let finished = draft.finish(self.version, is_multi, self.store.uuid);
            let (bytes, checksum) = finished.ok_or_else(|| overlap(no))?;
            if is_fresh { &mut fresh } else { &mut pages }.insert(no, bytes);
            checksums.insert(no, Expected::Checksum(checksum));
        }
        for (no, (bytes, checksum)) in self.raw.drain() {
            let expected = Expected::Checksum(checksum);
            let before = self.spilled.get(&no);
            invariant!(
                "I7",
                "an overflow page is fresh, and written once",
                self.fresh.contains(&no) && before.is_none_or(|before| *before == expected),
            );
            fresh.insert(no, bytes);
            if !mutant::is(Mutant::OverflowUnlisted) {
                checksums.insert(no, expected);
            }
        }
        self.raw_bytes = 0;
        Ok(Finished { fresh, pages, overflow, checksums })
    }

    /// Writes pages early if there are many. They count only with the commit block.
    pub(super) fn spill_if_large(&mut self) -> Result<()> {
        let bytes = self.drafts.len() * self.store.page_bytes + self.raw_bytes;
        // A savepoint has copies of its own, so it is not in the way.
        if bytes <= self.options.spill_bytes || self.pool_is_filling() {
            return Ok(());
        }
        self.drafts.retain(|_, draft| draft.is_changed());
        self.note_uncollected();
        // Each change asks for some inner pages. If they are few, they stay.
        let inner = self.drafts.values().filter(|draft| draft.height() > 0).count();
        let stay = 2 * inner * self.store.page_bytes <= self.options.spill_bytes;
        let inner = self.drafts.extract_if(|_, draft| stay && draft.height() > 0).collect();
        let finished = self.finish(true)?;
        self.drafts = inner;
        *self.spilled_read.get_mut() = None;
        self.has_spilled = true;
        self.store.write_pages(&finished.fresh)?;
        KillPoint::Written.reached();
        self.store.write_pages(&finished.pages)?;
        for no in finished.checksums.keys() {
            self.store.forget(*no);
        }
        self.spilled.extend(finished.checksums);
        Ok(())
    }
}
