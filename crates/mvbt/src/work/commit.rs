//! Writing a transaction: its pages where they stand, and one flush.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;

use crate::mutant::{self, Mutant};
use crate::page::draft::Draft;
use crate::page::image::Image;
use crate::ring::{CommitBlock, Expected, PAGES_MAX};
use crate::work::Work;
use crate::work::pool::Pool;
use crate::{PageNo, Result};

/// What became of a transaction.
pub struct Committed {
    pub pool: Pool,
    /// How many pages it has freed.
    pub freed: usize,
    /// Pages to be collected by the next one.
    pub uncollected: BTreeSet<PageNo>,
    /// False: it had changed nothing, and no version was used.
    pub wrote: bool,
    /// A commit block was written.
    pub used_ring: bool,
}

/// Pages as they are to be written, and the checksums of their directories.
struct Finished {
    pages: BTreeMap<PageNo, Box<[u8]>>,
    /// Those of them that are of long payloads. They are not in the cache.
    overflow: FxHashSet<PageNo>,
    checksums: BTreeMap<PageNo, Expected>,
}

impl Work<'_> {
    /// True if a commit would write something.
    pub fn has_changes(&self) -> bool {
        let is_changed = self.drafts.values().any(Draft::is_changed);
        is_changed || !self.raw.is_empty() || self.has_spilled()
    }

    /// True if pages of this transaction are in the file already.
    pub fn has_spilled(&self) -> bool {
        !self.spilled.is_empty()
    }

    /// Writes the transaction. `ring` is the place of its commit block, if it needs one.
    pub fn commit(mut self, ring: u64) -> Result<Committed> {
        self.drafts.retain(|_, draft| draft.is_changed());
        let count = self.drafts.len() + self.raw.len();
        if count == 0 && self.spilled.is_empty() {
            let (pool, uncollected) = (self.pool, self.uncollected);
            return Ok(Committed { pool, freed: 0, uncollected, wrote: false, used_ring: false });
        }
        let is_alone = self.spilled.is_empty() || mutant::is(Mutant::EarlyPagesForgotten);
        let is_single = count == 1 && self.fresh.is_empty() && is_alone;
        let finished = self.finish(!is_single);
        let version = self.version;
        let mut listed = None;
        if is_single {
            for (no, bytes) in &finished.pages {
                self.store.write_page_durable(*no, bytes)?;
            }
        } else {
            self.store.write_pages(&finished.pages)?;
            let mut all = std::mem::take(&mut self.spilled);
            all.extend(&finished.checksums);
            let mut pages: Vec<(PageNo, Expected)> = all.into_iter().collect();
            if pages.len() > PAGES_MAX {
                // I11: the list says that all of them are there.
                if !mutant::is(Mutant::LargeUnflushed) {
                    self.store.flush()?;
                }
                pages.clear();
            }
            listed = Some(pages.iter().map(|&(no, _)| no).collect());
            self.store.write_commit_block(&CommitBlock { version, pages }, ring)?;
            if !mutant::is(Mutant::CommitUnflushed) {
                self.store.flush()?;
            }
        }
        self.publish(finished)?;
        let freed = self.pool.freed_now().len();
        self.uncollected.retain(|no| !self.pool.freed_now().contains(no));
        let pool = self.pool.after_commit(version, listed);
        let (uncollected, used_ring) = (self.uncollected, !is_single);
        Ok(Committed { pool, freed, uncollected, wrote: true, used_ring })
    }

    fn finish(&mut self, is_multi: bool) -> Finished {
        let (mut pages, mut checksums) = (BTreeMap::new(), BTreeMap::new());
        let overflow = self.raw.keys().copied().collect();
        for (no, draft) in self.drafts.drain() {
            let (bytes, checksum) = draft.finish(self.version, is_multi, self.store.uuid);
            pages.insert(no, bytes);
            checksums.insert(no, Expected::Checksum(checksum));
        }
        for (no, (bytes, checksum)) in self.raw.drain() {
            pages.insert(no, bytes);
            checksums.insert(no, Expected::Checksum(checksum));
        }
        self.raw_bytes = 0;
        Finished { pages, overflow, checksums }
    }

    /// Puts what was written into the cache, for those who begin now.
    fn publish(&self, finished: Finished) -> Result<()> {
        finished.overflow.iter().for_each(|&no| self.store.forget(no));
        let voids = self.store.voids.read();
        for (no, bytes) in finished.pages {
            if !finished.overflow.contains(&no) {
                self.store.keep(Image::read(bytes, no, self.store.uuid, &voids)?);
            }
        }
        Ok(())
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
        let finished = self.finish(true);
        self.store.write_pages(&finished.pages)?;
        for no in finished.pages.keys() {
            self.store.forget(*no);
        }
        self.spilled.extend(finished.checksums);
        Ok(())
    }
}
