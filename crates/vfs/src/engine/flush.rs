//! Group flush: the commits that wait share one flush of the WAL.
//!
//! A commit takes a number when its frames are written. A flush that begins later covers that
//! number. One of the waiting commits leads: its flush covers all numbers given out so far. A
//! commit that comes during a flush waits for the next one.
//!
//! | state of a commit | begins with | goes on with |
//! |---|---|---|
//! | numbered | [`register`](GroupFlush::register) | `wait_for`: one of the next three states |
//! | waits | a flush runs, or another commit lingers | woken: covered, or looks again |
//! | lingers, timed | more commits are worth a wait | leads, or waits if a flush runs by then |
//! | leads | neither holds | its flush succeeds, fails, or answers "busy" |
//! | covered | a flush of its own or of another commit | durable: `wait_for` returns |
//! | poisoned | a flush has failed | `wait_for` returns the error |
//!
//! [`ThreadBatching`] decides whether a leader lingers for others before it flushes, and for how
//! long.
//!
//! A flush ends for many commits at once, and the next flush should begin at once. The next leader
//! is therefore woken first, then all commits that are done, together. None of them waits for a
//! mutex that the next writer needs too.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. `covered` only grows. Number `n` is covered only after a flush succeeded that began when `n`
//!    had been given out.
//! 2. One flush runs at a time.
//! 3. After a failed flush nothing more is covered: the group is poisoned. Present and later
//!    waiters get the error. No flush is tried again (pitfall 5: a second fsync may say yes though
//!    the pages are lost). A panic in a flush is a failed flush. "Busy" is no failure: that flush
//!    was not begun. Its leader gets "busy", and the others try it themselves.
//! 4. Every untimed waiter is in `waiting`. While `waiting` is non-empty, at least one holds: a
//!    flush runs; a timed lingerer exists (`lingerer`); a runnable thread will look again and find
//!    that no flush runs. The end of a flush wakes every commit in `waiting` that it covered, and
//!    one other to lead the next flush.

use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use oneflush_blocklog::invariant;

use super::batching_threads::ThreadBatching;
use crate::error::Code;
use crate::futex;
use crate::mutant::{self, Mutant};
use crate::sync::{EventCount, Mutex, MutexGuard, lock};

/// The position of a commit in the order of commits of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitNo(u64);

#[derive(Default)]
pub struct GroupFlush {
    state: Mutex<State>,
    /// The highest number that is covered. This field and `failed` are written under the mutex.
    covered: AtomicU64,
    failed: OnceLock<Code>,
    ended: EventCount,
}

#[derive(Default)]
struct State {
    given: u64,
    /// The commits that wait for the end of a flush.
    waiting: Vec<CommitNo>,
    /// The part of `counts.commits` that is covered.
    covered_commits: u64,
    flushing: bool,
    batching: ThreadBatching,
    /// The commit that waits for company.
    lingerer: Option<CommitNo>,
    counts: FlushCounts,
}

/// The flushes and commits since the database was opened in this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlushCounts {
    pub flushes: u64,
    pub commits: u64,
}

impl GroupFlush {
    /// A number for a commit whose frames are all written. `queue` writers wait for their turn now.
    pub fn register(&self, queue: u32) -> CommitNo {
        let mut state = lock(&self.state);
        state.given += 1;
        state.counts.commits += 1;
        let pending = state.pending_commits();
        state.batching.note_commit(pending, queue);
        CommitNo(state.given)
    }

    /// A number for a sync that is no commit's: of a header, or before a checkpoint.
    pub fn register_sync(&self) -> CommitNo {
        let mut state = lock(&self.state);
        state.given += 1;
        CommitNo(state.given)
    }

    /// True if commits have lately been able to share flushes.
    pub fn expects_batch(&self) -> bool {
        lock(&self.state).batching.is_expected()
    }

