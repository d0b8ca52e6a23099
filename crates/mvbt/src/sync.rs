//! Locks among threads. They are futexes, with nothing that belongs to the whole process: in the
//! child of a fork no lock that it makes itself can be held by a thread that it does not have.

use std::time::Instant;

pub use rustix_futex_sync::{Condvar, Mutex, MutexGuard, RwLock};

/// Waits until `condition` is told, or until this time. True: the time is over.
pub fn wait_until<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> (MutexGuard<'a, T>, bool) {
    match until {
        None => (condition.wait(guard), false),
        Some(until) => {
            let left = until.saturating_duration_since(Instant::now());
            let (guard, waited) = condition.wait_timeout(guard, left);
            (guard, waited.timed_out())
        }
    }
}
