//! The synchronisation primitives of this crate.
//!
//! They are futexes, which know no poisoning. A panic that was stopped at a callback ends the
//! commits of its process instead (`engine/panics.rs`), whichever mutex it held. They are compiled
//! with this crate, so that ThreadSanitizer sees them. Nothing of them belongs to the whole
//! process: in the child of a fork, no lock that the child makes can be held by a thread that it
//! lacks.
//!
//! With feature `shuttle` they are those of the model checker, which tries out the orders in which
//! threads may run.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

mod ranked;
pub mod ranks;
mod raw;

pub use ranked::{Mutex, MutexGuard, apart};
pub use raw::Condvar;

#[cfg(not(feature = "shuttle"))]
mod with {
    use std::num::NonZeroU32;
    use std::time::Instant;

    use super::{AtomicU32, Condvar, Duration, MutexGuard, Ordering};
    use crate::futex;

    /// How often a thread looks at memory that another thread will change before it lets others
    /// run.
    const LOOKS: u32 = 32;

    /// Waits without sleeping. Every other runnable thread goes first.
    ///
    /// Answers for how long at a time, at the longest, others ran.
    pub fn look_until(at_most: Duration, has_come: impl Fn() -> bool) -> Duration {
        let mut now = Instant::now();
        let until = now + at_most;
        let mut longest = Duration::ZERO;
        loop {
            for _ in 0..LOOKS {
                if has_come() {
                    return longest;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
            let after = Instant::now();
            longest = longest.max(after - now);
            now = after;
            if now >= until {
                return longest;
            }
        }
    }

    /// Asks every `pause`, for `at_most`. False: it has not come.
    pub fn ask_until(at_most: Duration, pause: Duration, has_come: impl Fn() -> bool) -> bool {
        let until = Instant::now() + at_most;
        while !has_come() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(pause);
        }
        true
    }

    pub fn wait<'a, T, const RANK: u8>(
        condition: &Condvar,
        guard: MutexGuard<'a, T, RANK>,
    ) -> MutexGuard<'a, T, RANK> {
        guard.with(|guard| condition.wait(guard))
    }

    /// Waits for at most `at_most`. May wake early.
    pub fn wait_timeout<'a, T, const RANK: u8>(
        condition: &Condvar,
        guard: MutexGuard<'a, T, RANK>,
        at_most: Duration,
    ) -> MutexGuard<'a, T, RANK> {
        guard.with(|guard| condition.wait_timeout(guard, at_most).0)
    }

    /// Counts events for which threads of this process wait.
    ///
    /// A condition variable's waiters take a mutex one after the other when they are woken. These
    /// need not.
    ///
    /// An event is counted under the waiter's mutex. The waiter reads the count under that mutex,
    /// where it finds that it has to wait.
    #[derive(Default)]
    pub struct EventCount(AtomicU32);

    impl EventCount {
        pub fn get(&self) -> u32 {
            self.0.load(Ordering::SeqCst)
        }

        pub fn count(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        /// Waits while the count is `seen`. The caller has to look again, whatever ended the wait.
        pub fn wait(&self, seen: u32, bits: NonZeroU32, at_most: Duration) {
            futex::wait_in_process(&self.0, seen, bits, at_most);
        }

        /// The same for a wait that ends by its time: nobody needs to wake it.
        pub fn pause(&self, seen: u32, bits: NonZeroU32, at_most: Duration) {
            self.wait(seen, bits, at_most);
        }

        /// Wakes the threads that wait with one of the bits.
        pub fn wake(&self, bits: NonZeroU32) {
            futex::wake_in_process(&self.0, u32::MAX, bits);
        }
    }
}

#[cfg(feature = "shuttle")]
mod with {
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;
    use std::sync::PoisonError;

    use super::{Condvar, Duration, Mutex, MutexGuard, lock, ranks};

    /// Looks once, at most, and lets all others run first: the checker's time does not pass.
    pub fn look_until(_: Duration, has_come: impl Fn() -> bool) -> Duration {
        if !has_come() {
            shuttle::thread::yield_now();
        }
        Duration::ZERO
    }

