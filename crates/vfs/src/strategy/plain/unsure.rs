//! What a failed flush leaves behind.
//!
//! After a failed fsync Linux takes the pages for clean, though the device lacks them. Who opens the database later would recover
//! their frames from the page cache as if nothing had happened, append commits behind them, and flush only what is new: on the
//! device the chain of frames has a hole, and a power failure takes every commit behind it. So when the last connection closes after
//! a failed flush, the WAL is written once more, as it reads: all of it, since what another process wrote may be what the error is about, and this
//! one cannot know what has been saved. Whatever it is, cache and device have the same after the next flush that succeeds.
//!
//! Commits whose flush was put off others see already, and another process may commit on top of them: theirs are written again at once, when
//! the flush has failed. A process that had the WAL open before gets the error too at its next flush (Linux since 4.13 tells it to
//! every open file once) and acknowledges nothing; one that opens it later finds bytes that its own flush will save.
//!
//! A WAL that was [taken up](super::kept) has its first frame made valid by a write that the first flush is to save. It too is written again
//! at once, by whoever's flush failed: no other process would do it, since SQLite writes the begin of a WAL only when it begins one.
//!
//! If that fails, or another process keeps the database open, it is done later: when this process opens the database again, before its
//! first frame or the sync of a checkpoint, under the write lock. (A process that dies after a failed fsync leaves what stock SQLite
//! leaves.)

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::error::Code;
use crate::port::Below;
use crate::sync::{Mutex, lock};
use crate::wal_file::{FRAME_HEADER_BYTES, HEADER_BYTES};

const PIECE_BYTES: usize = 64 << 10;

/// Databases, by their paths, whose WAL is unsure though no connection of this process is left.
static LEFT: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// The last connection of this process is gone, and the WAL is still unsure.
pub fn leave(path: &str) {
    lock(&LEFT).insert(path.to_owned());
}

/// What this process left at its last close of the database.
pub fn take(path: &str) -> bool {
    lock(&LEFT).remove(path)
}

/// Writes the header of the WAL, and that of its first frame, again.
pub fn write_first_again(wal: &dyn Below) -> Result<(), Code> {
    write_again(wal, HEADER_BYTES + FRAME_HEADER_BYTES as u64)
}

/// Writes what is before `end_bytes` again. The caller keeps from it all who could write there.
pub fn write_again(wal: &dyn Below, end_bytes: u64) -> Result<(), Code> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < end_bytes {
        let len = (end_bytes - at).min(PIECE_BYTES as u64) as usize;
        wal.read(&mut piece[..len], at)?;
        wal.write(&piece[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::test_wal::Wal;

    #[test]
    fn all_that_is_before_the_end_is_written_again_as_it_is_and_nothing_behind() {
        let wal = Wal::default();
        wal.extend((0..3 * PIECE_BYTES + 1000).map(|at| (at % 251) as u8));
        let before = wal.bytes();
        let end = 2 * PIECE_BYTES + 77;
        write_again(&wal, end as u64).unwrap();
        assert_eq!(wal.written(), (end, end));
        assert_eq!(wal.bytes(), before);
    }
}
