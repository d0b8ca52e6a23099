//! What a slot says of its directory, and the checksum over both.

use oneflush_blocklog::Uuid;

use crate::bytes::{get_u16, get_u32, get_u48, get_u64, put, put_u48};
use crate::page::HEADER_BYTES;
use crate::page::cell::{self, Shape};
use crate::{PageNo, TreeId, Version};

const SLOTS_AT: usize = 16;
const SLOT_BYTES: usize = 32;
const CHECKSUM_AT: usize = 28;
/// A place of a live cell in a directory, and of a dead one.
pub const LIVE_BYTES: usize = 2;
pub const DEAD_BYTES: usize = 10;
const MULTI: u8 = 1;
const LAZY: u8 = 2;
const RECORD: u8 = 4;

/// A cell whose life has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead {
    pub place: u16,
    /// How many live cells stand before it in key order. So no key has to be compared to put live
    /// and dead cells in one order. Which of two comes first says nothing if no version sees both.
    pub rank: u16,
    pub end: Version,
}

/// A directory: what its slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub version: Version,
    /// Its transaction has several pages, so a commit block says whether the transaction is whole.
    pub is_multi: bool,
    /// The page was split in place, and its other half was not collected yet.
    pub is_lazy: bool,
    pub is_record: bool,
    /// Above the leaves.
    pub height: u8,
    pub floor: Version,
    /// Of the directory in the page.
    pub at: usize,
    pub live: usize,
    pub dead: usize,
    pub checksum: u32,
}

impl Slot {
    pub fn shape(&self) -> Shape {
        Shape { is_record: self.is_record, is_inner: self.height > 0 }
    }

    pub fn directory_bytes(&self) -> usize {
        self.live * LIVE_BYTES + self.dead * DEAD_BYTES
    }

