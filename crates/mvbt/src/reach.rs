//! Which pages the versions of a history reach, and readers that have begun.
//!
//! Pages are shared by versions, so each is looked at once, however many ways lead to it. A page's
//! directory lists its dead cells with their ends. So one look at each page is enough for all
//! versions, if it is for the latest of them: what began later than the last version that comes
//! that way is nobody's. So pages for later versions are looked at first.

use std::collections::BinaryHeap;

use crate::page::overflow;
use crate::page::slot::Slot;
use crate::page::{cell, cell::Content};
use crate::store::Store;
use crate::work::{self, CATALOG_TREE};
use crate::{PageNo, Result, TreeId, Version};

pub struct Reach<'a> {
    store: &'a Store,
    horizon: Version,
    /// By page number less 1.
    is_reached: Vec<bool>,
    /// Pages of trees that are still to be looked at, for versions below one. The latest is next.
    next: BinaryHeap<(Version, PageNo, TreeId)>,
    faults: Vec<String>,
}

/// No more faults are told than this.
const FAULTS_MAX: usize = 100;

/// Pages that the horizon, or a later version, reaches, by number less 1; and what is wrong.
pub fn reach(store: &Store, horizon: Version, pages: u64) -> (Vec<bool>, Vec<String>) {
    let is_reached = vec![false; pages as usize];
    let mut reach =
        Reach { store, horizon, is_reached, next: BinaryHeap::new(), faults: Vec::new() };
    reach.next.push((Version::MAX, CATALOG_TREE.root, CATALOG_TREE.id));
    while let Some((until, no, tree)) = reach.next.pop() {
        if !reach.mark(no) {
            continue;
        }
        if let Err(error) = reach.page(no, tree, until) {
            reach.fault(format!("the history: {error}"));
        }
    }
    (reach.is_reached, reach.faults)
}

impl Reach<'_> {
    fn fault(&mut self, fault: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    /// True if the page was not reached before.
    fn mark(&mut self, no: PageNo) -> bool {
        let index = no.0.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.is_reached.get_mut(index)) {
            Some(is_reached) => !std::mem::replace(is_reached, true),
            None => {
                self.fault(format!("the history: page {no} is not one of the pages"));
                false
            }
        }
    }

    /// What versions below `until` see of a page.
    fn page(&mut self, no: PageNo, tree: TreeId, until: Version) -> Result<()> {
        let image = self.store.page(no)?;
        if image.tree != tree {
            self.fault(format!("the history: page {no} is not of tree {tree}"));
            return Ok(());
        }
        let (active, bytes) = (*image.active(), &image.bytes);
        let live = active.live_cells(bytes).map(|place| (place, active, Version::MAX));
        let dead = active.dead_cells(bytes).map(|dead| (dead.place, active, dead.end));
        let mut cells: Vec<(u16, Slot, Version)> = live.chain(dead).collect();
        // Versions below the active directory may take the other one, and see what lives in it.
        if let Some(fallback) = image.fallback() {
            let live = fallback.live_cells(bytes);
            cells.extend(live.map(|place| (place, *fallback, active.version)));
        }
        for (place, slot, end) in cells {
            let (shape, end) = (slot.shape(), end.min(until));
            let Some(cell) = cell::parse(bytes, usize::from(place), shape) else { continue };
            if end <= self.horizon || cell.start >= end {
                continue;
            }
            if shape.is_inner {
                self.next.push((end, cell.child, tree));
            }
            self.chain(cell.content)?;
            if tree == CATALOG_TREE.id
                && !shape.is_inner
                && let Some((id, root)) = work::root_in(cell.key, cell.content.local)
            {
                self.next.push((end, root, id));
            }
        }
        Ok(())
    }

    /// The pages of a long payload. Cells that were copied share them.
    fn chain(&mut self, content: Content<'_>) -> Result<()> {
        let mut next = content.overflow;
        while let Some(no) = next {
            if !self.mark(no) {
                break;
            }
            let bytes = self.store.read_raw(no)?;
            next = overflow::decode(&bytes, no, self.store.uuid)?.next;
        }
        Ok(())
    }
}
