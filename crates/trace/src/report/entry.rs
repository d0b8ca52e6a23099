//! Entries: transactions as a report keeps them.

use crate::identify::{Confidence, JournalMode, Outcome, Synchronous};

/// What is kept of a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// By the trace's clock.
    pub begin_ns: u64,
    pub latency_ns: u64,
    /// False: nobody knows the latency, and it is in no figure.
    pub has_latency: bool,
    /// Time within it in which the whole trace was silent for a second or more.
    pub silent_ns: u64,
    /// By class, in the order of [`super::CLASSES`].
    pub bytes: [u64; 4],
    /// Bytes of the transaction that its checkpoint wrote.
    pub checkpoint_bytes: u64,
    pub requests: u64,
    pub flushes: u64,
    /// Number in [`super::Trace::databases`].
    pub database: u32,
    /// Number in [`super::Trace::processes`].
    pub process: u32,
    pub journal_mode: JournalMode,
    pub synchronous: Synchronous,
    pub outcome: Outcome,
    pub confidence: Confidence,
}

impl Entry {
    pub fn total_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Its bytes are not its own: another one's synchronization has written them, or it has written
    /// those of others.
    pub(super) fn shares_bytes(&self) -> bool {
        let reason = self.confidence.reason;
        reason.is_written_elsewhere() || reason.has_others_bytes()
    }
}
