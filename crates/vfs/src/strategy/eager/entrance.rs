//! One thread of the process at a time appends. Who waits for that has a limit.

use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, dies_in_the_model, lock, wait_timeout};

/// The limit of whatever can still be answered "busy".
pub const REFUSED_AFTER: Duration = Duration::from_secs(1);

/// The limit of a noted commit. A device may stall for long, and a failure ends the database in
/// this process.
const FAILED_AFTER: Duration = Duration::from_secs(30);

/// The limit of a noted commit.
#[cfg(not(feature = "kill-points"))]
pub fn failed_after() -> Duration {
    FAILED_AFTER
}

/// The limit of a noted commit. The test that stops processes sets a shorter one.
#[cfg(feature = "kill-points")]
pub fn failed_after() -> Duration {
    let told = std::env::var("ONEFLUSH_TEST_PATIENCE_MS").ok().and_then(|told| told.parse().ok());
    told.map_or(FAILED_AFTER, Duration::from_millis)
}

/// Lets one thread through at a time. A wait has a limit.
#[derive(Default)]
pub struct Entrance {
    taken: Mutex<bool>,
    freed: Condvar,
}

pub struct Entered<'a>(&'a Entrance);

impl Entrance {
    /// `None`: the entrance was not free within `patience`.
    pub fn enter(&self, patience: Duration) -> Option<Entered<'_>> {
        let mut taken = lock(&self.taken);
        if *taken {
            let deadline = Instant::now() + patience;
            while *taken {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                taken = wait_timeout(&self.freed, taken, left);
            }
        }
        *taken = true;
        Some(Entered(self))
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if dies_in_the_model() {
            return;
        }
        *lock(&self.0.taken) = false;
        self.0.freed.notify_one();
    }
}
