//! One request from the several events that tell its life.
//!
//! Requests leave here in the order in which they began, each when its end is known. So everything
//! after this sees every request once, in order, and whole. Ends may be missing: there are no such
//! events in the trace, or they were lost. Then age and number bound the waiting.
//!
//! - `events`: which request an event of a device belongs to.
//! - `layers`: one write that is seen at several devices that lie on each other.
//! - `stack`: which device lies on which.

use std::collections::{BTreeSet, HashSet, VecDeque};

use super::traffic::{Amount, Class, Traffic};
use crate::model::{Action, Actor, Content, DeviceId, Event, Flags, NameId, SECTOR_BYTES};

mod events;
mod layers;
mod stack;

pub use layers::{Counted, Layer};
use stack::Devices;

/// Longest wait for an end, by the trace's clock.
const AGE_NS_MAX: u64 = 10_000_000_000;
/// Most requests that wait for an end.
const HELD_COUNT_MAX: usize = 8192;
/// The same limit while the trace has shown no end at the device, and so perhaps has none.
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
    /// Cost at the layer that counts. Of a flush, what the file system below wrote for it.
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

impl Traffic {
    /// Adds what a request was sent for. A request without data is a flush, which is counted
    /// beside. Below a loop device, a flush makes writes of the file system there.
    pub(super) fn add_caused(&mut self, class: Class, request: &Request) {
        if request.bytes > 0 {
            *self.class(class) += request.amount();
        } else {
            self.db += request.data;
            self.fs_journal += request.meta;
        }
    }
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Removal {
    Truncated,
    Deleted,
}

/// An item that leaves here.
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
    /// The block layer will make no more flushes for this request.
    is_final: bool,
    /// This request is folded into another, or is a part of one above that has left.
    gone: bool,
    /// The request above of which this one is a part, and the parts below that this one has become.
    upper: Option<u64>,
    lowers: Vec<u64>,
    /// Known from a remap; the event by which it is queued is still to come.
    is_announced: bool,
}

impl Slot {
    fn write(&self) -> Option<&Request> {
        match &self.item {
            Item::Write(request) => Some(request),
            _ => None,
        }
    }
}

#[derive(Default)]
pub(super) struct Requests {
    slots: VecDeque<Slot>,
    /// Number of the slot at the front.
    front: u64,
    /// Writes with data that wait for their end, by place.
    places: BTreeSet<(DeviceId, u64, u64)>,
    /// Flushes that wait for their end. All queues here are in the order of their numbers.
    flushes: VecDeque<(DeviceId, u64)>,
    /// Writes that asked for a flush and wait for their end.
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
    /// Takes an event. `is_kernels`: a thread of the kernel's makes the request, for others.
    pub(super) fn push(&mut self, event: &Event, is_kernels: bool) {
        self.now_ns = self.now_ns.max(event.time_ns);
        let (time_ns, actor, file) = (event.time_ns, event.actor, event.file);
        match event.action {
            Action::Queue | Action::Insert | Action::Issue | Action::Complete => {
                self.block(event, is_kernels)
            }
            Action::Remap { from, from_sector } => self.remap(event, from, from_sector),
            Action::OnFileOf { below } => self.devices.add_file_of(event.device, below, file),
            Action::FileWrite => {
                let mut request = Request::of(event);
                request.is_call = true;
                self.add(Item::Write(request), true);
            }
            Action::SyncEnter => {
                self.add(Item::SyncEnter { time_ns, actor, file, device: event.device }, true);
            }
            Action::SyncExit => self.add(Item::SyncExit { time_ns, actor, file }, true),
            Action::FileTruncate => {
                self.add(Item::Removed { time_ns, file, removal: Removal::Truncated }, true)
            }
            Action::FileDelete => {
                self.add(Item::Removed { time_ns, file, removal: Removal::Deleted }, true)
            }
            Action::WriteLock => self.add(Item::WriteLock { time_ns, actor, file }, true),
            Action::WriteUnlock => self.add(Item::WriteUnlock { time_ns, actor, file }, true),
            Action::WalWrite => {
                self.add(Item::WalWrite { actor, file, offset: event.sector }, true)
            }
            Action::FileRead | Action::Marker | Action::Lsmvbt { .. } => {}
        }
    }

    /// The next item in order, if its end is known.
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

    /// The next item in order, at the end of the trace.
    pub(super) fn drain(&mut self) -> Option<Item> {
        while !self.slots.is_empty() {
            if let Some(item) = self.leave() {
                return Some(item);
            }
        }
        None
    }

    /// Writes have begun, and none has ended at a device that lies on no other.
    pub(super) fn lacks_ends(&self) -> bool {
        let bottom = |device: &&DeviceId| self.devices.is_bottom(**device);
        !self.begun.is_empty()
            && !self.begun.iter().filter(bottom).any(|device| self.ended.contains(device))
    }

    /// Devices that seem to lie on others or under one, while the trace does not say on which.
    pub(super) fn untied_devices(&self) -> Vec<DeviceId> {
        self.devices.untied(&self.ended)
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

    fn held(&self, number: u64) -> &Slot {
        &self.slots[(number - self.front) as usize]
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
                self.longest_sectors =
                    self.longest_sectors.max(request.end_sector() - request.sector);
                if asks && !done {
                    self.flushing.push_back((request.device, number));
                    is_final = false;
                }
            }
        }
        self.slots.push_back(Slot {
            item,
            done,
            done_bytes: 0,
            issued: false,
            is_final,
            gone: false,
            upper: None,
            lowers: Vec::new(),
            is_announced: false,
        });
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
