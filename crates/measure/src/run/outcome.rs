//! What a slice hands on: the workers' results as one, or the failure that says most.

use std::collections::BTreeMap;
use std::time::Duration;

use super::RunError;
use super::companion::CompanionResult;
use super::error::At;
use super::failure::{Failure, FailureKind};
use super::latency::Latencies;
use super::timeline::Timeline;
use super::vfs::{Calls, RawStats};
use super::worker::WorkerResult;
use crate::observe::Counts;

/// One entry a worker.
pub type Outcomes = Vec<Result<WorkerResult, Failure>>;

/// What one slice measured.
#[derive(Debug)]
pub struct SliceResult {
    /// Committed transactions that changed something, or what else the workload counts.
    pub transactions: u64,
    pub elapsed_ns: u64,
    pub latencies: Latencies,
    pub timeline: Timeline,
    /// The run's parts with their lengths; none where the workload has none.
    pub phases: Vec<(Duration, Latencies)>,
    pub companion: Option<CompanionResult>,
    /// Of all databases together, before anybody closed them; none in modes without WAL.
    pub wal_bytes_at_end: Option<u64>,
    /// One entry a process and database; none where SQLite works alone.
    pub vfs_stats: Vec<RawStats>,
    pub cpu_ns: u64,
    /// None where nobody could count: no device of our own, and SQLite without our VFS.
    pub counts: Option<Counts>,
    /// Zeros among those counts, written ahead for a WAL or a log. None: nobody knows.
    pub laid_out_bytes: Option<u64>,
    /// What SQLite asked for, as our VFS saw it. None where SQLite works alone.
    pub calls: Option<Calls>,
    /// Failed statements of a replay, by message.
    pub failures: BTreeMap<String, u64>,
    /// Of the final contents; replays only.
    pub fingerprint: Option<u64>,
}

/// The lengths of a run's parts; the last one ends with the run.
pub fn lengths(ends: &[Duration], elapsed: Duration) -> Vec<Duration> {
    let mut begin = Duration::ZERO;
    let mut lengths = Vec::new();
    for (at, end) in ends.iter().enumerate() {
        let end = if at + 1 == ends.len() { elapsed } else { *end };
        lengths.push(end.saturating_sub(begin));
        begin = end;
    }
    lengths
}

/// All results, or the failure that says most. A full disk in one worker makes the others fail for
/// other reasons.
pub fn collect(
    outcomes: Outcomes,
    mut failures: Vec<Failure>,
    at: &At<'_>,
) -> Result<Vec<WorkerResult>, RunError> {
    let mut good = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(worker) => good.push(worker),
            Err(failure) => failures.push(failure),
        }
    }
    let rank = |failure: &Failure| match failure.kind {
        FailureKind::DiskFull => 0,
        FailureKind::Other => 1,
        FailureKind::Interrupted => 2,
    };
    match failures.into_iter().min_by_key(rank) {
        Some(failure) => Err(at.failure(failure)),
        None => Ok(good),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_ends_with_the_run() {
        let millis = |values: [u64; 3]| values.map(Duration::from_millis).to_vec();
        assert_eq!(
            lengths(&millis([100, 400, 500]), Duration::from_millis(530)),
            millis([100, 300, 130])
        );
        assert!(lengths(&[], Duration::from_secs(1)).is_empty());
    }
}