    /// Returns when `commit` is durable.
    ///
    /// `flush` carries out a flush if this caller is to lead. It answers false if another process
    /// had left nothing to flush. `queue` answers how many writers wait for their turn. A caller
    /// that keeps the writers out passes None and does not linger.
    pub fn wait_for(
        &self,
        commit: CommitNo,
        mut queue: Option<&dyn Fn() -> u32>,
        flush: impl Fn() -> Result<bool, Code>,
    ) -> Result<(), Code> {
        while self.covered.load(SeqCst) < commit.0 {
            let mut state = lock(&self.state);
            if self.covered.load(SeqCst) >= commit.0 {
                break;
            }
            if mutant::is(Mutant::AcknowledgedUncovered) {
                break;
            }
            if let Some(code) = self.failure().filter(|_| !mutant::is(Mutant::FailureForgotten)) {
                return Err(code);
            }
            let lingers = queue.filter(|_| !state.flushing);
            let lingers =
                lingers.and_then(|queue| state.batching.is_worth(state.pending_commits(), queue));
            if state.flushing || (lingers.is_some() && state.lingerer.is_some()) {
                let seen = self.ended.get();
                state.waits(commit);
                drop(state);
                self.ended.wait(seen, commit.bit(), futex::FOR_EVER);
                continue;
            }
            if let Some(at_most) = lingers {
                let seen = self.ended.get();
                state.waits(commit);
                state.lingerer = Some(commit);
                drop(state);
                let lingers = Lingers { group: self, commit };
                self.ended.pause(seen, commit.bit(), at_most);
                drop(lingers);
                queue = None;
                state = lock(&self.state);
                let pending = state.pending_commits();
                state.batching.note_wait(pending);
                continue;
            }
            self.lead(commit, state, &flush)?;
        }
        Ok(())
    }

    /// Carries out a flush for all numbers given out so far. "Busy" is the only error: any other is
    /// the group's.
    fn lead<'a>(
        &'a self,
        commit: CommitNo,
        mut state: MutexGuard<'a, State>,
        flush: impl Fn() -> Result<bool, Code>,
    ) -> Result<(), Code> {
        invariant!("C2", "nobody flushes the WAL after a failed flush", self.failure().is_none());
        state.lingerer = None;
        debug_assert!(!state.flushing, "invariant 2");
        state.flushing = true;
        let (upto, commits) = (state.given, state.counts.commits);
        debug_assert!(commit.0 <= upto, "invariant 1: a flush covers its leader's commit");
        let waiting = state.pending_commits();
        let began_ns = state.batching.flush_begins();
        drop(state);
        let leads = Leads { group: self };
        let result = flush();
        std::mem::forget(leads);
        state = lock(&self.state);
        debug_assert!(state.flushing, "invariant 2: only its leader ends a flush");
        state.flushing = false;
        let was_shared = waiting > 1 || (waiting > 0 && state.counts.commits > commits);
        state.batching.flush_ended(began_ns, was_shared);
        state.counts.flushes += u64::from(!matches!(result, Ok(false) | Err(Code::BUSY)));
        match result {
            Ok(_) => {
                self.covered.fetch_max(upto, SeqCst);
                state.covered_commits = state.covered_commits.max(commits);
            }
            Err(Code::BUSY) => state.waiting.clear(),
            Err(code) => drop(self.failed.set(code)),
        }
        self.ended.count();
        let (leads, done) =
            if result.is_ok() { state.whom_to_wake(upto) } else { (None, Some(futex::ALL)) };
        drop(state);
        leads.into_iter().chain(done).for_each(|bits| self.ended.wake(bits));
        if result == Err(Code::BUSY) { Err(Code::BUSY) } else { Ok(()) }
    }

    /// `commit` is durable.
    pub fn covers(&self, commit: CommitNo) -> bool {
        self.covered.load(SeqCst) >= commit.0
    }

    /// Poisons the group, as a failed flush does, after another failure of what commits stand on.
    pub fn poison(&self, code: Code) {
        let state = lock(&self.state);
        self.failed.get_or_init(|| code);
        self.ended.count();
        drop(state);
        self.ended.wake(futex::ALL);
    }

    /// The error of the failed flush, if one failed.
    pub fn failure(&self) -> Option<Code> {
        self.failed.get().copied()
    }

    pub fn counts(&self) -> FlushCounts {
        lock(&self.state).counts
    }
}

/// The leader of a flush while the flush runs. Dropped only by a panic in the flush.
struct Leads<'a> {
    group: &'a GroupFlush,
}

impl Drop for Leads<'_> {
    fn drop(&mut self) {
        // The poison comes first, so that nobody leads another flush.
        self.group.poison(Code::IOERR_FSYNC);
        lock(&self.group.state).flushing = false;
    }
}

