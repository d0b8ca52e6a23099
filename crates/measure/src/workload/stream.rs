//! What one connection does, step by step.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::WorkloadError;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Changed something and committed it, or did another unit of its workload.
    Done { latency_ns: u64 },
    /// Only read, or failed and was counted.
    NothingWritten,
    /// There are no more.
    Finished,
}

/// The transactions of one connection, one after the other.
pub trait Stream {
    fn step(&mut self) -> Result<Step, WorkloadError>;

    /// What belongs to the measured work but comes after the last transaction.
    fn finish(&mut self) -> Result<(), WorkloadError>;

    /// Statements that failed, by message: only replays go on after a failure.
    fn failures(&self) -> BTreeMap<String, u64>;

    /// Any of the stream's connections, to ask the VFS for its statistics. None where it keeps none
    /// open.
    fn connection(&self) -> Option<&Connection>;
}
