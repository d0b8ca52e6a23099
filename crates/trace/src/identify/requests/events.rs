//! Which request an event of a device belongs to.
//!
//! A trace may hold any of queue, insert, issue and complete. The first event of a request makes
//! it. Later ones add what they know:
//! - queue: the thread that asked, and the file;
//! - insert and issue: merging;
//! - complete: the end.
//!
//! A flush is a request without data. For a write that asks for one (`F` before or after `W`), the
//! block layer makes flushes of its own. They are counted with that write. The write ends with the
//! last of these flushes, which is an end of 0 bytes at its sector.

use super::{Item, Request, Requests, forget};
use crate::model::{Action, DeviceId, Event, SECTOR_BYTES};

impl Requests {
    pub(super) fn block(&mut self, event: &Event, is_kernels: bool) {
        let flags = event.flags;
        if flags.read || flags.discard || !(flags.write || flags.preflush) {
            return;
        }
        let event = &Event { device: self.device_of(event), ..*event };
        let is_end = event.action == Action::Complete;
        let is_of_above = event.action == Action::Queue && self.is_queued_below(event, is_kernels);
        match (event.bytes == 0, is_end) {
            _ if is_of_above => {}
            (true, false) => self.flush_begins(event),
            (true, true) => self.flush_ends(event),
            (false, false) => self.write_begins(event),
            (false, true) => self.write_ends(event),
        }
        (if is_end { &mut self.ended } else { &mut self.begun }).insert(event.device);
    }

    fn flush_begins(&mut self, event: &Event) {
        let device = event.device;
        if event.action != Action::Queue {
            let waiting = self.flushes.iter().find(|&&(of, number)| {
                let slot = self.held(number);
                of == device && !slot.done && !slot.issued
            });
            if let Some(&(_, number)) = waiting {
                self.slot(number).issued |= event.action == Action::Issue;
                return;
            }
            // The block layer's own flushes are not inserted, but sent.
            let own = self
                .flushing
                .iter()
                .find(|&&(of, _)| of == device && event.action == Action::Issue);
            if let Some(&(_, number)) = own {
                self.request(number).flushes += 1;
                return;
            }
        }
        self.add(Item::Write(Request { sector: 0, ..Request::of(event) }), false);
        self.slots.back_mut().expect("just added").issued = event.action == Action::Issue;
    }

    /// The end of a flush, or of a write that asked for one and whose data has ended. Some traces
    /// give neither a place.
    fn flush_ends(&mut self, event: &Event) {
        let has_place = event.sector != 0 && event.sector <= u64::MAX / 2;
        let flush = self
            .flushes
            .iter()
            .find(|&&(of, _)| of == event.device && !has_place)
            .map(|found| found.1);
        let asked = self.flushing.iter().map(|found| found.1).find(|&number| {
            let slot = self.held(number);
            let is_it = |request: &Request| {
                request.device == event.device && (request.sector == event.sector || !has_place)
            };
            // Without a place, this may also be one of the flushes on its way.
            slot.write().is_some_and(is_it) && (has_place || slot.done && event.sector == 0)
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
    pub(super) fn overlapping(&self, device: DeviceId, sector: u64, end: u64) -> Vec<u64> {
        let from = (device, sector.saturating_sub(self.longest_sectors), 0);
        let mut found: Vec<u64> = self
            .places
            .range(from..(device, end, 0))
            .map(|&(_, _, number)| number)
            .filter(|&number| {
                let slot = self.held(number);
                !slot.done && slot.write().is_some_and(|request| request.end_sector() > sector)
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
            // The device takes no request of that length, so the request is sent in parts.
            let slot = self.slot(first);
            let parts = u64::from(slot.issued);
            slot.issued = true;
            self.request(first).data.requests += parts;
        }
        for &other in &found[1..] {
            let part = *self.request(other);
            if part.file == whole.file && part.content == whole.content && part.sector >= new.sector
            {
                self.fold(first, other);
            }
        }
    }

    /// `other` was merged with `first`; they touch.
    pub(super) fn fold(&mut self, first: u64, other: u64) {
        let part = *self.request(other);
        let whole = *self.request(first);
        if part.end_sector() != whole.sector && whole.end_sector() != part.sector
            || !self.fold_uppers(first, other)
        {
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
        let (device, sector, sectors) =
            (request.device, request.sector, request.end_sector() - request.sector);
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
        // The same sectors may have been queued again meanwhile. The older request ends first.
        let mut left = event.bytes;
        found.retain(|&number| {
            let more = left > 0;
            left = left.saturating_sub(self.request(number).bytes);
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
