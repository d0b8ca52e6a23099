//! A failure or a panic lets nothing more be acknowledged (T8).

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parking_lot::{Mutex, MutexGuard};

#[derive(Debug, Default)]
pub struct Poison(AtomicBool);

impl Poison {
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub fn watch(&self) -> Watch<'_> {
        Watch(self)
    }

    pub fn lock<'a, T>(&'a self, mutex: &'a Mutex<T>) -> Locked<'a, T> {
        Locked { _watch: self.watch(), guard: mutex.lock() }
    }
}

/// A panic while it lives poisons.
#[must_use]
pub struct Watch<'a>(&'a Poison);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.set();
        }
    }
}

/// A panic poisons before the lock is free: the next owner finds what is half done, and is told.
pub struct Locked<'a, T> {
    // Dropped in this order.
    _watch: Watch<'a>,
    guard: MutexGuard<'a, T>,
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
