//! What a savepoint keeps: for each page that was changed since, the page as it was.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::page::draft::Draft;
use crate::page::slot::{self, Slot};
use crate::ring::Expected;
use crate::search::TreeRef;
use crate::work::Work;
use crate::work::pool::Pool;
use crate::{PageNo, Result, TreeId};

/// Since a savepoint.
#[derive(Default)]
pub struct Saved {
    /// None: the transaction had not changed the page.
    pages: FxHashMap<PageNo, Page>,
    /// Set with the first page that is taken or freed.
    pool: Option<(Pool, FxHashSet<PageNo>)>,
    /// Set with the first tree that is made, dropped or moved.
    trees: Option<FxHashMap<TreeId, TreeRef>>,
}

struct Page {
    draft: Option<Draft>,
    raw: Option<(Box<[u8]>, u32)>,
    /// The page was in the file already, as the transaction had it then.
    was_spilled: bool,
    /// The transaction has taken the page from the pool, before the savepoint or just then.
    is_fresh: bool,
}

impl Work {
    pub fn savepoint_count(&self) -> usize {
        self.savepoints.len()
    }

    pub fn savepoint(&mut self) {
        self.savepoints.push(Saved::default());
    }

    /// Called before a page is changed.
    pub(super) fn note(&mut self, no: PageNo) {
        if let Some(saved) = self.savepoints.last_mut() {
            let (drafts, raw, spilled) = (&self.drafts, &self.raw, &self.spilled);
            let is_fresh = self.fresh.contains(&no);
            saved.pages.entry(no).or_insert_with(|| Page {
                draft: drafts.get(&no).cloned(),
                raw: raw.get(&no).cloned(),
                was_spilled: spilled.contains_key(&no),
                is_fresh,
            });
        }
    }

    pub(super) fn note_pool(&mut self) {
        if let Some(saved) = self.savepoints.last_mut()
            && saved.pool.is_none()
        {
            saved.pool = Some((self.pool.clone(), self.fresh.clone()));
        }
    }

    pub(super) fn note_trees(&mut self) {
        if let Some(saved) = self.savepoints.last_mut()
            && saved.trees.is_none()
        {
            saved.trees = Some(self.trees.clone());
        }
    }

    /// Ends savepoints until `count` are left. Their changes stay.
    pub fn release(&mut self, count: usize) {
        while self.savepoints.len() > count {
            let Some(inner) = self.savepoints.pop() else { return };
            let Some(outer) = self.savepoints.last_mut() else { continue };
            for (no, page) in inner.pages {
                outer.pages.entry(no).or_insert(page);
            }
            outer.pool = outer.pool.take().or(inner.pool);
            outer.trees = outer.trees.take().or(inner.trees);
        }
    }

    /// Undoes what was done since the `count`-th savepoint, which stays.
    pub fn roll_back_to(&mut self, count: usize) -> Result<()> {
        // Those above it first go into it, so that it has the oldest state of each page.
        self.release(count);
        let Some(saved) = self.savepoints.pop() else { return Ok(()) };
        self.savepoints.push(Saved::default());
        self.rollbacks += 1;
        if let Some((pool, fresh)) = saved.pool {
            (self.pool, self.fresh) = (pool, fresh);
        }
        if let Some(trees) = saved.trees {
            self.trees = trees;
        }
        for (no, page) in saved.pages {
            if let Some((bytes, _)) = self.raw.remove(&no) {
                self.raw_bytes -= bytes.len();
            }
            if let Some(raw) = page.raw {
                self.raw_bytes += raw.0.len();
                self.raw.insert(no, raw);
            }
            match page.draft {
                Some(draft) if draft.is_changed() || !self.spilled.contains_key(&no) => {
                    self.drafts.insert(no, draft);
                }
                // The page was as it was before the transaction.
                Some(_) => {
                    self.drafts.remove(&no);
                    self.take_back(no)?;
                }
                None => {
                    self.drafts.remove(&no);
                    // A page that was in the file is there as it was: a freed one is not used again
                    // while a savepoint is open.
                    match (page.was_spilled, page.is_fresh) {
                        (true, _) => {}
                        // Nobody reaches it any more.
                        (false, true) => drop(self.spilled.remove(&no)),
                        (false, false) => self.take_back(no)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// A page that was written since has a directory of this version that says too much. It loses
    /// it, and the commit block says that it must not be there.
    fn take_back(&mut self, no: PageNo) -> Result<()> {
        if !self.spilled.contains_key(&no) || self.raw.contains_key(&no) {
            return Ok(());
        }
        let mut page = self.store.read_raw(no)?;
        let is_own = |slot: &Slot| slot.version == self.version;
        let own: Vec<usize> = (0..2)
            .filter(|&index| Slot::read(&page, index, self.store.uuid).as_ref().is_some_and(is_own))
            .collect();
        own.into_iter().for_each(|index| slot::clear(&mut page, index));
        *self.spilled_read.get_mut() = None;
        self.store.write_pages(&[(no, page)].into())?;
        // A reader may have brought it into memory.
        self.store.forget(no);
        self.spilled.insert(no, Expected::Without);
        Ok(())
    }
}
