//! Fig. 8 on the emulated eMMC. Theirs is an SSD.

use super::{DELETE, DELETE_MAW, PERSIST, PERSIST_MAW, TRUNCATE, WAL, at_least};
use crate::paper::short::{self, column, compared, rate, row};
use crate::paper::{Claim, Experiment, Figure, On, Sheet, Work};
use oneflush_measure::workload::Operation;

pub const INSERT: Experiment = Experiment {
    fresh: true,
    on: On::Emmc,
    ..short::experiment(
        "emmc-insert",
        "Fig. 8: insert, eMMC",
        Work::Mobibench(Operation::Insert),
        500,
    )
};

pub const SHEET: Sheet = Sheet {
    source: "Fig. 8, emulated eMMC",
    title: "500 inserts in a new database, and what the flash did for one",
    theirs: &["× PERSIST"],
    columns: &[
        compared("ours/s", "emmc-insert", Figure::PerSecond),
        column("KB", "emmc-insert", Figure::Kilobytes),
        column("programmed", "emmc-insert", Figure::ProgrammedKilobytes),
        column("amplified", "emmc-insert", Figure::WriteAmplification),
        column("days", "emmc-insert", Figure::LifeDays),
    ],
    control: PERSIST,
    rows: &[
        row("EXT4 DELETE", &[None], DELETE),
        row("EXT4 TRUNCATE", &[None], TRUNCATE),
        row("EXT4 PERSIST", &[Some(1.0)], PERSIST),
        row("EXT4 WAL", &[Some(4.89 / 2.05)], WAL),
        row("log, DELETE", &[None], DELETE_MAW),
        row("log, PERSIST", &[Some(4.89)], PERSIST_MAW),
    ],
};

pub const CLAIMS: [Claim; 2] = [
    Claim {
        source: "Fig. 8, emulated eMMC",
        says: "MAW inserts 4.89 times as fast as PERSIST on ext4",
        theirs: Some(4.89),
        over: &[rate("emmc-insert", PERSIST_MAW)],
        under: &[rate("emmc-insert", PERSIST)],
        rule: at_least(4.89),
        unless: "",
    },
    Claim {
        source: "Fig. 8, emulated eMMC",
        says: "MAW inserts 2.05 times as fast as WAL on ext4",
        theirs: Some(2.05),
        over: &[rate("emmc-insert", PERSIST_MAW)],
        under: &[rate("emmc-insert", WAL)],
        rule: at_least(2.05),
        unless: "",
    },
];
