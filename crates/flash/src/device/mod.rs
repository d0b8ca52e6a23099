//! The device: a queue, a bus, a write cache, and lanes that work at the same time.
//!
//! [`Device::request`] does at once what is asked, and says when it would have been done. Nothing
//! sleeps, and the same requests have the same answers.
//!
//! | request | done when |
//! |---|---|
//! | read | its pages are read, and then transferred |
//! | write, room in the cache | it is transferred |
//! | write, cache full | enough of what is under way is programmed |
//! | write with FUA, or no cache | it is transferred, and then programmed |
//! | flush | all that was answered is programmed, and then `flush_ns` have passed |
//! | trim | at once |
//!
//! **Invariants.**
//!
//! - **D1** *Order.* A lane does one thing after the other; a request that finds `queue_depth`
//!   others waits for the first of them.
//! - **D2** *Room.* Units in the cache, with those whose program is not done, are never more than
//!   the cache has.
//! - **D3** *Flushed is kept.* What was written before an answered flush, or with FUA, or without a
//!   cache, survives a loss of power. Of the rest, each mapping unit is the old one or one of those
//!   that were written since.
//! - **D4** *Whoever causes garbage collection waits for it.* It is in the lanes before the page
//!   that needed the room.

mod cache;
mod clock;
mod counters;
mod map_cache;
mod reading;
mod schedule;
mod writing;

#[cfg(test)]
mod power_cuts;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ftl::{Ftl, FtlError, Item};
use crate::geometry::{Geometry, GeometryError, Logical};
use crate::nand::{Array, Nand, NandError, Store};
use crate::preset::Model;
use crate::random::Random;
use cache::WriteCache;
use clock::Clock;
pub use counters::{Counters, Host, Pages, Programmed, Wear};
use map_cache::MapCache;

/// What is written.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    Bytes(&'a [u8]),
    /// So many; they take no room.
    Zeros(u64),
}

impl Content<'_> {
    pub fn bytes(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Zeros(count) => *count,
        }
    }
}

