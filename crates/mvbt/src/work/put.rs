//! Putting cells into a page, and splitting it if they do not fit.
//!
//! A page that has no room is split *lazily* (paper, Algorithm 1): the cells of its lower part stay
//! where they are, and those of its upper part go to one fresh page. The parent gets one cell.
//! Three pages are dirty, or two if the new cell is the tree's last: then the page stays as it is.
//! If the lower part does not fit either, for want of free bytes, all cells move to fresh pages,
//! and the page is left to older readers.

use std::sync::atomic::Ordering::Relaxed;

use crate::page::cell::{self, Content, Shape};
use crate::page::slot::LIVE_BYTES;
use crate::search::{Step, TreeRef};
use crate::work::Work;
use crate::{Error, PageNo, Result, Version};

/// What a root keeps free, so that it can become an inner page in place: two children of an integer
/// tree, two dead cells for what older readers need, and the directory.
pub const ROOT_SPARE_BYTES: usize = 112;

/// New cells in place of the cells `from..to` of a page.
pub struct Change {
    pub from: usize,
    pub to: usize,
    /// It is meant for an inner page.
    pub is_inner: bool,
    pub cells: Vec<Vec<u8>>,
}

/// All cells of a page as they are to be, in order, and which of them a change has brought.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub change: &'a Change,
    pub all: &'a [Vec<u8>],
    pub first_new: usize,
    pub behind_new: usize,
}

/// A child's cell that the parent gets.
struct Child {
    no: PageNo,
    is_leaf: bool,
    /// The least key, as the bytes behind the child in its cell. None: the one that its place has.
    key: Option<Vec<u8>>,
}

impl Work {
    /// Changes the page at the end of the path, and what stands above it as far as needed.
    pub(super) fn put(&mut self, tree: &TreeRef, path: &[Step], change: Change) -> Result<()> {
        let Some((step, above)) = path.split_last() else { return Ok(()) };
        let is_inner = change.is_inner;
        let draft = self.draft(step.no)?;
        let is_meant = draft.tree == tree.id
            && draft.shape() == Shape { is_record: tree.is_record, is_inner }
            && change.to <= draft.len();
        if !is_meant {
            return Err(Error::Damaged { page: step.no, what: "it has two places in its tree" });
        }
        if self.fits_in_place(step.no, above.is_empty(), &change)? {
            return if is_inner && above.is_empty() { self.lower_root(tree) } else { Ok(()) };
        }
        self.split(tree, step.no, above, change)
    }

    fn fits_in_place(&mut self, no: PageNo, is_root: bool, change: &Change) -> Result<bool> {
        let reserved = self.options.reserved_cells;
        let draft = self.draft(no)?;
        let least = if is_root { ROOT_SPARE_BYTES.min(draft.room() / 4) } else { 0 };
        match &change.cells[..] {
            [] => Ok(draft.remove(change.from, change.to, least)),
            [cell] => {
                // A page that was split lazily may use the room that is kept for this: the cells of
                // its other half are still there. A fresh page has not kept them.
                let is_crowded = draft.is_lazy && draft.keeps_older();
                let grows = change.from == change.to && !is_crowded;
                let spare = if grows { least.max(reserved * cell.len()) } else { least };
                Ok(draft.replace(change.from, change.to, cell, spare))
            }
            cells => {
                let before = draft.clone();
                let (first, rest) = cells.split_first().expect("there are two");
                let mut fits = draft.replace(change.from, change.to, first, least);
                for (index, cell) in rest.iter().enumerate() {
                    fits = fits && draft.insert(change.from + 1 + index, cell, least);
                }
                if !fits {
                    *draft = before;
                }
                Ok(fits)
            }
        }
    }

