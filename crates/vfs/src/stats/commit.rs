//! Which calls belong to which commit.
//!
//! SQLite does not say "a commit begins". This machine derives it from the calls that the VFS sees:
//!
//! | from | call | to | effect |
//! |---|---|---|---|
//! | any | the write lock is taken (RESERVED, or WAL slot WRITE) | Idle | counters are cleared |
//! | Idle | the first write or sync of a durable file | Open | bytes and syncs are counted |
//! | Open | a write to WAL or database, or a sync | Committing | the clock starts |
//! | Committing | a page to the rollback journal: a cache had spilled | Open | the clock is reset |
//! | any | `SQLITE_FCNTL_COMMIT_PHASETWO` | Idle | a commit, if anything was written |
//!
//! The latency of a commit begins with the first frame (WAL), or with the first journal sync or
//! database write (rollback modes). It ends with `COMMIT_PHASETWO`. SQLite sends that after the
//! journal is gone or the write lock of the WAL is released. If a sync is the last thing that is
//! done to a file, the latency ends with that sync.
//!
//! Work between `BEGIN` and `COMMIT` is outside, except WAL frames that spilled early. A checkpoint
//! belongs to no commit. It is known by its lock or, where no WAL index is shared, by
//! `SQLITE_FCNTL_CKPT_START` and `_DONE`. In exclusive locking mode no lock call separates a
//! transaction that was rolled back from the next one. The next one then carries its bytes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use super::add_alone;
use super::clock::now_ns;
use crate::role::Role;

/// A write to the rollback journal of at least this size is a page. Smaller ones are part of a
/// header (28 bytes) or of a record's frame (4 + 4 bytes). SQLite's smallest page has 512 bytes.
const PAGE_BYTES_MIN: usize = 512;

/// Follows the transactions of one connection, which SQLite uses from one thread at a time. It lies
/// on one cache line.
#[derive(Default)]
#[repr(align(64))]
pub struct CommitTracker {
    bytes: AtomicU64,
    syncs: AtomicU64,
    /// Nanoseconds of [`now_ns`]; 0 while the commit has not begun.
    commit_began_ns: AtomicU64,
    /// When the last sync ended; 0 if something was done to a file since. If a sync is the last
    /// thing that a commit does, the commit need not read the clock.
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
    /// The connection took its write lock. What was counted before belongs to a transaction that
    /// was rolled back.
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

    /// A sync begins, at `now_ns` of [`super::clock`]. The sync is inside the commit's latency.
    pub fn syncs(&self, role: Role, now_ns: u64) {
        if self.is_outside(role) {
            return;
        }
        add_alone(&self.syncs, 1);
        self.commit_begins(|| now_ns);
    }

    /// The sync ended.
    pub fn synced(&self, now_ns: u64) {
        self.sync_ended_ns.store(now_ns, Relaxed);
    }

    /// Something other than a sync was done to a file.
    pub fn goes_on(&self) {
        self.sync_ended_ns.store(0, Relaxed);
    }

    pub fn checkpoint_lock(&self, held: bool) {
        self.checkpoint_locked.store(held, Relaxed);
    }

    pub fn checkpoint_announced(&self, running: bool) {
        self.checkpoint_announced.store(running, Relaxed);
    }

    /// `SQLITE_FCNTL_COMMIT_PHASETWO`. None if nothing was written: SQLite sends it for an empty
    /// transaction too.
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
        !role.is_durable()
            || self.checkpoint_locked.load(Relaxed)
            || self.checkpoint_announced.load(Relaxed)
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
