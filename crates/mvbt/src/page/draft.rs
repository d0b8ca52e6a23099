//! A page that a transaction changes: in memory until it is written.
//!
//! - What the directory that was active before the transaction covers stays as it is (I2, I3).
//! - A cell that is added takes free bytes at once. So whether the page has room is known at once.
//! - A cell that this transaction has added, and takes out again, gives its bytes back.

use std::ops::Range;

use oneflush_blocklog::{Uuid, invariant};

use crate::history::Horizon;
use crate::mutant::{self, Mutant};
use crate::page::HEADER_BYTES;
use crate::page::cell::{self, Cell, Shape};
use crate::page::gaps::Gaps;
use crate::page::image::{Image, View};
use crate::page::slot::{self, DEAD_BYTES, Dead, LIVE_BYTES, Slot};
use crate::{PageNo, TreeId, Version};

/// A directory gets so much more room than it needs, if there is some. So that it grows in place.
const DIRECTORY_SLACK_BYTES: usize = 16 * LIVE_BYTES;

#[derive(Clone, Debug)]
pub struct Draft {
    pub no: PageNo,
    pub tree: TreeId,
    bytes: Box<[u8]>,
    is_record: bool,
    height: u8,
    pub is_lazy: bool,
    /// Places of the cells that live, in key order.
    live: Vec<u16>,
    dead: Vec<Dead>,
    /// So many of those must end with this transaction.
    ending: usize,
    gaps: Gaps,
    /// The slot that is written.
    slot: usize,
    kept: Option<Kept>,
    floor: Version,
    /// Readers below the directory that stays may come, or there is a history. So what dies is
    /// listed.
    lists_dead: bool,
    /// The page was written by this transaction before.
    pub was_written: bool,
    is_changed: bool,
}

/// The directory that was active before the transaction, and stays.
#[derive(Clone, Debug)]
struct Kept {
    /// Places of the cells that it covers, by place.
    cells: Vec<u16>,
    /// All bytes that it does not cover.
    free: Gaps,
}

/// What a transaction finds when it changes a page.
pub struct Opened {
    pub draft: Draft,
    /// Cells that readers still need and that are of another height than the page has now. They go
    /// to a page of their own.
    pub displaced: Option<Displaced>,
}

/// Contents that a root had before its height changed.
pub struct Displaced {
    pub height: u8,
    pub live: Vec<Vec<u8>>,
    /// Each with its rank and its end.
    pub dead: Vec<(Vec<u8>, Dead)>,
    /// The first version that they are for, and the first one without them.
    pub start: Version,
    pub end: Version,
}

impl Draft {
    /// A fresh page (I6).
    pub fn fresh(
        page_bytes: usize,
        no: PageNo,
        tree: TreeId,
        is_record: bool,
        height: u8,
        version: Version,
    ) -> Draft {
        let mut bytes = vec![0; page_bytes].into_boxed_slice();
        slot::put_header(&mut bytes, no, tree);
        Draft {
            no,
            tree,
            bytes,
            is_record,
            height,
            is_lazy: false,
            live: Vec::new(),
            dead: Vec::new(),
            ending: 0,
            gaps: Gaps::around(page_bytes, Vec::new()),
            slot: 0,
            kept: None,
            floor: version,
            lists_dead: false,
            was_written: false,
            is_changed: true,
        }
    }

    /// Gives a fresh page another number.
    pub fn give_number(&mut self, no: PageNo) {
        self.no = no;
        slot::put_header(&mut self.bytes, no, self.tree);
    }

