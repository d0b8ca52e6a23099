//! Waits on a word of memory, for processes that share it or for threads.
//!
//! The waker can tell the waiters apart by their bits.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

use crate::stats::clock;

pub const ALL: NonZeroU32 = NonZeroU32::MAX;
pub const FOR_EVER: Duration = Duration::MAX;

/// The bit of a number. Of 32 numbers in a row no two have the same bit.
pub fn bit_of(number: u32) -> NonZeroU32 {
    NonZeroU32::new(1 << (number % 32)).unwrap_or(ALL)
}

/// Waits while `word` is `expected`. The caller has to look again, whatever ended the wait.
pub fn wait(word: &AtomicU32, expected: u32, bits: NonZeroU32, at_most: Duration) {
    wait_with(Flags::empty(), word, expected, bits, at_most);
}

/// The same where only threads of this process wait.
#[cfg(not(feature = "shuttle"))]
pub fn wait_in_process(word: &AtomicU32, expected: u32, bits: NonZeroU32, at_most: Duration) {
    wait_with(Flags::PRIVATE, word, expected, bits, at_most);
}

fn wait_with(flags: Flags, word: &AtomicU32, expected: u32, bits: NonZeroU32, at_most: Duration) {
    let until = (at_most != FOR_EVER).then(|| {
        let until_ns =
            clock::now_ns().saturating_add(u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX));
        Timespec {
            tv_sec: (until_ns / 1_000_000_000) as i64,
            tv_nsec: (until_ns % 1_000_000_000) as i64,
        }
    });
    let _ = futex::wait_bitset(word, flags, expected, until.as_ref(), bits);
}

/// Wakes up to `count` of the waiters with one of the bits, the longest waiting first.
pub fn wake(word: &AtomicU32, count: u32, bits: NonZeroU32) {
    wake_with(Flags::empty(), word, count, bits);
}

/// The same where only threads of this process wait.
#[cfg(not(feature = "shuttle"))]
pub fn wake_in_process(word: &AtomicU32, count: u32, bits: NonZeroU32) {
    wake_with(Flags::PRIVATE, word, count, bits);
}

fn wake_with(flags: Flags, word: &AtomicU32, count: u32, bits: NonZeroU32) {
    // This cannot fail for memory that is mapped.
    let _ = futex::wake_bitset(word, flags, count.min(i32::MAX as u32), bits);
}
