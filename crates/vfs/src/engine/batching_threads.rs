//! Whether the leader of a flush waits for others before it begins, and for how long.
//!
//! Two writers would miss each other so: each comes back while the other flushes. As long as commits have company, a leader that has
//! none waits for it, for less time than a flush takes; when that was in vain a few times, no more (PostgreSQL's `commit_delay`, but
//! measured instead of set).
//!
//! Where many writers wait for their turn, flushing as soon as the flush before has ended makes many small ones: the device and the processors
//! work more, and no commit is earlier, since the writers are what all wait for. So a leader waits until only so many still wait for their turn
//! as can write while it flushes: for those that it has covered come back when the queue is empty. Where a flush takes longer than all of them
//! need to write, that is until nobody waits. It waits no longer than a flush takes.

use std::time::Duration;

use crate::stats::clock;

/// How long a leader that is alone waits.
const LINGER: Duration = Duration::from_micros(150);

/// How often it does so in vain before commits are taken to be alone.
pub(super) const BATCH_EXPECTED_MAX: u8 = 8;

#[derive(Default)]
pub struct ThreadBatching {
    /// Above 0: somebody else commits too.
    lately: u8,
    /// How many writers there are, about: those who wait for their turn and those who wait for a flush.
    writers: u32,
    /// When the last commit was written while others waited for their turn; 0: nobody did.
    written_ns: u64,
    /// From one such commit to the next.
    interval_ns: u64,
    flush_ns: u64,
}

impl ThreadBatching {
    pub fn is_expected(&self) -> bool {
        self.lately > 0
    }

    /// A commit is written and one of `pending`, while so many wait for their turn to write.
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
    pub fn is_worth(&self, pending: u64, queue: &dyn Fn() -> u32) -> Option<Duration> {
        if self.lately == 0 {
            return None;
        }
        if self.is_crowded(queue) {
            return Some(Duration::from_nanos(self.flush_ns));
        }
        (pending < 2).then_some(LINGER)
    }

    /// More wait for their turn than can write while a flush lasts, or, if that is all of them, anybody does.
    fn is_crowded(&self, queue: &dyn Fn() -> u32) -> bool {
        if self.writers == 0 || self.interval_ns > self.flush_ns {
            return false;
        }
        let writers_in_a_flush = self.flush_ns / self.interval_ns.max(1);
        let enough = if writers_in_a_flush < u64::from(self.writers) { writers_in_a_flush } else { 0 };
        u64::from(queue()) > enough
    }

    /// A leader has waited, and has so many now.
    pub fn note_wait(&mut self, pending: u64) {
        if pending < 2 {
            self.lately = self.lately.saturating_sub(1);
        }
    }

    /// For [`flush_ended`](ThreadBatching::flush_ended).
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

    /// So many writers, who commit in such intervals, and a flush takes so long.
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
