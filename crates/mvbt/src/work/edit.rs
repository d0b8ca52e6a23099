//! Insert and delete.

use crate::check::Order;
use crate::cursor::Cursor;
use crate::page::cell;
use crate::restore::Restored;
use crate::search::{self, PageRef, Probe, Source, Step, TreeRef};
use crate::work::Work;
use crate::work::alloc::POOL_OF_SYSTEM;
use crate::work::catalog::FIRST_TREE;
use crate::work::put::{Change, ROOT_SPARE_BYTES, child_cell};
use crate::{Error, Result};

impl Work {
    /// Puts a payload at a key, or a record where `probe` finds its place. What was there before is
    /// replaced. True if something was.
    pub fn insert(
        &mut self,
        tree: &TreeRef,
        key: Option<i64>,
        probe: Probe<'_>,
        payload: &[u8],
    ) -> Result<bool> {
        self.edit(tree, |work| {
            let stored = work.store_content(tree, payload)?;
            let mut bytes = Vec::with_capacity(payload.len().min(work.store.page_bytes) + 24);
            cell::encode(&mut bytes, work.version, None, key, stored.content());
            let mut path = Vec::new();
            let is_there = search::descend(work, tree, probe, &mut path)?;
            let step = *path.last().expect("a tree has a leaf");
            if is_there {
                work.free_content(step.no, step.index)?;
            }
            let to = step.index + usize::from(is_there);
            work.put(
                tree,
                &path,
                Change { from: step.index, to, is_inner: false, cells: vec![bytes] },
            )?;
            Ok(is_there)
        })
    }

    /// True if there was one.
    pub fn delete(&mut self, tree: &TreeRef, probe: Probe<'_>) -> Result<bool> {
        let delete = |work: &mut Self| {
            let mut path = Vec::new();
            if !search::descend(work, tree, probe, &mut path)? {
                return Ok(false);
            }
            let step = *path.last().expect("a tree has a leaf");
            work.free_content(step.no, step.index)?;
            work.take_out(tree, &path)?;
            Ok(true)
        };
        self.freeing(|work| work.edit(tree, delete))
    }

    /// Deletes the cell on which a saved cursor stands.
    pub fn delete_at(&mut self, cursor: &mut Cursor, order: Option<Order<'_>>) -> Result<()> {
        let tree = self.tree(cursor.tree().id)?;
        let delete = |work: &mut Self| {
            let step = work.step_of(cursor, order)?;
            work.free_content(step.no, step.index)?;
            work.take_out(&tree, cursor.path())
        };
        self.freeing(|work| work.edit(&tree, delete))
    }

    /// Puts a payload in the place of the one on which a saved cursor of an integer tree stands.
    pub fn replace_at(&mut self, cursor: &mut Cursor, payload: &[u8]) -> Result<()> {
        let tree = self.tree(cursor.tree().id)?;
        self.edit(&tree, |work| {
            let Step { no, index } = work.step_of(cursor, None)?;
            let key = cursor.integer_key(work)?;
            let stored = work.store_content(&tree, payload)?;
            let mut bytes = Vec::with_capacity(payload.len().min(work.store.page_bytes) + 24);
            cell::encode(&mut bytes, work.version, None, key, stored.content());
            work.free_content(no, index)?;
            let cells = vec![bytes];
            let change = Change { from: index, to: index + 1, is_inner: false, cells };
            work.put(&tree, cursor.path(), change)
        })
    }

    /// Where the cursor stands. To begin a change may have changed the root: then it looks again.
    fn step_of(&self, cursor: &mut Cursor, order: Option<Order<'_>>) -> Result<Step> {
        let step = match cursor.restore(self, order)? {
            Restored::Same => cursor.step(self)?,
            _ => None,
        };
        step.ok_or(Error::Misuse { what: "the cursor stands on no cell, or its cell is gone" })
    }

