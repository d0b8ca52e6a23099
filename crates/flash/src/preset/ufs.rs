//! A UFS 2 device: TLC NAND, a queue, and two lanes to the host.

use super::{Preset, sourced};

const TLC: &str = "NVMeVirt (public emulator), its model of the TLC drive WD ZN540";

pub(super) static UFS: Preset = Preset {
    name: "ufs",
    describes: "UFS 2 with TLC NAND, as in phones of 2016 and later",
    unit_bytes: sourced(4096, "assumed: the usual mapping unit, for lack of a public number"),
    page_bytes: sourced(32 << 10, TLC),
    block_pages: sourced(256, "assumed, as of MLC: a TLC block has more, see README"),
    dies: sourced(
        4,
        "assumed: gives 233 MB/s; Samsung states 260 MB/s for its UFS of 256 GB (February 2016)",
    ),
    planes: sourced(1, "NVMeVirt (public emulator): one plane a die, of pages of 32 KiB"),
    spare_share: sourced(0.07, "assumed: 2³⁰ to 10⁹; also the default of the simulator MQSim"),
    read_ns: sourced(50_000, "NVMeVirt (public emulator), WD ZN540: 4 KiB read 50 µs"),
    program_ns: sourced(
        561_000,
        "NVMeVirt (public emulator), WD ZN540: program 561 µs; there for three such pages at once",
    ),
    erase_ns: sourced(3_800_000, "default of the simulator MQSim: 3.8 ms"),
    bus_mb_per_s: sourced(1200, "UFS 2.0: two lanes of 600 MB/s each"),
    command_ns: sourced(20_000, "NVMeVirt (public emulator), WD ZN540: firmware, 4 KiB read 20 µs"),
    flush_ns: sourced(100_000, "assumed, for lack of a public number"),
    cache_bytes: sourced(1 << 20, "assumed, for lack of a public number"),
    has_fua: sourced(true, "UFS takes SCSI's WRITE (10), which has FUA"),
    queue_depth: sourced(32, "UFS host controller interface (JESD223): 32 transfer requests"),
    map_cache_bytes: sourced(1 << 20, "assumed, for lack of a public number"),
    endurance_cycles: sourced(3000, "assumed: usual for TLC in three dimensions"),
};
