//! One request from the several events that tell its life.
//!
//! A trace may hold any of queue, insert, issue and complete. The first event of a request makes it; later ones add what they know:
//! the thread that asked and the file come from the queue event, merging from insert and issue, the end from complete. Requests
//! leave here in the order in which they began, each when its end is known, so everything behind this file sees every request once,
//! in order, and whole. Where ends are missing (no such event in the trace, or lost), age and number bound the waiting.
//!
//! One write may be seen at several devices that lie on each other. What it then costs: `layers`.
//!
//! A flush is a request without data. The block layer also makes flushes of its own for a write that asks for one (`F` before or
//! behind `W`); those are counted with that write, and its end is then the last of them (an end of 0 bytes at its sector).

use std::collections::{BTreeSet, HashSet, VecDeque};

use super::transaction::Amount;
use crate::model::{Action, Actor, Content, DeviceId, Event, Flags, NameId, SECTOR_BYTES};

mod layers;
mod stack;

pub use layers::Layer;
use stack::Devices;

/// Longest wait for an end, by the trace's clock.
const AGE_NS_MAX: u64 = 10_000_000_000;
/// Most requests that wait for an end.
const HELD_COUNT_MAX: usize = 8192;
/// The same while the trace has shown no end at the device, and so perhaps has none.
const HELD_COUNT_WITHOUT_ENDS: usize = 256;
/// How long after its data a write that asked for a flush may still end.
const FLUSH_TAIL_NS: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Request {
    pub begin_ns: u64,
    pub done_ns: u64,
    pub device: DeviceId,
    pub sector: u64,
    /// 0: a flush.
    pub bytes: u64,
    /// What it cost at the layer that counts; of a flush, what the file system below wrote for it.
    pub data: Amount,
    pub meta: Amount,
    pub flushes: u64,
    pub flags: Flags,
    pub actor: Actor,
    pub content: Option<Content>,
    pub file: Option<NameId>,
    /// From a trace of system calls: `sector` is then the offset in the file, in bytes.
    pub is_call: bool,
}

impl Request {
    pub(super) fn amount(&self) -> Amount {
        let mut amount = self.data;
        amount += self.meta;
        amount
    }

    fn count_own_flush(&mut self) {
        if self.flushes == 0 && (self.bytes == 0 && !self.is_call || self.flags.preflush) {
            self.flushes = 1;
        }
    }

    fn end_sector(&self) -> u64 {
        self.sector.saturating_add(self.bytes.div_ceil(SECTOR_BYTES))
    }
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Removal {
    Truncated,
    Deleted,
}

/// What leaves here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item {
    Write(Request),
    SyncEnter { time_ns: u64, actor: Actor, file: Option<NameId>, device: DeviceId },
    SyncExit { time_ns: u64, actor: Actor, file: Option<NameId> },
    Removed { time_ns: u64, file: Option<NameId>, removal: Removal },
    WriteLock { time_ns: u64, actor: Actor, file: Option<NameId> },
    WriteUnlock { time_ns: u64, actor: Actor, file: Option<NameId> },
    WalWrite { actor: Actor, file: Option<NameId>, offset: u64 },
}

struct Slot {
    item: Item,
    done: bool,
    done_bytes: u64,
    issued: bool,
    /// No more flushes of the block layer's own are to come.
    is_final: bool,
    /// Folded into another, or a part of one above that has left.
    gone: bool,
    /// The request above of which it is a part, and the parts below that it has become.
    upper: Option<u64>,
    lowers: Vec<u64>,
    /// Known from a remap; the event by which it is queued is still to come.
    is_announced: bool,
}

#[derive(Default)]
pub(super) struct Requests {
    slots: VecDeque<Slot>,
    /// Number of the front slot.
    front: u64,
    /// Writes with data that wait for their end, by place.
    places: BTreeSet<(DeviceId, u64, u64)>,
    /// Flushes that wait for their end, like all here in the order of their numbers.
    flushes: VecDeque<(DeviceId, u64)>,
    /// Writes that asked for a flush and wait.
    flushing: VecDeque<(DeviceId, u64)>,
    longest_sectors: u64,
    /// Devices of which a request's beginning was seen.
    begun: HashSet<DeviceId>,
    /// Devices of which an end was seen.
    ended: HashSet<DeviceId>,
    now_ns: u64,
    pub devices: Devices,
    pub layer: Layer,
}

