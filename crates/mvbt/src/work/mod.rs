//! What a transaction changes: pages in memory, until they are written.
//!
//! | question | file |
//! |---|---|
//! | where fresh pages come from, and where freed ones go | `alloc.rs`, `pool.rs` |
//! | putting cells into a page, and splitting it | `put.rs` |
//! | sibling redistribution | `redistribute.rs` |
//! | what older readers need of a root that gets another height | `displace.rs` |
//! | insert and delete | `edit.rs` |
//! | the trees of the database, and its meta words | `catalog.rs` |
//! | long payloads | `long.rs` |
//! | what history is kept, and the times in it | `history.rs` |
//! | what a savepoint keeps | `savepoint.rs` |
//! | eager garbage collection | `collect.rs` |
//! | writing all of it | `commit.rs` |

mod alloc;
mod catalog;
mod collect;
mod commit;
mod displace;
mod edit;
mod history;
mod long;
mod pool;
mod put;
mod redistribute;
mod savepoint;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::history::Horizon;
use crate::mutant::{self, Mutant};
use crate::options::Options;
use crate::page::draft::{Displaced, Draft};
use crate::page::image::Image;
use crate::page::overflow;
use crate::ring::Expected;
use crate::search::{PageRef, Source, TreeRef};
use crate::store::Store;
use crate::sync::Mutex;
use crate::{Error, PageNo, Result, TreeId, Version};

pub use alloc::{Deposit, listed_pages};
pub use catalog::FREE_PAGES;
pub use catalog::{
    CATALOG, CATALOG_TREE, FIRST_TREE, FREE, FREE_TREE, MARKS, META_WORDS, RETAIN_KEY, entry,
    first_cells, meta, next_tree, page_count, root_in, tree, trees,
};
pub use commit::Written;
pub use pool::Pool;
pub use put::{ROOT_SPARE_BYTES, child_cell, key_of_cell};
use savepoint::Saved;

pub struct Work {
    pub store: Arc<Store>,
    pub options: Arc<Options>,
    pub version: Version,
    /// What readers may have.
    pub horizon: Horizon,
    /// The database keeps a history, or may do so after this transaction.
    may_have_marks: bool,
    drafts: FxHashMap<PageNo, Draft>,
    /// Overflow pages of this transaction, with their checksums.
    raw: FxHashMap<PageNo, (Box<[u8]>, u32)>,
    raw_bytes: usize,
    /// Pages that were written before the commit.
    spilled: BTreeMap<PageNo, Expected>,
    /// Such pages were there, even if all of them were given up since.
    has_spilled: bool,
    /// The one of them that was read last, since one was written.
    spilled_read: Mutex<Option<Arc<Image>>>,
    /// Pages that this transaction has taken. Nobody else can reach them.
    fresh: FxHashSet<PageNo>,
    pool: Pool,
    /// A directory of this transaction leads readers of older versions to a page of it.
    leads_to_fresh: bool,
    /// Pages with cells that have ended. Empty where they are collected lazily.
    uncollected: BTreeSet<PageNo>,
    /// Changes of the catalog or of the tree of free pages that are being made.
    edits_of_system: u32,
    /// The change that is made leaves less than was there.
    is_freeing: bool,
    trees: FxHashMap<TreeId, TreeRef>,
    savepoints: Vec<Saved>,
    /// How often each tree was changed, and how often something was taken back. So cursors notice.
    changes: FxHashMap<TreeId, u64>,
    rollbacks: u64,
}

impl Work {
    pub fn new(
        store: Arc<Store>,
        options: Arc<Options>,
        version: Version,
        horizon: Horizon,
        pool: Pool,
    ) -> Work {
        Work {
            store,
            options,
            version,
            horizon,
            may_have_marks: horizon.kept.is_some(),
            drafts: FxHashMap::default(),
            raw: FxHashMap::default(),
            raw_bytes: 0,
            spilled: BTreeMap::new(),
            has_spilled: false,
            spilled_read: Mutex::default(),
            fresh: FxHashSet::default(),
            pool,
            leads_to_fresh: false,
            uncollected: BTreeSet::new(),
            edits_of_system: 0,
            is_freeing: false,
            trees: FxHashMap::default(),
            savepoints: Vec::new(),
            changes: FxHashMap::default(),
            rollbacks: 0,
        }
    }

