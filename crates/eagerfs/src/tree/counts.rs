//! What was done since the mount.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn reach(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub struct Counts {
    /// Syncs of files and directories that were asked for.
    pub syncs: Count,
    /// Dirty bytes of the files that these have asked for.
    pub asked_bytes: Count,
    /// Records of the log, each for one sync or several.
    pub records: Count,
    pub logged_bytes: Count,
    /// Of the log.
    pub flushes: Count,
    /// Operations on names and attributes.
    pub operations: Count,
    /// Those that records have, with the isets of what was synced.
    pub iset_operations: Count,
    /// In one record, at most.
    pub iset_operations_max: Count,
    /// Syncs that were the lower's.
    pub settled: Count,
    /// Those of them with more bytes than the threshold.
    pub over_threshold: Count,
    /// Syncs of the whole lower.
    pub lower_syncs: Count,
    pub epochs: Count,
}

impl Counts {
    /// A record is durable.
    pub(super) fn note_record(&self, record_bytes: u64, operations: usize) {
        self.records.add(1);
        self.flushes.add(1);
        self.logged_bytes.add(record_bytes);
        self.iset_operations.add(operations as u64);
        self.iset_operations_max.reach(operations as u64);
    }

    /// Each with its name.
    pub fn all(&self) -> [(&'static str, u64); 12] {
        [
            ("syncs", &self.syncs),
            ("asked_bytes", &self.asked_bytes),
            ("records", &self.records),
            ("logged_bytes", &self.logged_bytes),
            ("flushes", &self.flushes),
            ("operations", &self.operations),
            ("iset_operations", &self.iset_operations),
            ("iset_operations_max", &self.iset_operations_max),
            ("settled", &self.settled),
            ("over_threshold", &self.over_threshold),
            ("lower_syncs", &self.lower_syncs),
            ("epochs", &self.epochs),
        ]
        .map(|(name, count)| (name, count.get()))
    }
}