    /// Never gives up: the checker ends a run that does not end.
    pub fn ask_until(_: Duration, _: Duration, has_come: impl Fn() -> bool) -> bool {
        while !has_come() {
            shuttle::thread::yield_now();
        }
        true
    }

    pub fn wait<'a, T, const RANK: u8>(
        condition: &Condvar,
        guard: MutexGuard<'a, T, RANK>,
    ) -> MutexGuard<'a, T, RANK> {
        guard.with(|guard| condition.wait(guard).unwrap_or_else(PoisonError::into_inner))
    }

    /// Never times out, since the checker's time does not pass. A lost wake-up is a deadlock, which
    /// the checker reports.
    pub fn wait_timeout<'a, T, const RANK: u8>(
        condition: &Condvar,
        guard: MutexGuard<'a, T, RANK>,
        at_most: Duration,
    ) -> MutexGuard<'a, T, RANK> {
        guard.with(|guard| {
            condition.wait_timeout(guard, at_most).unwrap_or_else(PoisonError::into_inner).0
        })
    }

    /// Counts events. A wait never times out here either.
    pub struct EventCount {
        state: Mutex<Counted, { ranks::STUB }>,
        woken: Condvar,
    }

    #[derive(Default)]
    struct Counted {
        count: u32,
        entered: u64,
        waiting: BTreeMap<u64, NonZeroU32>,
    }

    impl Default for EventCount {
        fn default() -> EventCount {
            EventCount { state: Mutex::new(Counted::default()), woken: Condvar::new() }
        }
    }

    impl EventCount {
        pub fn get(&self) -> u32 {
            lock(&self.state).count
        }

        pub fn count(&self) {
            lock(&self.state).count += 1;
        }

        /// Lets the others run for as long as the checker likes.
        pub fn pause(&self, _: u32, _: NonZeroU32, _: Duration) {
            shuttle::thread::yield_now();
        }

        pub fn wait(&self, seen: u32, bits: NonZeroU32, _: Duration) {
            let mut state = lock(&self.state);
            if state.count != seen {
                return;
            }
            state.entered += 1;
            let me = state.entered;
            state.waiting.insert(me, bits);
            while state.waiting.contains_key(&me) {
                state = wait(&self.woken, state);
            }
        }

        pub fn wake(&self, bits: NonZeroU32) {
            lock(&self.state).waiting.retain(|_, waits_with| waits_with.get() & bits.get() == 0);
            self.woken.notify_all();
        }
    }
}

/// In the model checker a thread dies by unwinding. A dead process does nothing more, and the
/// checker plays the kernel.
pub fn dies_in_the_model() -> bool {
    cfg!(all(test, feature = "shuttle")) && std::thread::panicking()
}

pub use with::{EventCount, ask_until, look_until, wait, wait_timeout};

#[inline]
#[cfg_attr(debug_assertions, track_caller)]
pub fn lock<T, const RANK: u8>(mutex: &Mutex<T, RANK>) -> MutexGuard<'_, T, RANK> {
    mutex.lock()
}

#[cfg(feature = "shuttle")]
pub use of_the_process::{Mutex as StaticMutex, MutexGuard as StaticMutexGuard};
/// A mutex around something of the whole process, which is held over a fork. The model checker does
/// not know it.
#[cfg(not(feature = "shuttle"))]
pub use ranked::{Mutex as StaticMutex, MutexGuard as StaticMutexGuard};

#[cfg(feature = "shuttle")]
mod of_the_process {
    pub type Mutex<T, const RANK: u8 = 0> = rustix_futex_sync::Mutex<T>;
    pub type MutexGuard<'a, T, const RANK: u8 = 0> = rustix_futex_sync::MutexGuard<'a, T>;
}

/// A memory barrier. What a thread wrote before it passed, a thread that passes later sees.
///
/// For threads of this process the rules of the language say so, so that ThreadSanitizer knows it.
/// For other processes the processor's rules say so.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Barrier(AtomicU32);

impl Barrier {
    #[inline]
    pub fn pass(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        // On x86 the exchange is a fence too.
        if cfg!(not(target_arch = "x86_64")) {
            fence(Ordering::SeqCst);
        }
    }
}
