//! What a failed flush leaves behind: a WAL that is unsure.
//!
//! **The problem.** After a failed fsync Linux takes the pages for clean, though the device lacks
//! them. A later opener would recover their frames from the page cache as if nothing had happened.
//! It would append commits behind them and flush only what is new. On the device the chain of
//! frames then has a hole. A power failure takes every commit behind the hole.
//!
//! **The remedy** is to write the same bytes again. After the next flush that succeeds, cache and
//! device have the same, whatever it is.
//!
//! | when | what is written again |
//! |---|---|
//! | the flush of a commit that was put off has failed | the WAL up to the end of that commit |
//! | a flush has failed | the WAL's header and the header of its first frame |
//! | the last connection closes after a failed flush | all of the WAL, as it reads |
//! | that failed, or another process has the database open | all of the WAL, later |
//!
//! - Other connections already see a commit whose flush was put off. Another process may commit on
//!   top of it. So its frames are written again at once.
//! - A WAL that was [taken up](super::kept) has a first frame made valid by a write that the first
//!   flush is to save. No other process would write it again: SQLite writes the begin of a WAL only
//!   when it begins one. So the process whose flush failed does it at once.
//! - At the last close all of the WAL is written. The error may be about what another process
//!   wrote, and this process cannot know what has been saved.
//! - "Later" is when this process opens the database again. It is before its first frame or the
//!   sync of a checkpoint, under the write lock.
//!
//! Other processes:
//!
//! - Linux since 4.13 tells an error to every open file once. A process that had the WAL open
//!   before gets the error at its next flush, and acknowledges nothing.
//! - A process that opens the WAL later finds bytes that its own flush will save.
//! - A process that dies after a failed fsync leaves what stock SQLite leaves.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::error::Code;
use crate::port::Below;
use crate::sync::StaticMutex;
use crate::wal_file::{FRAME_HEADER_BYTES, HEADER_BYTES};

const PIECE_BYTES: usize = 64 << 10;

/// The paths of the databases whose WAL is unsure though this process has no connection left.
static LEFT: LazyLock<StaticMutex<HashSet<String>>> = LazyLock::new(StaticMutex::default);

/// Notes that the WAL is still unsure while the last connection of this process is gone.
pub fn leave(path: &str) {
    LEFT.lock().insert(path.to_owned());
}

/// True if this process left the WAL unsure at its last close of the database. Forgets the note.
pub fn take(path: &str) -> bool {
    LEFT.lock().remove(path)
}

/// Writes the header of the WAL and the header of its first frame again.
pub fn write_first_again(wal: &dyn Below) -> Result<(), Code> {
    write_again(wal, HEADER_BYTES + FRAME_HEADER_BYTES as u64)
}

/// Writes the first `end_bytes` of the WAL again. The caller keeps out all who could write there.
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