    /// The page, to be changed. What a savepoint needs of it is kept.
    fn draft(&mut self, no: PageNo) -> Result<&mut Draft> {
        self.draft_of(no, false)
    }

    /// `is_root`: readers may need what it was at another height.
    fn draft_of(&mut self, no: PageNo, is_root: bool) -> Result<&mut Draft> {
        if !self.drafts.contains_key(&no) {
            let is_spilled = self.spilled.contains_key(&no);
            let image = match is_spilled {
                // Its own directory counts for this transaction alone.
                true => self.spilled_image(no)?,
                false => self.store.page(no)?,
            };
            if image.active().overlaps(&image.bytes) {
                return Err(overlap(no));
            }
            let opened = Draft::open(&image, self.version, self.horizon_of(image.tree));
            if opened.displaced.is_some() && !is_root {
                return Err(Error::Damaged {
                    page: no,
                    what: "it is no root, and had other heights",
                });
            }
            if is_spilled {
                self.drafts.insert(no, opened.draft);
                self.note(no);
            } else {
                self.note(no);
                self.drafts.insert(no, opened.draft);
            }
            if let Some(displaced) = opened.displaced {
                self.raise(no, image.active().version, displaced.height)?;
                self.displace(no, &displaced)?;
            }
        } else {
            self.note(no);
        }
        self.note_change(self.drafts[&no].tree);
        Ok(self.drafts.get_mut(&no).expect("it was put there"))
    }

    fn note_change(&mut self, tree: TreeId) {
        *self.changes.entry(tree).or_default() += 1;
    }

    /// What readers may have of a tree (H6).
    fn horizon_of(&self, tree: TreeId) -> Horizon {
        let version = match tree {
            FREE => self.version.previous(),
            MARKS => self.horizon.read,
            _ => return self.horizon,
        };
        Horizon { version, kept: None, ..self.horizon }
    }

    fn spilled_image(&self, no: PageNo) -> Result<Arc<Image>> {
        let mut last = self.spilled_read.lock();
        if let Some(image) = last.as_ref().filter(|image| image.no == no) {
            return Ok(Arc::clone(image));
        }
        // This version is in no interval yet.
        let voids = self.store.voids.read();
        let image = Image::read(self.store.read_raw(no)?, no, self.store.uuid, &voids)?;
        Ok(Arc::clone(last.insert(Arc::new(image))))
    }

    fn fresh_draft(&mut self, tree: &TreeRef, height: u8) -> Result<PageNo> {
        let no = self.take_page()?;
        let bytes = self.store.page_bytes;
        let mut draft = Draft::fresh(bytes, no, tree.id, tree.is_record, height, self.version);
        if mutant::is(Mutant::FreshNotEmptied)
            && let Ok(image) = self.store.page(no)
            && (image.tree, image.active().is_record) == (tree.id, tree.is_record)
        {
            draft = Draft::open(&image, self.version, self.horizon).draft;
            draft.become_empty(height);
        }
        draft.was_written = self.spilled.contains_key(&no);
        self.note(no);
        self.drafts.insert(no, draft);
        Ok(no)
    }

    fn list_dead(&mut self, root: PageNo, cell: &[u8], end: Version) -> bool {
        self.drafts.get_mut(&root).expect("it is being changed").add_dead(cell, 0, end)
    }

    /// Called before a way down is looked for: opening a root whose height has changed may change
    /// it once more, for readers of before.
    fn settle_root(&mut self, tree: &TreeRef) -> Result<()> {
        if self.drafts.contains_key(&tree.root) || self.spilled.contains_key(&tree.root) {
            return Ok(());
        }
        let root = self.store.page(tree.root)?;
        let has_changed = root.fallback().is_some_and(|slot| slot.height != root.active().height);
        if has_changed && self.horizon_of(tree.id).version < root.active().version {
            self.draft_of(tree.root, true)?;
        }
        Ok(())
    }

