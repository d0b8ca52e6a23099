//! Whether this process has opened a database with a strategy that guards it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

static GUARD_WAS_USED: AtomicBool = AtomicBool::new(false);

pub fn note() {
    GUARD_WAS_USED.store(true, SeqCst);
}

pub fn was_there() -> bool {
    GUARD_WAS_USED.load(SeqCst)
}
