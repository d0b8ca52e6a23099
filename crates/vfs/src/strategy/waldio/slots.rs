//! Where a frame of SQLite's WAL stands in the log, and how (WALDIO section 4.2, "Header
//! Embedding"). Pure functions.
//!
//! SQLite's WAL is a header of 32 bytes, then frames: a header of 24 bytes and a page each ("WAL
//! File Format"). In the log each frame has a *slot* of whole blocks:
//!
//! ```text
//! | file header | WAL header | copy of page 1 | slots 1 … 256 | lane 1 … 256 | slots 257 … | …
//!
//! slot    | page ………………………………………………… | header |   the header in the slot's last 24 bytes
//! ```
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. Frame *n* stands in slot *n*, whoever reads it and whatever its page holds.
//! 2. A slot is as long as a page, or as a block if that is longer. So in a slot of the length of a
//!    page the header displaces the page's last 24 bytes. They are zero where the database has 24
//!    reserved bytes a page.
//! 3. If the displaced bytes are not zero, they go to a gap: the first 24 zero bytes of the page.
//!    The gap's offset is in the stored header. Without a gap they go to the *lane*, which has a
//!    block for each slot. The stored header says where they are there.
//! 4. What the stored header says stands in place of salt-2, by exclusive or with salt-2 of the
//!    WAL's header: 0, or the gap's offset plus 1, or [`LANE`] and a distance. So a header that is
//!    as SQLite wrote it says that nothing was displaced.
//! 5. A header without checksums has zeros for salts. SQLite writes such headers while it has to
//!    write checksums anew. Its salt-2 counts as 0.
//! 6. A slot whose salt-1 is neither the WAL header's nor that of 5 is of an earlier life of the
//!    WAL. It is given out as it is. SQLite takes it for no frame.
//!
//! A slot that is torn, or in part of an earlier frame, gives a page that does not have its
//! checksum. A frame whose lane is torn does so too. So SQLite's own recovery finds all of this.
//!
//! # Differences to the paper
//!
//! - The paper moves nothing: it takes for granted that a page has room for the header.
//! - The paper puts the WAL's header into the root page of the database. Here it has a block.
//! - With [`Layout::Pad4k`] and the others the page comes first and the header last, as everywhere
//!   here. In the paper the padded header comes first. The same bytes are written.

use crate::config::Layout;
use crate::mutant::{self, Mutant};
use crate::wal_file::{FRAME_HEADER_BYTES, HEADER_BYTES};

/// The unit of a slot's length, in bytes.
fn unit(layout: Layout, block_bytes: usize) -> usize {
    match layout {
        Layout::Embed => block_bytes,
        Layout::Pad512 => 512,
        Layout::Pad4k => 4096.max(block_bytes),
        Layout::Pad8k => 8192.max(block_bytes),
    }
}

/// Slots between two parts of the lane. A part that no frame needs is a hole in the file.
pub const GROUP_SLOTS: u32 = 256;

/// In place of salt-2: the displaced bytes are in the lane. The low bits are the distance in slots
/// back to the frame whose block of the lane has them, and their place in that block.
pub const LANE: u32 = 1 << 31;

/// The header of a frame, as SQLite or the log has it.
pub type Header = [u8; FRAME_HEADER_BYTES];
/// What a header displaces.
pub type Displaced = [u8; FRAME_HEADER_BYTES];

const SALT_1: std::ops::Range<usize> = 8..12;
const SALT_2: std::ops::Range<usize> = 12..16;
const CHECKSUMS: std::ops::Range<usize> = 16..24;

/// The shape of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub layout: Layout,
    pub page_bytes: usize,
    pub block_bytes: usize,
    /// The length of a slot.
    pub slot_bytes: usize,
    first_slot: u64,
}

/// Where the displaced bytes of a frame are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the slot itself, or there are none.
    Slot,
    /// To the lane.
    Lane(Displaced),
}

/// Where the displaced bytes of a decoded slot are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The page is whole.
    Whole,
    /// In the lane, so many slots back. The page's last bytes are still missing.
    Lane(u32),
}

/// The salts of a WAL's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalSalts(pub [u32; 2]);

impl WalSalts {
    /// Those in the header of a WAL.
    pub fn of(header: &[u8; HEADER_BYTES as usize]) -> WalSalts {
        WalSalts([word(header, 16..20), word(header, 20..24)])
    }

