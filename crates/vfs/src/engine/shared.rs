//! The state of one database in this process: turns, flush, checkpointer and store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use serde::Serialize;

use super::checkpointer::{CheckpointCounts, Checkpointer, RunCheckpoint};
use super::contents::Contents;
use super::flush::GroupFlush;
use super::gate::Gate;
use super::harm::Saved;
use super::rewound::LastSeen;
use super::store::Store;
use super::turns::Turns;
use crate::sync::{Barrier, Mutex};

/// For this many commits another process is taken to be still there, after it was met or has
/// written. Not every gate reaches all processes.
const OUTSIDERS_COMMITS: u64 = 32;

/// How many commits a process that knows of no other makes before it looks whether somebody is at
/// the gate.
const LOOKS_EVERY: u32 = 8;

/// What the connections of this process to one database share.
pub struct Shared<S: Store> {
    barrier: Arc<Barrier>,
    pub(super) turns: Turns,
    pub(crate) flush: GroupFlush,
    /// The connections that are not the checkpointer's.
    pub(super) users: AtomicU32,
    /// Those of them that have the WAL open.
    pub(super) open_wals: AtomicU32,
    pub(super) path: String,
    pub(super) checkpointer: Arc<Checkpointer>,
    /// The number of the checkpointer's last connection.
    pub(super) checkpointer_id: AtomicU64,
    /// For how many more commits writers of other processes are taken to wait.
    pub(super) outsiders: AtomicU64,
    /// How many commits knew of no such writer.
    commits_alone: AtomicU32,
    pub(super) counts: Counts,
    /// A connection of this process has written, or was about to.
    pub(super) has_written: AtomicBool,
    pub(super) saved: Saved,
    pub(super) contents: Mutex<Contents>,
    pub(super) last_seen: LastSeen,
    pub(crate) store: S,
}

#[derive(Default)]
pub(super) struct Counts {
    pub turn_waits: AtomicU64,
    pub turn_wait_ns_sum: AtomicU64,
    pub turn_wait_ns_max: AtomicU64,
    pub bounced: AtomicU64,
    pub mispredicted: AtomicU64,
    /// Commits that another one has made durable before they asked for it.
    pub covered_before: AtomicU64,
}

impl<S: Store> Shared<S> {
    pub fn new(path: &str, run: Arc<dyn RunCheckpoint>, store: S) -> Shared<S> {
        Shared {
            barrier: Arc::default(),
            turns: Turns::default(),
            flush: GroupFlush::default(),
            users: AtomicU32::new(0),
            open_wals: AtomicU32::new(0),
            path: path.to_owned(),
            checkpointer: Checkpointer::new(path, run),
            checkpointer_id: AtomicU64::new(0),
            outsiders: AtomicU64::new(0),
            commits_alone: AtomicU32::new(0),
            counts: Counts::default(),
            has_written: AtomicBool::new(false),
            saved: Saved::default(),
            contents: Mutex::default(),
            last_seen: LastSeen::default(),
            store,
        }
    }

    /// The barrier of the WAL index.
    pub fn barrier(&self) -> Arc<Barrier> {
        Arc::clone(&self.barrier)
    }

    pub fn checkpointer(&self) -> &Arc<Checkpointer> {
        &self.checkpointer
    }

    /// A connection of this process writes.
    pub(super) fn writes(&self) {
        // All connections share the cache line.
        if !self.has_written.load(Relaxed) {
            self.has_written.store(true, Relaxed);
        }
    }

    /// Ends the turn of a connection, if it has it, and lets the next process through the gate.
    pub(super) fn leave(&self, id: u64) {
        if self.turns.leave(id) {
            self.store.gate().leave();
        }
    }

    /// Notes that a writer of another process has, or has had, the write lock.
    pub(crate) fn meets_outsiders(&self) {
        self.outsiders.store(OUTSIDERS_COMMITS, Relaxed);
    }

    /// True if other writers of this process wait for their turn.
    pub(crate) fn writers_wait(&self) -> bool {
        self.turns.waiting() > 0
    }

    pub(super) fn knows_of_outsiders(&self) -> bool {
        self.outsiders.load(Relaxed) > 0
    }

    /// True if writers of another process are taken to be there.
    ///
    /// Asked once for each commit. They are forgotten after [`OUTSIDERS_COMMITS`] commits.
    pub(super) fn commit_has_outsiders(&self) -> bool {
        let outsiders = match self.outsiders.load(Relaxed) {
            0 if self.sees_outsiders() => OUTSIDERS_COMMITS,
            outsiders => outsiders,
        };
        if outsiders > 0 {
            self.outsiders.store(outsiders - 1, Relaxed);
        }
        outsiders > 0
    }

    /// True if a writer of another process waits though none was known of. It need not have met
    /// this process, which has the write lock nearly always.
    fn sees_outsiders(&self) -> bool {
        self.commits_alone.fetch_add(1, Relaxed) % LOOKS_EVERY == LOOKS_EVERY - 1
            && self.store.gate().is_wanted()
    }

    pub(super) fn waited(&self, began: Instant) {
        let waited_ns = began.elapsed().as_nanos() as u64;
        self.counts.turn_waits.fetch_add(1, Relaxed);
        self.counts.turn_wait_ns_sum.fetch_add(waited_ns, Relaxed);
        self.counts.turn_wait_ns_max.fetch_max(waited_ns, Relaxed);
    }

    pub fn report(&self) -> WalReport<S::Report> {
        let flush = self.flush.counts();
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let commits = flush.commits + get(&self.counts.covered_before);
        WalReport {
            commits,
            flushes: flush.flushes,
            commits_per_flush: if flush.flushes == 0 {
                0.0
            } else {
                commits as f64 / flush.flushes as f64
            },
            flush_failed: self.flush.failure().is_some(),
            turns: TurnsReport {
                waits: get(&self.counts.turn_waits),
                wait_ns_sum: get(&self.counts.turn_wait_ns_sum),
                wait_ns_max: get(&self.counts.turn_wait_ns_max),
                bounced: get(&self.counts.bounced),
                mispredicted: get(&self.counts.mispredicted),
            },
            checkpoints: self.checkpointer.counts(),
            store: self.store.report(),
        }
    }
}

impl<S: Store> Drop for Shared<S> {
    fn drop(&mut self) {
        self.checkpointer.stop();
    }
}

/// A strategy for WAL mode in `PRAGMA oneflush_stats`: all connections of this process to the
/// database.
#[derive(Serialize)]
pub struct WalReport<R> {
    /// Commits that asked for durability.
    commits: u64,
    /// Flushes of the WAL, those before checkpoints included.
    flushes: u64,
    commits_per_flush: f64,
    flush_failed: bool,
    turns: TurnsReport,
    checkpoints: CheckpointCounts,
    #[serde(flatten)]
    store: R,
}

#[derive(Serialize)]
struct TurnsReport {
    /// How often and how long connections waited for their turn.
    waits: u64,
    wait_ns_sum: u64,
    wait_ns_max: u64,
    /// Writers that found the write lock taken and had not queued for it.
    bounced: u64,
    /// Turns taken for a transaction that did not write.
    mispredicted: u64,
}
