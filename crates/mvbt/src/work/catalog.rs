//! The catalog: an integer tree that never moves. It is versioned like every other tree.
//!
//! | key | payload |
//! |---|---|
//! | −4 | what history is kept, and the root of its marks (21); absent: none |
//! | −3 | number of the next tree (4) |
//! | −2 | the meta words, four bytes each |
//! | −1 | number of pages (8) |
//! | a tree's number | page of the root (6), 1 for a record tree (1) |

use rustc_hash::FxHashSet;

use crate::backup::Rest;
use crate::bytes::{get_u32, get_u48, get_u64, push_u48};
use crate::history::ENTRY_BYTES;
use crate::page::cell::{self, Content};
use crate::search::{self, Probe, Source, TreeRef};
use crate::work::Work;
use crate::{Error, PageNo, Result, TreeId, Version, payload};

pub const CATALOG: PageNo = PageNo(1);
pub const CATALOG_TREE: TreeRef = TreeRef { id: TreeId(0), root: CATALOG, is_record: false };
pub const FREE: TreeId = TreeId(1);
pub const FREE_PAGES: PageNo = PageNo(2);
pub const FREE_TREE: TreeRef = TreeRef { id: FREE, root: FREE_PAGES, is_record: false };
pub const FIRST_TREE: TreeId = TreeId(2);
/// The tree of times. No other tree ever gets this number.
pub const MARKS: TreeId = TreeId(u32::MAX);
/// As many as SQLite has.
pub const META_WORDS: usize = 16;
pub const RETAIN_KEY: i64 = -4;
const NEXT_KEY: i64 = -3;
const META_KEY: i64 = -2;
const PAGES_KEY: i64 = -1;

/// What stands at a key of the catalog.
pub fn entry(source: &dyn Source, key: i64) -> Result<Option<Vec<u8>>> {
    let mut path = Vec::new();
    if !search::descend(source, &CATALOG_TREE, Probe::Integer(key), &mut path)? {
        return Ok(None);
    }
    let step = *path.last().expect("a tree has a leaf");
    let page = source.page(step.no)?;
    let view = page.view()?;
    payload::read(source, view.cell(step.index).content).map(Some)
}

/// The cells that the catalog of a new database has, in order.
pub fn first_cells(start: Version, pages: u64) -> [Vec<u8>; 2] {
    let cell = |key: i64, payload: &[u8]| {
        let content = Content { length: payload.len() as u64, local: payload, overflow: None };
        let mut cell = Vec::new();
        cell::encode(&mut cell, start, None, Some(key), content);
        cell
    };
    [cell(NEXT_KEY, &FIRST_TREE.0.to_le_bytes()), cell(PAGES_KEY, &pages.to_le_bytes())]
}

fn damaged(what: &'static str) -> Error {
    Error::Damaged { page: CATALOG, what }
}

pub fn tree(source: &dyn Source, id: TreeId) -> Result<TreeRef> {
    let fixed = [CATALOG_TREE, FREE_TREE].into_iter().find(|tree| tree.id == id);
    if let Some(tree) = fixed {
        return Ok(tree);
    }
    let entry = entry(source, i64::from(id.0))?.ok_or(Error::NoTree { tree: id })?;
    match entry.len() {
        7 => Ok(TreeRef { id, root: PageNo(get_u48(&entry, 0)), is_record: entry[6] != 0 }),
        _ => Err(damaged("an entry of the catalog has another length")),
    }
}

/// The tree that a cell of the catalog leads to, and its root.
pub fn root_in(key: i64, entry: &[u8]) -> Option<(TreeId, PageNo)> {
    match (u32::try_from(key), entry.len()) {
        (Ok(id), 7) => Some((TreeId(id), PageNo(get_u48(entry, 0)))),
        (Err(_), ENTRY_BYTES) if key == RETAIN_KEY => Some((MARKS, PageNo(get_u48(entry, 15)))),
        _ => None,
    }
}

pub fn meta(source: &dyn Source) -> Result<[u32; META_WORDS]> {
    match entry(source, META_KEY)? {
        None => Ok([0; META_WORDS]),
        Some(entry) if entry.len() == 4 * META_WORDS => {
            Ok(std::array::from_fn(|index| get_u32(&entry, 4 * index)))
        }
        Some(_) => Err(damaged("the meta words have another length")),
    }
}

pub fn page_count(source: &dyn Source) -> Result<u64> {
    match entry(source, PAGES_KEY)? {
        Some(entry) if entry.len() == 8 => Ok(get_u64(&entry, 0)),
        _ => Err(damaged("it has no number of pages")),
    }
}

pub fn next_tree(source: &dyn Source) -> Result<TreeId> {
    match entry(source, NEXT_KEY)? {
        Some(entry) if entry.len() == 4 => Ok(TreeId(get_u32(&entry, 0))),
        _ => Err(damaged("it has no number for the next tree")),
    }
}