    /// True if this header was written under these salts, with its checksums or without.
    pub fn are_of(self, header: &Header) -> bool {
        self.base(header).is_some()
    }

    /// What a stored header says of displaced bytes (invariant 4). None: it is of another life.
    pub fn says(self, header: &Header) -> Option<u32> {
        Some(word(header, SALT_2) ^ self.base(header)?)
    }

    /// Salt-2 that the header of a frame is stored with. None: the header is of another life of the
    /// WAL (invariants 5 and 6).
    fn base(self, header: &Header) -> Option<u32> {
        let salt = word(header, SALT_1);
        if salt == self.0[0] {
            return Some(self.0[1]);
        }
        (salt == 0 && header[CHECKSUMS] == [0; 8]).then_some(0)
    }
}

impl Geometry {
    /// `block_bytes`: the blocks of the file, a power of two from 4096 on.
    pub fn new(layout: Layout, page_bytes: usize, block_bytes: usize) -> Geometry {
        let unit = unit(layout, block_bytes);
        let slot_bytes = match layout {
            Layout::Embed => page_bytes.max(block_bytes),
            _ => (page_bytes + FRAME_HEADER_BYTES).next_multiple_of(unit),
        };
        let behind_copy = copy_at(block_bytes) + copy_bytes(page_bytes, block_bytes);
        let first_slot = match layout {
            Layout::Pad4k => behind_copy.next_multiple_of(8192) + 4096,
            _ => behind_copy.next_multiple_of(8192),
        };
        let first_slot = first_slot.next_multiple_of(block_bytes as u64);
        Geometry { layout, page_bytes, block_bytes, slot_bytes, first_slot }
    }

    /// The offset of the WAL's header.
    pub fn wal_header(&self) -> u64 {
        self.block_bytes as u64
    }

    /// The offset of the copy of page 1.
    pub fn copy(&self) -> u64 {
        copy_at(self.block_bytes)
    }

    /// The length of the copy of page 1, with the block behind it.
    pub fn copy_bytes(&self) -> usize {
        copy_bytes(self.page_bytes, self.block_bytes) as usize
    }

    /// The length of a file without slots.
    pub fn bytes_min(&self) -> u64 {
        self.first_slot
    }

    /// The header displaces a part of the page.
    pub fn displaces(&self) -> bool {
        self.slot_bytes == self.page_bytes
    }

    /// The bytes of SQLite's frame.
    pub fn frame_bytes(&self) -> u64 {
        (FRAME_HEADER_BYTES + self.page_bytes) as u64
    }

    fn lane_part_bytes(&self) -> u64 {
        if self.displaces() { u64::from(GROUP_SLOTS) * self.block_bytes as u64 } else { 0 }
    }

    fn slots_part_bytes(&self) -> u64 {
        u64::from(GROUP_SLOTS) * self.slot_bytes as u64
    }

    fn group(&self, frame: u32) -> (u64, u64) {
        debug_assert!(frame > 0, "frames count from 1");
        let (group, at) = ((frame - 1) / GROUP_SLOTS, (frame - 1) % GROUP_SLOTS);
        let group_bytes = self.slots_part_bytes() + self.lane_part_bytes();
        (self.first_slot + u64::from(group) * group_bytes, u64::from(at))
    }

    /// The offset of a frame's slot (invariant 1).
    pub fn slot(&self, frame: u32) -> u64 {
        let (group, at) = self.group(frame);
        group + at * self.slot_bytes as u64
    }

    /// The offset of the block of the lane that belongs to a frame.
    pub fn lane(&self, frame: u32) -> u64 {
        let (group, at) = self.group(frame);
        group + self.slots_part_bytes() + at * self.block_bytes as u64
    }

    /// How many slots from this one on follow each other.
    pub fn slots_in_a_row(&self, frame: u32) -> u32 {
        if self.displaces() { GROUP_SLOTS - (frame - 1) % GROUP_SLOTS } else { u32::MAX - frame }
    }

    /// How many whole slots a file of this length has.
    pub fn slots(&self, size_bytes: u64) -> u32 {
        let Some(bytes) = size_bytes.checked_sub(self.first_slot) else { return 0 };
        let group_bytes = self.slots_part_bytes() + self.lane_part_bytes();
        let (groups, rest) = (bytes / group_bytes, bytes % group_bytes);
        let slots = rest.min(self.slots_part_bytes()) / self.slot_bytes as u64;
        (groups * u64::from(GROUP_SLOTS) + slots) as u32
    }

