//! Which durable write is the cheapest, on this file, now: measured, since neither the kernel nor the device says.
//!
//! Some devices do a forced write (FUA) faster than a write and a flush, some do it slower, and some drivers make one of the
//! other. A few of each, in turns, on the blocks that the log will have anyway; where nothing stands out it is `RWF_DSYNC`,
//! which is one system call.

use std::io;
use std::time::{Duration, Instant};

use super::{DirectFile, DurableWrite, is_refusal};
use crate::{AlignedBuffer, Storage};

/// Blocks that are written to: two, so that a device does not see one block only.
pub(super) const FILE_BLOCKS: u64 = 2;

/// Pairs of writes, and for how long there are further pairs.
const PAIRS_MAX: u64 = 6;
const TIME_MAX: Duration = Duration::from_millis(4);

/// What two calls must save of one call's time, in percent, to be taken for it.
const SAVING_MIN_PERCENT: u128 = 10;

/// Writes and syncs the zeros that [`cheapest`] overwrites, so that it measures no allocation.
pub(super) fn fill(file: &DirectFile) -> io::Result<()> {
    file.extend(FILE_BLOCKS * file.block_bytes as u64)
}

pub(super) fn cheapest(file: &DirectFile) -> io::Result<DurableWrite> {
    let zeros = AlignedBuffer::zeroed(file.block_bytes);
    // The least of each: what is more is another's I/O, or cold caches.
    let mut took = [Duration::MAX; 2];
    let started = Instant::now();
    for pair in 0..PAIRS_MAX {
        for (choice, took) in [DurableWrite::Dsync, DurableWrite::WriteThenSync].into_iter().zip(&mut took) {
            let begun = Instant::now();
            match file.write_as(choice, &zeros, pair % FILE_BLOCKS * file.block_bytes as u64) {
                Err(error) if choice == DurableWrite::Dsync && is_refusal(&error) => {
                    return Ok(DurableWrite::WriteThenSync);
                }
                result => result?,
            }
            *took = begun.elapsed().min(*took);
        }
        if started.elapsed() > TIME_MAX {
            break;
        }
    }
    Ok(choose(took))
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
}
