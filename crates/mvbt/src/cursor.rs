//! A place in a tree. It has the pages of its way at hand (`near.rs`). After a change of its tree a
//! cursor says so, and has to seek again, or to be restored (`restore.rs`).

use crate::near::{Beside, Near};
use crate::page::image::View;
use crate::payload::{self, Walk};
use crate::restore::{Key, Restored};
use crate::search::{self, AHEAD_MAX, PageRef, Probe, Source, Step, TreeRef};
use crate::{Error, PageNo, Result};

/// After so many leaves a cursor is taken for one that scans.
const SCANS_FROM: usize = 2;

/// A place in a tree: on a cell, or on none. Each call gets the source for which it was made.
pub struct Cursor {
    tree: TreeRef,
    path: Vec<Step>,
    /// False: before the first cell, behind the last one, or nowhere yet.
    is_on_cell: bool,
    /// Of the tree in the source, when the cursor was placed.
    changes: u64,
    /// What `save` has kept, until the cursor moves.
    pub(crate) saved: Option<Key>,
    /// On its own cell, or beside it since it was restored.
    pub(crate) stands: Restored,
    /// The overflow pages of the cell's payload, as far as they were read.
    walk: Walk,
    /// So many leaves it has gone forward since then, and back if this is negative.
    leaves: i64,
    /// So many can be there.
    leaves_max: u64,
    /// None: nothing is at hand.
    near: Option<Box<Near>>,
}

/// A cell at or behind a cursor, in its leaf.
#[derive(Clone, Copy, Debug)]
pub struct CellAhead<'a> {
    /// In a record tree it is 0.
    pub key: i64,
    /// Of the payload or record, in bytes.
    pub length: u64,
    /// Those of its bytes that stand in the leaf.
    pub local: &'a [u8],
    /// So many bytes of the page stand behind them.
    pub behind: usize,
    /// The cursor keeps the leaf until it is moved, so the bytes stay where they are until then.
    /// False: the transaction has made the page, and may change it.
    pub is_held: bool,
}

impl Cursor {
    pub(crate) fn new(source: &dyn Source, tree: TreeRef) -> Cursor {
        Cursor {
            tree,
            path: Vec::new(),
            is_on_cell: false,
            changes: source.changes(tree.id),
            saved: None,
            stands: Restored::Same,
            walk: Walk::default(),
            leaves: 0,
            leaves_max: 0,
            near: None,
        }
    }

    /// Runs a move with the pages that are at hand.
    fn beside<T>(
        &mut self,
        source: &dyn Source,
        go: impl FnOnce(&mut Cursor, &dyn Source) -> Result<T>,
    ) -> Result<T> {
        let mut near = self.near.take().unwrap_or_default();
        let done = go(self, &Beside::new(source, &mut near));
        self.near = Some(near);
        done
    }

    /// The tree, with the root that it had when the cursor was placed.
    pub fn tree(&self) -> &TreeRef {
        &self.tree
    }

    /// False: before the first cell, behind the last one, or nowhere yet.
    pub fn is_on_cell(&self) -> bool {
        self.is_on_cell
    }

    /// Goes to the first cell that is not less. True: it is what is sought.
    pub fn seek(&mut self, source: &dyn Source, probe: Probe<'_>) -> Result<bool> {
        self.leave(source)?;
        self.beside(source, |cursor, source| {
            let is_found = search::descend(source, &cursor.tree, probe, &mut cursor.path)?;
            cursor.settle_forward(source)?;
            Ok(is_found)
        })
    }

    /// To the first cell, if there is one.
    pub fn first(&mut self, source: &dyn Source) -> Result<()> {
        self.seek(source, Probe::First).map(drop)
    }

    /// To the last cell, if there is one.
    pub fn last(&mut self, source: &dyn Source) -> Result<()> {
        self.leave(source)?;
        self.beside(source, |cursor, source| {
            search::descend(source, &cursor.tree, Probe::Last, &mut cursor.path)
        })?;
        self.is_on_cell = true;
        self.previous(source)
    }

    /// From now on the cursor stands on no cell of the tree as it is now.
    fn leave(&mut self, source: &dyn Source) -> Result<()> {
        self.is_on_cell = false;
        self.leaves = 0;
        self.stay();
        if !self.is_current(source) {
            self.near = None;
            // Its root may have moved.
            self.tree = source.tree(&self.tree)?;
            self.changes = source.changes(self.tree.id);
        }
        Ok(())
    }

    /// Forgets what is true of the cell alone on which the cursor stands, or stood.
    fn stay(&mut self) {
        (self.saved, self.stands) = (None, Restored::Same);
        self.walk.clear();
    }

    /// To the next cell. Behind the last one the cursor stands on no cell.
    pub fn next(&mut self, source: &dyn Source) -> Result<()> {
        self.step(source)?;
        let is_there = self.stands == Restored::Next;
        self.stay();
        if is_there {
            return Ok(());
        }
        if let Some(step) = self.path.last_mut().filter(|_| self.is_on_cell) {
            step.index += 1;
            self.beside(source, Cursor::settle_forward)?;
        }
        Ok(())
    }