/// The commit that waits for company.
struct Lingers<'a> {
    group: &'a GroupFlush,
    commit: CommitNo,
}

impl Drop for Lingers<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.group.state);
        state.lingerer = state.lingerer.filter(|&lingerer| lingerer != self.commit);
        drop(state);
        if std::thread::panicking() {
            // Invariant 4.
            self.group.ended.count();
            self.group.ended.wake(futex::ALL);
        }
    }
}

impl CommitNo {
    fn bit(self) -> NonZeroU32 {
        futex::bit_of(self.0 as u32)
    }
}

impl State {
    fn waits(&mut self, commit: CommitNo) {
        if !self.waiting.contains(&commit) {
            self.waiting.push(commit);
        }
    }

    /// Takes from `waiting` all commits that a flush up to `upto` has covered, and the next leader.
    ///
    /// Answers the bits of the next leader, and those of the covered commits.
    fn whom_to_wake(&mut self, upto: u64) -> (Option<NonZeroU32>, Option<NonZeroU32>) {
        let done = self
            .waiting
            .extract_if(.., |commit| commit.0 <= upto)
            .fold(0, |bits, commit| bits | commit.bit().get());
        let leads = self.waiting.iter().copied().min();
        self.waiting.retain(|&commit| Some(commit) != leads);
        (leads.map(CommitNo::bit), NonZeroU32::new(done))
    }