    /// A change of one tree. For the catalog, and for the tree of free pages, the pool is filled
    /// before it begins: filling changes the same trees.
    fn edit<R>(
        &mut self,
        tree: &TreeRef,
        change: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let is_of_system = tree.id < FIRST_TREE;
        if is_of_system && self.edits_of_system == 0 {
            // On a full disk what the reserve has may be enough.
            if let Err(error) = self.fill(POOL_OF_SYSTEM)
                && !(self.is_freeing && error.is_full_disk())
            {
                return Err(error);
            }
        }
        self.edits_of_system += u32::from(is_of_system);
        let changed = self.settle_root(tree).and_then(|()| change(self));
        let changed = changed.and_then(|changed| self.spill_if_large().map(|()| changed));
        self.edits_of_system -= u32::from(is_of_system);
        changed
    }

    /// Takes the cell at the end of the path out. A page that becomes empty goes.
    fn take_out(&mut self, tree: &TreeRef, path: &[Step]) -> Result<()> {
        let Some((step, above)) = path.split_last() else { return Ok(()) };
        let (length, height) = {
            let page: PageRef<'_> = self.page(step.no)?;
            let view = page.view()?;
            (view.len(), view.height)
        };
        if length == 1 && !above.is_empty() {
            self.free_page(step.no)?;
            return self.take_out_child(tree, above);
        }
        if length == 1 && height > 0 {
            // The last child of a root.
            return self.reset_root(tree);
        }
        let change = Change {
            from: step.index,
            to: step.index + 1,
            is_inner: height > 0,
            cells: Vec::new(),
        };
        self.put(tree, path, change)
    }

    fn take_out_child(&mut self, tree: &TreeRef, path: &[Step]) -> Result<()> {
        let step = *path.last().expect("a child has a parent");
        // The key of a page's first cell says nothing: it is free since it became the first.
        let loses_its_key = match step.index {
            0 => (self.draft(step.no)?.len() > 1).then_some(1),
            index => Some(index),
        };
        if let Some(index) = loses_its_key {
            self.free_content(step.no, index)?;
        }
        self.take_out(tree, path)
    }

    /// Empties a root, whose cells have gone.
    pub(super) fn reset_root(&mut self, tree: &TreeRef) -> Result<()> {
        let draft = self.draft(tree.root)?;
        if !draft.serves_older() {
            draft.become_empty(0);
            return Ok(());
        }
        // Older readers keep what is there, so the root stays what it is, or another one is taken.
        let length = draft.len();
        if draft.height() == 0 && draft.remove(0, length, 0) {
            return Ok(());
        }
        let leaf = self.fresh_draft(tree, 0)?;
        let cell = child_cell(self.version, leaf, tree.is_record, None);
        let draft = self.draft(tree.root)?;
        if draft.height() > 0 && draft.replace(0, length, &cell, 0) {
            return Ok(());
        }
        self.take_other_root(tree, leaf)
    }

    /// A root with one child takes over the child's cells, if they fit.
    pub(super) fn lower_root(&mut self, tree: &TreeRef) -> Result<()> {
        loop {
            let root = self.draft(tree.root)?;
            if root.height() == 0 || root.len() != 1 {
                return Ok(());
            }
            let (child, serves_older) = (root.cell(0).child, root.serves_older());
            let (height, cells) = {
                let page = self.page(child)?;
                let view = page.view()?;
                // The root is no fresh page: older readers must not see these cells in it.
                let moved = |index| cell::begun_at(self.version, view.cell(index).bytes);
                (view.height, (0..view.len()).map(moved).collect::<Vec<_>>())
            };
            // What older readers need hangs below an inner page, so such a root stays one.
            if serves_older && height == 0 {
                return Ok(());
            }
            let root = self.draft(tree.root)?;
            let before = root.clone();
            if serves_older {
                root.lower(height);
            } else {
                root.become_empty(height);
            }
            let spare = ROOT_SPARE_BYTES.min(root.room() / 4);
            let mut row = cells.iter().enumerate();
            let fits = row.all(|(index, cell)| root.insert(index, cell, spare));
            if !fits {
                *root = before;
                return Ok(());
            }
            self.free_page(child)?;
        }
    }

    pub(super) fn has_key(&self, tree: &TreeRef, key: i64) -> Result<bool> {
        search::descend(self, tree, Probe::Integer(key), &mut Vec::new())
    }
}
