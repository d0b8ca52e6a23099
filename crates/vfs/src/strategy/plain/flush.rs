//! Group flush: the commits that wait share one flush of the WAL.
//!
//! A commit takes a number when its frames are written; a flush that begins after that covers it. One of those who wait leads:
//! it flushes for all numbers given out so far, and who came during its flush waits for the next.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. `covered` only grows, and number `n` is covered only after a flush that began when `n` had been given out succeeded.
//! 2. One flush runs at a time.
//! 3. After a failed flush nothing is covered any more (poisoned): who waits and who comes later gets the error, and no flush
//!    is tried again (pitfall 5: a second fsync may say yes though the pages are lost).

use crate::error::Code;
use crate::sync::{Condvar, Mutex, lock, wait};

/// The position of a commit in the order of commits of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitNo(u64);

#[derive(Default)]
pub struct GroupFlush {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    given: u64,
    covered: u64,
    flushing: bool,
    failed: Option<Code>,
    counts: FlushCounts,
}

/// What was flushed for whom, since the database was opened in this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlushCounts {
    pub flushes: u64,
    pub commits: u64,
}

impl GroupFlush {
    /// A number for a commit whose frames are all written.
    pub fn register(&self) -> CommitNo {
        let mut state = lock(&self.state);
        state.given += 1;
        state.counts.commits += 1;
        CommitNo(state.given)
    }

    /// The same for a sync that is no commit's: of a header, or before a checkpoint.
    pub fn register_sync(&self) -> CommitNo {
        let mut state = lock(&self.state);
        state.given += 1;
        CommitNo(state.given)
    }

    /// Returns when `commit` is durable. `flush` carries out a flush, if this caller is the one to do it.
    pub fn wait_for(&self, commit: CommitNo, flush: impl Fn() -> Result<(), Code>) -> Result<(), Code> {
        let mut state = lock(&self.state);
        loop {
            if state.covered >= commit.0 {
                return Ok(());
            }
            if let Some(code) = state.failed {
                return Err(code);
            }
            if state.flushing {
                state = wait(&self.ended, state);
                continue;
            }
            state.flushing = true;
            let upto = state.given;
            drop(state);
            let result = flush();
            state = lock(&self.state);
            state.flushing = false;
            state.counts.flushes += 1;
            match result {
                Ok(()) => state.covered = state.covered.max(upto),
                Err(code) => state.failed = Some(code),
            }
            self.ended.notify_all();
        }
    }

    /// The error of the flush that failed, if one did.
    pub fn failure(&self) -> Option<Code> {
        lock(&self.state).failed
    }

    pub fn counts(&self) -> FlushCounts {
        lock(&self.state).counts
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    #[test]
    fn commits_registered_before_a_flush_share_it() {
        let group = GroupFlush::default();
        let flushes = AtomicU64::new(0);
        let flush = || {
            flushes.fetch_add(1, SeqCst);
            Ok(())
        };
        let (first, second) = (group.register(), group.register());
        group.wait_for(first, flush).unwrap();
        group.wait_for(second, flush).unwrap();
        assert_eq!(flushes.load(SeqCst), 1);
        let third = group.register();
        group.wait_for(third, flush).unwrap();
        assert_eq!(flushes.load(SeqCst), 2);
    }

    #[test]
    fn a_commit_registered_during_a_flush_needs_another() {
        let group = GroupFlush::default();
        let first = group.register();
        let late = Mutex::new(None);
        let flushes = AtomicU64::new(0);
        let flush = || {
            if flushes.fetch_add(1, SeqCst) == 0 {
                *late.lock().unwrap() = Some(group.register());
            }
            Ok(())
        };
        group.wait_for(first, flush).unwrap();
        let late = late.lock().unwrap().take().unwrap();
        group.wait_for(late, flush).unwrap();
        assert_eq!(flushes.load(SeqCst), 2);
    }

    #[test]
    fn after_a_failed_flush_nothing_is_acknowledged_and_no_flush_is_tried_again() {
        let group = GroupFlush::default();
        let (first, second) = (group.register(), group.register());
        let code = Code(1034);
        assert_eq!(group.wait_for(first, || Err(code)), Err(code));
        let never = || panic!("a flush after a failed one");
        assert_eq!(group.wait_for(second, never), Err(code));
        let third = group.register();
        assert_eq!(group.wait_for(third, never), Err(code));
        assert_eq!(group.failure(), Some(code));
    }
}
