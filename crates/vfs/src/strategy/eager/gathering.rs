//! How many processes share a record of the log, in the memory that they share.
//!
//! Processes that commit all the time would share it by halves: while one half is flushed the other writes, and is flushed while the first
//! writes again. If a flush takes longer than all their writing, it is better to wait before it until all are there: so whoever has
//! the log's lock waits for as many as were there last, for no longer than a flush takes, and not where that was in vain lately (as group
//! commit's delays, `commit_delay` of PostgreSQL and `binlog_group_commit_sync_delay` of MySQL, but measured instead of set).
//!
//! Processes are counted and not commits: those of one process share their flushes without it.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. A courtesy like a ticket: nothing depends on it but time, and whatever a process that died has left there, a wait has a limit.
//! 2. Everything but `arrived` is written under the log's lock.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::futex;
use crate::stats::clock;

/// From so many waits in vain on, less those that were not, some records are not waited for; see [`Gathering::wait`].
const VAIN_MIN: u32 = 2;
/// Then at most 2 to the power of this.
const VAIN_MAX: u32 = 6;

/// Whatever a flush takes.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// What the processes share.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Gathering {
    /// Counts processes that had something for the log.
    arrived: AtomicU32,
    /// Whoever has the lock waits for this count.
    awaited: AtomicU32,
    /// The count when the last record was begun.
    covered: AtomicU32,
    /// How many had arrived between the beginning of the record before and the end of the last.
    expected: AtomicU32,
    /// What a record takes to be durable, about.
    flush_ns: AtomicU32,
    vain: AtomicU32,
    /// For so many records nobody waits.
    left_out: AtomicU32,
}

impl Gathering {
    /// A process has something for the log.
    pub fn arrive(&self) {
        let arrived = self.arrived.fetch_add(1, SeqCst).wrapping_add(1);
        if arrived == self.awaited.load(SeqCst) {
            futex::wake(&self.arrived, 1, futex::ALL);
        }
    }

    /// Waits for as many as were there last; under the log's lock.
    pub fn wait(&self) {
        if self.expected.load(SeqCst) < 2 {
            return;
        }
        let left_out = self.left_out.load(SeqCst);
        if left_out > 0 {
            self.left_out.store(left_out - 1, SeqCst);
            return;
        }
        let vain = self.vain.load(SeqCst);
        if self.have_come_within(Duration::from_nanos(u64::from(self.flush_ns.load(SeqCst))).min(WAIT_MAX)) {
            self.vain.store(vain.saturating_sub(1), SeqCst);
            return;
        }
        let vain = (vain + 1).min(VAIN_MAX);
        self.vain.store(vain, SeqCst);
        if vain >= VAIN_MIN {
            self.left_out.store(1 << vain, SeqCst);
        }
    }

    fn have_come_within(&self, at_most: Duration) -> bool {
        let awaited = self.covered.load(SeqCst).wrapping_add(self.expected.load(SeqCst));
        let deadline = Instant::now() + at_most;
        self.awaited.store(awaited, SeqCst);
        loop {
            let arrived = self.arrived.load(SeqCst);
            if awaited.wrapping_sub(arrived) as i32 <= 0 {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            futex::wait(&self.arrived, arrived, futex::ALL, left);
        }
    }

    /// A record is begun, for those who have arrived.
    pub fn begin(&self) -> Begun<'_> {
        Begun { gathering: self, covers: self.arrived.load(SeqCst), at: Instant::now() }
    }
}

/// A record that is being written.
pub struct Begun<'a> {
    gathering: &'a Gathering,
    covers: u32,
    at: Instant,
}

