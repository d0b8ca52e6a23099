//! Which calls belong to which commit.
//!
//! SQLite does not say "a commit begins". What the VFS sees, and what this machine makes of it:
//!
//! ```text
//!            write lock taken (RESERVED, or WAL slot WRITE)
//!   Idle ──────────────────────────────────────────────────▶ Idle, counters cleared
//!   Idle ── first write or sync of a durable file ─────────▶ Open       bytes and syncs are counted
//!   Open ── WAL frame, journal sync or db write ───────────▶ Committing the clock starts
//!   Committing ── page goes to the rollback journal ───────▶ Open       it was a cache spill, not the commit
//!   any ── SQLITE_FCNTL_COMMIT_PHASETWO ───────────────────▶ Idle       one commit, if anything was written
//! ```
//!
//! The latency of a commit is therefore the time from the first journal sync or database write (rollback modes) or the
//! first frame (WAL) to `COMMIT_PHASETWO`, which SQLite sends after the journal is gone or the WAL's write lock is
//! released; where a sync is the last that is done to a file, to that sync's end. Work between `BEGIN` and `COMMIT` is
//! outside, except WAL frames that spilled early. A checkpoint, known by its lock (or, where no WAL index is shared, by
//! `SQLITE_FCNTL_CKPT_START` and `_DONE`), belongs to no commit. In exclusive locking mode no lock call separates a
//! rolled-back transaction from the next one, which then carries its bytes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use super::add_alone;
use super::clock::now_ns;
use crate::role::Role;

/// A write to the rollback journal of at least this size is a page, not part of a header (28 bytes) or of a record's
/// frame (4 + 4 bytes); 512 is the smallest page of SQLite.
const PAGE_BYTES_MIN: usize = 512;

/// Follows the transactions of one connection, which SQLite uses from one thread at a time. On one cache line.
#[derive(Default)]
#[repr(align(64))]
pub struct CommitTracker {
    bytes: AtomicU64,
    syncs: AtomicU64,
    /// Nanoseconds of [`now_ns`]; 0 while the commit has not begun.
    commit_began_ns: AtomicU64,
    /// When the last sync ended, 0 if something was done to a file since: spares a look at the clock where a sync is the
    /// last that a commit does.
    sync_ended_ns: AtomicU64,
    checkpoint_locked: AtomicBool,
    checkpoint_announced: AtomicBool,
}

/// What one commit cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Commit {
    pub bytes: u64,
    pub syncs: u64,
    pub latency_ns: u64,
}

impl CommitTracker {
    /// The connection took its write lock: what came before belongs to a transaction that was rolled back.
    pub fn write_lock_taken(&self) {
        self.clear();
    }

    pub fn wrote(&self, role: Role, len_bytes: usize) {
        if self.is_outside(role) {
            return;
        }
        add_alone(&self.bytes, len_bytes as u64);
        self.goes_on();
        if matches!(role, Role::Db | Role::Wal) {
            self.commit_begins(now_ns);
        } else if role == Role::RollbackJournal && len_bytes >= PAGE_BYTES_MIN {
            self.commit_began_ns.store(0, Relaxed);
        }
    }

    /// A sync begins, at `now_ns` of [`super::clock`]; it is inside the commit's latency.
    pub fn syncs(&self, role: Role, now_ns: u64) {
        if self.is_outside(role) {
            return;
        }
        add_alone(&self.syncs, 1);
        self.commit_begins(|| now_ns);
    }

    /// That sync ended.
    pub fn synced(&self, now_ns: u64) {
        self.sync_ended_ns.store(now_ns, Relaxed);
    }

    /// Something else than a sync was done to a file.
    pub fn goes_on(&self) {
        self.sync_ended_ns.store(0, Relaxed);
    }

    pub fn checkpoint_lock(&self, held: bool) {
        self.checkpoint_locked.store(held, Relaxed);
    }

    pub fn checkpoint_announced(&self, running: bool) {
        self.checkpoint_announced.store(running, Relaxed);
    }

