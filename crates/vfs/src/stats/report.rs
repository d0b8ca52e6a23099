//! The JSON object of `PRAGMA oneflush_stats`. Sizes are bytes, times nanoseconds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use super::commit::Commit;
use super::latency::{Histogram, Quantiles};
use super::{Counters, Sample, Tally};
use crate::role::Role;

/// How many commits are kept one by one.
const RECENT_COUNT: usize = 16;

/// The sum of the samples of all connections to a database.
#[derive(Default)]
pub struct Measured {
    sync_latency_ns: [Histogram; Role::COUNT],
    commits: Commits,
}

#[derive(Default)]
struct Commits {
    bytes: Summary,
    syncs: Summary,
    latency_ns: Histogram,
    recent: VecDeque<Commit>,
}

/// Sum and maximum of a quantity.
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

impl Measured {
    pub fn add(&mut self, samples: impl IntoIterator<Item = Sample>) {
        for sample in samples {
            match sample {
                Sample::Sync { role, latency_ns } => {
                    self.sync_latency_ns[role.index()].record(latency_ns)
                }
                Sample::Commit(commit) => self.commits.record(commit),
            }
        }
    }
}

impl Commits {
    fn record(&mut self, commit: Commit) {
        self.bytes.record(commit.bytes);
        self.syncs.record(commit.syncs);
        self.latency_ns.record(commit.latency_ns);
        if self.recent.len() == RECENT_COUNT {
            self.recent.pop_front();
        }
        self.recent.push_back(commit);
    }

    fn report(&self) -> CommitsReport {
        let latency_ns = self.latency_ns.quantiles();
        CommitsReport {
            count: latency_ns.count,
            bytes: self.bytes,
            syncs: self.syncs,
            latency_ns,
            recent: self.recent.iter().copied().collect(),
        }
    }
}

/// The present state of a database.
pub struct State {
    pub strategy: &'static str,
    pub inactive_because: Option<String>,
    pub durability: &'static str,
    pub connections: usize,
    /// How often SQLite's locks were found cancelled by a `close()` in this process.
    pub cancelled_locks: u64,
}

#[derive(Serialize)]
pub struct Report<'a, R> {
    version: &'static str,
    database: &'a str,
    strategy: &'static str,
    /// False where the strategy changes nothing. Then `inactive_because` says why.
    active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    inactive_because: Option<String>,
    durability: &'static str,
    connections: usize,
    cancelled_locks: u64,
    commits: CommitsReport,
    files: BTreeMap<&'static str, FileReport>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    strategy_report: Option<R>,
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

impl<'a, R: Serialize> Report<'a, R> {
    pub fn new(
        database: &'a str,
        state: State,
        tally: &Tally,
        measured: &Measured,
        strategy_report: Option<R>,
    ) -> Report<'a, R> {
        let file = |role: Role| {
            (role.key(), FileReport::new(tally.of(role), &measured.sync_latency_ns[role.index()]))
        };
        Report {
            version: crate::VERSION,
            database,
            strategy: state.strategy,
            active: state.inactive_because.is_none(),
            inactive_because: state.inactive_because,
            durability: state.durability,
            connections: state.connections,
            cancelled_locks: state.cancelled_locks,
            commits: measured.commits.report(),
            files: Role::ALL.into_iter().map(file).collect(),
            strategy_report,
        }
    }

    /// One JSON object on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }
}

impl FileReport {
    fn new(counters: &Counters, sync_latency_ns: &Histogram) -> FileReport {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        FileReport {
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
        }
    }
}
