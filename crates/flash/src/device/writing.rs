//! Writes, flushes and trims.
//!
//! The cache writes out a *stripe*, which is a page for each lane, as soon as less than a stripe of
//! it is free. So the lanes work while the host fills the rest (D2). A host that is faster than the
//! lanes waits for the oldest program under way.

use std::cmp::Reverse;

use super::{Content, Device, DeviceError};
use crate::ftl::Item;
use crate::geometry::Logical;
use crate::nand::{Nand, Payload};

impl<N: Nand> Device<N> {
    pub(super) fn write(
        &mut self,
        ready_ns: u64,
        offset: u64,
        content: Content<'_>,
        fua: bool,
    ) -> Result<u64, DeviceError> {
        self.counters.host.writes += 1;
        self.counters.host.write_bytes += content.bytes();
        self.counters.host.fua_writes += u64::from(fua);
        let through = self.cache_units == 0 || (fua && self.model.has_fua);
        let mut at_ns = self.clock.transfer(ready_ns, content.bytes());
        let mut items = Vec::new();
        for (logical, within, part) in parts(offset, content, self.unit_bytes()) {
            let payload = self.merged(&mut at_ns, logical, within, part)?;
            self.ftl.keep(logical);
            if through {
                self.cache.remove(logical);
                items.push(Item::Data(logical, payload));
            } else {
                at_ns = self.put(at_ns, logical, payload)?;
            }
        }
        if through {
            return self.write_through(at_ns, items);
        }
        // A device without FUA: the kernel would send a flush after the write.
        if fua { self.flush(at_ns) } else { Ok(at_ns) }
    }

    /// The whole unit. A part of one is a read, a change and a write.
    fn merged(
        &mut self,
        at_ns: &mut u64,
        logical: Logical,
        within: usize,
        part: Content<'_>,
    ) -> Result<Payload, DeviceError> {
        let unit_bytes = self.unit_bytes();
        if part.bytes() == unit_bytes {
            return Ok(match part {
                Content::Bytes(bytes) => Some(bytes.into()),
                Content::Zeros(_) => None,
            });
        }
        self.counters.host.merges += 1;
        let old = self.newest(logical)?;
        *at_ns = self.run(*at_ns).reads_ns;
        let mut unit = old.unwrap_or_else(|| vec![0; unit_bytes as usize].into());
        match part {
            Content::Bytes(bytes) => unit[within..within + bytes.len()].copy_from_slice(bytes),
            Content::Zeros(count) => unit[within..within + count as usize].fill(0),
        }
        Ok(Some(unit))
    }

    /// When the unit is in the cache.
    fn put(
        &mut self,
        mut at_ns: u64,
        logical: Logical,
        payload: Payload,
    ) -> Result<u64, DeviceError> {
        if self.cache.get(logical).is_none() {
            self.have_left(at_ns);
            let stripe = self.stripe_units();
            if self.cache.len() + self.leaving_units + stripe > self.cache_units
                && self.cache.len() >= stripe
            {
                self.write_out(at_ns, stripe)?;
            }
            while self.cache.len() + self.leaving_units >= self.cache_units {
                if self.leaving_units == 0 {
                    self.write_out(at_ns, stripe)?;
                }
                let Some(&Reverse((first_ns, _))) = self.leaving.peek() else { break };
                at_ns = at_ns.max(first_ns);
                self.have_left(at_ns);
            }
        }
        self.cache.put(logical, payload);
        Ok(at_ns)
    }

    fn stripe_units(&self) -> usize {
        let geometry = self.geometry();
        ((geometry.lanes() * geometry.page_units()) as usize).min(self.cache_units)
    }

    /// Gives the room of programs that are done by now free.
    fn have_left(&mut self, now_ns: u64) {
        while let Some(&Reverse((end_ns, units))) = self.leaving.peek()
            && end_ns <= now_ns
        {
            self.leaving.pop();
            self.leaving_units -= units;
        }
    }

    fn write_out(&mut self, at_ns: u64, units: usize) -> Result<(), DeviceError> {
        let items = (0..units)
            .map_while(|_| self.cache.pop())
            .map(|(logical, payload)| Item::Data(logical, payload))
            .collect();
        self.write_pages(items)?;
        for (end_ns, units) in self.run(at_ns).programs {
            self.leaving.push(Reverse((end_ns, units)));
            self.leaving_units += units;
        }
        Ok(())
    }

    fn write_pages(&mut self, items: Vec<Item>) -> Result<(), DeviceError> {
        let page_units = self.geometry().page_units() as usize;
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            self.ftl.write_page(items.by_ref().take(page_units).collect())?;
        }
        Ok(())
    }

    fn write_through(&mut self, at_ns: u64, items: Vec<Item>) -> Result<u64, DeviceError> {
        self.write_pages(items)?;
        let ends = self.run(at_ns).programs.into_iter().map(|(end_ns, _)| end_ns);
        Ok(ends.max().unwrap_or(at_ns))
    }

    /// D3.
    pub(super) fn flush(&mut self, ready_ns: u64) -> Result<u64, DeviceError> {
        let mut items = Vec::with_capacity(self.cache.len());
        #[cfg(test)]
        let keeps_cache = self.ftl.flaw == crate::ftl::Flaw::KeepsCache;
        #[cfg(not(test))]
        let keeps_cache = false;
        while !keeps_cache && let Some((logical, payload)) = self.cache.pop() {
            items.push(Item::Data(logical, payload));
        }
        items.extend(self.ftl.trims_to_write());
        self.write_pages(items)?;
        let mut end_ns = ready_ns;
        for (program_ns, units) in self.run(ready_ns).programs {
            self.leaving.push(Reverse((program_ns, units)));
            self.leaving_units += units;
        }
        for Reverse((program_ns, _)) in &self.leaving {
            end_ns = end_ns.max(*program_ns);
        }
        Ok(end_ns + self.model.timing.flush_ns)
    }

    pub(super) fn trim(&mut self, offset: u64, bytes: u64) {
        self.counters.host.trims += 1;
        self.counters.host.trim_bytes += bytes;
        let unit_bytes = self.unit_bytes();
        let first = offset.div_ceil(unit_bytes);
        let end = (offset + bytes) / unit_bytes;
        for logical in (first..end).map(|unit| Logical(unit as u32)) {
            self.cache.remove(logical);
            self.ftl.trim(logical);
        }
    }
}

/// A write, cut at mapping units: the unit, where in it, and what.
fn parts(
    offset: u64,
    content: Content<'_>,
    unit_bytes: u64,
) -> impl Iterator<Item = (Logical, usize, Content<'_>)> {
    let total = content.bytes();
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == total {
            return None;
        }
        let at = offset + done;
        let within = at % unit_bytes;
        let length = (unit_bytes - within).min(total - done);
        let part = match content {
            Content::Bytes(bytes) => {
                Content::Bytes(&bytes[done as usize..(done + length) as usize])
            }
            Content::Zeros(_) => Content::Zeros(length),
        };
        done += length;
        Some((Logical((at / unit_bytes) as u32), within as usize, part))
    })
}