#[derive(Debug)]
pub enum Request<'a> {
    Read {
        offset: u64,
        into: &'a mut [u8],
    },
    Write {
        offset: u64,
        content: Content<'a>,
        fua: bool,
    },
    Flush,
    /// What is not a whole mapping unit is left as it is.
    Trim {
        offset: u64,
        bytes: u64,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("{offset} + {bytes} is beyond the end of the device at {logical_bytes}")]
    Beyond { offset: u64, bytes: u64, logical_bytes: u64 },
    #[error("share {0} is not between 0 and 1: it is the part of the device that is filled")]
    Share(f64),
    #[error(
        "overwrites {0} is not between 0 and 1000: it is how often what is filled is rewritten"
    )]
    Overwrites(f64),
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    #[error(transparent)]
    Ftl(#[from] FtlError),
    #[error(transparent)]
    Nand(#[from] NandError),
}

#[derive(Debug)]
pub struct Device<N> {
    ftl: Ftl<N>,
    model: Model,
    cache: WriteCache,
    cache_units: usize,
    /// When units that left the cache are programmed, and how many.
    leaving: BinaryHeap<Reverse<(u64, usize)>>,
    leaving_units: usize,
    map: MapCache,
    clock: Clock,
    counters: Counters,
    map_programs: u64,
}

impl Device<Array> {
    /// A new device of this size.
    pub fn new(
        model: Model,
        logical_bytes: u64,
        store: Store,
    ) -> Result<Device<Array>, DeviceError> {
        let geometry = Geometry::new(model.shape, logical_bytes)?;
        Device::recover(model, Array::new(geometry, store)?)
    }
}

impl<N: Nand> Device<N> {
    /// Power is back. The clock begins at 0.
    pub fn recover(model: Model, nand: N) -> Result<Device<N>, DeviceError> {
        let ftl = Ftl::recover(nand)?;
        let geometry = *ftl.geometry();
        let unit_bytes = u64::from(geometry.shape.unit_bytes);
        Ok(Device {
            ftl,
            cache: WriteCache::default(),
            cache_units: (model.cache_bytes / unit_bytes) as usize,
            leaving: BinaryHeap::new(),
            leaving_units: 0,
            map: MapCache::new(model.map_cache_bytes, geometry.logical_units),
            clock: Clock::new(model.timing, model.queue_depth, geometry.lanes()),
            counters: Counters::default(),
            map_programs: 0,
            model,
        })
    }

    /// Power is lost: the array is what is left.
    pub fn into_nand(self) -> N {
        self.ftl.into_nand()
    }

    pub fn geometry(&self) -> &Geometry {
        self.ftl.geometry()
    }
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Does it, and says when it is done. The times of requests do not go backwards.
    pub fn request(&mut self, now_ns: u64, request: Request<'_>) -> Result<u64, DeviceError> {
        let (offset, bytes) = match &request {
            Request::Read { offset, into } => (*offset, into.len() as u64),
            Request::Write { offset, content, .. } => (*offset, content.bytes()),
            Request::Trim { offset, bytes } => (*offset, *bytes),
            Request::Flush => (0, 0),
        };
        let logical_bytes = self.geometry().logical_bytes();
        if offset.checked_add(bytes).is_none_or(|end| end > logical_bytes) {
            return Err(DeviceError::Beyond { offset, bytes, logical_bytes });
        }
        let begin_ns = self.clock.admit(now_ns);
        let ready_ns = begin_ns + self.model.timing.command_ns;
        let end_ns = match request {
            Request::Read { offset, into } => self.read(ready_ns, offset, into)?,
            Request::Write { offset, content, fua } => {
                self.write(ready_ns, offset, content, fua)?
            }
            Request::Flush => {
                self.counters.host.flushes += 1;
                // The block layer asks no device that has no cache.
                self.flush(if self.cache_units == 0 { begin_ns } else { ready_ns })?
            }
            Request::Trim { offset, bytes } => {
                self.trim(offset, bytes);
                ready_ns
            }
        };
        self.clock.done(begin_ns, end_ns);
        Ok(end_ns)
    }

    /// Fills a share of the device and overwrites it at random, `overwrites` times over. It takes
    /// no time, the bytes are zeros, and the counters begin after it. So garbage collection is in
    /// its steady state.
    pub fn precondition(
        &mut self,
        share: f64,
        overwrites: f64,
        seed: u64,
    ) -> Result<(), DeviceError> {
        if !(0.0..=1.0).contains(&share) {
            return Err(DeviceError::Share(share));
        }
        if !(0.0..=1000.0).contains(&overwrites) {
            return Err(DeviceError::Overwrites(overwrites));
        }
        let page_units = self.geometry().page_units();
        let filled = (f64::from(self.geometry().logical_units) * share) as u32;
        let zeros = |logical| Item::Data(Logical(logical), None);
        for first in (0..filled).step_by(page_units as usize) {
            let end = filled.min(first + page_units);
            self.ftl.write_page((first..end).map(zeros).collect())?;
            self.ftl.take_ops();
        }
        let mut random = Random::new(seed);
        let pages = (f64::from(filled) * overwrites / f64::from(page_units)) as u64;
        for _ in 0..pages {
            let items = (0..page_units).map(|_| zeros(random.below(filled))).collect();
            self.ftl.write_page(items)?;
            self.ftl.take_ops();
        }
        self.counters = Counters::default();
        self.ftl.nand_mut().forget_wear();
        Ok(())
    }

    /// Until now.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.wear = self.wear();
        counters.busy_ns = self.clock.busy_ns;
        counters.lane_busy_ns = self.clock.lane_busy_ns;
        counters.amplify();
        counters
    }

    fn wear(&self) -> Wear {
        let blocks = self.geometry().blocks;
        let erases = (0..blocks).map(|block| self.ftl.nand().erases(crate::geometry::Block(block)));
        let sum: u64 = erases.clone().map(u64::from).sum();
        Wear {
            erases_min: erases.clone().min().unwrap_or(0),
            erases_mean: sum as f64 / f64::from(blocks),
            erases_max: erases.max().unwrap_or(0),
        }
    }

    /// For how many days the blocks last, if so many bytes are programmed on each day, and the wear
    /// is even.
    pub fn life_days(&self, programmed_bytes_per_day: f64) -> f64 {
        let bytes = self.geometry().physical_bytes() as f64;
        bytes * f64::from(self.model.endurance_cycles) / programmed_bytes_per_day
    }
}
