//! A clock that a test sets, one a thread. It goes on by itself, by a second each time it is read.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

/// Where it begins, in seconds since 1970.
pub const BEGINS: u64 = 1_000_000;

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(BEGINS * 1000) };
    static STEP_MS: Cell<u64> = const { Cell::new(1000) };
}

pub fn now() -> SystemTime {
    let now = NOW_MS.get() + STEP_MS.get();
    NOW_MS.set(now);
    at(now)
}

pub fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

/// Sets the clock: the next time that is read, and how far it goes on after each.
pub fn set(now_ms: u64, step_ms: u64) {
    NOW_MS.set(now_ms - step_ms);
    STEP_MS.set(step_ms);
}
