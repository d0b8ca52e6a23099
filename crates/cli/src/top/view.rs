//! What of the table is shown, and in which order.

use std::cmp::Ordering;
use std::path::PathBuf;

use clap::ValueEnum;
use oneflush_trace::identify::Database;
use oneflush_trace::live::{Row, Snapshot};
use oneflush_trace::record::Targets;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Transactions a second
    #[value(alias = "t")]
    Txn,
    /// KB a transaction
    #[value(alias = "k")]
    Kb,
    /// Flushes a transaction
    #[value(alias = "f")]
    Flushes,
    /// 99th percentile of the latency
    #[value(alias = "p")]
    P99,
    /// Share of the bytes that is journaling
    #[value(alias = "j")]
    Journaling,
    /// The database's name
    #[value(alias = "n")]
    Name,
}

impl Sort {
    pub fn of_key(key: char) -> Option<Sort> {
        match key {
            't' => Some(Sort::Txn),
            'k' => Some(Sort::Kb),
            'f' => Some(Sort::Flushes),
            'p' => Some(Sort::P99),
            'j' => Some(Sort::Journaling),
            'n' => Some(Sort::Name),
            _ => None,
        }
    }

    /// As the column is headed.
    pub fn column(self) -> &'static str {
        match self {
            Sort::Txn => "txn/s",
            Sort::Kb => "KB/txn",
            Sort::Flushes => "fl/tx",
            Sort::P99 => "p99 ms",
            Sort::Journaling => "jrnl",
            Sort::Name => "database",
        }
    }

    /// By name all are in order already.
    fn figure(self, row: &Row) -> Option<f64> {
        match self {
            Sort::Txn => Some(row.rate),
            Sort::Kb => row.figures.bytes_each(),
            Sort::Flushes => row.figures.flushes_each(),
            Sort::P99 => row.figures.p99_ms(),
            Sort::Journaling => row.figures.journaling_share(),
            Sort::Name => None,
        }
    }
}

pub struct View {
    pub described: String,
    /// Names below it are shown without it.
    directory: Option<PathBuf>,
    pub sort: Sort,
    pub is_paused: bool,
    pub is_help: bool,
}

impl View {
    pub fn new(targets: &Targets, sort: Sort) -> View {
        let mut directories = targets.named().iter().flat_map(|target| &target.directories);
        // Below several, a name alone would not say which.
        let directory = directories.next().filter(|_| directories.next().is_none()).cloned();
        let described = targets.describe();
        View { described, directory, sort, is_paused: false, is_help: false }
    }

    /// The rows in order: the largest figure first, the same ones by name.
    pub fn sorted(&self, snapshot: &mut Snapshot) {
        let order = |one: &Row, other: &Row| match (self.sort.figure(one), self.sort.figure(other))
        {
            (Some(one), Some(other)) => other.total_cmp(&one),
            (one, other) => other.is_some().cmp(&one.is_some()),
        };
        debug_assert!(
            snapshot
                .rows
                .is_sorted_by(|one, other| one.database.cmp(&other.database) != Ordering::Greater)
        );
        snapshot.rows.sort_by(order);
    }

    /// Its path below the directory that is watched.
    pub fn name(&self, database: &Database) -> String {
        let below = match (database, &self.directory) {
            (Database::Named(path), Some(directory)) => {
                std::path::Path::new(&**path).strip_prefix(directory).ok()
            }
            _ => None,
        };
        below.map_or_else(|| database.to_string(), |below| below.display().to_string())
    }
}
