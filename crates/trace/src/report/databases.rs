//! Table 6 of the paper: how many transactions and bytes each database has, and in which mode.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::collect::{Entry, Trace};
use super::quantiles::quantile;
use super::tables::ByClass;
use crate::identify::{JournalMode, Outcome, Synchronous};

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
    pub median_ms: f64,
    pub median_kb: f64,
    /// Journal mode and synchronization that most of its transactions had.
    pub mode: String,
}

#[derive(Default)]
struct Sum {
    bytes: ByClass<u64>,
    flushes: u64,
    latencies: Vec<u64>,
    volumes: Vec<u64>,
    modes: BTreeMap<(JournalMode, Synchronous), u64>,
}

pub(super) fn is_rolled_back(entry: &Entry) -> bool {
    entry.outcome == Outcome::RolledBack
}

/// Most transactions first; of as many, most bytes first.
pub(super) fn rows(trace: &Trace) -> Vec<DatabaseRow> {
    let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
    let mut total_bytes = 0;
    for entry in &trace.entries {
        let sum = sums.entry(entry.database).or_default();
        sum.bytes.add(entry.bytes);
        sum.flushes += entry.flushes;
        sum.latencies.push(entry.latency_ns);
        sum.volumes.push(entry.total_bytes());
        *sum.modes.entry((entry.journal_mode, entry.synchronous)).or_default() += 1;
        total_bytes += entry.total_bytes();
    }
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let mut rows: Vec<DatabaseRow> = sums
        .into_iter()
        .map(|(database, mut sum)| {
            sum.latencies.sort_unstable();
            sum.volumes.sort_unstable();
            let transactions = sum.latencies.len() as u64;
            let mode = sum.modes.iter().max_by_key(|(_, count)| **count).map(|(mode, _)| *mode);
            DatabaseRow {
                database: trace.databases[database as usize].clone(),
                transactions,
                share_of_transactions: share(transactions, trace.entries.len() as u64),
                bytes: sum.bytes,
                share_of_bytes: share(sum.bytes.total(), total_bytes),
                flushes: (!trace.is_of_calls).then_some(sum.flushes),
                median_ms: quantile(&sum.latencies, 0.5) as f64 / 1e6,
                median_kb: quantile(&sum.volumes, 0.5) as f64 / 1024.0,
                mode: mode
                    .map_or(String::new(), |(mode, synchronous)| format!("{mode} {synchronous}")),
            }
        })
        .collect();
    rows.sort_by_key(|row| (Reverse(row.transactions), Reverse(row.bytes.total())));
    rows
}