    /// A page of an earlier transaction, or one that this transaction has written out.
    pub fn open(image: &Image, version: Version, horizon: Horizon) -> Opened {
        let active = image.active();
        let was_written = active.version == version;
        let (stays, base) = match was_written {
            true => (image.fallback(), None),
            false => (Some(active), image.fallback()),
        };
        let Horizon { version: horizon, kept, .. } = horizon;
        let older_come = stays.is_some_and(|stays| horizon < stays.version);
        // H2: what is kept is in each directory, since the next write may destroy the other one.
        let has_history = kept.is_some() && !mutant::is(Mutant::HistoryInFallback);
        let lists_dead = older_come || has_history && stays.is_some();
        let mut dead: Vec<Dead> = active.dead_cells(&image.bytes).collect();
        let mut displaced = None;
        // The oldest version that this page can serve.
        let mut served = active.floor;
        if !lists_dead {
            dead.clear();
        } else if older_come && !was_written && active.floor == active.version {
            // The active directory lists no dead cells. Those who needed them had the fallback,
            // which is overwritten now.
            match base {
                Some(base) if base.height == active.height => {
                    let lived = base.live_cells(&image.bytes);
                    let lived = lived.map(|place| (place, active.version)).collect();
                    dead = ended_before(image, lived, active);
                    served = base.version;
                }
                Some(base) => {
                    let copy = |place| copy_of(&image.bytes, place, base.shape());
                    displaced = Some(Displaced {
                        height: base.height,
                        live: base.live_cells(&image.bytes).map(copy).collect(),
                        dead: Vec::new(),
                        start: Version(0),
                        end: active.version,
                    });
                    served = base.version;
                }
                // A transaction that never was has overwritten the fallback. It has listed what
                // older readers need.
                None => {
                    if let Some(voided) = image.voided()
                        && voided.height == active.height
                        && voided.floor < active.version
                    {
                        dead = ended_before(image, voided.in_order(&image.bytes), active);
                        served = voided.floor;
                    }
                    // Else it is a fresh page, which no older reader reaches; or the fallback was
                    // lost in a crash.
                }
            }
        }
        dead.retain(|dead| dead.end > horizon);
        let live: Vec<u16> = active.live_cells(&image.bytes).collect();
        let floor = match lists_dead {
            true if mutant::is(Mutant::FloorTooLow) => horizon,
            true => horizon.max(served),
            false => version,
        };
        let of_others = [base.map(|slot| slot.version), image.voided().map(|slot| slot.floor)];
        invariant!(
            "I5",
            "a floor is not below what the directories of the page can serve",
            of_others.into_iter().flatten().fold(active.floor, Version::min) <= floor,
        );
        let mut draft = Draft {
            no: image.no,
            tree: image.tree,
            bytes: image.bytes.clone(),
            is_record: active.is_record,
            height: active.height,
            is_lazy: active.is_lazy && was_written,
            live,
            ending: dead.iter().filter(|dead| dead.end == Version::MAX).count(),
            dead,
            gaps: Gaps::default(),
            slot: if was_written { image.active_index } else { 1 - image.active_index },
            kept: stays.map(|stays| {
                let mut cells: Vec<u16> = stays.cells(&image.bytes).collect();
                cells.sort_unstable();
                let free = Gaps::around(image.bytes.len(), covered_by(stays, image).collect());
                Kept { cells, free }
            }),
            floor,
            lists_dead,
            was_written,
            is_changed: was_written,
        };
        draft.gaps = draft.free_of(image, stays);
        Opened { draft, displaced }
    }

    fn free_of(&self, image: &Image, stays: Option<&Slot>) -> Gaps {
        let shape = image.active().shape();
        let listed = self.live.iter().copied().chain(self.dead.iter().map(|dead| dead.place));
        let mut used: Vec<Range<usize>> =
            listed.map(|place| range_of(&image.bytes, place, shape)).collect();
        used.extend(stays.into_iter().flat_map(|stays| covered_by(stays, image)));
        Gaps::around(self.bytes.len(), used)
    }

    /// False: the page is as it was before the transaction, and need not be written.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// The page is written anew, without what nobody needs, if it has room for the directory.
    pub fn touch(&mut self) {
        self.is_changed |= self.fits(0, 0, 0);
    }