    fn split(&mut self, tree: &TreeRef, no: PageNo, above: &[Step], change: Change) -> Result<()> {
        self.store.counters.splits.fetch_add(1, Relaxed);
        let draft = self.draft(no)?;
        let (height, capacity) = (draft.height(), draft.room());
        let is_append = change.from == draft.len() && change.cells.len() == 1;
        let old = |range: std::ops::Range<usize>| {
            range.map(|index| draft.cell(index).bytes.to_vec()).collect::<Vec<_>>()
        };
        let mut all = old(0..change.from);
        let first_new = all.len();
        all.extend(change.cells.iter().cloned());
        let behind_new = all.len();
        all.extend(old(change.to..draft.len()));
        if above.is_empty() {
            return self.split_root(tree, no, height, all);
        }
        if is_append && self.options.lazy_split && is_last(self, above)? {
            let fresh = self.fill_fresh(tree, height, &all[first_new..])?;
            self.leave_alone(no);
            return self.tell_parent(tree, above, None, vec![fresh]);
        }
        if self.options.redistribution && height == 0 {
            let row = Row { change: &change, all: &all, first_new, behind_new };
            if self.share_with_sibling(tree, no, above, &row)? {
                return Ok(());
            }
        }
        let parts = partition(&all, capacity, self.options.reserved_cells);
        if self.options.lazy_split && parts.len() == 2 {
            let middle = parts[0].end;
            let row = Row { change: &change, all: &all, first_new, behind_new };
            if self.stays_lazily(no, &row, middle)? {
                let fresh = self.fill_fresh(tree, height, &all[middle..])?;
                return self.tell_parent(tree, above, None, vec![fresh]);
            }
        }
        let mut children = Vec::new();
        for part in parts {
            children.push(self.fill_fresh(tree, height, &all[part])?);
        }
        self.retire(no)?;
        self.tell_parent(tree, above, Some(no), children)
    }

    /// Keeps the cells up to `middle` of the new row in the page, if they fit.
    pub(super) fn stays_lazily(
        &mut self,
        no: PageNo,
        row: &Row<'_>,
        middle: usize,
    ) -> Result<bool> {
        let Row { change, all, first_new, behind_new } = *row;
        let draft = self.draft(no)?;
        let before = draft.clone();
        let length = draft.len();
        let fits = if middle <= first_new {
            draft.remove(middle, length, 0)
        } else {
            let new = &all[first_new..middle.min(behind_new)];
            let kept_behind = middle.saturating_sub(behind_new);
            let mut fits = draft.remove(change.to + kept_behind, length, 0);
            match new.split_first() {
                Some((first, rest)) => {
                    fits = fits && draft.replace(change.from, change.to, first, 0);
                    for (index, cell) in rest.iter().enumerate() {
                        fits = fits && draft.insert(change.from + 1 + index, cell, 0);
                    }
                }
                None => fits = fits && draft.remove(change.from, change.to, 0),
            }
            fits
        };
        if fits {
            draft.is_lazy = true;
        } else {
            *draft = before;
        }
        Ok(fits)
    }

    /// A draft that was opened for a change that went elsewhere.
    pub(super) fn leave_alone(&mut self, no: PageNo) {
        let is_unchanged = self.drafts.get(&no).is_some_and(|draft| !draft.is_changed());
        if is_unchanged {
            self.drafts.remove(&no);
        }
    }

    /// The page goes to older readers. The classic split marks it dead, so it is dirty too.
    fn retire(&mut self, no: PageNo) -> Result<()> {
        if !self.options.lazy_split && !self.fresh.contains(&no) {
            let draft = self.draft(no)?;
            if draft.remove(0, draft.len(), 0) {
                self.note_pool();
                return self.pool.free_later(no);
            }
        }
        self.free_page(no)
    }

    /// A fresh page with these cells, and its least key.
    fn fill_fresh(&mut self, tree: &TreeRef, height: u8, cells: &[Vec<u8>]) -> Result<Child> {
        let no = self.fresh_draft(tree, height)?;
        self.put_all(no, cells);
        let key = match cells.is_empty() {
            true => None,
            false => Some(self.separator(no, tree)?),
        };
        Ok(Child { no, is_leaf: height == 0, key })
    }