    /// How many frames may have their displaced bytes in one block of the lane.
    pub fn lane_entries(&self) -> u32 {
        (self.block_bytes / FRAME_HEADER_BYTES) as u32
    }

    /// The offset of a frame in SQLite's WAL.
    pub fn offset_of(&self, frame: u32) -> u64 {
        HEADER_BYTES + u64::from(frame - 1) * self.frame_bytes()
    }

    /// The frame that this byte of SQLite's WAL belongs to, and the byte's place in the frame.
    pub fn frame_at(&self, offset: u64) -> Option<(u32, usize)> {
        let at = offset.checked_sub(HEADER_BYTES)?;
        let frame = u32::try_from(at / self.frame_bytes() + 1).ok()?;
        Some((frame, (at % self.frame_bytes()) as usize))
    }

    /// Puts a frame into a slot. `lane`: what the stored header says if the lane is needed. None:
    /// the header is of another life of the WAL, and cannot be stored.
    pub fn encode(
        &self,
        salts: WalSalts,
        header: &Header,
        page: &[u8],
        lane: u32,
        slot: &mut [u8],
    ) -> Option<Place> {
        let base = salts.base(header)?;
        slot[..page.len()].copy_from_slice(page);
        slot[page.len()..].fill(0);
        let at = slot.len() - FRAME_HEADER_BYTES;
        let displaced = displaced(slot, self.displaces());
        slot[at..].copy_from_slice(header);
        if displaced == [0; FRAME_HEADER_BYTES] {
            return Some(Place::Slot);
        }
        let (says, place) = match gap(&page[..at]) {
            Some(gap) => {
                slot[gap..gap + FRAME_HEADER_BYTES].copy_from_slice(&displaced);
                (gap as u32 + 1 + u32::from(mutant::is(Mutant::GapMisplaced)), Place::Slot)
            }
            None => (LANE | lane, Place::Lane(displaced)),
        };
        slot[at + SALT_2.start..at + SALT_2.end].copy_from_slice(&(base ^ says).to_be_bytes());
        Some(place)
    }

    /// Takes a frame out of a slot.
    pub fn decode(
        &self,
        salts: WalSalts,
        slot: &[u8],
        header: &mut Header,
        page: &mut [u8],
    ) -> Found {
        let at = slot.len() - FRAME_HEADER_BYTES;
        page.copy_from_slice(&slot[..page.len()]);
        header.copy_from_slice(&slot[at..]);
        let Some(base) = salts.base(header).filter(|_| self.displaces()) else {
            return Found::Whole;
        };
        let says = word(header, SALT_2) ^ base;
        let gap_end = says as usize + FRAME_HEADER_BYTES - 1;
        match says {
            0 => page[at..].fill(0),
            _ if gap_end <= at => {
                let gap = says as usize - 1..gap_end;
                page.copy_within(gap.clone(), at);
                page[gap].fill(0);
            }
            _ if says & LANE != 0 && says & !LANE < self.lane_entries() => {
                header[SALT_2].copy_from_slice(&base.to_be_bytes());
                return Found::Lane(says & !LANE);
            }
            // By accident salt-1 is right.
            _ => return Found::Whole,
        }
        header[SALT_2].copy_from_slice(&base.to_be_bytes());
        Found::Whole
    }
}