    /// The same so many times. `Misuse`: its leaf has not so many cells from this one on.
    pub fn advance(&mut self, source: &dyn Source, cells: usize) -> Result<()> {
        let Some(before) = cells.checked_sub(1) else { return Ok(()) };
        if self.stands == Restored::Next {
            self.next(source)?;
            return self.advance(source, before);
        }
        const FEW: Error = Error::Misuse { what: "the leaf has not so many cells" };
        let step = self.step(source)?.ok_or(FEW)?;
        let length = self.beside(source, |_, source| Ok(source.page(step.no)?.view()?.len()))?;
        match self.path.last_mut() {
            Some(last) if before < length.saturating_sub(step.index) => last.index += before,
            _ => return Err(FEW),
        }
        self.next(source)
    }

    /// To the cell before. Before the first one the cursor stands on no cell.
    pub fn previous(&mut self, source: &dyn Source) -> Result<()> {
        let is_there = self.step(source)?.is_none() || self.stands == Restored::Previous;
        self.stay();
        if is_there {
            return Ok(());
        }
        self.beside(source, Cursor::go_back)
    }

    /// The same up to so many times, and no further than into one leaf. Answers how often. 0: the
    /// cursor stands on no cell.
    pub fn retreat(&mut self, source: &dyn Source, most: usize) -> Result<usize> {
        if most == 0 {
            return Ok(0);
        }
        self.previous(source)?;
        match self.path.last_mut().filter(|_| self.is_on_cell) {
            Some(step) => {
                let more = step.index.min(most - 1);
                step.index -= more;
                Ok(1 + more)
            }
            None => Ok(0),
        }
    }

    fn go_back(&mut self, source: &dyn Source) -> Result<()> {
        self.is_on_cell = false;
        while let Some(step) = self.path.last_mut() {
            if step.index > 0 {
                step.index -= 1;
                return self.go_down(source, Probe::Last);
            }
            self.path.pop();
        }
        Ok(())
    }

    /// From behind the last cell of a leaf to the next leaf's first.
    fn settle_forward(&mut self, source: &dyn Source) -> Result<()> {
        self.is_on_cell = false;
        while let Some(step) = self.path.last_mut() {
            let page = source.page(step.no)?;
            let view = page.view()?;
            if step.index < view.len() {
                let is_leaf = view.height == 0;
                drop(page);
                self.is_on_cell = is_leaf;
                return if is_leaf { Ok(()) } else { self.go_down(source, Probe::First) };
            }
            self.path.pop();
            if let Some(above) = self.path.last_mut() {
                above.index += 1;
            }
        }
        Ok(())
    }

    /// From a cell of an inner page to the first or last cell of the leaves below it. The cell of a
    /// leaf is where it stays.
    fn go_down(&mut self, source: &dyn Source, probe: Probe<'_>) -> Result<()> {
        let step = *self.path.last().expect("there is a step");
        let (child, above) = {
            let page = source.page(step.no)?;
            let view = page.view()?;
            if view.height == 0 {
                self.is_on_cell = true;
                return Ok(());
            }
            let child = view.cell(step.index).child;
            self.read_ahead(source, &view, step.index, probe);
            (child, view.bound())
        };
        self.count_leaf(source, child, if matches!(probe, Probe::Last) { -1 } else { 1 })?;
        search::descend_from(source, &self.tree, child, above, probe, &mut self.path)?;
        let step = self.path.last_mut().expect("the way ends in a leaf");
        if let Probe::Last = probe {
            step.index = step.index.saturating_sub(1);
        }
        // A leaf is empty only as the root of an empty tree.
        self.is_on_cell = step.index < source.page(step.no)?.view()?.len();
        Ok(())
    }

    /// Who has gone over some leaves goes on, perhaps: the more, the more leaves are worth reading
    /// at once.
    fn read_ahead(&self, source: &dyn Source, view: &View<'_>, index: usize, probe: Probe<'_>) {
        let most = usize::try_from(self.leaves.unsigned_abs()).unwrap_or(usize::MAX);
        if most < SCANS_FROM {
            return;
        }
        let child = |index| view.cell(index).child;
        source.read_ahead(child(index), &|| {
            let most = (2 * most).min(AHEAD_MAX);
            match probe {
                Probe::Last => (0..index).rev().take(most).map(child).collect(),
                _ => (index + 1..view.len()).take(most).map(child).collect(),
            }
        });
    }

    /// A page that is reached by many ways would be passed as often: in a tree of height h whose
    /// pages are all so, more than 2^h times.
    fn count_leaf(&mut self, source: &dyn Source, child: PageNo, by: i64) -> Result<()> {
        self.leaves += by;
        if self.leaves.unsigned_abs() > self.leaves_max {
            self.leaves_max = source.pages()?;
            if self.leaves.unsigned_abs() > self.leaves_max {
                return Err(Error::ReachedTwice { page: child });
            }
        }
        Ok(())
    }

