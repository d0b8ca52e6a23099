//! The synchronisation primitives of what is model-checked: the standard library's, or, with feature `shuttle`, those of the
//! model checker, which tries out the orders in which threads may run.

#[cfg(not(feature = "shuttle"))]
pub use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(feature = "shuttle")]
pub use shuttle::sync::{Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;
use std::time::Duration;

/// Locks; a panic of another holder does not matter, because every state behind our mutexes is whole between two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits for at most `at_most`; wakes early or for no reason like any condition variable.
pub fn wait_timeout<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, at_most: Duration) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, at_most).unwrap_or_else(PoisonError::into_inner).0
}