    /// Root and children: the root keeps its number if the children's cells fit in it.
    fn split_root(
        &mut self,
        tree: &TreeRef,
        no: PageNo,
        height: u8,
        all: Vec<Vec<u8>>,
    ) -> Result<()> {
        let capacity = self.draft(no)?.room();
        let height_above = super::above(no, height)?;
        let parts = partition(&all, capacity, self.options.reserved_cells);
        let serves_older = self.draft(no)?.serves_older();
        if parts.len() == 1 && height > 0 && serves_older && !Work::is_fixed(tree) {
            // It is full of what older readers need. A tree gets no higher for that.
            let fresh = self.fresh_draft(tree, height)?;
            self.put_all(fresh, &all);
            return self.take_other_root(tree, fresh);
        }
        let mut children = Vec::new();
        for part in parts {
            children.push(self.fill_fresh(tree, height, &all[part])?);
        }
        if let Some(first) = children.first_mut().filter(|first| first.is_leaf) {
            // The first child's key says nothing, and nobody would free its pages.
            let own = first.key.take();
            self.drop_key(own, tree)?;
        }
        let cells: Vec<Vec<u8>> =
            children.iter().map(|child| self.cell_of(child, tree.is_record)).collect();
        let draft = self.draft(no)?;
        let before = draft.clone();
        let displaced = draft.become_empty(height_above);
        let fits = cells.iter().enumerate().all(|(index, cell)| draft.insert(index, cell, 0));
        if fits {
            return match displaced {
                Some(displaced) => self.displace(no, &displaced),
                None => Ok(()),
            };
        }
        *draft = before;
        let fresh = self.fresh_draft(tree, height_above)?;
        self.put_all(fresh, &cells);
        self.take_other_root(tree, fresh)
    }

    /// Puts cells that fit into a fresh page.
    fn put_all(&mut self, fresh: PageNo, cells: &[Vec<u8>]) {
        let draft = self.drafts.get_mut(&fresh).expect("it was made a moment ago");
        for (index, cell) in cells.iter().enumerate() {
            assert!(draft.insert(index, cell, 0), "the cells of a part fit in a page");
        }
    }

    /// The tree has another root from now on. The one before stays for older readers.
    pub(super) fn take_other_root(&mut self, tree: &TreeRef, root: PageNo) -> Result<()> {
        if Work::is_fixed(tree) {
            let what = "a root that never moves is full";
            return Err(Error::Damaged { page: tree.root, what });
        }
        self.retire(tree.root)?;
        self.move_root(tree, root)
    }

    /// Puts children into the parent: behind the child of the path, or in its place.
    fn tell_parent(
        &mut self,
        tree: &TreeRef,
        above: &[Step],
        replaced: Option<PageNo>,
        children: Vec<Child>,
    ) -> Result<()> {
        let Some(step) = above.last().copied() else { return Ok(()) };
        let mut cells = Vec::with_capacity(children.len());
        for (index, mut child) in children.into_iter().enumerate() {
            if replaced.is_some() && index == 0 {
                // The first one takes over the key of the page in whose place it is. Its own was
                // made for it if it is a leaf. In an inner page the first key says nothing.
                let own = child.key.take();
                if child.is_leaf {
                    self.drop_key(own, tree)?;
                }
                child.key = Some(self.key_bytes(step, tree)?);
            }
            cells.push(self.cell_of(&child, tree.is_record));
        }
        let (from, to) = match replaced {
            Some(_) => (step.index, step.index + 1),
            None => (step.index + 1, step.index + 1),
        };
        self.put(tree, above, Change { from, to, is_inner: true, cells })
    }

    /// What stands behind the child in a parent's cell.
    fn key_bytes(&mut self, step: Step, tree: &TreeRef) -> Result<Vec<u8>> {
        let draft = self.draft(step.no)?;
        if step.index >= draft.len() {
            return Err(Error::Damaged { page: step.no, what: "it has two places in its tree" });
        }
        let cell = draft.cell(step.index);
        let key = (!tree.is_record).then_some(cell.key);
        Ok(key_of_cell(key, cell.content))
    }