impl Requests {
    /// `is_kernels`: a thread of the kernel's does it, for others.
    pub(super) fn push(&mut self, event: &Event, is_kernels: bool) {
        self.now_ns = self.now_ns.max(event.time_ns);
        let (time_ns, actor, file) = (event.time_ns, event.actor, event.file);
        match event.action {
            Action::Queue | Action::Insert | Action::Issue | Action::Complete => self.block(event, is_kernels),
            Action::Remap { from, from_sector } => self.remap(event, from, from_sector),
            Action::OnFileOf { below } => self.devices.add_file_of(event.device, below),
            Action::FileWrite => {
                let mut request = Request::of(event);
                request.is_call = true;
                self.add(Item::Write(request), true);
            }
            Action::SyncEnter => {
                self.add(Item::SyncEnter { time_ns, actor, file, device: event.device }, true);
            }
            Action::SyncExit => self.add(Item::SyncExit { time_ns, actor, file }, true),
            Action::FileTruncate => self.add(Item::Removed { time_ns, file, removal: Removal::Truncated }, true),
            Action::FileDelete => self.add(Item::Removed { time_ns, file, removal: Removal::Deleted }, true),
            Action::WriteLock => self.add(Item::WriteLock { time_ns, actor, file }, true),
            Action::WriteUnlock => self.add(Item::WriteUnlock { time_ns, actor, file }, true),
            Action::WalWrite => self.add(Item::WalWrite { actor, file, offset: event.sector }, true),
            Action::FileRead | Action::Marker => {}
        }
    }

    /// The next in order whose end is known.
    pub(super) fn pop(&mut self) -> Option<Item> {
        loop {
            let front = self.slots.front()?;
            if !front.gone && !self.may_leave(front) {
                return None;
            }
            if let Some(item) = self.leave() {
                return Some(item);
            }
        }
    }

    /// The next in order, at the end of the trace.
    pub(super) fn drain(&mut self) -> Option<Item> {
        while !self.slots.is_empty() {
            if let Some(item) = self.leave() {
                return Some(item);
            }
        }
        None
    }

    fn may_leave(&self, slot: &Slot) -> bool {
        let Item::Write(request) = &slot.item else { return true };
        if self.is_complete(slot) {
            return true;
        }
        let has_ends = self.ended.contains(&request.device) || !slot.lowers.is_empty();
        let held_max = if has_ends { HELD_COUNT_MAX } else { HELD_COUNT_WITHOUT_ENDS };
        self.slots.len() > held_max || self.now_ns > request.begin_ns + AGE_NS_MAX
    }

    fn leave(&mut self) -> Option<Item> {
        let slot = self.slots.pop_front()?;
        let number = self.front;
        self.front += 1;
        if slot.gone {
            return None;
        }
        let mut item = slot.item;
        if let Item::Write(request) = &mut item {
            self.forget_place(request, number);
            request.count_own_flush();
            self.count(request, &slot.lowers);
        }
        Some(item)
    }

    fn slot(&mut self, number: u64) -> &mut Slot {
        &mut self.slots[(number - self.front) as usize]
    }

    fn request(&mut self, number: u64) -> &mut Request {
        match &mut self.slot(number).item {
            Item::Write(request) => request,
            _ => unreachable!("only writes are indexed"),
        }
    }

    fn forget_place(&mut self, request: &Request, number: u64) {
        self.places.remove(&(request.device, request.sector, number));
        forget(&mut self.flushes, number);
        forget(&mut self.flushing, number);
    }

