//! What was asked of the device, and what it did for that.

use serde::{Deserialize, Serialize};

/// Commands of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    pub reads: u64,
    pub read_bytes: u64,
    /// With those that had FUA.
    pub writes: u64,
    pub write_bytes: u64,
    pub fua_writes: u64,
    pub flushes: u64,
    pub trims: u64,
    pub trim_bytes: u64,
    /// Writes of a part of a mapping unit, whose rest was read first.
    pub merges: u64,
}

/// Pages of the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    pub read_host: u64,
    pub read_collection: u64,
    pub read_map: u64,
    pub programmed_host: u64,
    pub programmed_collection: u64,
    pub programmed_map: u64,
}

/// Bytes that the programs of pages were for. Their sum is all that was programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programmed {
    pub host_bytes: u64,
    /// Records of what was trimmed.
    pub trim_bytes: u64,
    /// Pages that were programmed before they were full.
    pub padding_bytes: u64,
    pub collection_bytes: u64,
    pub map_bytes: u64,
}

impl Programmed {
    pub fn bytes(&self) -> u64 {
        self.host_bytes
            + self.trim_bytes
            + self.padding_bytes
            + self.collection_bytes
            + self.map_bytes
    }
}

/// Erases of each block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    pub erases_min: u32,
    pub erases_mean: f64,
    pub erases_max: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    pub host: Host,
    pub pages: Pages,
    pub programmed: Programmed,
    /// Blocks of all lanes; each is one erase block of every lane.
    pub erases: u64,
    /// Likewise, of the log of the map.
    pub map_erases: u64,
    pub wear: Wear,
    /// Bytes programmed for each byte that the host wrote. 0: nothing was written.
    pub write_amplification: f64,
    /// Time in which a request was under way.
    pub busy_ns: u64,
    /// Time that the lanes worked, summed over the lanes.
    pub lane_busy_ns: u64,
}

impl Counters {
    pub(super) fn amplify(&mut self) {
        let written = self.host.write_bytes;
        self.write_amplification =
            if written == 0 { 0.0 } else { self.programmed.bytes() as f64 / written as f64 };
    }
}
