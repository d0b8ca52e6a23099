//! Eager garbage collection, for comparison (paper, section 5.1): each transaction also writes the
//! pages that those before have left with dead cells.
//!
//! With lazy collection these cells go when their page is written anyway.

use std::collections::BTreeSet;

use crate::work::Work;
use crate::{PageNo, Result};

impl Work {
    /// Rids pages of cells that nobody needs. A page whose cells are needed stays for later.
    pub fn collect(&mut self, pages: BTreeSet<PageNo>) -> Result<()> {
        if !self.has_changes() {
            self.uncollected = pages;
            return Ok(());
        }
        self.note_uncollected();
        for no in pages {
            let is_freed = self.pool.freed_now().contains(&no) || self.fresh.contains(&no);
            if is_freed || self.drafts.contains_key(&no) || self.spilled.contains_key(&no) {
                continue;
            }
            let image = self.store.page(no)?;
            if self.horizon_of(image.tree).version < image.active().version {
                self.uncollected.insert(no);
            } else {
                self.draft(no)?.touch();
            }
        }
        Ok(())
    }

    /// Notes the pages in which this transaction has ended cells.
    pub(super) fn note_uncollected(&mut self) {
        if !self.options.lazy_collection {
            let drafts = self.drafts.values().filter(|draft| draft.has_ended());
            self.uncollected.extend(drafts.map(|draft| draft.no));
        }
    }
}
