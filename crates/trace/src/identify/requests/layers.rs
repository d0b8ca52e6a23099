//! One write that is seen at several devices: LVM, LUKS, md, dm over dm, a partition, a loop device
//! over a file.
//!
//! What a program wrote is a request at the device of its file system. The file and the sectors are
//! known there, so the groups are made there. The cost is counted at one layer, by default the
//! lowest. A request below is therefore no item of its own, but a part of the one above.
//!
//! Invariants:
//! 1. A request leaves as an item at the highest device at which it was seen, and only there.
//! 2. Its bytes, requests and flushes are those at one layer. At the lowest layer, they are what
//!    the devices at the bottom were sent for it. Two mirrors are twice the bytes and two flushes.
//! 3. Parts come later than their request in the order of requests. A request leaves only when all
//!    its parts have ended, and its parts leave with it. Its cost is therefore whole when it is
//!    counted. Age and number still bound the waiting (`AGE_NS_MAX`, `HELD_COUNT_MAX`).
//! 4. A request below that cannot be tied to one above is an item of its own. It is counted, but
//!    for no transaction of another device ([`super::super::attach`]).
//!
//! What says which request becomes which:
//! - `block_bio_remap`, `block_rq_remap`: the request at the old place is now (also) here. The
//!   lower device's queue event comes later and says nothing new. A device mapper sends the flush
//!   before a write's data by itself. A remapped flush may therefore belong to a write that asked
//!   for one.
//! - md remaps no flush. A flush that is queued below belongs to a request above that waits for
//!   one.
//! - A partition's queue event has the partition's number (since Linux 5.12). Its later events have
//!   the disk's, at the same sectors. The partition is then another name of the disk, and no layer.
//! - A loop device's worker asks the file system below in the order in which it got its requests.
//!   Data are parts of the oldest write that lacks just so much, else of the oldest that lacks
//!   more. Flushes are parts of the oldest flush. What the file system below writes for these
//!   requests is also a part of them. Data of another file than the device's are no part.

use super::{FLUSH_TAIL_NS, Item, Request, Requests, Slot};
use crate::identify::traffic::Amount;
use crate::model::{Action, DeviceId, Event, SECTOR_BYTES};

/// Where bytes, requests and flushes are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// The devices at the bottom.
    #[default]
    Lowest,
    /// The devices with the file systems.
    Highest,
    /// This device. Where the trace has none of it, the lowest.
    Device(DeviceId),
}

/// Whether an event's bytes, or a flush by it, come to a device that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub bytes: bool,
    pub flush: bool,
}

impl Requests {
    /// Bytes come to a device as they are queued, flushes as they are sent. A device that is told
    /// only one of both has them by that one. Below dm-multipath nothing is queued, and a device
    /// mapper sends nothing.
    pub fn counts(&self, event: &Event) -> Counted {
        let device = self.devices.of(event.device);
        let is_counted = match self.layer {
            Layer::Lowest => !self.devices.is_above(device),
            Layer::Highest => !self.devices.is_below(device),
            Layer::Device(only) => self.devices.of(only) == device,
        };
        if !is_counted {
            return Counted::default();
        }
        let asks = event.flags.preflush;
        match event.action {
            Action::Queue => {
                Counted { bytes: event.bytes > 0, flush: asks && !self.devices.is_sent(device) }
            }
            Action::Issue => Counted {
                bytes: event.bytes > 0 && !self.devices.is_queued(device),
                flush: asks && event.bytes == 0,
            },
            _ => Counted::default(),
        }
    }

    /// The device of an event; a partition is its disk.
    pub(super) fn device_of(&mut self, event: &Event) -> DeviceId {
        let device = self.devices.of(event.device);
        match event.action {
            Action::Queue => self.devices.queue_at(device),
            Action::Insert | Action::Issue => {
                self.devices.send_at(device);
                if event.bytes > 0 {
                    self.look_for_partition(device, event);
                }
            }
            _ => {}
        }
        device
    }

    /// A request is sent at `disk` that was not queued there. If it was queued just so at a device
    /// that has never sent anything, that device is a partition of the disk.
    fn look_for_partition(&mut self, disk: DeviceId, event: &Event) {
        let partitions = self.devices.partitions_of(disk);
        let end = event.sector.saturating_add(event.bytes.div_ceil(SECTOR_BYTES));
        if partitions.is_empty() || !self.overlapping(disk, event.sector, end).is_empty() {
            return;
        }
        for partition in partitions {
            let found = self.overlapping(partition, event.sector, end);
            let begin = found.iter().map(|&number| self.request(number).sector).min();
            let last = found.iter().map(|&number| self.request(number).end_sector()).max();
            if begin == Some(event.sector) && last == Some(end) {
                return self.rename(partition, disk);
            }
        }
    }

