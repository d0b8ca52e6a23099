//! SQLite on the engine, as in the paper: Mobibench's inserts beside WAL with checkpoints at
//! several lengths, and the writes of single commits.

use crate::paper::pattern::{PatternRow, PatternSheet};
use crate::paper::short::{self, column, compared, row};
use crate::paper::{Experiment, Figure, How, Sheet, Work};
use oneflush_measure::workload::Operation;

/// SQLite on the engine.
pub const SQL: &str = "lsmvbt";
/// The same without what the paper adds to a multi-version B-tree.
pub const SQL_PLAIN_MVBT: &str = "lsmvbt+lazy_split=off+metadata_embedding=off";
pub const SQL_WAL: &str = "wal-growing:sqlite";
pub const SQL_WAL_63: &str = "wal-growing:sqlite+checkpoint_pages=63";
pub const SQL_WAL_125: &str = "wal-growing:sqlite+checkpoint_pages=125";
pub const SQL_WAL_250: &str = "wal-growing:sqlite+checkpoint_pages=250";
pub const SQL_WAL_500: &str = "wal-growing:sqlite+checkpoint_pages=500";
pub const SQL_TRUNCATE: &str = "truncate:sqlite";

const fn experiment(name: &'static str, what: &'static str, work: Work, count: u64) -> Experiment {
    Experiment { fresh: true, ..short::experiment(name, what, work, count) }
}

const ONE_PAGE: Work = Work::Table(Operation::OnePage);

const MOBIBENCH: Work = Work::Mobibench(Operation::Insert);

/// Up to the first checkpoint of a WAL of SQLite's default length.
pub const INSERT: Experiment =
    experiment("sql-insert", "Fig. 6(a): inserts in SQL", MOBIBENCH, 1000);
pub const LONG: Experiment =
    experiment("sql-long", "Fig. 6(a): more inserts in SQL", MOBIBENCH, 10_000);
pub const TEN: Experiment = experiment("sql-10", "Fig. 7: 10 inserts in SQL", ONE_PAGE, 10);
pub const HUNDRED: Experiment = experiment("sql-100", "Fig. 7: 100 inserts in SQL", ONE_PAGE, 100);
pub const SINGLE: Experiment = Experiment {
    how: How::Recorded,
    ..experiment("sql-single", "Fig. 7: single inserts in SQL", ONE_PAGE, 30)
};

pub const INSERTS: Sheet = Sheet {
    source: "Fig. 6(a), in SQL",
    title: "Mobibench inserts in a new database, by pages a checkpoint",
    theirs: &["ms"],
    columns: &[
        column("mean ms", "sql-insert", Figure::MeanMillis),
        compared("/s", "sql-insert", Figure::PerSecond),
        column("KB", "sql-insert", Figure::Kilobytes),
        column("flushes", "sql-insert", Figure::Flushes),
    ],
    control: SQL_WAL,
    rows: &[
        row("LS-MVBT", &[Some(1.4)], SQL),
        row("MVBT", &[None], SQL_PLAIN_MVBT),
        row("WAL, 63 pages", &[Some(2.5)], SQL_WAL_63),
        row("WAL, 125 pages", &[None], SQL_WAL_125),
        row("WAL, 250 pages", &[None], SQL_WAL_250),
        row("WAL, 500 pages", &[None], SQL_WAL_500),
        row("WAL, 1,000 pages", &[Some(2.0)], SQL_WAL),
        row("TRUNCATE", &[None], SQL_TRUNCATE),
    ],
};

pub const MORE_INSERTS: Sheet = Sheet {
    source: "Goal, in SQL",
    title: "The same with 10,000 inserts, so that each WAL has its checkpoints",
    theirs: &[],
    columns: &[
        compared("/s", "sql-long", Figure::PerSecond),
        column("p99.9 ms", "sql-long", Figure::TailMillis),
        column("longest ms", "sql-long", Figure::LongestMillis),
        column("KB", "sql-long", Figure::Kilobytes),
        column("flushes", "sql-long", Figure::Flushes),
    ],
    control: SQL_WAL,
    rows: &[
        row("LS-MVBT", &[], SQL),
        row("WAL, 63 pages", &[], SQL_WAL_63),
        row("WAL, 1,000 pages", &[], SQL_WAL),
        row("TRUNCATE", &[], SQL_TRUNCATE),
    ],
};

/// Theirs: accesses of WAL beside those of LS-MVBT, 84 % and 46 % more.
pub const ACCESSES: Sheet = Sheet {
    source: "Fig. 7, in SQL",
    title: "Writes to the device of an insert, of 10 and of 100",
    theirs: &["× of 10", "of 100"],
    columns: &[
        compared("10", "sql-10", Figure::Writes),
        compared("100", "sql-100", Figure::Writes),
        column("KB", "sql-100", Figure::Kilobytes),
    ],
    control: SQL,
    rows: &[
        row("LS-MVBT", &[Some(1.0), Some(1.0)], SQL),
        row("WAL", &[Some(1.84), Some(1.46)], SQL_WAL),
        row("TRUNCATE", &[None, None], SQL_TRUNCATE),
    ],
};

pub const PATTERNS: [PatternSheet; 1] = [PatternSheet {
    source: "Fig. 7, in SQL",
    title: "The writes of an insert",
    experiment: "sql-single",
    rows: &[
        PatternRow { label: "LS-MVBT", theirs: "D4 N12", mode: SQL },
        PatternRow { label: "WAL", theirs: "J8 N32", mode: SQL_WAL },
        PatternRow { label: "TRUNCATE", theirs: "", mode: SQL_TRUNCATE },
    ],
}];
