//! Batching of processes: how many processes share a record of the log, decided in their shared
//! memory.
//!
//! Without it, processes that commit all the time would share records by halves. While one half is
//! flushed the other half writes, and is flushed while the first half writes again.
//!
//! | a flush takes | what all wait for | a record begins when |
//! |---|---|---|
//! | longer than all writing | the flush | all processes are there |
//! | less | the writing, which should never stop | those are there that cannot write meanwhile |
//!
//! In the second case a record waits for at least half of the processes.
//!
//! So the process that has the log's lock waits for as many as were there last, or for those fewer.
//! It waits no longer than a flush takes, and not where waiting was in vain lately. PostgreSQL
//! (`commit_delay`) and MySQL (`binlog_group_commit_sync_delay`) have such delays. There they are
//! set, and here they are measured.
//!
//! Processes are counted, not commits. The commits of one process share their flushes without this.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. Batching is a courtesy, like a ticket: nothing but time depends on it. A wait has a limit,
//!    whatever a process that died has left in the shared memory.
//! 2. Everything but `arrived`, `arrived_ns` and `interval_ns` is written under the log's lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::futex;
use crate::stats::clock;

/// From this balance of waits in vain on, some records begin without a wait; see
/// [`ProcessBatching::wait`].
///
/// A wait that was not in vain takes one off the balance.
const VAIN_MIN: u32 = 2;
/// The limit of that balance. 2 to its power is the largest number of records without a wait.
const VAIN_MAX: u32 = 6;

/// The limit of a wait, however long a flush takes.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// What the processes share.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ProcessBatching {
    /// When the last process arrived while others waited for their turn to write. 0: nobody waited.
    arrived_ns: AtomicU64,
    /// Counts the processes that had something for the log.
    arrived: AtomicU32,
    /// The value of `arrived` that the holder of the log's lock waits for.
    awaited: AtomicU32,
    /// The value of `arrived` when the last record was begun.
    covered: AtomicU32,
    /// How many processes arrived between the beginning of the last record but one and the end of
    /// the last.
    expected: AtomicU32,
    /// About how long a record takes to be durable.
    flush_ns: AtomicU32,
    /// About how long it is from one arriving process to the next that had waited for its turn. 0:
    /// none had.
    interval_ns: AtomicU32,
    vain: AtomicU32,
    /// For this many records nobody waits.
    left_out: AtomicU32,
}

impl ProcessBatching {
    /// Notes that a process has something for the log. `has_followers`: others wait for their turn
    /// to write.
    pub fn arrive(&self, has_followers: bool) {
        let now_ns = if has_followers { clock::now_ns() } else { 0 };
        let before_ns = self.arrived_ns.swap(now_ns, SeqCst);
        if has_followers && before_ns > 0 {
            average(&self.interval_ns, now_ns.saturating_sub(before_ns));
        }
        let arrived = self.arrived.fetch_add(1, SeqCst).wrapping_add(1);
        if arrived == self.awaited.load(SeqCst) {
            futex::wake(&self.arrived, 1, futex::ALL);
        }
    }

    /// Waits for as many processes as were there last. The caller has the log's lock.
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
        if self.have_come_within(self.flush_time().min(WAIT_MAX)) {
            self.vain.store(vain.saturating_sub(1), SeqCst);
            return;
        }
        let vain = (vain + 1).min(VAIN_MAX);
        self.vain.store(vain, SeqCst);
        if vain >= VAIN_MIN {
            self.left_out.store(1 << vain, SeqCst);
        }
    }

    /// About how long a record takes to be durable.
    pub fn flush_time(&self) -> Duration {
        Duration::from_nanos(u64::from(self.flush_ns.load(SeqCst)))
    }

    fn have_come_within(&self, at_most: Duration) -> bool {
        let awaited = self.covered.load(SeqCst).wrapping_add(self.needed());
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

    /// How many processes a record waits for: all, or those that cannot write while it lasts.
    fn needed(&self) -> u32 {
        let expected = self.expected.load(SeqCst);
        let (flush_ns, interval_ns) = (self.flush_ns.load(SeqCst), self.interval_ns.load(SeqCst));
        let write_meanwhile = flush_ns.checked_div(interval_ns).unwrap_or(u32::MAX);
        if write_meanwhile >= expected {
            expected
        } else {
            expected - write_meanwhile.min(expected / 2)
        }
    }

    /// Begins a record for all that have arrived.
    pub fn begin(&self) -> Begun<'_> {
        Begun { batching: self, covers: self.arrived.load(SeqCst), at: Instant::now() }
    }
}

/// A record that is being written.
pub struct Begun<'a> {
    batching: &'a ProcessBatching,
    covers: u32,
    at: Instant,
}

impl Begun<'_> {
    /// The record is durable.
    pub fn ended(self) {
        let Begun { batching, covers, at } = self;
        let expected = batching.arrived.load(SeqCst).wrapping_sub(batching.covered.load(SeqCst));
        batching.expected.store(expected, SeqCst);
        batching.covered.store(covers, SeqCst);
        average(&batching.flush_ns, at.elapsed().as_nanos() as u64);
    }
}