/// The numbers of all trees but catalog and free pages.
pub fn trees(source: &dyn Source) -> Result<Vec<TreeId>> {
    let mut ids = Vec::new();
    let mut cursor = crate::cursor::Cursor::new(source, CATALOG_TREE);
    cursor.seek(source, Probe::Integer(i64::from(FIRST_TREE.0)))?;
    while let Some(key) = cursor.integer_key(source)? {
        ids.push(TreeId(
            u32::try_from(key).map_err(|_| damaged("a tree has an impossible number"))?,
        ));
        cursor.next(source)?;
    }
    Ok(ids)
}

impl Work {
    pub(super) fn put_entry(&mut self, key: i64, payload: &[u8]) -> Result<()> {
        self.insert(&CATALOG_TREE, Some(key), Probe::Integer(key), payload).map(drop)
    }

    pub(super) fn set_page_count(&mut self, pages: u64) -> Result<()> {
        self.put_entry(PAGES_KEY, &pages.to_le_bytes())
    }

    /// Trees whose pages are in the file already, and what goes with them.
    pub fn adopt(&mut self, rest: &Rest) -> Result<()> {
        self.put_entry(NEXT_KEY, &rest.next_tree.0.to_le_bytes())?;
        for (index, &word) in rest.meta.iter().enumerate().filter(|(_, word)| **word != 0) {
            self.set_meta(index, word)?;
        }
        rest.trees.iter().try_for_each(|tree| self.put_tree(*tree))
    }

    pub fn set_meta(&mut self, index: usize, value: u32) -> Result<()> {
        let mut words = meta(self)?;
        *words.get_mut(index).ok_or(Error::Misuse { what: "there are 16 meta words" })? = value;
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put_entry(META_KEY, &payload)
    }

    pub fn tree(&mut self, id: TreeId) -> Result<TreeRef> {
        if let Some(tree) = self.trees.get(&id) {
            return Ok(*tree);
        }
        let found = tree(self, id)?;
        self.trees.insert(id, found);
        Ok(found)
    }

    fn put_tree(&mut self, tree: TreeRef) -> Result<()> {
        self.note_trees();
        let mut payload = Vec::with_capacity(7);
        push_u48(&mut payload, tree.root.0);
        payload.push(u8::from(tree.is_record));
        self.put_entry(i64::from(tree.id.0), &payload)?;
        self.trees.insert(tree.id, tree);
        Ok(())
    }

    pub(super) fn move_root(&mut self, tree: &TreeRef, root: PageNo) -> Result<()> {
        self.put_tree(TreeRef { root, ..*tree })
    }

    pub fn create_tree(&mut self, is_record: bool) -> Result<TreeId> {
        let id = next_tree(self)?;
        if id < FIRST_TREE || entry(self, i64::from(id.0))?.is_some() {
            return Err(damaged("the next tree is there already"));
        }
        let mut tree = TreeRef { id, root: PageNo(0), is_record };
        let after = id.0.checked_add(1).ok_or(damaged("there are too many trees"))?;
        self.put_entry(NEXT_KEY, &after.to_le_bytes())?;
        tree.root = self.fresh_draft(&tree, 0)?;
        self.put_tree(tree)?;
        Ok(id)
    }

    /// Takes all cells out of a tree, and frees its pages but the root.
    pub fn clear_tree(&mut self, id: TreeId) -> Result<u64> {
        if id < FIRST_TREE {
            return Err(Error::Misuse { what: "catalog and free pages cannot be cleared" });
        }
        let tree = self.tree(id)?;
        self.settle_root(&tree)?;
        let count = self.free_below(&tree, tree.root, None, &mut FxHashSet::default())?;
        self.reset_root(&tree)?;
        Ok(count)
    }

    pub fn drop_tree(&mut self, id: TreeId) -> Result<()> {
        if id < FIRST_TREE {
            return Err(Error::Misuse { what: "catalog and free pages cannot be dropped" });
        }
        let tree = self.tree(id)?;
        self.free_below(&tree, tree.root, None, &mut FxHashSet::default())?;
        self.note_trees();
        self.note_change(id);
        self.delete(&CATALOG_TREE, Probe::Integer(i64::from(id.0)))?;
        self.trees.remove(&id);
        self.free_page(tree.root)
    }

    /// Frees all pages below one, and the long payloads in it. Answers how many cells the leaves
    /// had.
    pub(super) fn free_below(
        &mut self,
        tree: &TreeRef,
        no: PageNo,
        above: Option<u8>,
        reached: &mut FxHashSet<PageNo>,
    ) -> Result<u64> {
        if !reached.insert(no) {
            return Err(Error::ReachedTwice { page: no });
        }
        let (height, length, is_right) = {
            let page = self.page(no)?;
            let view = page.view()?;
            (view.height, view.len(), page.tree() == tree.id)
        };
        if !is_right || above.is_some_and(|above| height >= above) {
            return Err(Error::Damaged {
                page: no,
                what: "it is not the page that its parent means",
            });
        }
        let mut count = if height == 0 { length as u64 } else { 0 };
        for index in 0..length {
            if height == 0 || index > 0 {
                self.free_content(no, index)?;
            }
            if height > 0 {
                let child = self.page(no)?.view()?.cell(index).child;
                count += self.free_below(tree, child, Some(height), reached)?;
                self.free_page(child)?;
            }
        }
        Ok(count)
    }
}
