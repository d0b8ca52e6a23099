//! How a process joins those that use a log, and whose board it then has (invariants 5 to 11).

use std::sync::atomic::Ordering::SeqCst;

use oneflush_blocklog::{Lsn, Uuid};

use super::Board;
use super::words::{LAYOUT, Word};
use crate::error::Code;
use crate::kill_point::KillPoint;

impl Board {
    /// Under the board's lock: this process uses the log from now on. True: no other process does.
    /// `SQLITE_BUSY`: another process has *alone*.
    pub fn join(&self) -> Result<bool, Code> {
        let alone = self.0.be_alone()?;
        if alone {
            self.set(Word::Open, 0);
        }
        // This is not one step. A process that takes *use* in between finds `Open` clear.
        KillPoint::Alone.reached();
        self.0.begin_use()?;
        self.0.show_use();
        Ok(alone)
    }

    /// Joins without the board's lock, if others use this log (invariant 9). False: the caller
    /// needs the lock.
    pub fn join_beside(&self, uuid: Uuid) -> Result<bool, Code> {
        if !self.0.is_shown() || !self.is_open_for(uuid) {
            return Ok(false);
        }
        KillPoint::Seen.reached();
        match self.0.begin_use() {
            Err(Code::BUSY) => return Ok(false),
            result => result?,
        }
        KillPoint::Using.reached();
        let joined = self.0.is_there() && self.is_open_for(uuid);
        if joined {
            self.0.show_use();
        } else {
            self.0.leave();
        }
        Ok(joined)
    }

    fn is_open_for(&self, uuid: Uuid) -> bool {
        self.has_our_layout() && self.is_open() && self.uuid() == uuid
    }

    /// Board and image are whole.
    pub fn is_open(&self) -> bool {
        self.get(Word::Open) != 0
    }

    /// Board and image are whole from now on (invariant 7).
    pub fn set_open(&self) {
        debug_assert!(self.has_our_layout(), "invariant 7: an open board is whole");
        debug_assert!(self.failure().is_none(), "invariant 4: a log that failed is not opened");
        self.set(Word::Open, 1);
    }

    /// True if a process that is alone may go on with this board and the image at this path
    /// (invariant 5).
    pub fn can_go_on(&self, uuid: Uuid, page_bytes: usize, image: &str) -> bool {
        let identity = self.0.identity(image);
        identity != 0
            && self.has_our_layout()
            && self.get(Word::Identity) == identity
            && self.uuid() == uuid
            && self.page_bytes() == page_bytes
            && self.failure().is_none()
            && !self.has_failed_append()
            && !self.is_guard_unsure()
    }

    /// The board was made by a version of Oneflush with the same layout.
    pub fn has_our_layout(&self) -> bool {
        self.get(Word::Layout) == LAYOUT
    }

    /// Marks board and image so that a later process may go on with both.
    pub fn identify(&self, image: &str) {
        self.set(Word::Identity, self.0.identity(image));
    }

    /// Makes the board anew (invariant 5). Answers where the records of this log begin that the
    /// last user left unsure.
    ///
    /// The board says so at each moment. A process may die in this call, and the next one has to
    /// know.
    pub fn begin(&self, uuid: Uuid, page_bytes: usize) -> Option<Lsn> {
        debug_assert!(!self.is_open(), "invariant 8: only who was alone makes the board anew");
        let unsure = self.unsure().filter(|_| self.uuid() == uuid);
        self.set(Word::Unsure, unsure.map_or(0, |lsn| lsn.0));
        let stay = [Word::Unsure, Word::GuardUnsure, Word::UuidHigh, Word::UuidLow, Word::Layout];
        for (at, word) in self.0.words().iter().enumerate() {
            if !stay.iter().any(|&other| other as usize == at) {
                word.store(0, SeqCst);
            }
        }
        let (high, low) = uuid.0.split_at(8);
        for (word, half) in [(Word::UuidHigh, high), (Word::UuidLow, low)] {
            self.set(word, half.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)));
        }
        self.set(Word::PageBytes, page_bytes as u64);
        self.set(Word::Layout, LAYOUT);
        unsure
    }

    pub fn uuid(&self) -> Uuid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.get(Word::UuidHigh).to_be_bytes());
        bytes[8..].copy_from_slice(&self.get(Word::UuidLow).to_be_bytes());
        Uuid(bytes)
    }

    pub fn page_bytes(&self) -> usize {
        self.get(Word::PageBytes) as usize
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use oneflush_blocklog::{Epoch, Head};

    use super::super::{Private, Shown};
    use super::*;

    #[test]
    fn a_new_board_knows_what_a_dead_process_has_left_unsure() {
        let board = Board::new(Arc::new(Private::default()));
        let (uuid, other) = (Uuid([1; 16]), Uuid([2; 16]));
        assert_eq!(board.begin(uuid, 4096), None);
        let lsn = Lsn(5);
        let head = Head { epoch: Epoch(1), position: 8192, lsn, previous: 7, lane_bytes: 1 << 16 };
        board.set_busy(true);
        board.show(&Shown {
            head,
            begun: true,
            on_image: false,
            records_in_epoch: 5,
            pages: 1,
            logged: 0,
        });
        board.set_busy(false);
        assert_eq!(board.unsure(), None, "all records were acknowledged");
        board.set_busy(true);
        for _ in 0..2 {
            assert_eq!(board.begin(uuid, 4096), Some(Lsn(6)), "also by who died in this very call");
            assert!(!board.is_busy());
        }
        board.set_sure();
        assert_eq!(board.begin(uuid, 4096), None);
        board.fail(Code::IOERR_FSYNC, Some(Lsn(9)));
        assert_eq!(board.begin(other, 4096), None, "that is another log");
    }
}
