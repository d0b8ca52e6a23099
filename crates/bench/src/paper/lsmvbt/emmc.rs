//! Fig. 12 on the emulated eMMC, whose flushes and programs cost as in the years of the paper.

use super::claims::at_least;
use super::sql::{SQL, SQL_TRUNCATE, SQL_WAL};
use crate::paper::short::{self, column, compared, rate, row};
use crate::paper::{Claim, Experiment, Figure, On, Sheet, Work};
use oneflush_measure::workload::Operation;

pub const INSERT: Experiment = Experiment {
    fresh: true,
    on: On::Emmc,
    ..short::experiment(
        "emmc-insert",
        "Fig. 12: insert in SQL, eMMC",
        Work::Mobibench(Operation::Insert),
        500,
    )
};

pub const SHEET: Sheet = Sheet {
    source: "Fig. 12, emulated eMMC",
    title: "500 inserts in a new database, and what the flash did for one",
    theirs: &["theirs/s"],
    columns: &[
        compared("ours/s", "emmc-insert", Figure::PerSecond),
        column("KB", "emmc-insert", Figure::Kilobytes),
        column("flushes", "emmc-insert", Figure::Flushes),
        column("programmed", "emmc-insert", Figure::ProgrammedKilobytes),
        column("amplified", "emmc-insert", Figure::WriteAmplification),
        column("days", "emmc-insert", Figure::LifeDays),
    ],
    control: SQL_WAL,
    rows: &[
        row("TRUNCATE", &[Some(55.0)], SQL_TRUNCATE),
        row("WAL", &[Some(416.0)], SQL_WAL),
        row("LS-MVBT, SQL", &[Some(704.0)], SQL),
    ],
};

pub const CLAIMS: [Claim; 4] = [
    Claim {
        source: "Abstract, emulated eMMC",
        says: "LS-MVBT inserts 1.7 times as fast as WAL (704 to 416 a second)",
        theirs: Some(704.0 / 416.0),
        over: &[rate("emmc-insert", SQL)],
        under: &[rate("emmc-insert", SQL_WAL)],
        rule: at_least(704.0 / 416.0),
        unless: "",
    },
    Claim {
        source: "Abstract, emulated eMMC",
        says: "LS-MVBT inserts 12.8 times as fast as TRUNCATE (704 to 55 a second)",
        theirs: Some(704.0 / 55.0),
        over: &[rate("emmc-insert", SQL)],
        under: &[rate("emmc-insert", SQL_TRUNCATE)],
        rule: at_least(704.0 / 55.0),
        unless: "",
    },
    Claim {
        source: "Abstract, emulated eMMC",
        says: "WAL inserts 7.6 times as fast as TRUNCATE (416 to 55 a second)",
        theirs: Some(416.0 / 55.0),
        over: &[rate("emmc-insert", SQL_WAL)],
        under: &[rate("emmc-insert", SQL_TRUNCATE)],
        rule: at_least(416.0 / 55.0),
        unless: "",
    },
    Claim {
        source: "Abstract, emulated eMMC",
        says: "LS-MVBT makes 704 inserts a second",
        theirs: Some(704.0),
        over: &[rate("emmc-insert", SQL)],
        under: &[],
        rule: crate::paper::Rule::Between { holds: [350.0, 1400.0], in_part: [175.0, 2800.0] },
        unless: "The model is not fitted to their phone.",
    },
];