    /// True if cells that lived before the transaction do not live any more.
    pub fn has_ended(&self) -> bool {
        let lives = |place: &u16| self.live.contains(place);
        self.kept.as_ref().is_some_and(|kept| !kept.cells.iter().all(lives))
    }

    pub fn shape(&self) -> Shape {
        Shape { is_record: self.is_record, is_inner: self.height > 0 }
    }

    pub fn height(&self) -> u8 {
        self.height
    }

    pub fn view(&self) -> View<'_> {
        View::of(&self.bytes, self.shape(), self.height, &self.live)
    }

    pub fn len(&self) -> usize {
        self.live.len()
    }

    pub fn cell(&self, index: usize) -> Cell<'_> {
        self.parsed(self.live[index])
    }

    fn parsed(&self, place: u16) -> Cell<'_> {
        cell::parse(&self.bytes, usize::from(place), self.shape()).expect("the page was checked")
    }

    /// True if the page would have room for a cell of so many bytes, with `ending` cells taken out
    /// at the same time, and with room for `spare` bytes left.
    fn fits(&self, cell_bytes: usize, ending: usize, spare: usize) -> bool {
        let mut gaps = self.gaps.clone();
        let live = self.live.len() + usize::from(cell_bytes > 0);
        let dead = self.dead.len() + if self.lists_dead { ending } else { 0 };
        let directory = (live * LIVE_BYTES + dead * DEAD_BYTES).max(1);
        let has_cell = cell_bytes == 0 || gaps.take_high(cell_bytes).is_some();
        let has_directory = has_cell && gaps.take_low(directory, 0).is_some();
        has_directory && (spare == 0 || gaps.take_high(spare + LIVE_BYTES).is_some())
    }

    /// Adds a cell as the `index`-th that lives. False: there is no room, and nothing is changed.
    #[must_use]
    pub fn insert(&mut self, index: usize, cell: &[u8], spare: usize) -> bool {
        self.replace(index, index, cell, spare)
    }

    /// Takes cells `from..to` out, and puts one in their place. False: there is no room, and
    /// nothing is changed.
    #[must_use]
    pub fn replace(&mut self, from: usize, to: usize, cell: &[u8], spare: usize) -> bool {
        if !self.fits(cell.len(), to - from, spare) {
            return false;
        }
        self.is_changed = true;
        let at = self.gaps.take_high(cell.len()).expect("it was tried");
        self.check_uncovered(&(at..at + cell.len()), true);
        self.bytes[at..at + cell.len()].copy_from_slice(cell);
        (from..to).rev().for_each(|index| self.end(index));
        self.live.insert(from, at as u16);
        self.dead
            .iter_mut()
            .filter(|dead| usize::from(dead.rank) > from)
            .for_each(|dead| dead.rank += 1);
        true
    }

    /// To be called before a cell is put there, and before the page goes into the file.
    fn check_uncovered(&self, range: &Range<usize>, has_header: bool) {
        invariant!(
            "I2",
            "a write changes no byte that the directory which stays covers",
            has_header && self.kept.as_ref().is_none_or(|kept| kept.free.hold(range)),
        );
    }

    /// Takes cells out. False: there is no room for the directory, and nothing is changed.
    #[must_use]
    pub fn remove(&mut self, from: usize, to: usize, spare: usize) -> bool {
        if !self.fits(0, to - from, spare) {
            return false;
        }
        (from..to).rev().for_each(|index| self.end(index));
        true
    }

    /// Takes out a cell that no reader below this transaction sees.
    fn end_new(&mut self, index: usize) {
        let lists_dead = std::mem::replace(&mut self.lists_dead, false);
        self.end(index);
        self.lists_dead = lists_dead;
    }

    /// Ends the life of a cell. Its version as an end is filled in when the page is written.
    fn end(&mut self, index: usize) {
        self.is_changed = true;
        let place = self.live.remove(index);
        let is_new = mutant::is(Mutant::CollectedEarly)
            || self.kept.as_ref().is_none_or(|kept| kept.cells.binary_search(&place).is_err());
        let after = self.dead.partition_point(|dead| usize::from(dead.rank) <= index);
        self.dead[after..].iter_mut().for_each(|dead| dead.rank -= 1);
        if is_new {
            let length = self.parsed(place).bytes.len();
            let range = usize::from(place)..usize::from(place) + length;
            invariant!(
                "I3",
                "what the directory that stays covers is not free in the same transaction",
                self.kept.as_ref().is_none_or(|kept| kept.free.hold(&range)),
            );
            self.gaps.give(range);
        } else if self.lists_dead {
            self.ending += 1;
            let dead = Dead { place, rank: index as u16, end: Version::MAX };
            if !mutant::is(Mutant::DeadUnlisted) {
                self.dead.insert(after, dead);
            }
        }
    }

    /// Adds a cell that died before the page was made, or whose life ends with this transaction.
    #[must_use]
    pub fn add_dead(&mut self, cell: &[u8], rank: usize, end: Version) -> bool {
        let mut gaps = self.gaps.clone();
        let directory = self.live.len() * LIVE_BYTES + (self.dead.len() + 1) * DEAD_BYTES;
        let Some(at) = gaps.take_high(cell.len()) else { return false };
        if gaps.clone().take_low(directory, 0).is_none() {
            return false;
        }
        self.gaps = gaps;
        self.check_uncovered(&(at..at + cell.len()), true);
        self.is_changed = true;
        self.ending += usize::from(end == Version::MAX);
        self.bytes[at..at + cell.len()].copy_from_slice(cell);
        let after = self.dead.partition_point(|dead| usize::from(dead.rank) <= rank);
        self.dead.insert(after, Dead { place: at as u16, rank: rank as u16, end });
        true
    }

    /// Takes all live cells out of an inner page, and makes it higher. What is dead stays.
    pub fn hand_down(&mut self, height: u8) -> Vec<Vec<u8>> {
        let cells = self.live.iter().map(|&place| self.parsed(place).bytes.to_vec()).collect();
        (0..self.live.len()).rev().for_each(|index| self.end_new(index));
        self.is_changed = true;
        self.height = height;
        cells
    }

    /// Makes an inner page lower: its cells die, and it gets those of its only child.
    pub fn lower(&mut self, height: u8) {
        (0..self.live.len()).rev().for_each(|index| self.end(index));
        self.is_changed = true;
        self.height = height;
    }

    /// True if readers may come who do not take the directory that stays.
    pub fn serves_older(&self) -> bool {
        self.lists_dead && self.kept.is_some()
    }

    /// Empties the page, whose cells have gone elsewhere, and gives it another height. Answers what
    /// readers need of it.
    pub fn become_empty(&mut self, height: u8) -> Option<Displaced> {
        self.is_changed = true;
        let copy = |place| copy_of(&self.bytes, place, self.shape());
        let displaced = self.serves_older().then(|| Displaced {
            height: self.height,
            live: self.live.iter().map(|&place| copy(place)).collect(),
            dead: self.dead.iter().map(|dead| (copy(dead.place), *dead)).collect(),
            start: Version(0),
            end: Version::MAX,
        });
        self.live.clear();
        self.gaps = match &self.kept {
            Some(kept) => kept.free.clone(),
            None => Gaps::around(self.bytes.len(), Vec::new()),
        };
        self.dead.clear();
        self.ending = 0;
        self.height = height;
        displaced
    }

    pub fn set_floor(&mut self, floor: Version) {
        self.floor = floor;
    }

    /// How many bytes the live cells take, with their places in one directory.
    pub fn live_bytes(&self) -> usize {
        (0..self.len()).map(|index| self.cell(index).bytes.len() + LIVE_BYTES).sum()
    }

    /// The page has a directory of an earlier transaction, whose cells stay where they are.
    pub fn keeps_older(&self) -> bool {
        self.kept.is_some()
    }

    /// All of a page that cells and directories may take.
    pub fn room(&self) -> usize {
        self.bytes.len() - HEADER_BYTES
    }

    /// The page as it is to be written, and the checksum of its directory.
    /// None: it was damaged, so that its cells overlap.
    pub fn finish(
        mut self,
        version: Version,
        is_multi: bool,
        uuid: Uuid,
    ) -> Option<(Box<[u8]>, u32)> {
        let (live, dead) = (self.live.len(), self.dead.len());
        let directory_bytes = live * LIVE_BYTES + dead * DEAD_BYTES;
        let at = self
            .gaps
            .take_low(directory_bytes.max(1), DIRECTORY_SLACK_BYTES)
            .expect("each change left room for the directory");
        let mut directory = Vec::with_capacity(directory_bytes);
        self.live.iter().for_each(|place| directory.extend_from_slice(&place.to_le_bytes()));
        let mut ending = 0;
        for one in &self.dead {
            directory.extend_from_slice(&one.place.to_le_bytes());
            directory.extend_from_slice(&one.rank.to_le_bytes());
            let ends = one.end == Version::MAX;
            ending += usize::from(ends);
            let end = if ends { version } else { one.end };
            crate::bytes::push_u48(&mut directory, end.0);
        }
        invariant!(
            "I4",
            "a directory lists each cell that readers below it may need and that ends with it",
            ending == self.ending,
        );
        self.bytes[at..at + directory_bytes].copy_from_slice(&directory);
        if mutant::is(Mutant::CoveredByteChanged) {
            self.bytes[12] = version.0 as u8;
        }
        let has_header = slot::has_header(&self.bytes, self.no, self.tree);
        self.check_uncovered(&(at..at + directory_bytes), has_header);
        if self.kept.is_none() {
            slot::clear(&mut self.bytes, 1 - self.slot);
        }
        let mut slot = Slot {
            version,
            is_multi,
            is_lazy: self.is_lazy,
            is_record: self.is_record,
            height: self.height,
            floor: self.floor,
            at,
            live,
            dead,
            checksum: 0,
        };
        slot.write(&mut self.bytes, self.slot, uuid)?;
        Some((self.bytes, slot.checksum))
    }
}

