//! The recorder works only when nothing else needs the processor. It must not take the processor
//! from the programs that it records.
//!
//! It works in bursts of a few milliseconds each turn. A commit consists of threads that wake each
//! other. Each thread that comes to the recorder's processor would wait for the rest of a burst.
//!
//! Events must not be lost where all processors are busy, so the recorder gives way for only so
//! long in a turn. Meanwhile it writes no file and reads no folder. If it did, it would wait for
//! its turn while it holds locks of the file system that others need.

use std::time::{Duration, Instant};

use crate::kernel::GivesWay;

/// Within this time, buffers that were just emptied do not fill.
const GIVES_WAY_MAX: Duration = Duration::from_millis(200);
/// Looking at the clock costs as much as a few digits.
const RECORDS_BETWEEN_LOOKS: u32 = 256;

pub(super) struct Pace {
    gives_way: Option<GivesWay>,
    begun: Instant,
    records: u32,
}

impl Pace {
    pub(super) fn begin() -> Pace {
        Pace { gives_way: GivesWay::begin(), begun: Instant::now(), records: 0 }
    }

    /// Called after each record.
    pub(super) fn step(&mut self) {
        self.records += 1;
        if self.records.is_multiple_of(RECORDS_BETWEEN_LOOKS)
            && self.begun.elapsed() > GIVES_WAY_MAX
        {
            self.gives_way = None;
        }
    }
}
