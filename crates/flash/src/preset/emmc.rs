//! An eMMC of the years of the papers: MLC NAND with pages of 8 KiB.

use super::{Preset, sourced};

const MLC: &str = "Micron MT29F64G08CBAAA data sheet (MLC, 64 Gb)";

pub(super) static EMMC: Preset = Preset {
    name: "emmc",
    describes: "eMMC with MLC NAND of 8 KiB pages, as in phones of 2012 to 2014",
    unit_bytes: sourced(4096, "assumed: the usual mapping unit, for lack of a public number"),
    page_bytes: sourced(
        8192,
        "Micron MT29F64G08CBAAA data sheet: 8192 + 448 bytes; WALDIO paper: Galaxy S5, 8 KB pages",
    ),
    block_pages: sourced(256, MLC),
    dies: sourced(2, "assumed: 16 GB are two dies of 64 Gb; see README for what this gives"),
    planes: sourced(2, MLC),
    spare_share: sourced(0.07, "assumed: 2³⁰ to 10⁹; also the default of the simulator MQSim"),
    read_ns: sourced(50_000, "Micron MT29F64G08CBAAA data sheet: read page 50 µs (max)"),
    program_ns: sourced(1_300_000, "Micron MT29F64G08CBAAA data sheet: program page 1300 µs (typ)"),
    erase_ns: sourced(3_000_000, "Micron MT29F64G08CBAAA data sheet: erase block 3 ms (typ)"),
    bus_mb_per_s: sourced(200, "ISSI IS21TF08G data sheet: HS200, up to 200 MB/s"),
    command_ns: sourced(
        96_000,
        "derived: SanDisk iNAND Extreme, 6000 random reads/s (Electronic Design, March 2014), \
         less page read and transfer of 4 KiB",
    ),
    flush_ns: sourced(500_000, "assumed, for lack of a public number; see README"),
    cache_bytes: sourced(
        512 << 10,
        "assumed: CACHE_SIZE of the EXT_CSD is not in public data sheets",
    ),
    has_fua: sourced(true, "eMMC standard: reliable write, as used in the WALDIO paper"),
    queue_depth: sourced(1, "before eMMC 5.1 there is no command queue"),
    map_cache_bytes: sourced(256 << 10, "assumed, for lack of a public number"),
    endurance_cycles: sourced(5000, "Micron MT29F64G08CBAAA data sheet: 5000 cycles"),
};
