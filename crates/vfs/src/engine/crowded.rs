//! Whether other programs want the processors, as far as a connection that looks for its turn can
//! tell ([`turns`](super::turns)).
//!
//! A connection that looks yields its processor to every other runnable thread. On an idle machine
//! those are writers of this process, which soon sleep again. A thread that runs on and on keeps
//! the processor for its whole time slice, several milliseconds. A looking connection misses its
//! turn meanwhile. A sleeping connection is woken at once there, since it has used less than its
//! share. So on a crowded machine nobody looks, apart from an attempt now and then.

use std::time::{Duration, Instant};

/// Threads of this process do not run for this long at a time.
const FOREIGN_MIN: Duration = Duration::from_micros(500);

/// How long nobody looks the first time. Each further attempt that finds the same doubles the
/// pause, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct Crowded {
    until: Option<Instant>,
    pause: Duration,
}

impl Crowded {
    pub fn is_so(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Notes that a connection has looked until `now`, and for how long at a time others ran
    /// meanwhile.
    pub fn looked(&mut self, now: Instant, longest: Duration) {
        if longest < FOREIGN_MIN {
            return;
        }
        let goes_on = self.until.is_some_and(|until| now < until + PAUSE_MAX);
        self.pause = if goes_on { (2 * self.pause).min(PAUSE_MAX) } else { PAUSE_MIN };
        self.until = Some(now + self.pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_looks_for_a_while_after_a_foreign_thread_ran_and_longer_each_time() {
        let (mut crowded, mut now) = (Crowded::default(), Instant::now());
        crowded.looked(now, FOREIGN_MIN / 2);
        assert!(!crowded.is_so(now), "a thread of ours");
        for pause in [PAUSE_MIN, 2 * PAUSE_MIN, 4 * PAUSE_MIN] {
            crowded.looked(now, FOREIGN_MIN);
            assert!(crowded.is_so(now + pause - Duration::from_millis(1)));
            assert!(!crowded.is_so(now + pause));
            now += pause;
        }
        for _ in 0..10 {
            crowded.looked(now, FOREIGN_MIN);
            now += PAUSE_MAX;
            assert!(!crowded.is_so(now), "an attempt comes in the end");
        }
        now += 2 * PAUSE_MAX;
        crowded.looked(now, FOREIGN_MIN);
        assert!(!crowded.is_so(now + PAUSE_MIN), "it was idle meanwhile");
    }
}
