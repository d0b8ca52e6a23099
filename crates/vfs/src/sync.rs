//! The synchronisation primitives of this crate.
//!
//! `parking_lot`'s, which knows no poisoning (every state behind our mutexes is whole between two statements, so a panic that was
//! stopped at a callback does not matter) and which is compiled with us, so that ThreadSanitizer sees it. With feature `shuttle`
//! those of the model checker, which tries out the orders in which threads may run.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

#[cfg(not(feature = "shuttle"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard};

#[cfg(feature = "shuttle")]
pub use shuttle::sync::{Condvar, Mutex, MutexGuard};

#[cfg(not(feature = "shuttle"))]
mod with {
    use super::{Condvar, Duration, Mutex, MutexGuard};

    #[inline]
    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }

    pub fn wait<'a, T>(condition: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condition.wait(&mut guard);
        guard
    }

    /// Waits for at most `at_most`; may wake early.
    pub fn wait_timeout<'a, T>(
        condition: &Condvar,
        mut guard: MutexGuard<'a, T>,
        at_most: Duration,
    ) -> MutexGuard<'a, T> {
        condition.wait_for(&mut guard, at_most);
        guard
    }
}

#[cfg(feature = "shuttle")]
mod with {
    use super::{Condvar, Duration, Mutex, MutexGuard};
    use std::sync::PoisonError;

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// The checker's time does not pass: it never times out, so a wake-up that is lost is a deadlock, which the checker reports.
    pub fn wait_timeout<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, at_most: Duration) -> MutexGuard<'a, T> {
        condition.wait_timeout(guard, at_most).unwrap_or_else(PoisonError::into_inner).0
    }
}

pub use with::{lock, wait, wait_timeout};

/// A memory barrier. What a thread wrote before it passed, a thread that passes later sees: of this process by the rules of the language, so that
/// ThreadSanitizer knows it, and of others by the processor's.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Barrier(AtomicU32);

impl Barrier {
    #[inline]
    pub fn pass(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        // On x86 the exchange is a fence, too.
        if cfg!(not(target_arch = "x86_64")) {
            fence(Ordering::SeqCst);
        }
    }
}