    /// The number of commits that wait for a flush. Syncs of a checkpoint do not count: they do not
    /// come back.
    fn pending_commits(&self) -> u64 {
        self.counts.commits - self.covered_commits
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::engine::batching_threads::BATCH_EXPECTED_MAX;
    use std::time::Duration;

    #[test]
    fn commits_registered_before_a_flush_share_it() {
        let group = GroupFlush::default();
        let flushes = AtomicU64::new(0);
        let flush = || {
            flushes.fetch_add(1, SeqCst);
            Ok(true)
        };
        let (first, second) = (group.register(0), group.register(0));
        group.wait_for(first, Some(&|| 0), flush).unwrap();
        group.wait_for(second, Some(&|| 0), flush).unwrap();
        assert_eq!(flushes.load(SeqCst), 1);
        let third = group.register(0);
        group.wait_for(third, Some(&|| 0), flush).unwrap();
        assert_eq!(flushes.load(SeqCst), 2);
    }

    #[test]
    fn a_commit_registered_during_a_flush_needs_another() {
        let group = GroupFlush::default();
        let first = group.register(0);
        let late: Mutex<Option<CommitNo>> = Mutex::new(None);
        let flushes = AtomicU64::new(0);
        let flush = || {
            if flushes.fetch_add(1, SeqCst) == 0 {
                *lock(&late) = Some(group.register(0));
            }
            Ok(true)
        };
        group.wait_for(first, Some(&|| 0), flush).unwrap();
        let late = lock(&late).take().unwrap();
        group.wait_for(late, Some(&|| 0), flush).unwrap();
        assert_eq!(flushes.load(SeqCst), 2);
    }

    #[test]
    fn the_sync_of_a_checkpoint_is_no_company() {
        let group = GroupFlush::default();
        let (commit, sync) = (group.register(0), group.register_sync());
        group.wait_for(commit, Some(&|| 0), || Ok(true)).unwrap();
        group.wait_for(sync, None, || Ok(true)).unwrap();
        let commit = group.register(0);
        let while_flushing = |other: fn(&GroupFlush) -> CommitNo| {
            let group = &group;
            move || {
                other(group);
                Ok(true)
            }
        };
        group.wait_for(commit, Some(&|| 0), while_flushing(GroupFlush::register_sync)).unwrap();
        group
            .wait_for(group.register_sync(), None, while_flushing(|group| group.register(0)))
            .unwrap();
        assert!(!group.expects_batch());
        assert_eq!(group.counts().commits, 3);
        group
            .wait_for(group.register(0), Some(&|| 0), while_flushing(|group| group.register(0)))
            .unwrap();
        assert!(group.expects_batch(), "two commits are");
    }

    #[test]
    fn company_is_expected_after_a_shared_flush_until_it_has_not_come_a_few_times() {
        let group = GroupFlush::default();
        assert!(!group.expects_batch());
        let (first, second) = (group.register(0), group.register(0));
        group.wait_for(first, Some(&|| 0), || Ok(true)).unwrap();
        group.wait_for(second, Some(&|| 0), || Ok(true)).unwrap();
        for _ in 0..BATCH_EXPECTED_MAX {
            assert!(group.expects_batch());
            let alone = group.register(0);
            group.wait_for(alone, Some(&|| 0), || Ok(true)).unwrap();
        }
        assert!(!group.expects_batch());
        assert_eq!(group.counts().flushes, 1 + u64::from(BATCH_EXPECTED_MAX));
    }

    const LONG: Duration = Duration::from_secs(10);

    /// Eight writers, two of which have written.
    fn crowd(interval: Duration) -> GroupFlush {
        let group = GroupFlush::default();
        lock(&group.state).batching = ThreadBatching::crowd(8, interval, LONG);
        group.register(0);
        group
    }

    fn time_of(act: impl FnOnce()) -> Duration {
        let began = std::time::Instant::now();
        act();
        began.elapsed()
    }

    #[test]
    fn a_flush_waits_until_nobody_waits_for_a_turn_where_all_can_write_in_less_time() {
        let group = crowd(Duration::from_micros(100));
        let early = group.register(6);
        let flushes = AtomicU64::new(0);
        let flush = || {
            flushes.fetch_add(1, SeqCst);
            Ok(true)
        };
        let waits = &|commit, queue: u32| {
            time_of(|| group.wait_for(commit, Some(&|| queue), flush).unwrap())
        };
        std::thread::scope(|scope| {
            let leader = scope.spawn(move || waits(early, 6));
            while lock(&group.state).lingerer.is_none() {
                std::thread::yield_now();
            }
            let third = group.register(5);
            let another = scope.spawn(move || waits(third, 5));
            while lock(&group.state).waiting.len() < 2 {
                std::thread::yield_now();
            }
            assert_eq!(flushes.load(SeqCst), 0);
            let last = group.register(0);
            assert!(waits(last, 0) < LONG / 2);
            assert!(
                leader.join().unwrap() < LONG / 2 && another.join().unwrap() < LONG / 2,
                "they are woken"
            );
        });
        assert_eq!(flushes.load(SeqCst), 1);
        assert!(lock(&group.state).lingerer.is_none() && lock(&group.state).waiting.is_empty());
    }

    #[test]
    fn nobody_waits_for_writers_who_are_not_there_or_can_write_during_the_flush() {
        for (interval, queue) in [(Duration::from_micros(100), 0), (LONG / 7, 6)] {
            let group = crowd(interval);
            let commit = group.register(queue);
            assert!(
                time_of(|| group.wait_for(commit, Some(&|| queue), || Ok(true)).unwrap())
                    < LONG / 2
            );
        }
        let group = crowd(Duration::from_micros(100));
        let commit = group.register(6);
        assert!(
            time_of(|| group.wait_for(commit, None, || Ok(true)).unwrap()) < LONG / 2,
            "it keeps them from it"
        );
    }

    // A panic is stopped at SQLite's callback: `flushing` stayed up, and the next commit waited for
    // ever.
    #[test]
    fn a_panic_in_a_flush_is_the_end_of_it_for_those_who_wait_and_nobody_hangs() {
        let group = GroupFlush::default();
        let (first, second) = (group.register(0), group.register(0));
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| {
                while !lock(&group.state).flushing {
                    std::thread::yield_now();
                }
                group.wait_for(second, Some(&|| 0), || panic!("a flush after a failed one"))
            });
            let flush = || {
                while lock(&group.state).waiting.is_empty() {
                    std::thread::yield_now();
                }
                panic!("on purpose")
            };
            let leader = std::panic::AssertUnwindSafe(|| group.wait_for(first, Some(&|| 0), flush));
            assert!(std::panic::catch_unwind(leader).is_err());
            assert_eq!(follower.join().unwrap(), Err(Code::IOERR_FSYNC));
        });
        let third = group.register(0);
        assert_eq!(group.wait_for(third, Some(&|| 0), || Ok(true)), Err(Code::IOERR_FSYNC));
    }

    #[test]
    fn who_could_not_begin_a_flush_is_told_busy_and_another_may_try() {
        let group = GroupFlush::default();
        let (sync, commit) = (group.register_sync(), group.register(0));
        assert_eq!(group.wait_for(sync, None, || Err(Code::BUSY)), Err(Code::BUSY));
        assert_eq!((group.failure(), group.counts().flushes), (None, 0));
        assert_eq!(group.wait_for(commit, Some(&|| 0), || Ok(true)), Ok(()));
    }

    #[test]
    fn after_a_failed_flush_nothing_is_acknowledged_and_no_flush_is_tried_again() {
        let group = GroupFlush::default();
        let (first, second) = (group.register(0), group.register(0));
        let code = Code(1034);
        assert_eq!(group.wait_for(first, Some(&|| 0), || Err(code)), Err(code));
        let never = || panic!("a flush after a failed one");
        assert_eq!(group.wait_for(second, Some(&|| 0), never), Err(code));
        let third = group.register(0);
        assert_eq!(group.wait_for(third, Some(&|| 0), never), Err(code));
        assert_eq!(group.failure(), Some(code));
    }
}