    /// A root that was lowered, and has to hold what older readers need of it, gets its height
    /// back. Its cells move to a page below it. Readers since `began`, when it was lowered, get a
    /// copy.
    fn raise(&mut self, root: PageNo, began: Version, height: u8) -> Result<()> {
        let draft = self.drafts.get_mut(&root).expect("it is being changed");
        if draft.height() > height {
            return Ok(());
        }
        let tree = TreeRef { id: draft.tree, root, is_record: draft.shape().is_record };
        let own_height = draft.height();
        let cells: Vec<Vec<u8>> =
            (0..draft.len()).map(|index| draft.cell(index).bytes.to_vec()).collect();
        let own = draft.become_empty(above(root, height)?);
        self.hang_below(&tree, own_height, &cells)?;
        match own {
            Some(own) => self.displace(root, &Displaced { start: began, ..own }),
            None => Ok(()),
        }
    }

    /// Makes room in an inner root: its cells move to a page below it.
    fn hand_down(&mut self, root: PageNo, least: u8) -> Result<()> {
        let draft = self.drafts.get_mut(&root).expect("it is being changed");
        let tree = TreeRef { id: draft.tree, root, is_record: draft.shape().is_record };
        let own_height = draft.height();
        let cells = draft.hand_down(above(root, own_height.max(least))?);
        self.hang_below(&tree, own_height, &cells)
    }

    /// Puts cells into a fresh page, and that page into an empty root.
    fn hang_below(&mut self, tree: &TreeRef, height: u8, cells: &[Vec<u8>]) -> Result<()> {
        let child = self.fresh_draft(tree, height)?;
        let draft = self.drafts.get_mut(&child).expect("it was put there");
        let fits = cells.iter().enumerate().all(|(index, cell)| draft.insert(index, cell, 0));
        if !fits {
            return Err(Error::Damaged {
                page: tree.root,
                what: "it has more than fits in a page",
            });
        }
        let cell = child_cell(self.version, child, tree.is_record, None);
        let root = self.drafts.get_mut(&tree.root).expect("it is being changed");
        match root.insert(0, &cell, 0) {
            true => Ok(()),
            false => Err(Error::Damaged { page: tree.root, what: "an emptied root has no room" }),
        }
    }
}

fn overlap(no: PageNo) -> Error {
    Error::Damaged { page: no, what: "its cells overlap" }
}

/// The height of a page above one of this height.
fn above(no: PageNo, height: u8) -> Result<u8> {
    let damaged = Error::Damaged { page: no, what: "the tree is too high" };
    height.checked_add(1).ok_or(damaged)
}

impl Source for Work {
    fn changes(&self, tree: TreeId) -> u64 {
        self.rollbacks + self.changes.get(&tree).copied().unwrap_or(0)
    }

    fn tree(&self, of: &TreeRef) -> Result<TreeRef> {
        if Work::is_fixed(of) {
            return Ok(*of);
        }
        self.trees.get(&of.id).map_or_else(|| tree(self, of.id), |tree| Ok(*tree))
    }

    fn page(&self, no: PageNo) -> Result<PageRef<'_>> {
        if let Some(draft) = self.drafts.get(&no) {
            return Ok(PageRef::Draft(draft));
        }
        if self.spilled.contains_key(&no) {
            return Ok(PageRef::Newest(self.spilled_image(no)?));
        }
        Ok(PageRef::Newest(self.store.page(no)?))
    }

    /// Nobody else writes, and a cursor notices a change.
    fn hold_root(&self, _: PageNo) -> Result<()> {
        Ok(())
    }

    fn overflow(&self, no: PageNo) -> Result<(Vec<u8>, Option<PageNo>)> {
        let Some((bytes, _)) = self.raw.get(&no) else { return self.store.overflow(no) };
        let page = overflow::decode(bytes, no, self.store.uuid)?;
        Ok((page.payload.to_vec(), page.next))
    }

    fn pages(&self) -> Result<u64> {
        self.store.pages()
    }
}
