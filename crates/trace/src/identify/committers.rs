//! Whose commit a record of our own log is, by SQLite's lock for writing.
//!
//! Not every record of the strategy `eager` is a commit. The log is made of zeros and gets a header
//! and a first record. Page images stand before a checkpoint, page 1 before a close. A thread that
//! writes one of these has not taken the lock for it. A committer has.
//!
//! A record is a commit's if one of these has happened since the last record:
//! 1. the record's writer has taken the lock;
//! 2. another thread has given the lock back: the writer logs that commit together with its own
//!    work.
//!
//! Commits that share a record are one transaction. A committer that did not write the record may
//! still write the next one. After that record, the committer is not waited for.

/// Limit of the threads whose commits are in no record yet.
const THREADS_COUNT_MAX: usize = 64;

#[derive(Debug)]
struct Committer {
    thread: u32,
    /// Records that were begun since the thread gave the lock back.
    records_count: u32,
}

#[derive(Debug, Default)]
pub(super) struct Committers {
    waiting: Vec<Committer>,
    has_lock: Option<u32>,
    shows_locks: bool,
}

impl Committers {
    /// The trace has shown the lock of this database.
    pub(super) fn shows_locks(&self) -> bool {
        self.shows_locks
    }

    pub(super) fn lock(&mut self, thread: u32) {
        self.shows_locks = true;
        self.has_lock = Some(thread);
        self.add(thread);
    }

    /// The thread gives the lock back. False if the trace has not shown that the thread took it.
    pub(super) fn unlock(&mut self, thread: u32) -> bool {
        self.shows_locks = true;
        self.has_lock.take() == Some(thread)
    }

    pub(super) fn add(&mut self, thread: u32) {
        self.waiting.retain(|other| other.thread != thread);
        if self.waiting.len() == THREADS_COUNT_MAX {
            self.waiting.remove(0);
        }
        self.waiting.push(Committer { thread, records_count: 0 });
    }

    /// No thread has a commit that is in no record.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// The thread begins to write a record. True if the record is a commit's.
    pub(super) fn record(&mut self, thread: u32) -> bool {
        let has_lock = self.has_lock;
        let is_in_it =
            |other: &Committer| has_lock != Some(other.thread) && other.records_count == 0;
        let is_commit =
            self.waiting.iter().any(|committer| committer.thread == thread || is_in_it(committer));
        self.waiting.retain_mut(|committer| {
            committer.records_count += u32::from(has_lock != Some(committer.thread));
            // The thread may have given the lock back when the content of the first record was
            // already settled.
            committer.thread != thread && committer.records_count < 2
        });
        is_commit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lock: impl FnOnce(&mut Committers), threads: &[u32]) -> Vec<bool> {
        let mut committers = Committers::default();
        lock(&mut committers);
        threads.iter().map(|&thread| committers.record(thread)).collect()
    }

    #[test]
    fn one_record_is_the_commit_of_who_has_the_lock_or_had_it() {
        assert_eq!(after(|committers| committers.lock(1), &[1, 1]), [true, false]);
        let had_it = |committers: &mut Committers| {
            committers.lock(1);
            committers.unlock(1);
        };
        assert_eq!(after(had_it, &[1, 1]), [true, false]);
    }

    #[test]
    fn who_checkpoints_while_another_has_the_lock_writes_no_commit() {
        assert_eq!(after(|committers| committers.lock(1), &[2, 2, 1]), [false, false, true]);
    }

    #[test]
    fn who_checkpoints_logs_the_commits_that_nobody_has_logged() {
        let had_it = |committers: &mut Committers| {
            committers.lock(1);
            committers.unlock(1);
        };
        assert_eq!(after(had_it, &[2, 2]), [true, false]);
    }

    #[test]
    fn who_commits_in_the_record_of_another_has_no_commit_behind_the_next() {
        let three_had_it = |committers: &mut Committers| {
            for thread in 1..=3 {
                committers.lock(thread);
                committers.unlock(thread);
            }
        };
        assert_eq!(after(three_had_it, &[1, 2, 3]), [true, true, false]);
    }

    #[test]
    fn threads_are_not_waited_for_without_end() {
        let mut committers = Committers::default();
        (0..100).for_each(|thread| committers.add(thread));
        assert_eq!(committers.waiting.len(), THREADS_COUNT_MAX);
        assert_eq!(committers.waiting[0].thread, 36);
    }
}
