//! A page as it was read, and what a reader of some version sees of it.

use std::borrow::Cow;

use oneflush_blocklog::Uuid;

use crate::bytes::get_u16;
use crate::page::cell::{self, Cell, Content, Shape};
use crate::page::slot::{self, LIVE_BYTES, Slot};
use crate::voids::Voids;
use crate::{Error, PageNo, Result, TreeId, Version};

/// A page that was checked: whatever it holds, no offset in it is wrong.
#[derive(Debug)]
pub struct Image {
    pub bytes: Box<[u8]>,
    pub no: PageNo,
    pub tree: TreeId,
    active: Slot,
    fallback: Option<Slot>,
    /// A directory of a transaction that never was, in the fallback's place. What it lists of older
    /// versions is right.
    voided: Option<Slot>,
    /// Which slot the active directory has.
    pub active_index: usize,
}

impl Image {
    /// Chooses the directories that count (R1 to R3).
    pub fn read(bytes: Box<[u8]>, no: PageNo, uuid: Uuid, voids: &Voids) -> Result<Image> {
        let (found, tree) = slot::header(&bytes);
        if found != no {
            return Err(Error::Damaged { page: no, what: "it has another page's number" });
        }
        let read = [0, 1].map(|index| Slot::read(&bytes, index, uuid));
        let is_void = |slot: &Slot| slot.is_multi && voids.holds(slot.version);
        let [first, second] = read.map(|slot| slot.filter(|slot| !is_void(slot)));
        let (active_index, active, fallback) = match (first, second) {
            (Some(first), Some(second)) if first.version > second.version => {
                (0, first, Some(second))
            }
            (Some(first), None) => (0, first, None),
            (first, Some(second)) => (1, second, first),
            (None, None) => {
                return Err(Error::Damaged { page: no, what: "none of its directories is valid" });
            }
        };
        // What it says of pages that it made for older readers is void, too.
        let leads_astray = |slot: &Slot| {
            let known: Vec<u16> = active.cells(&bytes).collect();
            slot.height > 0 && slot.dead_cells(&bytes).any(|dead| !known.contains(&dead.place))
        };
        let voided = read.into_iter().flatten().find(|slot| is_void(slot) && !leads_astray(slot));
        let is_alike = |slot: &Slot| slot.is_record == active.is_record;
        let (fallback, voided) = (fallback.filter(is_alike), voided.filter(is_alike));
        Ok(Image { bytes, no, tree, active, fallback, voided, active_index })
    }

    /// The directory of the newest version.
    pub fn active(&self) -> &Slot {
        &self.active
    }

    pub fn fallback(&self) -> Option<&Slot> {
        self.fallback.as_ref()
    }

    pub fn voided(&self) -> Option<&Slot> {
        self.voided.as_ref()
    }

    /// The page with an active directory that is *multi*. Slots are in one sector, so a crash
    /// leaves this or what was there.
    pub fn as_multi(&self, uuid: Uuid) -> Box<[u8]> {
        let mut bytes = self.bytes.clone();
        let mut slot = Slot { is_multi: true, ..self.active };
        slot.write(&mut bytes, self.active_index, uuid).expect("it was read so");
        bytes
    }

