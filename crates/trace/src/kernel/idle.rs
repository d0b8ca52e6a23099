//! A thread that gives way to all others.
//!
//! Under SCHED_IDLE a thread runs only if no other thread wants the processor:
//! - A thread that wakes up takes the processor from it at once.
//! - A thread that looks for a free processor sees the processor as free.
//!
//! A lower `nice` only makes the share smaller: the other thread still waits for the end of a
//! slice, up to 4 ms.
//!
//! The price: if every processor is busy, the thread gets less than a hundredth of one. SCHED_IDLE
//! is therefore only for a limited time.

/// The calling thread gives way until this is dropped. Threads and processes that it starts
/// meanwhile would give way too, for ever.
#[derive(Debug)]
pub struct GivesWay(());

impl GivesWay {
    /// `None` if another policy was chosen for the thread. That policy stays.
    pub fn begin() -> Option<GivesWay> {
        (policy() == libc::SCHED_OTHER && set(libc::SCHED_IDLE)).then_some(GivesWay(()))
    }
}

impl Drop for GivesWay {
    fn drop(&mut self) {
        // Cannot fail: root may leave SCHED_IDLE, and no other thread knows this one.
        set(libc::SCHED_OTHER);
    }
}

// Both by number: musl's functions of these names only refuse.

fn policy() -> libc::c_int {
    // SAFETY: the call takes a number, 0 for the calling thread, and gives one.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    policy as libc::c_int
}

fn set(policy: libc::c_int) -> bool {
    // All that the kernel's `struct sched_param` has.
    let priority: libc::c_int = 0;
    // SAFETY: 0 is the calling thread. The priority lives through the call, which only reads it.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_way_and_no_longer() {
        let gives_way = GivesWay::begin();
        assert!(gives_way.is_some() && policy() == libc::SCHED_IDLE);
        assert!(GivesWay::begin().is_none());
        drop(gives_way);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }
}
