//! Whether other programs want the processors, as far as those can tell who look for their turn ([`turns`](super::turns)).
//!
//! Whoever looks gives its processor to every other thread that could run. On an idle machine those are writers of this
//! process, which soon sleep again. A thread that runs on and on keeps the processor for its whole time slice, several
//! milliseconds, and whoever looks misses its turn meanwhile. Whoever sleeps is woken at once there, since it has used
//! less than its share. So on a crowded machine nobody looks, but for an attempt now and then.

use std::time::{Duration, Instant};

/// Threads of ours do not run for so long at a time.
const FOREIGN_MIN: Duration = Duration::from_micros(500);

/// For so long nobody looks, the first time; twice as long each time that the next attempt finds the same.
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

    /// Somebody has looked until now, and others ran meanwhile for so long at a time.
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
