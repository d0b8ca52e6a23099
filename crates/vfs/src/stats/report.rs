//! The JSON object of `PRAGMA oneflush_stats`. Sizes are bytes, times nanoseconds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::Counters;
use super::commit::Commit;
use super::latency::{Histogram, Quantiles, SharedHistogram};

/// How many commits are kept one by one.
const RECENT_COUNT: usize = 16;

/// What the commits of a database cost, all connections of the process together.
#[derive(Default)]
pub struct Commits(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    bytes: Summary,
    syncs: Summary,
    latency_ns: Histogram,
    recent: VecDeque<Commit>,
}

/// Sum and extreme of a quantity.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Summary {
    sum: u64,
    max: u64,
}

impl Summary {
    fn record(&mut self, value: u64) {
        self.sum += value;
        self.max = self.max.max(value);
    }
}

impl Commits {
    pub fn record(&self, commit: Commit) {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.bytes.record(commit.bytes);
        recorded.syncs.record(commit.syncs);
        recorded.latency_ns.record(commit.latency_ns);
        if recorded.recent.len() == RECENT_COUNT {
            recorded.recent.pop_front();
        }
        recorded.recent.push_back(commit);
    }

    fn report(&self) -> CommitsReport {
        let recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let latency_ns = recorded.latency_ns.quantiles();
        CommitsReport {
            count: latency_ns.count,
            bytes: recorded.bytes,
            syncs: recorded.syncs,
            latency_ns,
            recent: recorded.recent.iter().copied().collect(),
        }
    }
}

#[derive(Serialize)]
pub struct Report<'a> {
    version: &'static str,
    database: &'a str,
    strategy: &'static str,
    durability: &'static str,
    connections: usize,
    commits: CommitsReport,
    files: BTreeMap<&'static str, FileReport>,
}

#[derive(Serialize)]
struct CommitsReport {
    count: u64,
    bytes: Summary,
    syncs: Summary,
    latency_ns: Quantiles,
    recent: Vec<Commit>,
}

#[derive(Serialize)]
struct FileReport {
    opens: u64,
    reads: u64,
    read_bytes: u64,
    mapped_reads: u64,
    writes: u64,
    write_bytes: u64,
    syncs: u64,
    truncates: u64,
    deletes: u64,
    sync_latency_ns: Quantiles,
}

impl<'a> Report<'a> {
    pub fn new(
        database: &'a str,
        strategy: &'static str,
        durability: &'static str,
        connections: usize,
        commits: &Commits,
    ) -> Report<'a> {
        Report {
            version: crate::VERSION,
            database,
            strategy,
            durability,
            connections,
            commits: commits.report(),
            files: BTreeMap::new(),
        }
    }

    pub fn file(&mut self, key: &'static str, counters: &Counters, sync_latency_ns: &SharedHistogram) {
        let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
        let report = FileReport {
            opens: get(&counters.opens),
            reads: get(&counters.reads),
            read_bytes: get(&counters.read_bytes),
            mapped_reads: get(&counters.mapped_reads),
            writes: get(&counters.writes),
            write_bytes: get(&counters.write_bytes),
            syncs: get(&counters.syncs),
            truncates: get(&counters.truncates),
            deletes: get(&counters.deletes),
            sync_latency_ns: sync_latency_ns.quantiles(),
        };
        self.files.insert(key, report);
    }

    /// One JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }
}
