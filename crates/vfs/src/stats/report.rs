//! The JSON object of `PRAGMA oneflush_stats`. Sizes are bytes, times nanoseconds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::commit::Commit;
use super::latency::Quantiles;
use super::{Counters, Latency};

/// How many commits are kept one by one.
const RECENT_COUNT: usize = 16;

/// What the commits of a database cost, all connections of the process together.
#[derive(Default)]
pub struct Commits {
    bytes: Latency,
    syncs: Latency,
    latency_ns: Latency,
    recent: Mutex<VecDeque<CommitReport>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct CommitReport {
    pub bytes: u64,
    pub syncs: u64,
    pub latency_ns: u64,
}

impl Commits {
    pub fn record(&self, commit: Commit) {
        self.bytes.record(commit.bytes);
        self.syncs.record(commit.syncs);
        self.latency_ns.record(commit.latency_ns);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT_COUNT {
            recent.pop_front();
        }
        recent.push_back(CommitReport { bytes: commit.bytes, syncs: commit.syncs, latency_ns: commit.latency_ns });
    }

    fn report(&self) -> CommitsReport {
        let latency_ns = self.latency_ns.quantiles();
        CommitsReport {
            count: latency_ns.count,
            bytes: self.bytes.quantiles(),
            syncs: self.syncs.quantiles(),
            latency_ns,
            recent: self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect(),
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
    bytes: Quantiles,
    syncs: Quantiles,
    latency_ns: Quantiles,
    recent: Vec<CommitReport>,
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

    pub fn file(&mut self, key: &'static str, counters: &Counters, sync_latency_ns: &Latency) {
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