    fn rename(&mut self, partition: DeviceId, disk: DeviceId) {
        self.devices.add_alias(partition, disk);
        self.devices.queue_at(disk);
        let places: Vec<_> = self
            .places
            .range((partition, 0, 0)..=(partition, u64::MAX, u64::MAX))
            .copied()
            .collect();
        for place in places {
            self.places.remove(&place);
            self.places.insert((disk, place.1, place.2));
        }
        for waiting in [&mut self.flushes, &mut self.flushing] {
            waiting.iter_mut().filter(|held| held.0 == partition).for_each(|held| held.0 = disk);
        }
        for slot in &mut self.slots {
            if let Item::Write(request) = &mut slot.item
                && request.device == partition
            {
                request.device = disk;
            }
        }
        self.begun.insert(disk);
    }

    /// A request that was made at `from` is here now.
    pub(super) fn remap(&mut self, event: &Event, from: DeviceId, from_sector: u64) {
        let flags = event.flags;
        if flags.read || flags.discard || !(flags.write || flags.preflush) {
            return;
        }
        let (upper, lower) = (self.devices.of(from), self.devices.of(event.device));
        if event.device == from {
            self.devices.add_partition(from);
        }
        if upper == lower {
            return self.move_announced(lower, from_sector, event.sector);
        }
        let event = &Event { device: lower, ..*event };
        let found = if event.bytes == 0 {
            self.flush_above(upper, lower)
        } else {
            let end = from_sector.saturating_add(event.bytes.div_ceil(SECTOR_BYTES));
            let above = self.overlapping(upper, from_sector, end);
            above.into_iter().find(|&number| self.has_room(number, lower, event.bytes))
        };
        match found {
            Some(number) => {
                self.devices.add_below(upper, lower);
                self.add_lower(number, event, true);
            }
            // Before Linux 5.12 a partition's number is only in the remap.
            None if upper.major == lower.major && !self.devices.is_queued(upper) => {
                self.devices.add_alias(upper, lower);
            }
            None => self.devices.add_below(upper, lower),
        }
    }

    /// A partition's sector becomes the disk's.
    fn move_announced(&mut self, device: DeviceId, from_sector: u64, sector: u64) {
        let Some(number) = self.announced(device, from_sector) else { return };
        self.places.remove(&(device, from_sector, number));
        self.places.insert((device, sector, number));
        self.request(number).sector = sector;
    }

    fn announced(&self, device: DeviceId, sector: u64) -> Option<u64> {
        let at = self.places.range((device, sector, 0)..=(device, sector, u64::MAX));
        at.map(|place| place.2).find(|&number| self.held(number).is_announced)
    }

    /// Whether what is queued is a part of a request above.
    pub(super) fn is_queued_below(&mut self, event: &Event, is_kernels: bool) -> bool {
        let device = event.device;
        let announced = if event.bytes > 0 {
            self.announced(device, event.sector)
        } else {
            let is_it = |of: DeviceId, number: u64| of == device && self.held(number).is_announced;
            self.flushes.iter().find(|&&(of, number)| is_it(of, number)).map(|found| found.1)
        };
        if let Some(number) = announced {
            self.slot(number).is_announced = false;
            return true;
        }
        let mut above = None;
        if event.bytes == 0 {
            let mut uppers = self.devices.above(device);
            above = uppers.find_map(|upper| self.flush_above(upper, device));
        }
        if is_kernels && above.is_none() {
            let mut loops = self.devices.loops_above(device);
            above = loops.find_map(|upper| self.of_loop(upper, event));
        }
        if let Some(number) = above {
            self.add_lower(number, event, false);
        }
        above.is_some()
    }

    /// The oldest request of a loop device that this may be a part of.
    fn of_loop(&self, upper: DeviceId, event: &Event) -> Option<u64> {
        let is_others = |file| self.devices.file_of(upper).is_some_and(|own| own != file);
        if event.file.is_some_and(is_others) {
            return None;
        }
        // The flush behind a write's data comes when the data have ended.
        let is_open = |number: &u64| !(self.held(*number).done && self.held(*number).is_final);
        let flush = || self.waiting_for_flush(upper).filter(is_open).min();
        if event.bytes == 0 {
            return flush();
        }
        let open = || {
            let places = self.places.range((upper, 0, 0)..=(upper, u64::MAX, u64::MAX));
            places.map(|place| place.2).filter(|&number| !self.held(number).done)
        };
        // Requests that wait together may be sent in another order. A request that lacks just so
        // much comes first.
        let lacks = |number: u64| {
            let slot = self.held(number);
            let lacks =
                slot.write()?.bytes.checked_sub(self.lower_bytes(slot, Some(event.device)))?;
            (lacks >= event.bytes).then_some((lacks > event.bytes, number))
        };
        let write = || open().filter_map(lacks).min().map(|(_, number)| number);
        if event.flags.meta {
            flush().or_else(write).or_else(|| open().min())
        } else {
            write().or_else(flush)
        }
    }

