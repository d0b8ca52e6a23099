//! An NVMe drive for consumers: many dies, memory for the whole table, no capacitor.

use super::{Preset, sourced};

const V_NAND: &str = "NVMeVirt (public emulator), its model of the Samsung 970 PRO";

pub(super) static NVME: Preset = Preset {
    name: "nvme",
    describes: "NVMe drive for consumers, without power-loss protection",
    unit_bytes: sourced(4096, "assumed: the usual mapping unit, for lack of a public number"),
    page_bytes: sourced(32 << 10, V_NAND),
    block_pages: sourced(256, "default of the simulator MQSim: 256 pages"),
    dies: sourced(16, "NVMeVirt (public emulator), Samsung 970 PRO: 8 channels of 2 dies"),
    planes: sourced(1, "NVMeVirt (public emulator): one plane a die, of pages of 32 KiB"),
    spare_share: sourced(0.07, "NVMeVirt (public emulator), Samsung 970 PRO: 0.07"),
    read_ns: sourced(36_000, "NVMeVirt (public emulator), Samsung 970 PRO: 35.76 µs ± 6 µs"),
    program_ns: sourced(185_000, "NVMeVirt (public emulator), Samsung 970 PRO: 185 µs"),
    erase_ns: sourced(3_800_000, "default of the simulator MQSim: 3.8 ms"),
    bus_mb_per_s: sourced(3360, "NVMeVirt (public emulator), Samsung 970 PRO: 3360 MB/s"),
    command_ns: sourced(
        4_000,
        "NVMeVirt (public emulator), Samsung 970 PRO: write buffer 4 µs; its reads have 21.5 µs",
    ),
    flush_ns: sourced(200_000, "assumed, for lack of a public number"),
    cache_bytes: sourced(1 << 20, "NVMeVirt (public emulator), Samsung 970 PRO: 16 × 32 KiB × 2"),
    has_fua: sourced(true, "NVMe: a bit of the write command"),
    queue_depth: sourced(1024, "Linux, driver nvme: io_queue_depth is 1024 by default"),
    map_cache_bytes: sourced(0, "1 GB of memory for 1 TB (AnandTech on the Toshiba RC100)"),
    endurance_cycles: sourced(
        3000,
        "assumed; Micron's MLC MT29F64G08CBABA has as many in its data sheet",
    ),
};