fn range_of(page: &[u8], place: u16, shape: Shape) -> Range<usize> {
    let at = usize::from(place);
    at..at + cell::parse(page, at, shape).map_or(0, |cell| cell.bytes.len())
}

/// What a directory's checksum is over, but for header and slot.
fn covered_by<'a>(slot: &'a Slot, image: &'a Image) -> impl Iterator<Item = Range<usize>> + 'a {
    let cells = slot.cells(&image.bytes);
    let cells = cells.map(|place| range_of(&image.bytes, place, slot.shape()));
    // That of an empty page has no bytes.
    let directory = slot.at..slot.at + slot.directory_bytes();
    cells.chain((!directory.is_empty()).then_some(directory))
}

fn copy_of(page: &[u8], place: u16, shape: Shape) -> Vec<u8> {
    cell::parse(page, usize::from(place), shape).map_or(Vec::new(), |cell| cell.bytes.to_vec())
}

/// Cells of another directory, in key order and each with its end, that the active one does not
/// list as living. What began after the active one never was.
fn ended_before(image: &Image, cells: Vec<(u16, Version)>, active: &Slot) -> Vec<Dead> {
    let mut places: Vec<(u16, usize)> =
        active.live_cells(&image.bytes).enumerate().map(|(rank, place)| (place, rank)).collect();
    places.sort_unstable();
    let mut dead = Vec::new();
    let mut rank = 0;
    for (place, end) in cells {
        match places.binary_search_by_key(&place, |&(place, _)| place) {
            Ok(found) => rank = places[found].1 + 1,
            Err(_) if end <= active.version => dead.push(Dead { place, rank: rank as u16, end }),
            Err(_) => {}
        }
    }
    dead
}
