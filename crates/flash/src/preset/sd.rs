//! An SD card of application class A1: one die, no cache, units of 8 KiB.

use super::{Preset, sourced};

const MLC: &str = "Micron MT29F64G08CBAAA data sheet (MLC, 64 Gb)";

pub(super) static SD: Preset = Preset {
    name: "sd",
    describes: "microSD card with one MLC die and no write cache",
    unit_bytes: sourced(
        8192,
        "assumed: a small controller maps whole pages, so that 4 KiB are read, changed and written",
    ),
    page_bytes: sourced(8192, "Micron MT29F64G08CBAAA data sheet: 8192 + 448 bytes"),
    block_pages: sourced(256, MLC),
    dies: sourced(1, "assumed: 8 GB are one die of 64 Gb; gives 12.6 MB/s, class 10 asks for 10"),
    planes: sourced(2, MLC),
    spare_share: sourced(0.07, "assumed: 2³⁰ to 10⁹; also the default of the simulator MQSim"),
    read_ns: sourced(50_000, "Micron MT29F64G08CBAAA data sheet: read page 50 µs (max)"),
    program_ns: sourced(1_300_000, "Micron MT29F64G08CBAAA data sheet: program page 1300 µs (typ)"),
    erase_ns: sourced(3_000_000, "Micron MT29F64G08CBAAA data sheet: erase block 3 ms (typ)"),
    bus_mb_per_s: sourced(104, "UHS-I, SDR104: 104 MB/s"),
    command_ns: sourced(
        578_000,
        "derived: Samsung on eMMC 5.1 (February 2015), \"typical external micro SD card\" with \
         1500 reads/s, less page read and transfer of 4 KiB; class A1 asks for as many",
    ),
    flush_ns: sourced(0, "without a cache there is nothing to flush"),
    cache_bytes: sourced(0, "assumed: a cache is compulsory from class A2 on (SD 6.0)"),
    has_fua: sourced(true, "without a cache each write is durable when it is answered"),
    queue_depth: sourced(1, "a command queue is compulsory from class A2 on (SD 6.0)"),
    map_cache_bytes: sourced(64 << 10, "assumed, for lack of a public number"),
    endurance_cycles: sourced(5000, "Micron MT29F64G08CBAAA data sheet: 5000 cycles"),
};
