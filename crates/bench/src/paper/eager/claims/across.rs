//! Claims on several workloads at once.

use super::{CLOCKS, FAST_DEVICE};
use crate::paper::eager::{FILES, FILES_EAGER, TRUNCATE, TRUNCATE_EAGER};
use crate::paper::short::cell;
use crate::paper::{Across, Cell, Figure, Of, Rule};

const RATES: [(Cell, Cell); 5] = [
    (
        cell("insert", TRUNCATE_EAGER, Figure::PerSecond),
        cell("insert", TRUNCATE, Figure::PerSecond),
    ),
    (
        cell("update", TRUNCATE_EAGER, Figure::PerSecond),
        cell("update", TRUNCATE, Figure::PerSecond),
    ),
    (
        cell("delete", TRUNCATE_EAGER, Figure::PerSecond),
        cell("delete", TRUNCATE, Figure::PerSecond),
    ),
    (
        cell("random-write", FILES_EAGER, Figure::MegabytesPerSecond),
        cell("random-write", FILES, Figure::MegabytesPerSecond),
    ),
    (
        cell("facebook", FILES_EAGER, Figure::MegabytesPerSecond),
        cell("facebook", FILES, Figure::MegabytesPerSecond),
    ),
];
const SEQUENTIAL: [(Cell, Cell); 3] = [
    (
        cell("insert", TRUNCATE_EAGER, Figure::SequentialPercent),
        cell("insert", TRUNCATE, Figure::SequentialPercent),
    ),
    (
        cell("random-write", FILES_EAGER, Figure::SequentialPercent),
        cell("random-write", FILES, Figure::SequentialPercent),
    ),
    (
        cell("facebook", FILES_EAGER, Figure::SequentialPercent),
        cell("facebook", FILES, Figure::SequentialPercent),
    ),
];
const BYTES: [(Cell, Cell); 3] = [
    (
        cell("insert", TRUNCATE_EAGER, Figure::TotalMegabytes),
        cell("insert", TRUNCATE, Figure::TotalMegabytes),
    ),
    (
        cell("random-write", FILES_EAGER, Figure::TotalMegabytes),
        cell("random-write", FILES, Figure::TotalMegabytes),
    ),
    (
        cell("facebook", FILES_EAGER, Figure::TotalMegabytes),
        cell("facebook", FILES, Figure::TotalMegabytes),
    ),
];
const EMMC_RATES: [(Cell, Cell); 5] = [
    (
        cell("emmc-insert", TRUNCATE_EAGER, Figure::PerSecond),
        cell("emmc-insert", TRUNCATE, Figure::PerSecond),
    ),
    (
        cell("emmc-update", TRUNCATE_EAGER, Figure::PerSecond),
        cell("emmc-update", TRUNCATE, Figure::PerSecond),
    ),
    (
        cell("emmc-delete", TRUNCATE_EAGER, Figure::PerSecond),
        cell("emmc-delete", TRUNCATE, Figure::PerSecond),
    ),
    (
        cell("emmc-random-write", FILES_EAGER, Figure::MegabytesPerSecond),
        cell("emmc-random-write", FILES, Figure::MegabytesPerSecond),
    ),
    (
        cell("emmc-facebook", FILES_EAGER, Figure::MegabytesPerSecond),
        cell("emmc-facebook", FILES, Figure::MegabytesPerSecond),
    ),
];
const EMMC_SEQUENTIAL: [(Cell, Cell); 3] = [
    (
        cell("emmc-insert", TRUNCATE_EAGER, Figure::SequentialPercent),
        cell("emmc-insert", TRUNCATE, Figure::SequentialPercent),
    ),
    (
        cell("emmc-random-write", FILES_EAGER, Figure::SequentialPercent),
        cell("emmc-random-write", FILES, Figure::SequentialPercent),
    ),
    (
        cell("emmc-facebook", FILES_EAGER, Figure::SequentialPercent),
        cell("emmc-facebook", FILES, Figure::SequentialPercent),
    ),
];
const EMMC_BYTES: [(Cell, Cell); 3] = [
    (
        cell("emmc-insert", TRUNCATE_EAGER, Figure::TotalMegabytes),
        cell("emmc-insert", TRUNCATE, Figure::TotalMegabytes),
    ),
    (
        cell("emmc-random-write", FILES_EAGER, Figure::TotalMegabytes),
        cell("emmc-random-write", FILES, Figure::TotalMegabytes),
    ),
    (
        cell("emmc-facebook", FILES_EAGER, Figure::TotalMegabytes),
        cell("emmc-facebook", FILES, Figure::TotalMegabytes),
    ),
];

