//! Waits on a word of memory, of processes that share it or of threads. Whoever wakes can tell those who wait apart by their bits.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;
#[cfg(not(feature = "shuttle"))]
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

use crate::stats::clock;

pub const ALL: NonZeroU32 = NonZeroU32::MAX;
pub const FOR_EVER: Duration = Duration::MAX;

/// The bit of a number; of numbers that are near to each other, no two have the same.
pub fn bit_of(number: u32) -> NonZeroU32 {
    NonZeroU32::new(1 << (number % 32)).unwrap_or(ALL)
}

/// Waits while `word` is `expected`. Whatever ends it, the caller has to look again.
pub fn wait(word: &AtomicU32, expected: u32, bits: NonZeroU32, at_most: Duration) {
    wait_with(Flags::empty(), word, expected, bits, at_most);
}

fn wait_with(flags: Flags, word: &AtomicU32, expected: u32, bits: NonZeroU32, at_most: Duration) {
    let until_ns = clock::now_ns().saturating_add(u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX));
    let until = Timespec { tv_sec: (until_ns / 1_000_000_000) as i64, tv_nsec: (until_ns % 1_000_000_000) as i64 };
    let _ = futex::wait_bitset(word, flags, expected, Some(&until), bits);
}

/// Wakes up to `count` of those who wait with one of the bits, the longest waiting first.
pub fn wake(word: &AtomicU32, count: u32, bits: NonZeroU32) {
    // It cannot fail for memory that is mapped; and who waits has a time limit.
    let _ = futex::wake_bitset(word, Flags::empty(), count.min(i32::MAX as u32), bits);
}

/// Counts events for which threads of this process wait. Unlike a condition variable's waiters, those who are woken do not have to take a mutex one
/// after the other.
///
/// An event is counted under the mutex under which the waiter found that it has to wait, and read the count.
#[derive(Default)]
#[cfg(not(feature = "shuttle"))]
pub struct EventCount(AtomicU32);

#[cfg(not(feature = "shuttle"))]
impl EventCount {
    pub fn get(&self) -> u32 {
        self.0.load(SeqCst)
    }

    pub fn count(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    /// Waits while the count is `seen`. Whatever ends it, the caller has to look again.
    pub fn wait(&self, seen: u32, bits: NonZeroU32, at_most: Duration) {
        wait_with(Flags::PRIVATE, &self.0, seen, bits, at_most);
    }

    /// The same for a wait whose time will be over: nobody needs to come.
    pub fn pause(&self, seen: u32, bits: NonZeroU32, at_most: Duration) {
        self.wait(seen, bits, at_most);
    }

    /// Wakes those who wait with one of the bits.
    pub fn wake(&self, bits: NonZeroU32) {
        let _ = futex::wake_bitset(&self.0, Flags::PRIVATE, i32::MAX as u32, bits);
    }
}

/// The same for the model checker. Its time does not pass: a wait never times out, so a wake-up that is lost is a deadlock, which the checker reports.
#[cfg(feature = "shuttle")]
pub struct EventCount {
    state: crate::sync::Mutex<Modelled>,
    woken: crate::sync::Condvar,
}

#[cfg(feature = "shuttle")]
#[derive(Default)]
struct Modelled {
    count: u32,
    entered: u64,
    waiting: std::collections::BTreeMap<u64, NonZeroU32>,
}

#[cfg(feature = "shuttle")]
impl Default for EventCount {
    fn default() -> EventCount {
        EventCount { state: crate::sync::Mutex::new(Modelled::default()), woken: crate::sync::Condvar::new() }
    }
}

#[cfg(feature = "shuttle")]
impl EventCount {
    pub fn get(&self) -> u32 {
        crate::sync::lock(&self.state).count
    }

    pub fn count(&self) {
        crate::sync::lock(&self.state).count += 1;
    }

    /// Lets the others run for as long as the checker likes.
    pub fn pause(&self, _: u32, _: NonZeroU32, _: Duration) {
        shuttle::thread::yield_now();
    }

    pub fn wait(&self, seen: u32, bits: NonZeroU32, _: Duration) {
        let mut state = crate::sync::lock(&self.state);
        if state.count != seen {
            return;
        }
        state.entered += 1;
        let me = state.entered;
        state.waiting.insert(me, bits);
        while state.waiting.contains_key(&me) {
            state = crate::sync::wait(&self.woken, state);
        }
    }

    pub fn wake(&self, bits: NonZeroU32) {
        crate::sync::lock(&self.state).waiting.retain(|_, waits_with| waits_with.get() & bits.get() == 0);
        self.woken.notify_all();
    }
}