    fn add(&mut self, item: Item, done: bool) {
        let number = self.front + self.slots.len() as u64;
        let mut is_final = true;
        if let Item::Write(request) = &item
            && !request.is_call
        {
            let asks = request.flags.preflush || request.flags.fua;
            if request.bytes == 0 {
                self.flushes.push_back((request.device, number));
            } else {
                self.places.insert((request.device, request.sector, number));
                self.longest_sectors = self.longest_sectors.max(request.end_sector() - request.sector);
                if asks && !done {
                    self.flushing.push_back((request.device, number));
                    is_final = false;
                }
            }
        }
        let (gone, upper, lowers, is_announced) = (false, None, Vec::new(), false);
        self.slots.push_back(Slot {
            item,
            done,
            done_bytes: 0,
            issued: false,
            is_final,
            gone,
            upper,
            lowers,
            is_announced,
        });
    }

    fn block(&mut self, event: &Event, is_kernels: bool) {
        let flags = event.flags;
        if flags.read || flags.discard || !(flags.write || flags.preflush) {
            return;
        }
        let event = &Event { device: self.device_of(event), ..*event };
        let is_end = event.action == Action::Complete;
        if is_end && !self.ended.contains(&event.device) {
            self.ended.insert(event.device);
        }
        if event.action == Action::Queue && self.is_queued_below(event, is_kernels) {
            self.begun.insert(event.device);
            return;
        }
        match (event.bytes == 0, is_end) {
            (true, false) => self.flush_begins(event),
            (true, true) => self.flush_ends(event),
            (false, false) => self.write_begins(event),
            (false, true) => self.write_ends(event),
        }
        if !is_end {
            self.begun.insert(event.device);
        }
    }

    fn flush_begins(&mut self, event: &Event) {
        let device = event.device;
        if event.action != Action::Queue {
            let waiting = self.flushes.iter().find(|&&(of, number)| {
                let slot = &self.slots[(number - self.front) as usize];
                of == device && !slot.done && !slot.issued
            });
            if let Some(&(_, number)) = waiting {
                self.slot(number).issued |= event.action == Action::Issue;
                return;
            }
            // The block layer's own are not inserted, but sent.
            let own = self.flushing.iter().find(|&&(of, _)| of == device && event.action == Action::Issue);
            if let Some(&(_, number)) = own {
                self.request(number).flushes += 1;
                return;
            }
        }
        self.add(Item::Write(Request { sector: 0, ..Request::of(event) }), false);
        self.slots.back_mut().expect("just added").issued = event.action == Action::Issue;
    }

    /// The end of a flush, or of a write that asked for one and whose data has ended; some traces give neither a place.
    fn flush_ends(&mut self, event: &Event) {
        let has_place = event.sector != 0 && event.sector <= u64::MAX / 2;
        let flush = self.flushes.iter().find(|&&(of, _)| of == event.device && !has_place).map(|found| found.1);
        let asked = self.flushing.iter().map(|found| found.1).find(|&number| {
            let slot = &self.slots[(number - self.front) as usize];
            let is_it = |request: &Request| request.device == event.device && (request.sector == event.sector || !has_place);
            // Without a place, this may also be one of the flushes on its way.
            matches!(&slot.item, Item::Write(request) if is_it(request) && (has_place || slot.done && event.sector == 0))
        });
        match (flush, asked) {
            (Some(flush), asked) if asked.is_none_or(|asked| flush < asked) => {
                self.end(flush, event.time_ns);
                forget(&mut self.flushes, flush);
            }
            (_, Some(asked)) => {
                self.end(asked, event.time_ns);
                self.slot(asked).is_final = true;
                forget(&mut self.flushing, asked);
            }
            _ => {
                if event.sector == 0 && !self.begun.contains(&event.device) {
                    self.add(Item::Write(Request::of(event)), true);
                    self.flushes.pop_back();
                }
            }
        }
    }

    fn end(&mut self, number: u64, time_ns: u64) {
        self.slot(number).done = true;
        let request = self.request(number);
        request.done_ns = request.done_ns.max(time_ns);
    }

    /// Waiting writes that share a sector with `[sector, end)`, oldest first.
    fn overlapping(&self, device: DeviceId, sector: u64, end: u64) -> Vec<u64> {
        let from = (device, sector.saturating_sub(self.longest_sectors), 0);
        let mut found: Vec<u64> = self
            .places
            .range(from..(device, end, 0))
            .map(|&(_, _, number)| number)
            .filter(|&number| {
                let slot = &self.slots[(number - self.front) as usize];
                matches!(slot.item, Item::Write(request) if !slot.done && request.end_sector() > sector)
            })
            .collect();
        found.sort_unstable();
        found
    }

