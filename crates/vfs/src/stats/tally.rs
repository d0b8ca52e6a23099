//! Counters for each file role.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::role::Role;

/// Counters of one role. Their sum is exact only while nobody uses the database. A concurrent
/// reader may see one counter a call ahead of another.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Counters {
    // The counters of a commit or a query are on one cache line.
    pub reads: AtomicU64,
    pub read_bytes: AtomicU64,
    pub writes: AtomicU64,
    pub write_bytes: AtomicU64,
    /// Syncs that SQLite asked for. The first sync of a new file by the "unix" VFS adds one of the
    /// directory, which is not counted here.
    pub syncs: AtomicU64,
    /// Pages that SQLite took from a memory map instead of reading them.
    pub mapped_reads: AtomicU64,
    pub opens: AtomicU64,
    pub truncates: AtomicU64,
    pub deletes: AtomicU64,
}

impl Counters {
    fn all(&self) -> [&AtomicU64; 9] {
        [
            &self.opens,
            &self.reads,
            &self.read_bytes,
            &self.mapped_reads,
            &self.writes,
            &self.write_bytes,
            &self.syncs,
            &self.truncates,
            &self.deletes,
        ]
    }
}

/// Adds to a counter. A statistic needs no order against other memory.
pub fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

/// Adds to a counter that only one thread at a time adds to. It needs no locked instruction.
#[inline]
pub fn add_alone(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// One set of counters for each role.
#[derive(Default)]
pub struct Tally([Counters; Role::COUNT]);

impl Tally {
    pub fn of(&self, role: Role) -> &Counters {
        &self.0[role.index()]
    }

    /// Adds all counters of `other`.
    pub fn absorb(&self, other: &Tally) {
        for (mine, theirs) in self.0.iter().zip(&other.0) {
            for (to, from) in mine.all().into_iter().zip(theirs.all()) {
                add(to, from.load(Relaxed));
            }
        }
    }
}
