//! Batching of threads: whether the leader of a flush waits for others before it begins, and for
//! how long.
//!
//! **Two writers.** They would miss each other: each comes back while the other flushes. So as long
//! as commits have company, a leader that has none waits for it, for less time than a flush takes.
//! After a few waits in vain it no longer does so. (PostgreSQL's `commit_delay`, but measured
//! instead of set.)
//!
//! **Many writers that wait for their turn.** A flush right after the last one would be small. Many
//! small flushes cost the device and the processors more work. No commit is earlier, since all wait
//! for the writers. So a leader waits until the queue holds no more writers than can write during
//! its flush. The writers that the flush covers come back when that queue is empty. If a flush
//! takes longer than all of them need to write, the leader waits until the queue is empty. It never
//! waits longer than a flush takes.

use std::time::Duration;

use crate::stats::clock;

/// How long a leader that is alone waits for company.
const LINGER: Duration = Duration::from_micros(150);

/// How many waits in vain it takes until commits are taken to be alone.
pub(super) const BATCH_EXPECTED_MAX: u8 = 8;

#[derive(Default)]
pub struct ThreadBatching {
    /// Above 0: other connections commit too.
    lately: u8,
    /// About how many writers there are: those that wait for their turn and those that wait for a
    /// flush.
    writers: u32,
    /// When the last commit was written while others waited for their turn. 0: nobody waited.
    written_ns: u64,
    /// The average time from one such commit to the next.
    interval_ns: u64,
    flush_ns: u64,
}

impl ThreadBatching {
    pub fn is_expected(&self) -> bool {
        self.lately > 0
    }

    /// Notes that a commit was written. `pending` commits wait for a flush now, `queue` writers for
    /// their turn.
    pub fn note_commit(&mut self, pending: u64, queue: u32) {
        if queue == 0 {
            self.written_ns = 0;
            return;
        }
        self.writers = self.writers.max(queue.saturating_add(pending as u32));
        let now_ns = now_ns();
        if self.written_ns > 0 {
            self.interval_ns = clock::average_ns(self.interval_ns, now_ns - self.written_ns);
        }
        self.written_ns = now_ns;
    }

    /// For how long, at most, the leader of a flush for `pending` commits should wait for more.
    /// None: it should not.
    pub fn is_worth(&self, pending: u64, queue: &dyn Fn() -> u32) -> Option<Duration> {
        if self.lately == 0 {
            return None;
        }
        if self.is_crowded(queue) {
            return Some(Duration::from_nanos(self.flush_ns));
        }
        (pending < 2).then_some(LINGER)
    }

    /// True if more writers wait for their turn than can write during a flush.
    ///
    /// If all of them can write during a flush, true if any writer waits.
    fn is_crowded(&self, queue: &dyn Fn() -> u32) -> bool {
        if self.writers == 0 || self.interval_ns > self.flush_ns {
            return false;
        }
        let writers_in_a_flush = self.flush_ns / self.interval_ns.max(1);
        let enough =
            if writers_in_a_flush < u64::from(self.writers) { writers_in_a_flush } else { 0 };
        u64::from(queue()) > enough
    }

    /// Notes that a leader has waited and has `pending` commits now.
    pub fn note_wait(&mut self, pending: u64) {
        if pending < 2 {
            self.lately = self.lately.saturating_sub(1);
        }
    }

    /// The start time for [`flush_ended`](ThreadBatching::flush_ended); 0 if it is not to be
    /// measured.
    pub fn flush_begins(&self) -> u64 {
        if self.writers > 0 { now_ns() } else { 0 }
    }

    pub fn flush_ended(&mut self, began_ns: u64, was_shared: bool) {
        if began_ns > 0 {
            self.flush_ns = clock::average_ns(self.flush_ns, now_ns() - began_ns);
            self.writers -= self.writers.div_ceil(8);
        }
        if was_shared {
            self.lately = BATCH_EXPECTED_MAX;
        }
    }

    /// `writers` writers that commit at this interval, with flushes that take this long.
    #[cfg(all(test, not(feature = "shuttle")))]
    pub fn crowd(writers: u32, interval: Duration, flush: Duration) -> ThreadBatching {
        let (interval_ns, flush_ns) = (interval.as_nanos() as u64, flush.as_nanos() as u64);
        ThreadBatching { lately: BATCH_EXPECTED_MAX, writers, written_ns: 0, interval_ns, flush_ns }
    }
}

fn now_ns() -> u64 {
    // The model checker's time does not pass.
    if cfg!(feature = "shuttle") { 1 } else { clock::now_ns() }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_millis(1);

    #[test]
    fn a_flush_begins_when_those_who_wait_for_their_turn_are_as_many_as_write_meanwhile() {
        let batching = |interval| ThreadBatching::crowd(16, interval, FLUSH);
        let five_in_a_flush = batching(FLUSH / 5);
        assert_eq!(five_in_a_flush.is_worth(3, &|| 6), Some(FLUSH));
        assert_eq!(five_in_a_flush.is_worth(3, &|| 5), None);
        assert_eq!(five_in_a_flush.is_worth(1, &|| 5), Some(LINGER), "alone");
        let all_in_a_flush = batching(FLUSH / 16);
        assert_eq!(all_in_a_flush.is_worth(3, &|| 1), Some(FLUSH));
        assert_eq!(all_in_a_flush.is_worth(3, &|| 0), None, "nobody comes");
        assert_eq!(batching(2 * FLUSH).is_worth(3, &|| 6), None, "nobody comes in time");
    }

    #[test]
    fn who_is_alone_waits_for_company_a_few_times() {
        let mut batching = ThreadBatching::default();
        assert_eq!(batching.is_worth(1, &|| 0), None);
        batching.flush_ended(0, true);
        for _ in 0..BATCH_EXPECTED_MAX {
            assert_eq!(batching.is_worth(1, &|| 0), Some(LINGER));
            batching.note_wait(1);
        }
        assert_eq!(batching.is_worth(1, &|| 0), None);
    }

    #[test]
    fn how_many_writers_there_are_is_forgotten_when_they_are_gone() {
        let mut batching = ThreadBatching::default();
        batching.note_commit(1, 15);
        batching.note_commit(2, 3);
        assert_eq!(batching.writers, 16);
        for _ in 0..40 {
            batching.note_commit(1, 0);
            batching.flush_ended(batching.flush_begins(), false);
        }
        assert_eq!((batching.writers, batching.flush_begins()), (0, 0));
    }
}