    /// Flushes of the device, and writes there that asked for one.
    fn waiting_for_flush(&self, device: DeviceId) -> impl Iterator<Item = u64> {
        let waiting = self.flushes.iter().chain(&self.flushing);
        waiting.filter(move |held| held.0 == device).map(|held| held.1)
    }

    fn parts<'a>(&'a self, slot: &'a Slot) -> impl Iterator<Item = &'a Slot> {
        slot.lowers.iter().map(|&part| self.held(part))
    }

    /// The oldest request that waits for a flush of `upper` and has no flush of `lower`.
    fn flush_above(&self, upper: DeviceId, lower: DeviceId) -> Option<u64> {
        let is_flush_below = |request: &Request| request.bytes == 0 && request.device == lower;
        let has_one =
            |number: u64| self.parts(self.held(number)).filter_map(Slot::write).any(is_flush_below);
        self.waiting_for_flush(upper).filter(|&number| !has_one(number)).min()
    }

    /// `bytes` more of the request can be at `lower`.
    fn has_room(&self, number: u64, lower: DeviceId, bytes: u64) -> bool {
        let slot = self.held(number);
        let is_enough =
            |request: &Request| self.lower_bytes(slot, Some(lower)) + bytes <= request.bytes;
        slot.write().is_some_and(is_enough)
    }

    /// Bytes of the parts below. `device`: only those at this device.
    fn lower_bytes(&self, slot: &Slot, device: Option<DeviceId>) -> u64 {
        let parts = self.parts(slot).filter(|part| !part.gone).filter_map(Slot::write);
        parts
            .filter(|part| device.is_none_or(|device| device == part.device))
            .map(|part| part.bytes)
            .sum()
    }

    fn add_lower(&mut self, upper: u64, event: &Event, is_announced: bool) {
        let above = *self.request(upper);
        let part = Request {
            actor: above.actor,
            content: above.content,
            file: above.file,
            ..Request::of(event)
        };
        self.add(Item::Write(part), false);
        let number = self.front + self.slots.len() as u64 - 1;
        let slot = self.slot(number);
        slot.upper = Some(upper);
        slot.is_announced = is_announced;
        self.slot(upper).lowers.push(number);
    }

    /// The request and all its parts have ended.
    pub(super) fn is_complete(&self, slot: &Slot) -> bool {
        let Some(request) = slot.write() else { return true };
        let has_ended =
            slot.done && (slot.is_final || self.now_ns > request.done_ns + FLUSH_TAIL_NS);
        if slot.lowers.is_empty() {
            return has_ended;
        }
        // A loop device tells its ends itself. It makes several requests of a flush, one after the
        // other. A flush may still become one of another device, as long as its own end is to come.
        let may_grow = request.bytes == 0 && self.ended.contains(&request.device);
        let is_told = self.devices.is_on_file(request.device) || may_grow;
        let is_covered = !is_told && self.lower_bytes(slot, None) >= request.bytes;
        (has_ended || is_covered)
            && self.parts(slot).all(|part| part.gone || self.is_complete(part))
    }

    /// The parts of a request that leaves go with it. The request costs what its parts cost, unless
    /// it is counted itself.
    pub(super) fn count(&mut self, request: &mut Request, parts: &[u64]) {
        let is_counted_here = match self.layer {
            Layer::Lowest => false,
            Layer::Highest => true,
            Layer::Device(device) => self.devices.of(device) == request.device,
        };
        let (mut data, mut meta, mut flushes) = (Amount::default(), Amount::default(), 0);
        for &part in parts {
            let slot = self.slot(part);
            if std::mem::replace(&mut slot.gone, true) {
                continue;
            }
            let lowers = std::mem::take(&mut slot.lowers);
            let mut lower = *self.request(part);
            self.forget_place(&lower, part);
            lower.count_own_flush();
            self.count(&mut lower, &lowers);
            request.done_ns = request.done_ns.max(lower.done_ns);
            *(if lower.flags.meta { &mut meta } else { &mut data }) += lower.data;
            meta += lower.meta;
            flushes += lower.flushes;
        }
        // Data that a loop device has taken into its file's cache have reached nothing below.
        let is_cached = parts.is_empty() && self.devices.is_on_file(request.device);
        if !is_counted_here && (!parts.is_empty() || is_cached) {
            (request.data, request.meta, request.flushes) = (data, meta, flushes);
        }
    }

    /// Two parts become one request of the device. Their requests above are folded as well, if
    /// possible.
    pub(super) fn fold_uppers(&mut self, first: u64, other: u64) -> bool {
        let uppers = (self.slot(first).upper, self.slot(other).upper);
        let (Some(above_first), Some(above_other)) = uppers else { return uppers == (None, None) };
        if above_first == above_other {
            return true;
        }
        let (older, newer) = (above_first.min(above_other), above_first.max(above_other));
        let (whole, part) = (*self.request(older), *self.request(newer));
        if whole.device != part.device || whole.file != part.file || whole.content != part.content {
            return false;
        }
        self.fold(older, newer);
        self.slot(newer).gone
    }
}
