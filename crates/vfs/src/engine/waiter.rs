//! What a connection knows of its own waiting: whether it is likely to write, whether it sleeps through this VFS, where it stands.

use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::connection::taken;
use crate::stats::clock;
use crate::sync::{Mutex, lock};

pub(crate) struct Waiter {
    /// A note says that it may be about to sleep, and it has not asked for a lock of the WAL index since.
    pub may_sleep: AtomicBool,
    /// How often it has asked for one after such a note; held while the write lock is tried for a sleep.
    pub asked: Mutex<u64>,
    /// Above 0: the next transaction is expected to write.
    pub prediction: AtomicI8,
    /// It has waited for its turn and was told "busy" at the read lock, to read the WAL index again.
    pub looks_again: AtomicBool,
    /// When it took its read lock, if it was expected to write; 0: it was not.
    pub reads_since_ns: AtomicU64,
    /// In its last transaction that wrote it read for a while before.
    pub writes_late: AtomicBool,
    /// It has its turn and stands at the gate.
    pub waits_at_gate: AtomicBool,
    /// It had its turn and found the write lock taken, so another process, or somebody without a turn, has it.
    pub outside_holder: AtomicBool,
    /// It has waited at the gate for long enough to do without.
    pub passes_by_the_gate: AtomicBool,
    /// Its busy handler has been seen to sleep through this VFS.
    pub has_slept: AtomicBool,
    /// It was told "busy" at the write lock and has neither slept nor been called since.
    pub bounced: AtomicBool,
    /// Its busy handler sleeps through this VFS, or has not been seen not to.
    pub sleeps: AtomicBool,
}

impl Default for Waiter {
    fn default() -> Waiter {
        Waiter {
            may_sleep: AtomicBool::new(false),
            asked: Mutex::default(),
            prediction: AtomicI8::new(0),
            looks_again: AtomicBool::new(false),
            reads_since_ns: AtomicU64::new(0),
            writes_late: AtomicBool::new(false),
            waits_at_gate: AtomicBool::new(false),
            outside_holder: AtomicBool::new(false),
            passes_by_the_gate: AtomicBool::new(false),
            has_slept: AtomicBool::new(false),
            bounced: AtomicBool::new(false),
            sleeps: AtomicBool::new(true),
        }
    }
}

impl Waiter {
    /// For how long it has had its read lock, if it was expected to write.
    pub fn read_for(&self) -> Duration {
        match self.reads_since_ns.load(Relaxed) {
            0 => Duration::ZERO,
            since_ns => Duration::from_nanos(clock::now_ns().saturating_sub(since_ns)),
        }
    }

    /// Whatever note of a "busy" there is, in whichever thread, is not about this connection any more: SQLite need not have slept after it. When
    /// this returns nobody tries the write lock for that either.
    #[inline]
    pub fn ends_sleep(&self) {
        if taken(&self.may_sleep) {
            *lock(&self.asked) += 1;
        }
    }
}