pub const ACROSS: [Across; 14] = [
    Across {
        source: "Abstract",
        says: "the best gain in throughput is 50 %",
        theirs: Some(1.5),
        of: Of::LargestRatio,
        pairs: &RATES,
        rule: Rule::AtLeast { holds: 1.35, in_part: 1.1 },
        unless: FAST_DEVICE,
    },
    Across {
        source: "Sec. 1",
        says: "the best gain in throughput is 100 %",
        theirs: Some(2.0),
        of: Of::LargestRatio,
        pairs: &RATES,
        rule: Rule::AtLeast { holds: 1.8, in_part: 1.1 },
        unless: FAST_DEVICE,
    },
    Across {
        source: "Sec. 1",
        says: "throughput rises by 25 % in the mean",
        theirs: Some(1.25),
        of: Of::MeanRatio,
        pairs: &RATES,
        rule: Rule::AtLeast { holds: 1.12, in_part: 1.0 },
        unless: FAST_DEVICE,
    },
    Across {
        source: "Abstract",
        says: "the best gain in sequentiality is 55 points of percent",
        theirs: Some(55.0),
        of: Of::LargestDifference,
        pairs: &SEQUENTIAL,
        rule: Rule::AtLeast { holds: 50.0, in_part: 20.0 },
        unless: "",
    },
    Across {
        source: "Sec. 6",
        says: "all workloads become more sequential (points of percent)",
        theirs: None,
        of: Of::SmallestDifference,
        pairs: &SEQUENTIAL,
        rule: Rule::AtLeast { holds: 10.0, in_part: 0.0 },
        unless: "",
    },
    Across {
        source: "Sec. 5.1 and 6",
        says: "about as many bytes as ext4, in all workloads",
        theirs: Some(91.8 / 85.0),
        of: Of::LargestRatio,
        pairs: &BYTES,
        rule: Rule::AtMost { holds: 1.1, in_part: 1.5 },
        unless: CLOCKS,
    },
    Across {
        source: "Sec. 6",
        says: "in some workloads fewer bytes",
        theirs: Some(34.9 / 39.4),
        of: Of::SmallestRatio,
        pairs: &BYTES,
        rule: Rule::AtMost { holds: 0.95, in_part: 1.0 },
        unless: "",
    },
    Across {
        source: "Abstract",
        says: "the best gain in throughput is 50 %, on the emulated eMMC",
        theirs: Some(1.5),
        of: Of::LargestRatio,
        pairs: &EMMC_RATES,
        rule: Rule::AtLeast { holds: 1.35, in_part: 1.1 },
        unless: "",
    },
    Across {
        source: "Sec. 1",
        says: "the best gain in throughput is 100 %, on the emulated eMMC",
        theirs: Some(2.0),
        of: Of::LargestRatio,
        pairs: &EMMC_RATES,
        rule: Rule::AtLeast { holds: 1.8, in_part: 1.1 },
        unless: "",
    },
    Across {
        source: "Sec. 1",
        says: "throughput rises by 25 % in the mean, on the emulated eMMC",
        theirs: Some(1.25),
        of: Of::MeanRatio,
        pairs: &EMMC_RATES,
        rule: Rule::AtLeast { holds: 1.12, in_part: 1.0 },
        unless: "",
    },
    Across {
        source: "Abstract",
        says: "the best gain in sequentiality is 55 points of percent, on the emulated \
                  eMMC",
        theirs: Some(55.0),
        of: Of::LargestDifference,
        pairs: &EMMC_SEQUENTIAL,
        rule: Rule::AtLeast { holds: 50.0, in_part: 20.0 },
        unless: "",
    },
    Across {
        source: "Sec. 6",
        says: "all workloads become more sequential (points of percent), on the emulated \
                  eMMC",
        theirs: None,
        of: Of::SmallestDifference,
        pairs: &EMMC_SEQUENTIAL,
        rule: Rule::AtLeast { holds: 10.0, in_part: 0.0 },
        unless: "",
    },
    Across {
        source: "Sec. 5.1 and 6",
        says: "about as many bytes as ext4, in all workloads, on the emulated eMMC",
        theirs: Some(91.8 / 85.0),
        of: Of::LargestRatio,
        pairs: &EMMC_BYTES,
        rule: Rule::AtMost { holds: 1.1, in_part: 1.5 },
        unless: "",
    },
    Across {
        source: "Sec. 6",
        says: "in some workloads fewer bytes, on the emulated eMMC",
        theirs: Some(34.9 / 39.4),
        of: Of::SmallestRatio,
        pairs: &EMMC_BYTES,
        rule: Rule::AtMost { holds: 0.95, in_part: 1.0 },
        unless: "",
    },
];
