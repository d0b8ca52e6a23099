//! What a connection knows of its own waiting: whether it will write, whether it sleeps here, where
//! it stands.

use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::connection::taken;
use crate::stats::clock;
use crate::sync::{Mutex, lock, ranks};

pub(super) struct Waiter {
    /// A thread has noted that the connection may be about to sleep. Since that note it has
    /// asked for no lock of the WAL index.
    pub may_sleep: AtomicBool,
    /// How often the connection has asked for such a lock after such a note. The mutex is held
    /// while a sleep tries the write lock.
    pub asked: Mutex<u64, { ranks::ASKED }>,
    /// Above 0: the next transaction is expected to write.
    pub prediction: AtomicI8,
    /// The connection waited for its turn and was told "busy" at the read lock. SQLite then reads
    /// the WAL index again.
    pub looks_again: AtomicBool,
    /// When the connection took its read lock. 0: it was not expected to write.
    pub reads_since_ns: AtomicU64,
    /// The connection's last writing transaction read for a while before it wrote.
    pub writes_late: AtomicBool,
    /// The connection has its turn and stands at the gate.
    pub waits_at_gate: AtomicBool,
    /// The connection had its turn and found the write lock taken. So another process has the lock,
    /// or a connection without a turn.
    pub outside_holder: AtomicBool,
    /// The connection has waited at the gate long enough. It now tries the write lock without the
    /// gate.
    pub passes_by_the_gate: AtomicBool,
    /// The connection's busy handler has been seen to sleep through this VFS.
    pub has_slept: AtomicBool,
    /// The connection was told "busy" at the write lock. Since then it has neither slept nor been
    /// called.
    pub bounced: AtomicBool,
    /// The busy handler sleeps through this VFS, or has not been seen to do otherwise.
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
    /// How long the connection has had its read lock; zero if it was not expected to write.
    pub fn read_for(&self) -> Duration {
        match self.reads_since_ns.load(Relaxed) {
            0 => Duration::ZERO,
            since_ns => Duration::from_nanos(clock::now_ns().saturating_sub(since_ns)),
        }
    }

    /// Voids every note of a "busy" for this connection, in whichever thread it is. SQLite need not
    /// have slept after the "busy". When this returns, no sleep tries the write lock for such a
    /// note.
    #[inline]
    pub fn ends_sleep(&self) {
        if taken(&self.may_sleep) {
            *lock(&self.asked) += 1;
        }
    }
}
