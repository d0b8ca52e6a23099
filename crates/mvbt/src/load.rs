//! A new file that is filled with trees, each from its leaves to its root. Cells come in key order,
//! so nothing is compared, and pages are filled one after another.
//!
//! All pages are fresh ones of the first version. Nothing leads to them before the catalog does, so
//! a failure leaves a file that nobody takes for a database.

use std::collections::BTreeMap;

use crate::page::cell::{self, Cell, Content};
use crate::page::draft::Draft;
use crate::page::overflow::{self, OverflowPage};
use crate::page::slot::LIVE_BYTES;
use crate::search::{Source, TreeRef};
use crate::store::Store;
use crate::work::{FREE_PAGES, ROOT_SPARE_BYTES, child_cell, key_of_cell};
use crate::{Error, PageNo, Result, TreeId, Version, payload};

/// Of all pages that are loaded.
pub const FIRST: Version = Version(1);
/// So many pages are written at once.
const BATCH_PAGES: usize = 256;

pub struct Target {
    store: Store,
    /// The last page that has a number.
    last: PageNo,
    batch: BTreeMap<PageNo, Box<[u8]>>,
}

impl Target {
    pub fn new(store: Store) -> Target {
        Target { store, last: FREE_PAGES, batch: BTreeMap::new() }
    }

    /// Of the file, with the roots of catalog and free pages.
    pub fn pages(&self) -> u64 {
        self.last.0
    }

    fn put(&mut self, page: impl FnOnce(PageNo, &Store) -> Box<[u8]>) -> Result<PageNo> {
        self.last = PageNo(self.last.0 + 1);
        let page = page(self.last, &self.store);
        self.batch.insert(self.last, page);
        if self.batch.len() >= BATCH_PAGES {
            self.write_out()?;
        }
        Ok(self.last)
    }

    fn write_out(&mut self) -> Result<()> {
        self.store.grow(self.last.0)?;
        self.store.write_pages(&std::mem::take(&mut self.batch))
    }

    /// The file with all pages in it. They are not flushed.
    pub fn end(mut self) -> Result<Store> {
        self.write_out()?;
        Ok(self.store)
    }

    /// Copies the overflow pages of a content. Files of one page size cut it in the same way.
    fn copy<'a>(
        &mut self,
        source: &dyn Source,
        tree: TreeId,
        content: Content<'a>,
    ) -> Result<Content<'a>> {
        let Some(_) = content.overflow else { return Ok(content) };
        let overflow = Some(PageNo(self.last.0 + 1));
        let mut left = content.length - content.local.len() as u64;
        let mut copied = Ok(());
        payload::each(source, content, |_, part| {
            left -= part.len() as u64;
            let page = |no: PageNo, store: &Store| {
                let next = (left > 0).then_some(PageNo(no.0 + 1));
                let page = OverflowPage { version: FIRST, next, payload: part, checksum: 0 };
                overflow::encode(store.page_bytes, no, tree, store.uuid, &page).0
            };
            if copied.is_ok() {
                copied = self.put(page).map(drop);
            }
        })?;
        copied.map(|()| Content { overflow, ..content })
    }
}

/// A tree that is being loaded.
pub struct Loader {
    tree: TreeId,
    is_record: bool,
    /// From the leaves up, the page that is being filled.
    levels: Vec<Level>,
}

struct Level {
    draft: Draft,
    /// The least key, as the bytes behind the child in its parent's cell. None: the level's first
    /// page, whose key says nothing.
    least: Option<Vec<u8>>,
}

impl Loader {
    pub fn new(tree: &TreeRef) -> Loader {
        Loader { tree: tree.id, is_record: tree.is_record, levels: Vec::new() }
    }

    fn begin_page(&self, target: &Target, height: u8, least: Option<Vec<u8>>) -> Level {
        let (bytes, no) = (target.store.page_bytes, PageNo(0));
        let draft = Draft::fresh(bytes, no, self.tree, self.is_record, height, FIRST);
        Level { draft, least }
    }

    /// Adds a cell of a leaf behind all others.
    pub fn add(&mut self, target: &mut Target, source: &dyn Source, from: &Cell<'_>) -> Result<()> {
        let content = target.copy(source, self.tree, from.content)?;
        let key = (!self.is_record).then_some(from.key);
        let mut cell = Vec::new();
        cell::encode(&mut cell, FIRST, None, key, content);
        if self.levels.is_empty() {
            self.levels.push(self.begin_page(target, 0, None));
        }
        if !self.levels[0].takes(&cell) {
            // A parent has a copy of its own, as of each separator.
            let content = if self.is_record {
                target.copy(source, self.tree, from.content)?
            } else {
                Content::EMPTY
            };
            let least = key_of_cell(key, content);
            self.next_page(target, 0, Some(least), &cell)?;
        }
        Ok(())
    }

    /// Ends the page of a level. The next one begins with this cell.
    fn next_page(
        &mut self,
        target: &mut Target,
        level: usize,
        least: Option<Vec<u8>>,
        cell: &[u8],
    ) -> Result<()> {
        let mut next = self.begin_page(target, self.levels[level].draft.height(), least);
        if !next.takes(cell) {
            let (page, what) = (PageNo(0), "a cell does not fit in an empty page");
            return Err(Error::Damaged { page, what });
        }
        let full = std::mem::replace(&mut self.levels[level], next);
        self.tell_parent(target, level, full)
    }

    fn tell_parent(&mut self, target: &mut Target, level: usize, child: Level) -> Result<()> {
        let Level { draft, least } = child;
        let height = draft.height();
        let no = end_page(target, draft)?;
        let above = level + 1;
        if self.levels.len() == above {
            let height = height.checked_add(1);
            let height = height.ok_or(Error::Damaged { page: no, what: "the tree is too high" })?;
            self.levels.push(self.begin_page(target, height, None));
        }
        let is_first = self.levels[above].draft.len() == 0;
        let key = least.as_deref().filter(|_| !is_first);
        if self.levels[above].takes(&child_cell(FIRST, no, self.is_record, key)) {
            return Ok(());
        }
        // In the first cell the key says nothing. It moves up.
        let cell = child_cell(FIRST, no, self.is_record, None);
        self.next_page(target, above, least, &cell)
    }

    /// Writes what is left. Answers the root.
    pub fn end(mut self, target: &mut Target) -> Result<PageNo> {
        if self.levels.is_empty() {
            self.levels.push(self.begin_page(target, 0, None));
        }
        let mut level = 0;
        while level + 1 < self.levels.len() {
            let empty = self.begin_page(target, 0, None);
            let last = std::mem::replace(&mut self.levels[level], empty);
            self.tell_parent(target, level, last)?;
            level += 1;
        }
        let root = self.levels.pop().expect("there is a leaf at least");
        end_page(target, root.draft)
    }
}

fn end_page(target: &mut Target, mut draft: Draft) -> Result<PageNo> {
    target.put(|no, store| {
        draft.give_number(no);
        draft.finish(FIRST, false, store.uuid).expect("the page is fresh").0
    })
}

impl Level {
    /// Adds a cell, if the page is to have it: room is left for another directory, and for a root
    /// to become an inner page. An inner page has two children whatever they take.
    fn takes(&mut self, cell: &[u8]) -> bool {
        let (count, room) = (self.draft.len(), self.draft.room());
        let least = if self.draft.height() > 0 { 2 } else { 1 };
        let spare = ROOT_SPARE_BYTES.min(room / 4) + (count + 1) * LIVE_BYTES;
        self.draft.insert(count, cell, if count < least { 0 } else { spare })
    }
}