    /// True if the tree has not changed since the cursor was placed.
    pub(crate) fn is_current(&self, source: &dyn Source) -> bool {
        self.changes == source.changes(self.tree.id)
    }

    /// The leaf and the place in it, if the cursor stands on a cell.
    pub(crate) fn step(&self, source: &dyn Source) -> Result<Option<Step>> {
        if self.is_on_cell && !self.is_current(source) {
            return Err(Error::Misuse {
                what: "the tree has changed under the cursor; seek again, or restore it",
            });
        }
        Ok(self.path.last().copied().filter(|_| self.is_on_cell))
    }

    /// The way from the root to the cell.
    pub(crate) fn path(&self) -> &[Step] {
        &self.path
    }

    /// The leaf and the place in it.
    pub fn place(&self) -> Option<(PageNo, usize)> {
        self.path.last().filter(|_| self.is_on_cell).map(|step| (step.no, step.index))
    }

    /// None: the cursor stands on no cell. In a record tree it is 0.
    pub fn integer_key(&self, source: &dyn Source) -> Result<Option<i64>> {
        let Some(step) = self.step(source)? else { return Ok(None) };
        Ok(Some(source.page(step.no)?.view()?.integer_key(step.index)))
    }

    /// In bytes. None: the cursor stands on no cell.
    pub fn payload_length(&self, source: &dyn Source) -> Result<Option<u64>> {
        let Some(step) = self.step(source)? else { return Ok(None) };
        Ok(Some(source.page(step.no)?.view()?.cell(step.index).content.length))
    }

    /// All of the payload, or the record.
    pub fn payload(&self, source: &dyn Source) -> Result<Option<Vec<u8>>> {
        let Some(step) = self.step(source)? else { return Ok(None) };
        let page = source.page(step.no)?;
        let view = page.view()?;
        payload::read(source, view.cell(step.index).content).map(Some)
    }

    /// Calls with all of the payload, or with the record. It is copied only if it is long. None:
    /// the cursor stands on no cell.
    pub fn with_payload<R>(
        &self,
        source: &dyn Source,
        call: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let Some(step) = self.step(source)? else { return Ok(None) };
        let page = source.page(step.no)?;
        let view = page.view()?;
        search::with_content(source, view.cell(step.index).content, call).map(Some)
    }

    /// Calls with the key (0 in a record tree), the length of the payload or record, and those of
    /// its bytes that stand in the leaf. `None`: the cursor stands on no cell.
    pub fn with_cell<R>(
        &self,
        source: &dyn Source,
        call: impl FnOnce(i64, u64, &[u8]) -> R,
    ) -> Result<Option<R>> {
        let Some(step) = self.step(source)? else { return Ok(None) };
        let page = source.page(step.no)?;
        let view = page.view()?;
        let cell = view.cell(step.index);
        Ok(Some(call(cell.key, cell.content.length, cell.content.local)))
    }

    /// Calls with the cell on which the cursor stands, and with those behind it in its leaf, until
    /// an answer is false. The cursor stays. On no cell it calls with none.
    pub fn with_cells(
        &mut self,
        source: &dyn Source,
        mut call: impl FnMut(CellAhead<'_>) -> bool,
    ) -> Result<()> {
        let Some(step) = self.step(source)? else { return Ok(()) };
        self.beside(source, |_, source| {
            let page = source.page(step.no)?;
            let is_held = !matches!(page, PageRef::Draft(_));
            let view = page.view()?;
            for index in step.index..view.len() {
                let (key, content) = view.leaf_cell(index);
                let (length, local) = (content.length, content.local);
                let behind = view.bytes_behind(local);
                if !call(CellAhead { key, length, local, behind, is_held }) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Fills the buffer with the payload's bytes from `offset` on. The cursor notes the overflow
    /// pages that it has come by, so all parts in order cost one walk through them. `Misuse`: the
    /// part ends behind the payload, or the cursor stands on no cell.
    pub fn payload_part(
        &mut self,
        source: &dyn Source,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        let step =
            self.step(source)?.ok_or(Error::Misuse { what: "the cursor stands on no cell" })?;
        let page = source.page(step.no)?;
        let view = page.view()?;
        payload::read_part(source, view.cell(step.index).content, offset, buffer, &mut self.walk)
    }

    /// About how many cells the tree has, from those of the pages between root and cursor. On no
    /// cell: 0.
    pub fn estimate(&self, source: &dyn Source) -> Result<u64> {
        if self.step(source)?.is_none() {
            return Ok(0);
        }
        self.path.iter().try_fold(1_u64, |cells, step| {
            Ok(cells.saturating_mul(source.page(step.no)?.view()?.len() as u64))
        })
    }
}