    /// The offsets of the live cells, two bytes each.
    pub fn live_places<'a>(&self, page: &'a [u8]) -> &'a [u8] {
        &page[self.at..self.at + self.live * LIVE_BYTES]
    }

    pub fn live_cells<'a>(&self, page: &'a [u8]) -> impl Iterator<Item = u16> + 'a {
        self.live_places(page).chunks_exact(LIVE_BYTES).map(|place| get_u16(place, 0))
    }

    pub fn dead_cells<'a>(&self, page: &'a [u8]) -> impl Iterator<Item = Dead> + 'a {
        let from = self.at + self.live * LIVE_BYTES;
        page[from..from + self.dead * DEAD_BYTES].chunks_exact(DEAD_BYTES).map(|place| Dead {
            place: get_u16(place, 0),
            rank: get_u16(place, 2),
            end: Version(get_u48(place, 4)),
        })
    }

    /// All cells in key order, each with its end.
    pub fn in_order(&self, page: &[u8]) -> Vec<(u16, Version)> {
        let mut cells = Vec::with_capacity(self.live + self.dead);
        let mut dead = self.dead_cells(page).peekable();
        for (rank, place) in self.live_cells(page).map(Some).chain([None]).enumerate() {
            while let Some(one) = dead.next_if(|one| usize::from(one.rank) <= rank) {
                cells.push((one.place, one.end));
            }
            cells.extend(place.map(|place| (place, Version::MAX)));
        }
        cells
    }

    /// Offsets of all cells: the live ones, then the dead ones.
    pub fn cells<'a>(&self, page: &'a [u8]) -> impl Iterator<Item = u16> + 'a {
        self.live_cells(page).chain(self.dead_cells(page).map(|dead| dead.place))
    }

    /// The slot, if its directory is valid (R1). After this no offset has to be checked again.
    pub fn read(page: &[u8], index: usize, uuid: Uuid) -> Option<Slot> {
        let at = SLOTS_AT + index * SLOT_BYTES;
        let raw = page.get(at..at + SLOT_BYTES)?;
        let flags = raw[6];
        let slot = Slot {
            version: Version(get_u48(raw, 0)),
            is_multi: flags & MULTI != 0,
            is_lazy: flags & LAZY != 0,
            is_record: flags & RECORD != 0,
            height: raw[7],
            floor: Version(get_u64(raw, 8)),
            at: usize::from(get_u16(raw, 16)),
            live: usize::from(get_u16(raw, 18)),
            dead: usize::from(get_u16(raw, 20)),
            checksum: get_u32(raw, CHECKSUM_AT),
        };
        let ends = slot.at + slot.directory_bytes();
        // An overflow page has its length there. So no payload can pass for a directory.
        let is_tree_page = get_u32(page, 12) == 0;
        let is_sane = is_tree_page
            && slot.version > Version(0)
            && slot.floor <= slot.version
            && slot.at >= HEADER_BYTES
            && ends <= page.len();
        (is_sane && flags & !(MULTI | LAZY | RECORD) == 0).then_some(())?;
        (slot.checksum_of(page, index, uuid)? == slot.checksum).then_some(slot)
    }

    /// True if two of its cells share bytes, or one does with the directory. No page that was
    /// written has that: a change of one would change the other.
    pub fn overlaps(&self, page: &[u8]) -> bool {
        let ranges = self.cells(page).map(|place| {
            let from = usize::from(place);
            let cell = cell::parse(page, from, self.shape());
            (from, from + cell.map_or(0, |cell| cell.bytes.len()))
        });
        let mut ranges: Vec<(usize, usize)> = ranges.collect();
        ranges.push((self.at, self.at + self.directory_bytes()));
        ranges.sort_unstable();
        ranges.windows(2).any(|pair| pair[0].1 > pair[1].0)
    }

    /// Puts the slot and its checksum into the page. Directory and cells are there. None: a cell
    /// makes no sense, since another one overlapped it.
    pub fn write(&mut self, page: &mut [u8], index: usize, uuid: Uuid) -> Option<()> {
        let at = SLOTS_AT + index * SLOT_BYTES;
        let raw = &mut page[at..at + SLOT_BYTES];
        raw.fill(0);
        put_u48(raw, 0, self.version.0);
        raw[6] = [(self.is_multi, MULTI), (self.is_lazy, LAZY), (self.is_record, RECORD)]
            .into_iter()
            .fold(0, |flags, (is_set, flag)| if is_set { flags | flag } else { flags });
        raw[7] = self.height;
        put(raw, 8, &self.floor.0.to_le_bytes());
        put(raw, 16, &(self.at as u16).to_le_bytes());
        put(raw, 18, &(self.live as u16).to_le_bytes());
        put(raw, 20, &(self.dead as u16).to_le_bytes());
        self.checksum = self.checksum_of(page, index, uuid)?;
        put(page, at + CHECKSUM_AT, &self.checksum.to_le_bytes());
        Some(())
    }

    /// Over all that the directory covers. None: a cell makes no sense.
    fn checksum_of(&self, page: &[u8], index: usize, uuid: Uuid) -> Option<u32> {
        let at = SLOTS_AT + index * SLOT_BYTES;
        let mut sum = crc32c::crc32c(&uuid.0);
        sum = crc32c::crc32c_append(sum, &page[..SLOTS_AT]);
        sum = crc32c::crc32c_append(sum, &page[at..at + CHECKSUM_AT]);
        sum = crc32c::crc32c_append(sum, &page[self.at..self.at + self.directory_bytes()]);
        let is_in_order = |pair: (Dead, Dead)| pair.0.rank <= pair.1.rank;
        let ranks = self.dead_cells(page).zip(self.dead_cells(page).skip(1)).all(is_in_order);
        (ranks && self.dead_cells(page).all(|dead| usize::from(dead.rank) <= self.live))
            .then_some(())?;
        // No two cells overlap, so a page cannot list more bytes than it has.
        let mut left = (page.len() - HEADER_BYTES).checked_sub(self.directory_bytes())?;
        for place in self.cells(page) {
            let place = usize::from(place);
            (place >= HEADER_BYTES).then_some(())?;
            let cell = cell::parse(page, place, self.shape())?;
            left = left.checked_sub(cell.bytes.len())?;
            sum = crc32c::crc32c_append(sum, cell.bytes);
        }
        Some(sum)
    }
}

/// Forgets what a slot said.
pub fn clear(page: &mut [u8], index: usize) {
    let at = SLOTS_AT + index * SLOT_BYTES;
    page[at..at + SLOT_BYTES].fill(0);
}

pub fn put_header(page: &mut [u8], no: PageNo, tree: TreeId) {
    put(page, 0, &no.0.to_le_bytes());
    put(page, 8, &tree.0.to_le_bytes());
    put(page, 12, &[0; 4]);
}

/// True if this is what [`put_header`] puts.
pub fn has_header(page: &[u8], no: PageNo, tree: TreeId) -> bool {
    header(page) == (no, tree) && get_u32(page, 12) == 0
}

pub fn header(page: &[u8]) -> (PageNo, TreeId) {
    (PageNo(get_u64(page, 0)), TreeId(get_u32(page, 8)))
}
