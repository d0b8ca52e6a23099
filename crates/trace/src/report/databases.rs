//! Table 6 of the paper: how many transactions and bytes each database has, and in which mode.

use std::cmp::Reverse;

use serde::Serialize;

use super::by_class::ByClass;
use super::collect::Trace;
use super::tally::OfDatabase;

/// In place of the names of those that came when there was no room for more names.
pub const OTHER_DATABASES: &str = "(other databases)";

/// A database of one trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatabaseRow {
    pub database: String,
    pub transactions: u64,
    /// Of all transactions of the trace.
    pub share_of_transactions: f64,
    pub bytes: ByClass<u64>,
    /// Of all bytes of the trace's transactions.
    pub share_of_bytes: f64,
    /// `None` if no device was observed.
    pub flushes: Option<u64>,
    /// Not a number where nobody knows it.
    pub median_ms: f64,
    pub median_kb: f64,
    /// Journal mode and synchronization that most of its transactions had.
    pub mode: String,
}

/// Those that a page can show: with most transactions, and with most bytes.
pub(super) fn foremost(rows: &[DatabaseRow], count_max: usize) -> Vec<DatabaseRow> {
    let mut bytes: Vec<u64> = rows.iter().map(|row| row.bytes.total()).collect();
    bytes.sort_unstable_by_key(|bytes| Reverse(*bytes));
    let bytes_min = bytes.get(count_max).map_or(0, |bytes| bytes + 1);
    let is_foremost =
        |(place, row): &(usize, &DatabaseRow)| *place < count_max || row.bytes.total() >= bytes_min;
    rows.iter().enumerate().filter(is_foremost).map(|(_, row)| row.clone()).collect()
}

/// Most transactions first; of as many, most bytes first.
pub(super) fn rows(trace: &Trace) -> Vec<DatabaseRow> {
    let tally = &trace.tally;
    let total_bytes = tally.bytes.total();
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let row = |(name, sum): (&String, &OfDatabase)| DatabaseRow {
        database: name.clone(),
        transactions: sum.volumes.count(),
        share_of_transactions: share(sum.volumes.count(), tally.count),
        bytes: sum.bytes,
        share_of_bytes: share(sum.bytes.total(), total_bytes),
        flushes: (!trace.is_of_calls).then_some(sum.flushes),
        median_ms: match sum.latencies.count() {
            0 => f64::NAN,
            _ => sum.latencies.quantile(0.5) as f64 / 1e6,
        },
        median_kb: match tally.shares_bytes() {
            true => f64::NAN,
            false => sum.volumes.quantile(0.5) as f64 / 1024.0,
        },
        mode: sum
            .modes
            .iter()
            .max_by_key(|((mode, synchronous), count)| (*count, *mode, *synchronous))
            .map_or(String::new(), |((mode, synchronous), _)| format!("{mode} {synchronous}")),
    };
    // Groups of a data set share their names, so not each has something of each database.
    let databases = trace.databases.iter().zip(&tally.databases);
    let mut rows: Vec<DatabaseRow> =
        databases.filter(|(_, sum)| sum.volumes.count() > 0).map(row).collect();
    rows.sort_by_key(|row| (Reverse(row.transactions), Reverse(row.bytes.total())));
    rows
}
