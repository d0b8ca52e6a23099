//! How long each step takes.
//!
//! The time that a page needs between die and controller is part of `read_ns` and `program_ns`.
//! Only the bus to the host is a resource of its own.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// One page from a die.
    pub read_ns: u64,
    /// One page to a die.
    pub program_ns: u64,
    /// One block of a die.
    pub erase_ns: u64,
    /// Bytes per microsecond between host and device. 0: no time at all.
    pub bus_mb_per_s: u64,
    /// What each command costs before anything else.
    pub command_ns: u64,
    /// What a flush costs on top, also with an empty cache.
    pub flush_ns: u64,
}

impl Timing {
    /// A device that costs nothing, to see what the path to it costs.
    pub const ZERO: Timing = Timing {
        read_ns: 0,
        program_ns: 0,
        erase_ns: 0,
        bus_mb_per_s: 0,
        command_ns: 0,
        flush_ns: 0,
    };

    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        if self.bus_mb_per_s == 0 { 0 } else { (bytes * 1000).div_ceil(self.bus_mb_per_s) }
    }
}
