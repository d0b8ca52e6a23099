//! A place in a tree. It holds no page: each step reads what it needs. After a change by its
//! transaction a cursor says so, and has to seek again.

use crate::payload;
use crate::search::{self, Probe, Source, Step, TreeRef};
use crate::{Error, PageNo, Result};

pub struct Cursor {
    tree: TreeRef,
    path: Vec<Step>,
    /// False: before the first cell, behind the last one, or nowhere yet.
    is_on_cell: bool,
    /// Of the source, when the cursor was placed.
    changes: u64,
}

impl Cursor {
    pub fn new(tree: TreeRef) -> Cursor {
        Cursor { tree, path: Vec::new(), is_on_cell: false, changes: 0 }
    }

    pub fn tree(&self) -> &TreeRef {
        &self.tree
    }

    pub fn is_on_cell(&self) -> bool {
        self.is_on_cell
    }

    /// Goes to the first cell that is not less. True: it is what is sought.
    pub fn seek(&mut self, source: &dyn Source, probe: Probe<'_>) -> Result<bool> {
        self.is_on_cell = false;
        self.changes = source.changes();
        let is_found = search::descend(source, &self.tree, probe, &mut self.path)?;
        self.settle_forward(source)?;
        Ok(is_found)
    }

    pub fn first(&mut self, source: &dyn Source) -> Result<()> {
        self.seek(source, Probe::First).map(drop)
    }

    pub fn last(&mut self, source: &dyn Source) -> Result<()> {
        self.is_on_cell = false;
        self.changes = source.changes();
        search::descend(source, &self.tree, Probe::Last, &mut self.path)?;
        self.is_on_cell = true;
        self.previous(source)
    }

    pub fn next(&mut self, source: &dyn Source) -> Result<()> {
        self.step(source)?;
        if let Some(step) = self.path.last_mut().filter(|_| self.is_on_cell) {
            step.index += 1;
            self.settle_forward(source)?;
        }
        Ok(())
    }

    pub fn previous(&mut self, source: &dyn Source) -> Result<()> {
        if self.step(source)?.is_none() {
            return Ok(());
        }
        while let Some(step) = self.path.last_mut() {
            if step.index > 0 {
                step.index -= 1;
                self.is_on_cell = false;
                self.go_down(source, Probe::Last)?;
                let step = *self.path.last().expect("the way ends in a leaf");
                self.is_on_cell = step.index < source.page(step.no)?.view()?.len();
                return Ok(());
            }
            self.path.pop();
        }
        self.is_on_cell = false;
        Ok(())
    }

    /// From behind the last cell of a leaf to the next leaf's first.
    fn settle_forward(&mut self, source: &dyn Source) -> Result<()> {
        self.is_on_cell = false;
        while let Some(step) = self.path.last_mut() {
            let page = source.page(step.no)?;
            let view = page.view()?;
            if step.index < view.len() {
                drop(page);
                self.go_down(source, Probe::First)?;
                // A leaf is empty only as the root of an empty tree.
                let step = *self.path.last().expect("the way ends in a leaf");
                self.is_on_cell = step.index < source.page(step.no)?.view()?.len();
                return Ok(());
            }
            self.path.pop();
            if let Some(above) = self.path.last_mut() {
                above.index += 1;
            }
        }
        Ok(())
    }

    /// From a cell of an inner page to the first or last cell of the leaves below it.
    fn go_down(&mut self, source: &dyn Source, probe: Probe<'_>) -> Result<()> {
        let step = *self.path.last().expect("there is a step");
        let (child, above) = {
            let page = source.page(step.no)?;
            let view = page.view()?;
            if view.height == 0 {
                return Ok(());
            }
            (view.cell(step.index).child, view.bound())
        };
        search::descend_from(source, &self.tree, child, above, probe, &mut self.path)?;
        if let (Probe::Last, Some(step)) = (probe, self.path.last_mut()) {
            step.index = step.index.saturating_sub(1);
        }
        Ok(())
    }

    fn step(&self, source: &dyn Source) -> Result<Option<Step>> {
        if self.is_on_cell && self.changes != source.changes() {
            return Err(Error::Misuse {
                what: "the tree has changed under the cursor; seek again",
            });
        }
        Ok(self.path.last().copied().filter(|_| self.is_on_cell))
    }

    /// The leaf and the place in it.
    pub fn place(&self) -> Option<(PageNo, usize)> {
        self.path.last().filter(|_| self.is_on_cell).map(|step| (step.no, step.index))
    }

    pub fn integer_key(&self, source: &dyn Source) -> Result<Option<i64>> {
        let Some(step) = self.step(source)? else { return Ok(None) };
        Ok(Some(source.page(step.no)?.view()?.integer_key(step.index)))
    }

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

    pub fn payload_part(&self, source: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let step =
            self.step(source)?.ok_or(Error::Misuse { what: "the cursor stands on no cell" })?;
        let page = source.page(step.no)?;
        let view = page.view()?;
        payload::read_part(source, view.cell(step.index).content, offset, buffer)
    }
}
