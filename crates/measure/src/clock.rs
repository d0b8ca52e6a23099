//! Clocks. `CLOCK_MONOTONIC` is the same for all processes of a machine, which `std::time::Instant`
//! does not promise and cannot send; the processor-time clocks are `getrusage` in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

pub fn now_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// User and system time of all threads of this process, background threads of a strategy included.
pub fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// The same without the calling thread's.
pub fn other_threads_cpu_ns() -> u64 {
    // In this order: the process's clock goes on between the two.
    let own_ns = thread_cpu_ns();
    process_cpu_ns().saturating_sub(own_ns)
}

/// User and system time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
