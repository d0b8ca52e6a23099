//! The clock of all latencies.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds of the monotonic clock since the first call, plus one: never 0.
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}