    fn cell_of(&self, child: &Child, is_record: bool) -> Vec<u8> {
        child_cell(self.version, child.no, is_record, child.key.as_deref())
    }

    /// The least key of a page, as bytes for its parent.
    pub(super) fn separator(&mut self, no: PageNo, tree: &TreeRef) -> Result<Vec<u8>> {
        let draft = self.draft(no)?;
        let cell = draft.cell(0);
        let is_leaf = draft.height() == 0;
        if !tree.is_record {
            Ok(key_of_cell(Some(cell.key), Content::EMPTY))
        } else if is_leaf {
            // A copy: the record of the leaf may go away before the key of its parent does.
            let content = self.content_of(no, 0)?;
            let copy = self.store_content(tree, &content)?;
            Ok(key_of_cell(None, copy.content()))
        } else {
            // In an inner page the first key says nothing from now on. It moves up.
            Ok(key_of_cell(None, cell.content))
        }
    }
}

/// Start and child stand before the key.
const CHILD_ENDS: usize = 12;

/// A cell of an inner page. Without a key it stands first, where the key says nothing.
pub fn child_cell(start: Version, child: PageNo, is_record: bool, key: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let integer = (!is_record).then_some(0);
    cell::encode(&mut bytes, start, Some(child), integer, Content::EMPTY);
    if let Some(key) = key {
        bytes.truncate(CHILD_ENDS);
        bytes.extend_from_slice(key);
    }
    bytes
}

/// A key as the bytes behind the child in a parent's cell: an integer, or a record.
pub fn key_of_cell(key: Option<i64>, content: Content<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    cell::encode(&mut bytes, Version(0), Some(PageNo(1)), key, content);
    bytes.split_off(CHILD_ENDS)
}

/// True if each step of the path has taken the last child.
fn is_last(work: &mut Work, above: &[Step]) -> Result<bool> {
    for step in above {
        use crate::search::Source;
        if step.index + 1 != work.page(step.no)?.view()?.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Cuts cells into as few parts as fit in a page each, as equal in bytes as they can be.
fn partition(cells: &[Vec<u8>], capacity: usize, reserved: usize) -> Vec<std::ops::Range<usize>> {
    // Two directories, so that the next transaction can write one.
    let size = |cell: &Vec<u8>| cell.len() + 2 * LIVE_BYTES;
    let total: usize = cells.iter().map(size).sum();
    let largest = cells.iter().map(size).max().unwrap_or(0);
    let spare = (reserved * largest).min(capacity / 4);
    let mut count = total.div_ceil(capacity).max(1);
    if count == 1 && total + spare > capacity * 3 / 4 {
        count = 2;
    }
    loop {
        if let Some(parts) = cut(cells, size, count, total, capacity) {
            return parts;
        }
        count += 1;
    }
}

fn cut(
    cells: &[Vec<u8>],
    size: impl Fn(&Vec<u8>) -> usize,
    count: usize,
    total: usize,
    capacity: usize,
) -> Option<Vec<std::ops::Range<usize>>> {
    let mut parts = Vec::with_capacity(count);
    let (mut from, mut bytes, mut done) = (0, 0, 0);
    for (index, cell) in cells.iter().enumerate() {
        let next = size(cell);
        let goal = total * (parts.len() + 1) / count;
        let is_nearer = (done + next).abs_diff(goal) > done.abs_diff(goal);
        let is_full = bytes + next > capacity;
        if index > from && (is_full || is_nearer && parts.len() + 1 < count) {
            parts.push(from..index);
            (from, bytes) = (index, 0);
        }
        bytes += next;
        done += next;
        if bytes > capacity {
            return None;
        }
    }
    parts.push(from..cells.len());
    Some(parts)
}
