//! Measures which kind of durable write costs least on this file now. Neither the kernel nor the
//! device says.
//!
//! Some devices do a forced write (FUA) faster than a write and a flush, and some slower. Some
//! drivers make one of the other. So the first writes of one block are done in turns, either way.
//! They are writes that the caller wants, so measuring costs nothing. Where nothing stands out, the
//! choice is `RWF_DSYNC`, which is one system call.

use std::time::Duration;

/// What makes a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableWrite {
    /// One call: `pwritev2` with `RWF_DSYNC`. Where the device can, the kernel makes it one forced
    /// write (FUA) without a flush.
    Dsync,
    /// `pwrite`, then `fdatasync`.
    WriteThenSync,
}

/// Writes of each kind.
const WRITES: usize = 8;

/// Two calls are chosen if they save this much of the time of one, in percent.
const SAVING_MIN_PERCENT: u128 = 10;

/// The first writes, with the least time of each kind. Longer times come from other I/O, or cold
/// caches.
#[derive(Debug)]
pub(super) struct Measuring {
    took: [Duration; 2],
    writes: usize,
}

impl Default for Measuring {
    fn default() -> Measuring {
        Measuring { took: [Duration::MAX; 2], writes: 0 }
    }
}

impl Measuring {
    /// The kind of the next write.
    pub fn next(&self) -> DurableWrite {
        if self.writes.is_multiple_of(2) {
            DurableWrite::Dsync
        } else {
            DurableWrite::WriteThenSync
        }
    }

    /// Notes how long the write that [`next`](Measuring::next) asked for took. An answer ends the
    /// measuring.
    pub fn took(&mut self, time: Duration) -> Option<DurableWrite> {
        let took = &mut self.took[self.writes % 2];
        *took = time.min(*took);
        self.writes += 1;
        (self.writes == 2 * WRITES).then(|| choose(self.took))
    }
}

fn choose([dsync, write_then_sync]: [Duration; 2]) -> DurableWrite {
    if write_then_sync.as_nanos() * 100 < dsync.as_nanos() * (100 - SAVING_MIN_PERCENT) {
        DurableWrite::WriteThenSync
    } else {
        DurableWrite::Dsync
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_calls_are_taken_only_where_they_save_something() {
        let ms = Duration::from_millis;
        assert_eq!(choose([ms(100), ms(95)]), DurableWrite::Dsync);
        assert_eq!(choose([ms(100), ms(80)]), DurableWrite::WriteThenSync);
        assert_eq!(choose([ms(0), ms(0)]), DurableWrite::Dsync);
    }

    #[test]
    fn both_are_tried_in_turns_and_the_least_time_of_each_counts() {
        for (dsync_ms, expected) in [(3, DurableWrite::WriteThenSync), (1, DurableWrite::Dsync)] {
            let mut measuring = Measuring::default();
            let mut tried = Vec::new();
            let found = loop {
                let choice = measuring.next();
                tried.push(choice);
                let least = if choice == DurableWrite::Dsync { dsync_ms } else { 2 };
                // One write of each kind is not disturbed.
                let time =
                    Duration::from_millis(if tried.len() > 2 * WRITES - 2 { least } else { 50 });
                if let Some(found) = measuring.took(time) {
                    break found;
                }
            };
            assert_eq!(found, expected);
            assert_eq!(
                tried.iter().filter(|&&choice| choice == DurableWrite::Dsync).count(),
                WRITES
            );
            assert_eq!(tried.len(), 2 * WRITES);
        }
    }
}