    /// `SQLITE_FCNTL_COMMIT_PHASETWO`. None if nothing was written: SQLite also sends it for an empty transaction.
    pub fn committed(&self) -> Option<Commit> {
        let bytes = self.bytes.load(Relaxed);
        let syncs = self.syncs.load(Relaxed);
        let began_ns = self.commit_began_ns.load(Relaxed);
        let sync_ended_ns = self.sync_ended_ns.load(Relaxed);
        self.clear();
        if bytes == 0 && syncs == 0 {
            return None;
        }
        let ended_ns = if sync_ended_ns == 0 { now_ns() } else { sync_ended_ns };
        let latency_ns = if began_ns == 0 { 0 } else { ended_ns.saturating_sub(began_ns) };
        Some(Commit { bytes, syncs, latency_ns })
    }

    fn is_outside(&self, role: Role) -> bool {
        !role.is_durable() || self.checkpoint_locked.load(Relaxed) || self.checkpoint_announced.load(Relaxed)
    }

    fn commit_begins(&self, now_ns: impl Fn() -> u64) {
        if self.commit_began_ns.load(Relaxed) == 0 {
            self.commit_began_ns.store(now_ns(), Relaxed);
        }
    }

    fn clear(&self) {
        self.bytes.store(0, Relaxed);
        self.syncs.store(0, Relaxed);
        self.commit_began_ns.store(0, Relaxed);
        self.goes_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;
    use std::time::Duration;

    const PAGE: usize = 4096;

    #[test]
    fn a_wal_commit_is_its_frames_and_its_sync() {
        let tracker = CommitTracker::default();
        tracker.write_lock_taken();
        for _ in 0..2 {
            tracker.wrote(Role::Wal, 24);
            tracker.wrote(Role::Wal, PAGE);
        }
        tracker.syncs(Role::Wal, now_ns());
        let commit = tracker.committed().unwrap();
        assert_eq!((commit.bytes, commit.syncs), (2 * 4120, 1));
        assert!(commit.latency_ns > 0);
        assert_eq!(tracker.committed(), None);
    }

    #[test]
    fn a_checkpoint_belongs_to_no_commit() {
        let tracker = CommitTracker::default();
        tracker.checkpoint_lock(true);
        tracker.syncs(Role::Wal, now_ns());
        tracker.wrote(Role::Db, PAGE);
        tracker.syncs(Role::Db, now_ns());
        tracker.checkpoint_lock(false);
        assert_eq!(tracker.committed(), None);
    }

    #[test]
    fn a_rolled_back_transaction_is_not_charged_to_the_next() {
        let tracker = CommitTracker::default();
        tracker.write_lock_taken();
        tracker.wrote(Role::RollbackJournal, PAGE);
        tracker.write_lock_taken();
        tracker.wrote(Role::Db, PAGE);
        assert_eq!(tracker.committed().unwrap().bytes, PAGE as u64);
    }

    #[test]
    fn the_clock_of_a_rollback_commit_starts_after_the_last_journal_page() {
        let tracker = CommitTracker::default();
        tracker.write_lock_taken();
        tracker.wrote(Role::RollbackJournal, PAGE);
        tracker.syncs(Role::RollbackJournal, now_ns()); // a cache spill
        tracker.wrote(Role::Db, PAGE);
        sleep(Duration::from_millis(20));
        let after_the_sleep = now_ns();
        tracker.wrote(Role::RollbackJournal, PAGE);
        tracker.syncs(Role::RollbackJournal, now_ns());
        tracker.wrote(Role::RollbackJournal, 12);
        tracker.syncs(Role::RollbackJournal, now_ns());
        tracker.wrote(Role::Db, PAGE);
        let commit = tracker.committed().unwrap();
        assert_eq!((commit.bytes, commit.syncs), (4 * PAGE as u64 + 12, 3));
        assert!(commit.latency_ns <= now_ns() - after_the_sleep, "{commit:?}");
    }

    #[test]
    fn temporary_files_cost_no_commit_anything() {
        let tracker = CommitTracker::default();
        tracker.wrote(Role::Temp, PAGE);
        tracker.syncs(Role::Temp, now_ns());
        assert_eq!(tracker.committed(), None);
    }
}