/// The model check, in every order of threads that the checker tries. A commit returns only after a
/// flush that began when its frames were there. Every commit returns.
#[cfg(all(test, feature = "shuttle"))]
mod model {
    use super::*;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    /// A disk: what was written, and what a flush has made durable. A flush saves what was there
    /// when it began.
    #[derive(Default)]
    struct Disk {
        written: AtomicU64,
        durable: AtomicU64,
        flushing: AtomicBool,
        flushes: AtomicU64,
        fails_at: u64,
    }

    impl Disk {
        fn flush(&self) -> Result<bool, Code> {
            assert!(!self.flushing.swap(true, SeqCst), "invariant 2");
            let upto = self.written.load(SeqCst);
            shuttle::thread::yield_now();
            let failed = self.flushes.fetch_add(1, SeqCst) + 1 == self.fails_at;
            if !failed {
                self.durable.fetch_max(upto, SeqCst);
            }
            self.flushing.store(false, SeqCst);
            if failed { Err(Code(1034)) } else { Ok(true) }
        }
    }

    fn run(fails_at: u64, register_after_write: bool) {
        let group = Arc::new(GroupFlush::default());
        let disk = Arc::new(Disk { fails_at, ..Disk::default() });
        // The write lock: one write follows the other.
        let write_lock = Arc::new(Mutex::<_, { crate::sync::ranks::WAL }>::new(()));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (group, disk, write_lock) =
                    (Arc::clone(&group), Arc::clone(&disk), Arc::clone(&write_lock));
                shuttle::thread::spawn(move || {
                    for _ in 0..2 {
                        let held = lock(&write_lock);
                        let early = (!register_after_write).then(|| group.register(6));
                        shuttle::thread::yield_now();
                        let mine = disk.written.fetch_add(1, SeqCst) + 1;
                        let number = early.unwrap_or_else(|| group.register(6));
                        drop(held);
                        if group.wait_for(number, Some(&|| 6), || disk.flush()).is_ok() {
                            assert!(
                                disk.durable.load(SeqCst) >= mine,
                                "acknowledged and not durable"
                            );
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        if fails_at == 0 {
            assert_eq!(disk.durable.load(SeqCst), 6);
        } else {
            assert!(disk.flushes.load(SeqCst) <= fails_at, "invariant 3");
        }
    }

    #[test]
    fn nothing_is_acknowledged_before_it_is_durable_and_nobody_is_forgotten() {
        shuttle::check_random(|| run(0, true), 20_000);
        shuttle::check_pct(|| run(0, true), 20_000, 3);
    }

    #[test]
    fn after_a_failed_flush_there_is_no_other_and_nothing_is_acknowledged_that_it_lost() {
        for fails_at in 1..=3 {
            shuttle::check_random(move || run(fails_at, true), 10_000);
        }
    }

    /// The check of the check: a number taken before the frames are written is caught.
    #[test]
    #[should_panic(expected = "acknowledged and not durable")]
    fn a_number_taken_too_early_is_caught() {
        shuttle::check_random(|| run(0, false), 20_000);
    }
}