    fn write_begins(&mut self, event: &Event) {
        let new = Request::of(event);
        if event.action == Action::Queue {
            return self.add(Item::Write(new), false);
        }
        let found = self.overlapping(new.device, new.sector, new.end_sector());
        let Some(&first) = found.first() else {
            return self.add(Item::Write(new), false);
        };
        self.slot(first).is_announced = false;
        let whole = *self.request(first);
        if event.action == Action::Issue && new.bytes < whole.bytes {
            // The device takes no request so long, so it is sent in parts.
            let slot = self.slot(first);
            let parts = u64::from(slot.issued);
            slot.issued = true;
            self.request(first).data.requests += parts;
        }
        for &other in &found[1..] {
            let part = *self.request(other);
            if part.file == whole.file && part.content == whole.content && part.sector >= new.sector {
                self.fold(first, other);
            }
        }
    }

    /// `other` was merged with `first`; they touch.
    fn fold(&mut self, first: u64, other: u64) {
        let part = *self.request(other);
        let whole = *self.request(first);
        if part.end_sector() != whole.sector && whole.end_sector() != part.sector || !self.fold_uppers(first, other) {
            return;
        }
        self.places.remove(&(part.device, part.sector, other));
        self.places.remove(&(whole.device, whole.sector, first));
        forget(&mut self.flushing, other);
        let slot = self.slot(other);
        slot.gone = true;
        let lowers = std::mem::take(&mut slot.lowers);
        lowers.iter().for_each(|&lower| self.slot(lower).upper = Some(first));
        self.slot(first).lowers.extend(lowers);
        let request = self.request(first);
        request.sector = whole.sector.min(part.sector);
        request.bytes += part.bytes;
        request.data.bytes += part.data.bytes;
        let (device, sector, sectors) = (request.device, request.sector, request.end_sector() - request.sector);
        self.places.insert((device, sector, first));
        self.longest_sectors = self.longest_sectors.max(sectors);
    }

    fn write_ends(&mut self, event: &Event) {
        let end_sector = event.sector.saturating_add(event.bytes.div_ceil(SECTOR_BYTES));
        let mut found = self.overlapping(event.device, event.sector, end_sector);
        if found.is_empty() {
            if !self.begun.contains(&event.device) {
                self.add(Item::Write(Request::of(event)), true);
            }
            return;
        }
        // The same sectors may have been queued again meanwhile: the older request ends first.
        let mut left = event.bytes;
        found.retain(|&number| {
            let more = left > 0;
            let request = match &self.slots[(number - self.front) as usize].item {
                Item::Write(request) => *request,
                _ => return false,
            };
            left = left.saturating_sub(request.bytes);
            more
        });
        for number in found {
            let request = *self.request(number);
            let shared = request.end_sector().min(end_sector) - request.sector.max(event.sector);
            let slot = self.slot(number);
            slot.done_bytes += shared * SECTOR_BYTES;
            if slot.done_bytes >= request.bytes {
                self.end(number, event.time_ns);
            }
        }
    }
}

/// Takes a number out of those that wait.
fn forget(waiting: &mut VecDeque<(DeviceId, u64)>, number: u64) {
    if let Ok(at) = waiting.binary_search_by_key(&number, |&(_, held)| held) {
        waiting.remove(at);
    }
}

impl Request {
    fn of(event: &Event) -> Request {
        Request {
            begin_ns: event.time_ns,
            done_ns: event.time_ns,
            device: event.device,
            sector: event.sector,
            bytes: event.bytes,
            data: Amount { bytes: event.bytes, requests: u64::from(event.bytes > 0) },
            meta: Amount::default(),
            flushes: 0,
            flags: event.flags,
            actor: event.actor,
            content: event.content,
            file: event.file,
            is_call: false,
        }
    }
}
