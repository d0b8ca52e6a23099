//! Mutexes without ranks.

#[cfg(not(feature = "shuttle"))]
pub use rustix_futex_sync::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub use shuttle::sync::{Condvar, Mutex, MutexGuard};

#[cfg(not(feature = "shuttle"))]
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(feature = "shuttle")]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