/// Processes that do this at once may overwrite each other's value: invariant 1.
fn average(of_ns: &AtomicU32, ns: u64) {
    let average_ns = clock::average_ns(u64::from(of_ns.load(SeqCst)), ns);
    of_ns.store(u32::try_from(average_ns).unwrap_or(u32::MAX), SeqCst);
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(10);

    /// One record: `before` processes arrive before it, `during` while it is written.
    fn record(batching: &ProcessBatching, before: u32, during: u32) {
        (0..before).for_each(|_| batching.arrive(false));
        batching.wait();
        let begun = batching.begin();
        (0..during).for_each(|_| batching.arrive(false));
        begun.ended();
        batching.flush_ns.store(FLUSH.as_nanos() as u32, SeqCst);
    }

    fn time_of(act: impl FnOnce()) -> Duration {
        let began = Instant::now();
        act();
        began.elapsed()
    }

    /// The limit leaves time enough for a busy machine.
    fn wait_until_two_come(batching: &ProcessBatching) {
        let waited = std::thread::scope(|scope| {
            let leader = scope.spawn(|| time_of(|| assert!(batching.have_come_within(LONG))));
            while batching.awaited.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            batching.arrive(false);
            std::thread::sleep(Duration::from_millis(1));
            assert!(!leader.is_finished());
            batching.arrive(false);
            leader.join().unwrap()
        });
        assert!(waited < LONG / 2, "it is woken: {waited:?}");
    }

    #[test]
    fn who_is_alone_waits_for_nobody() {
        let batching = ProcessBatching::default();
        for _ in 0..3 {
            record(&batching, 1, 0);
            assert_eq!(batching.expected.load(SeqCst), 1);
        }
        assert_eq!(batching.vain.load(SeqCst), 0);
    }

    #[test]
    fn two_halves_become_one() {
        let batching = ProcessBatching::default();
        // Three are flushed while two write.
        record(&batching, 3, 2);
        record(&batching, 0, 3);
        assert_eq!(batching.expected.load(SeqCst), 5);
        wait_until_two_come(&batching);
        assert_eq!(batching.vain.load(SeqCst), 1, "nobody had come to the second");
        batching.wait();
        let begun = batching.begin();
        begun.ended();
        assert_eq!(batching.expected.load(SeqCst), 5);
        assert_eq!(batching.vain.load(SeqCst), 0);
    }

    #[test]
    fn those_who_can_write_while_a_record_lasts_are_not_waited_for() {
        let needed = |expected: u32, flush_ns: u32, interval_ns: u32| {
            let [expected, flush_ns, interval_ns] =
                [expected, flush_ns, interval_ns].map(AtomicU32::new);
            ProcessBatching { expected, flush_ns, interval_ns, ..ProcessBatching::default() }
                .needed()
        };
        assert_eq!(needed(8, 180, 0), 8, "it is not known how long they take");
        assert_eq!(needed(8, 180, 200), 8, "none");
        assert_eq!(needed(8, 180, 90), 6);
        assert_eq!(needed(8, 180, 45), 4);
        assert_eq!(needed(8, 350, 45), 4, "seven, but the flush after it would be for one");
        assert_eq!(needed(8, 360, 45), 8, "all, so the flush is what they wait for");
        assert_eq!(needed(2, 180, 45), 2);
    }

    #[test]
    fn how_long_a_process_takes_to_write_is_known_of_those_who_waited_for_their_turn() {
        let batching = ProcessBatching::default();
        let pause = Duration::from_millis(2);
        for has_followers in [true, false, true] {
            batching.arrive(has_followers);
            std::thread::sleep(pause);
            assert_eq!(batching.interval_ns.load(SeqCst), 0);
        }
        batching.arrive(true);
        assert!(batching.interval_ns.load(SeqCst) >= pause.as_nanos() as u32);
    }

    #[test]
    fn a_wait_is_no_longer_than_a_flush_and_the_next_is_for_fewer() {
        let batching = ProcessBatching::default();
        record(&batching, 2, 2);
        for (expected, next) in [(4, 3), (3, 1)] {
            assert_eq!(batching.expected.load(SeqCst), expected);
            let waited = time_of(|| record(&batching, 1, 0));
            assert!(waited >= FLUSH && waited < LONG / 2, "{waited:?}");
            assert_eq!(batching.expected.load(SeqCst), next);
        }
    }

    #[test]
    fn what_was_in_vain_is_left_out_for_longer_each_time() {
        let batching = ProcessBatching::default();
        let mut waits = Vec::new();
        for _ in 0..30 {
            batching.flush_ns.store(1000, SeqCst);
            // One process always comes too late.
            batching.expected.store(2, SeqCst);
            let vain = batching.vain.load(SeqCst);
            batching.arrive(false);
            batching.wait();
            waits.push(batching.vain.load(SeqCst) != vain);
            batching.begin().ended();
        }
        let at: Vec<usize> = (0..waits.len()).filter(|&at| waits[at]).collect();
        assert_eq!(at, [0, 1, 6, 15]);
    }

    #[test]
    fn the_count_may_begin_anew() {
        let first = u32::MAX - 3;
        let batching = ProcessBatching {
            arrived: first.into(),
            covered: first.into(),
            ..ProcessBatching::default()
        };
        record(&batching, 2, 1);
        assert_eq!(batching.expected.load(SeqCst), 3);
        wait_until_two_come(&batching);
    }
}
