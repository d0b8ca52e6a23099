//! Sibling redistribution, for comparison (paper, section 5.3): a leaf that has no room gives cells
//! to the leaf beside it, as B-trees mostly do, before it is split.
//!
//! Three pages are dirty then: both leaves, and their parent, whose key between them is another.
//! Both are in place, so cells that move begin with this transaction: readers of before find them
//! where they were. The bytes of cells that leave are free in the next transaction alone. So the
//! leaf itself must have room for what it keeps, as in a lazy split.

use crate::page::cell;
use crate::page::draft::Draft;
use crate::page::slot::LIVE_BYTES;
use crate::search::{Source, Step, TreeRef};
use crate::work::Work;
use crate::work::put::{Change, Row, child_cell};
use crate::{PageNo, Result};

impl Work {
    /// False: no leaf beside it has room, and nothing is changed.
    pub(super) fn share_with_sibling(
        &mut self,
        tree: &TreeRef,
        no: PageNo,
        above: &[Step],
        row: &Row<'_>,
    ) -> Result<bool> {
        let Some(step) = above.last().copied() else { return Ok(false) };
        let (left, right) = {
            let page = self.page(step.no)?;
            let view = page.view()?;
            let child = |index: usize| (index < view.len()).then(|| view.cell(index).child);
            (step.index.checked_sub(1).and_then(child), child(step.index + 1))
        };
        if let Some(right) = right
            && self.gives(no, right, row, false)?
        {
            self.change_key(tree, above, step.index + 1, right)?;
            return Ok(true);
        }
        if let Some(left) = left
            && self.gives(no, left, row, true)?
        {
            self.change_key(tree, above, step.index, no)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Gives cells of a row to the leaf beside it, so that both have as many bytes.
    fn gives(&mut self, no: PageNo, sibling: PageNo, row: &Row<'_>, to_left: bool) -> Result<bool> {
        let shape = self.draft(no)?.shape();
        let taker = self.draft(sibling)?;
        if sibling == no || taker.shape() != shape {
            return Ok(false);
        }
        let Some(middle) = cut(row.all, self.draft(sibling)?.live_bytes(), to_left) else {
            self.leave_alone(sibling);
            return Ok(false);
        };
        let (kept, moved) = match to_left {
            true => (middle..row.all.len(), &row.all[..middle]),
            false => (0..middle, &row.all[middle..]),
        };
        let before = self.draft(no)?.clone();
        let stays = match to_left {
            true => keep_upper(self.draft(no)?, row, kept.start),
            false => self.stays_lazily(no, row, kept.end)?,
        };
        let version = self.version;
        let taker = self.draft(sibling)?;
        let takers_state = taker.clone();
        let at = if to_left { taker.len() } else { 0 };
        let takes = |taker: &mut Draft| {
            let mut cells = moved.iter().map(|cell| cell::begun_at(version, cell)).enumerate();
            cells.all(|(index, cell)| taker.insert(at + index, &cell, 0))
        };
        if stays && takes(taker) {
            return Ok(true);
        }
        *taker = takers_state;
        *self.draft(no)? = before;
        self.leave_alone(sibling);
        Ok(false)
    }

    /// The parent's key of a child is another from now on: its least one.
    fn change_key(
        &mut self,
        tree: &TreeRef,
        above: &[Step],
        index: usize,
        child: PageNo,
    ) -> Result<()> {
        let step = *above.last().expect("a leaf beside another has a parent");
        let key = self.separator(child, tree)?;
        self.free_content(step.no, index)?;
        let cell = child_cell(self.version, child, tree.is_record, Some(&key));
        let change = Change { from: index, to: index + 1, is_inner: true, cells: vec![cell] };
        self.put(tree, above, change)
    }
}

/// Where a row is cut so that the leaf beside it, which has so many bytes, gets half of what it has
/// less. None: it would get nothing, or all.
fn cut(all: &[Vec<u8>], sibling_bytes: usize, to_left: bool) -> Option<usize> {
    let size = |cell: &Vec<u8>| cell.len() + LIVE_BYTES;
    let total: usize = all.iter().map(size).sum();
    let mut surplus = total.checked_sub(sibling_bytes)? / 2;
    let mut fits = |cell: &&Vec<u8>| match surplus.checked_sub(size(cell)) {
        Some(left) => {
            surplus = left;
            true
        }
        None => false,
    };
    let count = match to_left {
        true => all.iter().take_while(&mut fits).count(),
        false => all.iter().rev().take_while(&mut fits).count(),
    };
    let is_part = count > 0 && count < all.len();
    is_part.then_some(if to_left { count } else { all.len() - count })
}

/// Keeps the cells from `middle` of the new row on in the page, if they fit. It may be changed if
/// they do not.
fn keep_upper(draft: &mut Draft, row: &Row<'_>, middle: usize) -> bool {
    let Row { change, first_new, behind_new, .. } = *row;
    let fits = if middle > first_new {
        draft.remove(0, change.to + middle - behind_new, 0)
    } else {
        let fits = match change.cells.first() {
            Some(cell) => draft.replace(change.from, change.to, cell, 0),
            None => draft.remove(change.from, change.to, 0),
        };
        fits && draft.remove(0, middle, 0)
    };
    draft.is_lazy |= fits;
    fits
}
