//! The clock of all latencies, and of the times that processes tell each other.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the system's monotonic clock. All processes read the same clock. Never 0.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64).max(1)
}

/// The running average with a new measurement, which counts for an eighth. A `before_ns` of 0 says
/// that there was none before.
pub fn average_ns(before_ns: u64, ns: u64) -> u64 {
    match before_ns {
        0 => ns,
        // The device or the machine may stall once, so a measurement counts for twice the average
        // at most.
        _ => before_ns - before_ns / 8 + ns.min(before_ns.saturating_mul(2)) / 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_clock_of_the_system_and_not_that_of_this_process() {
        let seconds = || clock_gettime(ClockId::Monotonic).tv_sec as u64;
        let (before, now_ns, after) = (seconds(), now_ns(), seconds());
        assert!((before..=after).contains(&(now_ns / 1_000_000_000)));
    }
}
