//! The clock of the engine: each look at it is a second later than the one before, so that each
//! transaction has a time of its own in a history.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

thread_local! {
    static SECONDS: Cell<u64> = const { Cell::new(0) };
}

pub fn now() -> SystemTime {
    SECONDS.set(SECONDS.get() + 1);
    SystemTime::UNIX_EPOCH + Duration::from_secs(SECONDS.get())
}
