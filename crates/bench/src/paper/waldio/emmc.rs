//! Fig. 14 on the emulated eMMC, whose flushes and programs cost as in the years of the paper.

use super::{
    DELETE, EMBED, FS_GROUP, GROUP_SAVES, LSMVBT, NS, NS_GROUP, PD, PD_GROUP, PERSIST, STOCK,
    TRUNCATE, at_least,
};
use crate::paper::short::{self, column, compared, rate, row};
use crate::paper::{Claim, Experiment, Figure, On, Sheet, Work};
use oneflush_measure::workload::Operation;

pub const INSERT: Experiment = Experiment {
    fresh: true,
    on: On::Emmc,
    ..short::experiment(
        "emmc-insert",
        "Fig. 14: insert, eMMC",
        Work::Mobibench(Operation::Insert),
        500,
    )
};

pub const SHEET: Sheet = Sheet {
    source: "Fig. 14, emulated eMMC",
    title: "500 inserts in a new database, and what the flash did for one",
    theirs: &["theirs/s", "× WAL"],
    columns: &[
        compared("ours/s", "emmc-insert", Figure::PerSecond),
        column("KB", "emmc-insert", Figure::Kilobytes),
        column("programmed", "emmc-insert", Figure::ProgrammedKilobytes),
        column("amplified", "emmc-insert", Figure::WriteAmplification),
        column("days", "emmc-insert", Figure::LifeDays),
    ],
    control: STOCK,
    rows: &[
        row("DELETE", &[None, None], DELETE),
        row("TRUNCATE", &[None, None], TRUNCATE),
        row("PERSIST", &[None, None], PERSIST),
        row("WAL", &[Some(587.0), Some(1.0)], STOCK),
        row("LS-MVBT", &[Some(1083.0), Some(1.8)], LSMVBT),
        row("WALDIO-FS", &[Some(1219.0), Some(2.1)], EMBED),
        row("WALDIO-FS, group", &[Some(2729.0), None], FS_GROUP),
        row("WALDIO-PD", &[None, None], PD),
        row("WALDIO-PD, group", &[Some(2967.0), Some(5.1)], PD_GROUP),
        row("WALDIO-NS", &[None, None], NS),
        row("WALDIO-NS, group", &[Some(4332.0), Some(7.4)], NS_GROUP),
    ],
};

const NO_FUA: &str = "The path to the emulated device has no FUA: the kernel makes a write and a \
    flush of it.";

/// A mode beside WAL.
macro_rules! times {
    ($says:literal, $mode:ident, $times:expr, $unless:expr) => {
        Claim {
            source: "Fig. 14, emulated eMMC",
            says: $says,
            theirs: Some($times),
            over: &[rate("emmc-insert", $mode)],
            under: &[rate("emmc-insert", STOCK)],
            rule: at_least($times),
            unless: $unless,
        }
    };
}

pub const CLAIMS: [Claim; 5] = [
    times!("WALDIO-FS inserts 2.1 times as fast as WAL", EMBED, 1219.0 / 587.0, ""),
    times!("with group synch (FS) 4.6 times", FS_GROUP, 2729.0 / 587.0, GROUP_SAVES),
    times!("with group synch (PD) 5.1 times", PD_GROUP, 5.1, NO_FUA),
    times!("without flush and with group synch (NS) 7.4 times", NS_GROUP, 7.4, GROUP_SAVES),
    times!("LS-MVBT inserts 1.8 times as fast as WAL", LSMVBT, 1083.0 / 587.0, ""),
];
