//! What the bytes of a file say, for people who look at it. Nothing is recovered or written.

use std::path::PathBuf;
use std::sync::Arc;

use oneflush_blocklog::{Storage, Uuid};

pub use crate::anchor::{Anchor, MAGIC};
pub use crate::ring::{CommitBlock, Expected};

use crate::layout::{self, BLOCK_BYTES, RING_BLOCKS};
use crate::page::image::Image;
use crate::page::overflow;
use crate::page::slot::{self, Slot};
use crate::store::Store;
use crate::voids::Voids;
use crate::{Error, PageNo, Result, TreeId, Version, recovery};

/// A file that is looked at.
pub struct Inspection {
    store: Store,
    /// The anchor that counts.
    pub anchor: Anchor,
    /// Both anchors. None: it is not whole.
    pub anchors: [Option<Anchor>; 2],
    /// The places of the ring. None: no whole block of this file stands there.
    pub blocks: Vec<Option<CommitBlock>>,
    voids: Voids,
}

/// A page, by its bytes.
pub enum PageView {
    Tree {
        tree: TreeId,
        /// None: it is not valid.
        directories: [Option<DirectoryView>; 2],
    },
    Overflow {
        tree: TreeId,
        version: Version,
        next: Option<PageNo>,
        payload: Vec<u8>,
    },
    /// Neither. Says why it is no page of a tree.
    Neither(Error),
}

/// One directory of a page, with the cells that it lists.
pub struct DirectoryView {
    pub version: Version,
    pub floor: Version,
    pub height: u8,
    pub is_record: bool,
    /// Its transaction has several pages.
    pub is_multi: bool,
    /// Its transaction never was.
    pub is_void: bool,
    /// It is the one of the newest version.
    pub is_active: bool,
    pub live: Vec<CellView>,
    pub dead: Vec<CellView>,
}

pub struct CellView {
    /// Offset in the page.
    pub place: u16,
    pub start: Version,
    /// None: it lives.
    pub end: Option<Version>,
    /// In an inner page.
    pub child: Option<PageNo>,
    /// In an integer tree.
    pub key: Option<i64>,
    /// Bytes of the payload or record.
    pub length: u64,
    /// What of it stands in the cell.
    pub local: Vec<u8>,
    pub overflow: Option<PageNo>,
}

impl Inspection {
    pub fn open(storage: Arc<dyn Storage>, path: PathBuf) -> Result<Inspection> {
        let anchor = recovery::newest_anchor(&*storage, &path)?.anchor;
        let store = Store::new(storage, path, anchor.page_bytes, anchor.uuid, 0);
        let mut anchors = [None, None];
        for (place, found) in anchors.iter_mut().enumerate() {
            let block = store.read_block(layout::anchor_at(place as u64))?;
            *found = Anchor::decode(&block).filter(|anchor| anchor.place() == place as u64);
        }
        let blocks =
            (0..RING_BLOCKS).map(|place| store.read_commit_block(place)).collect::<Result<_>>()?;
        let voids = anchor.voids();
        Ok(Inspection { store, anchor, anchors, blocks, voids })
    }

    pub fn uuid(&self) -> Uuid {
        self.store.uuid
    }

    pub fn page_bytes(&self) -> usize {
        self.store.page_bytes
    }

    /// How many pages the file has room for.
    pub fn pages(&self) -> Result<u64> {
        self.store.pages()
    }

    /// Where a page begins. None: no file is so long.
    pub fn offset_of(&self, no: PageNo) -> Option<u64> {
        layout::page_at(no, self.store.page_bytes)
    }

    /// Anchors and commit blocks have so many bytes, and stand in this order at the file's begin.
    pub fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    pub fn page(&self, no: PageNo) -> Result<PageView> {
        let bytes = self.store.read_raw(no)?;
        if let Ok(page) = overflow::decode(&bytes, no, self.store.uuid) {
            let (version, next) = (page.version, page.next);
            let (tree, payload) = (slot::header(&bytes).1, page.payload.to_vec());
            return Ok(PageView::Overflow { tree, version, next, payload });
        }
        let slots = [0, 1].map(|index| Slot::read(&bytes, index, self.store.uuid));
        let image = match Image::read(bytes, no, self.store.uuid, &self.voids) {
            Ok(image) => image,
            Err(error) => return Ok(PageView::Neither(error)),
        };
        let view = |(index, slot): (usize, &Option<Slot>)| {
            slot.as_ref().map(|slot| self.directory(&image, slot, index))
        };
        let mut views = slots.iter().enumerate().map(view);
        let directories = [views.next().flatten(), views.next().flatten()];
        Ok(PageView::Tree { tree: image.tree, directories })
    }

    fn directory(&self, image: &Image, slot: &Slot, index: usize) -> DirectoryView {
        let cell = |place: u16, end: Option<Version>| {
            let cell = image.cell_at(place, slot.shape());
            let shape = slot.shape();
            CellView {
                place,
                start: cell.start,
                end,
                child: shape.is_inner.then_some(cell.child),
                key: (!shape.is_record).then_some(cell.key),
                length: cell.content.length,
                local: cell.content.local.to_vec(),
                overflow: cell.content.overflow,
            }
        };
        DirectoryView {
            version: slot.version,
            floor: slot.floor,
            height: slot.height,
            is_record: slot.is_record,
            is_multi: slot.is_multi,
            is_void: slot.is_multi && self.voids.holds(slot.version),
            is_active: index == image.active_index,
            live: slot.live_cells(&image.bytes).map(|place| cell(place, None)).collect(),
            dead: slot
                .dead_cells(&image.bytes)
                .map(|dead| cell(dead.place, Some(dead.end)))
                .collect(),
        }
    }
}