fn word(bytes: &[u8], at: std::ops::Range<usize>) -> u32 {
    let bytes = &bytes[at];
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

const fn copy_at(block_bytes: usize) -> u64 {
    2 * block_bytes as u64
}

fn copy_bytes(page_bytes: usize, block_bytes: usize) -> u64 {
    (page_bytes.next_multiple_of(block_bytes) + block_bytes) as u64
}

/// The bytes that the header displaces.
fn displaced(slot: &[u8], displaces: bool) -> Displaced {
    let mut displaced = [0; FRAME_HEADER_BYTES];
    if displaces {
        displaced.copy_from_slice(&slot[slot.len() - FRAME_HEADER_BYTES..]);
    }
    displaced
}

/// True if a page of a slot's length has a place for the header of its frame, or for what that
/// displaces.
pub fn has_place(page: &[u8]) -> bool {
    let (front, displaced) = page.split_at(page.len() - FRAME_HEADER_BYTES);
    displaced.iter().all(|&byte| byte == 0) || gap(front).is_some()
}

/// The offset of the first 24 zero bytes.
fn gap(bytes: &[u8]) -> Option<usize> {
    let mut begin = 0;
    while begin + FRAME_HEADER_BYTES <= bytes.len() {
        // The last byte that is not zero ends all gaps that would hold it.
        match bytes[begin..begin + FRAME_HEADER_BYTES].iter().rposition(|&byte| byte != 0) {
            None => return Some(begin),
            Some(at) => begin += at + 1,
        }
    }
    None
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SALTS: WalSalts = WalSalts([0x0102_0304, 0xa0b0_c0d0]);

    fn geometries() -> Vec<Geometry> {
        let pages = (9..=16).map(|bits| 1 << bits);
        pages
            .flat_map(|page_bytes| {
                Layout::ALL.map(|layout| Geometry::new(layout, page_bytes, 4096))
            })
            .collect()
    }

    fn header(page_no: u32, salts: [u32; 2], checksums: [u8; 8]) -> Header {
        let mut header = [0; FRAME_HEADER_BYTES];
        header[..4].copy_from_slice(&page_no.to_be_bytes());
        header[SALT_1].copy_from_slice(&salts[0].to_be_bytes());
        header[SALT_2].copy_from_slice(&salts[1].to_be_bytes());
        header[CHECKSUMS].copy_from_slice(&checksums);
        header
    }

    /// What a reader gets of a slot, with a lane that has what the writer put there.
    fn decoded(geometry: &Geometry, slot: &[u8], lane: &[Displaced]) -> (Header, Vec<u8>) {
        let (mut header, mut page) = ([0xee; FRAME_HEADER_BYTES], vec![0xee; geometry.page_bytes]);
        if let Found::Lane(at) = geometry.decode(SALTS, slot, &mut header, &mut page) {
            let end = page.len() - FRAME_HEADER_BYTES;
            page[end..].copy_from_slice(&lane[at as usize]);
        }
        (header, page)
    }

    fn page_strategy() -> impl Strategy<Value = (usize, Vec<u8>)> {
        (0..geometries().len()).prop_flat_map(|at| {
            let bytes = geometries()[at].page_bytes;
            let full = proptest::collection::vec(1_u8.., bytes);
            (Just(at), full, 0..bytes, 0..bytes, any::<bool>()).prop_map(
                |(at, mut page, one, other, has_end)| {
                    page[one.min(other)..one.max(other)].fill(0);
                    if !has_end {
                        let end = page.len() - FRAME_HEADER_BYTES;
                        page[end..].fill(0);
                    }
                    (at, page)
                },
            )
        })
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(
            (at, page) in page_strategy(),
            page_no in 1_u32..,
            checksums: [u8; 8],
            is_finished: bool,
            lane_at in 0_u32..170,
        ) {
            let geometry = geometries()[at];
            let header = match is_finished {
                true => header(page_no, SALTS.0, checksums),
                false => header(page_no, [0; 2], [0; 8]),
            };
            let mut slot = vec![0xdd; geometry.slot_bytes];
            let place = geometry.encode(SALTS, &header, &page, lane_at, &mut slot).unwrap();
            let mut lane = vec![[0x77; FRAME_HEADER_BYTES]; 170];
            if let Place::Lane(displaced) = place {
                prop_assert!(geometry.displaces(), "invariant 2");
                lane[lane_at as usize] = displaced;
            }
            prop_assert_eq!(decoded(&geometry, &slot, &lane), (header, page));
        }

        /// Whatever a crash has left: no panic, and the header is one that SQLite can judge.
        #[test]
        fn any_slot_can_be_read(
            at in 0_usize..32,
            bytes in proptest::collection::vec(any::<u8>(), 24),
        ) {
            let geometry = geometries()[at];
            let mut slot = vec![0x5a; geometry.slot_bytes];
            let end = slot.len() - FRAME_HEADER_BYTES;
            slot[end..].copy_from_slice(&bytes);
            decoded(&geometry, &slot, &[[0; FRAME_HEADER_BYTES]; 170]);
            slot[end + 8..end + 12].copy_from_slice(&SALTS.0[0].to_be_bytes());
            decoded(&geometry, &slot, &[[0; FRAME_HEADER_BYTES]; 170]);
        }
    }

    #[test]
    fn a_slot_with_reserved_bytes_is_the_page_and_the_header_as_sqlite_wrote_them() {
        let geometry = Geometry::new(Layout::Embed, 4096, 4096);
        let mut page = vec![7; 4096];
        page[4072..].fill(0);
        let header = header(3, SALTS.0, [9; 8]);
        let mut slot = vec![0; 4096];
        assert_eq!(geometry.encode(SALTS, &header, &page, 0, &mut slot), Some(Place::Slot));
        assert_eq!((&slot[..4072], &slot[4072..]), (&page[..4072], &header[..]));
    }

    #[test]
    fn displaced_bytes_go_to_the_first_gap_and_without_one_to_the_lane() {
        let geometry = Geometry::new(Layout::Embed, 4096, 4096);
        let header = header(3, SALTS.0, [9; 8]);
        let mut page = vec![7; 4096];
        page[100..123].fill(0);
        let mut slot = vec![0; 4096];
        assert_eq!(
            geometry.encode(SALTS, &header, &page, 5, &mut slot),
            Some(Place::Lane([7; FRAME_HEADER_BYTES])),
            "23 zeros are too few"
        );
        assert_eq!(word(&slot, 4084..4088), SALTS.0[1] ^ (LANE | 5));
        page[123] = 0;
        assert_eq!(geometry.encode(SALTS, &header, &page, 5, &mut slot), Some(Place::Slot));
        assert_eq!(word(&slot, 4084..4088), SALTS.0[1] ^ 101);
        assert_eq!(slot[100..124], [7; 24]);
    }

    #[test]
    fn a_frame_of_an_earlier_life_is_given_out_as_it_is() {
        let geometry = Geometry::new(Layout::Embed, 4096, 4096);
        let old = WalSalts([1, 2]);
        let mut slot = vec![0; 4096];
        let old_header = header(3, old.0, [9; 8]);
        geometry.encode(old, &old_header, &[7; 4096], 0, &mut slot).unwrap();
        let (header, page) = decoded(&geometry, &slot, &[]);
        assert_eq!((&header[..], page), (&slot[4072..], slot.clone()));
        assert_eq!(geometry.encode(SALTS, &old_header, &[7; 4096], 0, &mut slot), None);
    }

    #[test]
    fn slots_lane_and_heads_do_not_overlap_and_are_aligned() {
        for geometry in geometries() {
            let alignment = if geometry.layout == Layout::Pad512 { 512 } else { 4096 };
            let slot_bytes = geometry.slot_bytes as u64;
            let mut parts = vec![(0, 4096), (geometry.wal_header(), 4096)];
            parts.push((geometry.copy(), geometry.copy_bytes() as u64));
            for frame in [1, 2, 255, 256, 257, 512, 513] {
                parts.push((geometry.slot(frame), slot_bytes));
                if geometry.displaces() {
                    parts.push((geometry.lane(frame), 4096));
                }
                let next = geometry.slots(geometry.slot(frame) + slot_bytes);
                assert_eq!(next, frame, "{geometry:?}");
                assert_eq!(geometry.slots(geometry.slot(frame) + slot_bytes - 1), frame - 1);
                let row = geometry.slots_in_a_row(frame).min(1000);
                assert_eq!(
                    geometry.slot(frame + row - 1),
                    geometry.slot(frame) + u64::from(row - 1) * slot_bytes
                );
            }
            parts.sort_unstable();
            assert!(parts.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{parts:?}");
            assert!(parts.iter().all(|part| part.0.is_multiple_of(alignment)), "{parts:?}");
        }
    }

    #[test]
    fn the_padded_layouts_are_those_of_the_paper() {
        let of = |layout| {
            let geometry = Geometry::new(layout, 4096, 4096);
            (geometry.slot_bytes, geometry.slot(1) % 8192)
        };
        assert_eq!(of(Layout::Embed), (4096, 0));
        assert_eq!(of(Layout::Pad512).0, 4608);
        assert_eq!(of(Layout::Pad4k), (8192, 4096), "not aligned to a flash page");
        assert_eq!(of(Layout::Pad8k), (8192, 0));
    }

    #[test]
    fn a_byte_of_the_wal_has_its_frame() {
        let geometry = Geometry::new(Layout::Embed, 512, 4096);
        assert_eq!(geometry.frame_at(31), None);
        assert_eq!(geometry.frame_at(32), Some((1, 0)));
        assert_eq!(geometry.frame_at(32 + 535), Some((1, 535)));
        assert_eq!(geometry.frame_at(32 + 536), Some((2, 0)));
        assert_eq!(geometry.offset_of(2), 32 + 536);
    }
}