impl Begun<'_> {
    /// It is durable.
    pub fn ended(self) {
        let Begun { gathering, covers, at } = self;
        let expected = gathering.arrived.load(SeqCst).wrapping_sub(gathering.covered.load(SeqCst));
        gathering.expected.store(expected, SeqCst);
        gathering.covered.store(covers, SeqCst);
        let took_ns = at.elapsed().as_nanos() as u64;
        let now_ns = clock::average_ns(u64::from(gathering.flush_ns.load(SeqCst)), took_ns);
        gathering.flush_ns.store(u32::try_from(now_ns).unwrap_or(u32::MAX), SeqCst);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(10);

    /// One record, which some wait for and some come during.
    fn record(gathering: &Gathering, before: u32, during: u32) {
        (0..before).for_each(|_| gathering.arrive());
        gathering.wait();
        let begun = gathering.begin();
        (0..during).for_each(|_| gathering.arrive());
        begun.ended();
        gathering.flush_ns.store(FLUSH.as_nanos() as u32, SeqCst);
    }

    fn time_of(act: impl FnOnce()) -> Duration {
        let began = Instant::now();
        act();
        began.elapsed()
    }

    /// With time enough for a busy machine.
    fn wait_until_two_come(gathering: &Gathering) {
        let waited = std::thread::scope(|scope| {
            let leader = scope.spawn(|| time_of(|| assert!(gathering.have_come_within(LONG))));
            while gathering.awaited.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            gathering.arrive();
            std::thread::sleep(Duration::from_millis(1));
            assert!(!leader.is_finished());
            gathering.arrive();
            leader.join().unwrap()
        });
        assert!(waited < LONG / 2, "it is woken: {waited:?}");
    }

    #[test]
    fn who_is_alone_waits_for_nobody() {
        let gathering = Gathering::default();
        for _ in 0..3 {
            record(&gathering, 1, 0);
            assert_eq!(gathering.expected.load(SeqCst), 1);
        }
        assert_eq!(gathering.vain.load(SeqCst), 0);
    }

    #[test]
    fn two_halves_become_one() {
        let gathering = Gathering::default();
        // Three are flushed while two write.
        record(&gathering, 3, 2);
        record(&gathering, 0, 3);
        assert_eq!(gathering.expected.load(SeqCst), 5);
        wait_until_two_come(&gathering);
        assert_eq!(gathering.vain.load(SeqCst), 1, "nobody had come to the second");
        gathering.wait();
        let begun = gathering.begin();
        begun.ended();
        assert_eq!(gathering.expected.load(SeqCst), 5);
        assert_eq!(gathering.vain.load(SeqCst), 0);
    }

    #[test]
    fn a_wait_is_no_longer_than_a_flush_and_the_next_is_for_fewer() {
        let gathering = Gathering::default();
        record(&gathering, 2, 2);
        for (expected, next) in [(4, 3), (3, 1)] {
            assert_eq!(gathering.expected.load(SeqCst), expected);
            let waited = time_of(|| record(&gathering, 1, 0));
            assert!(waited >= FLUSH && waited < LONG / 2, "{waited:?}");
            assert_eq!(gathering.expected.load(SeqCst), next);
        }
    }

    #[test]
    fn what_was_in_vain_is_left_out_for_longer_each_time() {
        let gathering = Gathering::default();
        let mut waits = Vec::new();
        for _ in 0..30 {
            gathering.flush_ns.store(1000, SeqCst);
            // One always comes too late.
            gathering.expected.store(2, SeqCst);
            let vain = gathering.vain.load(SeqCst);
            gathering.arrive();
            gathering.wait();
            waits.push(gathering.vain.load(SeqCst) != vain);
            gathering.begin().ended();
        }
        let at: Vec<usize> = (0..waits.len()).filter(|&at| waits[at]).collect();
        assert_eq!(at, [0, 1, 6, 15]);
    }

    #[test]
    fn the_count_may_begin_anew() {
        let first = u32::MAX - 3;
        let gathering = Gathering { arrived: first.into(), covered: first.into(), ..Gathering::default() };
        record(&gathering, 2, 1);
        assert_eq!(gathering.expected.load(SeqCst), 3);
        wait_until_two_come(&gathering);
    }
}