    /// A cell that one of its directories lists.
    pub fn cell_at(&self, place: u16, shape: Shape) -> Cell<'_> {
        cell::parse(&self.bytes, usize::from(place), shape).expect("the page was checked")
    }

    /// What a reader of this version sees (R4, R5).
    pub fn view(&self, version: Version) -> Result<View<'_>> {
        let newest_of = [Some(&self.active), self.fallback()]
            .into_iter()
            .flatten()
            .find(|slot| slot.version <= version);
        if let Some(slot) = newest_of {
            return Ok(self.live(slot));
        }
        let all = [Some(&self.active), self.voided()];
        match all.into_iter().flatten().find(|slot| slot.floor <= version) {
            Some(slot) => Ok(self.merged(slot, version)),
            None => {
                let kept = self.active.floor;
                Err(Error::SnapshotGone { page: self.no, asked: version, kept })
            }
        }
    }

    /// True if a directory of this version, or an older one, is there (R4).
    pub fn shows(&self, version: Version) -> bool {
        let is_known = |slot: &Slot| slot.version <= version;
        is_known(&self.active) || self.fallback().is_some_and(is_known)
    }

    /// True if the active directory has dead cells of an inner page that the fallback does not
    /// know: they lead to pages that its transaction has made for older readers.
    pub fn leads_to_fresh(&self) -> bool {
        let known: Vec<u16> =
            self.fallback().into_iter().flat_map(|slot| slot.cells(&self.bytes)).collect();
        let mut dead = self.active.dead_cells(&self.bytes);
        self.active.height > 0 && dead.any(|dead| !known.contains(&dead.place))
    }

    /// False: the version is gone, or the page was half written when it was read.
    pub fn serves(&self, version: Version) -> bool {
        let is_new = |slot: &Slot| slot.version <= version;
        let all = [Some(&self.active), self.voided()];
        is_new(&self.active)
            || self.fallback().is_some_and(is_new)
            || all.into_iter().flatten().any(|slot| slot.floor <= version)
    }

    /// The live cells of the active directory.
    pub fn newest(&self) -> View<'_> {
        self.live(&self.active)
    }

    fn live<'a>(&'a self, slot: &Slot) -> View<'a> {
        let places = Places::Stored(slot.live_places(&self.bytes));
        let (shape, height) = (slot.shape(), slot.height);
        View { page: &self.bytes, shape, height, is_past: false, places }
    }

    /// Live and dead cells of a directory that this version sees, in key order.
    fn merged(&self, slot: &Slot, version: Version) -> View<'_> {
        let shape = slot.shape();
        let sees = |&(place, end): &(u16, Version)| {
            let cell = cell::parse(&self.bytes, usize::from(place), shape);
            version < end && cell.is_some_and(|cell| cell.start <= version)
        };
        let places: Vec<u16> =
            slot.in_order(&self.bytes).into_iter().filter(sees).map(|(place, _)| place).collect();
        let places = Places::Listed(Cow::Owned(places));
        View { page: &self.bytes, shape, height: slot.height, is_past: true, places }
    }
}

/// Cells in key order: what some version sees of a page.
#[derive(Clone, Debug)]
pub struct View<'a> {
    page: &'a [u8],
    pub shape: Shape,
    pub height: u8,
    /// It is put together from live and dead cells. Those of a root may have been of other heights.
    pub is_past: bool,
    places: Places<'a>,
}

#[derive(Clone, Debug)]
enum Places<'a> {
    Stored(&'a [u8]),
    Listed(Cow<'a, [u16]>),
}

impl<'a> View<'a> {
    pub fn of(page: &'a [u8], shape: Shape, height: u8, places: &'a [u16]) -> View<'a> {
        let places = Places::Listed(Cow::Borrowed(places));
        View { page, shape, height, is_past: false, places }
    }

    /// Children are lower than this. None: the page does not say.
    pub fn bound(&self) -> Option<u8> {
        (!self.is_past).then_some(self.height)
    }

    #[inline]
    pub fn len(&self) -> usize {
        match &self.places {
            Places::Stored(bytes) => bytes.len() / LIVE_BYTES,
            Places::Listed(places) => places.len(),
        }
    }

    #[inline]
    pub fn place(&self, index: usize) -> usize {
        usize::from(match &self.places {
            Places::Stored(bytes) => get_u16(bytes, index * LIVE_BYTES),
            Places::Listed(places) => places[index],
        })
    }

    /// Key and content of a cell of a leaf.
    #[inline]
    pub fn leaf_cell(&self, index: usize) -> (i64, Content<'a>) {
        let place = self.place(index) + cell::START_BYTES;
        let found = cell::key_and_content(self.page, place, self.shape.is_record);
        let (key, content, _) = found.expect("the page was checked");
        (key, content)
    }

    /// The record of a cell of a record tree, of whatever height.
    #[inline]
    pub fn record(&self, index: usize) -> Content<'a> {
        let child = if self.shape.is_inner { cell::CHILD_BYTES } else { 0 };
        let place = self.place(index) + cell::START_BYTES + child;
        cell::key_and_content(self.page, place, true).expect("the page was checked").1
    }

    pub fn cell(&self, index: usize) -> Cell<'a> {
        cell::parse(self.page, self.place(index), self.shape).expect("the page was checked")
    }

    /// So many bytes of the page stand behind these, which are a part of it.
    pub fn bytes_behind(&self, part: &[u8]) -> usize {
        let at = part.as_ptr() as usize - self.page.as_ptr() as usize;
        self.page.len().saturating_sub(at + part.len())
    }

    #[inline]
    pub fn integer_key(&self, index: usize) -> i64 {
        cell::integer_key(self.page, self.place(index), self.shape.is_inner)
    }
}
