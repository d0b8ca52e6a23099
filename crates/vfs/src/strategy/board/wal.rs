//! What a board says of a log that is the WAL itself (`waldio`). SQLite's write lock is held by who
//! changes it, but for flushes.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use oneflush_blocklog::{Lsn, Uuid};

use super::Board;
use super::words::Word;
use crate::error::Code;

/// What a flush covers.
pub struct Covered {
    writes: u64,
    written: u32,
    rewinds: u64,
    logged: u32,
}

impl Board {
    /// The WAL begins anew: frames get other contents.
    pub fn begin_wal(&self) {
        self.word(Word::Generation).fetch_add(1, SeqCst);
        self.word(Word::Rewinds).fetch_add(1, SeqCst);
        self.set(Word::Written, 0);
        self.set(Word::Logged, 0);
    }

    /// Notes that a write to the log begins or has ended. Answers the count.
    pub fn writes(&self) -> u64 {
        self.word(Word::Writes).fetch_add(1, SeqCst) + 1
    }

    /// True if all that was ever written to the log is durable.
    ///
    /// A flush covers the writes that had ended when it began. A write that runs meanwhile counts
    /// once more when it ends. So the counts are equal only if the flush covers it.
    pub fn is_flushed(&self) -> bool {
        self.get(Word::Flushed) == self.get(Word::Writes)
    }

    /// A write that was durable when it returned has succeeded, and so have all before it. The
    /// caller has the write lock.
    pub fn note_durable(&self, writes: u64, last: u32) {
        self.word(Word::Flushed).fetch_max(writes, SeqCst);
        self.note_logged(last);
    }

    /// What a flush covers that begins now.
    pub fn covered(&self) -> Covered {
        let rewinds = self.get(Word::Rewinds);
        Covered {
            writes: self.get(Word::Writes),
            written: self.written(),
            rewinds,
            logged: self.logged(),
        }
    }

    /// The flush has succeeded.
    pub fn note_flushed(&self, covered: &Covered) {
        let is_as_it_was = || self.get(Word::Rewinds) == covered.rewinds;
        self.word(Word::Flushed).fetch_max(covered.writes, SeqCst);
        if is_as_it_was() {
            self.note_logged(covered.written);
            if !is_as_it_was() {
                self.word(Word::Logged).fetch_min(u64::from(covered.logged), SeqCst);
            }
        }
    }

    /// [`is_flushed`](Board::is_flushed). If so, notes it of the frames. A flush may have covered
    /// more of them than it knew of: a commit that was written by the flush leader counts later.
    pub fn note_if_flushed(&self) -> bool {
        // First: frames that are written meanwhile are not covered.
        let covered = self.covered();
        let is_flushed = self.is_flushed();
        if is_flushed {
            self.note_flushed(&covered);
        }
        is_flushed
    }

    /// Notes that frames from this one on are about to be written over, or were: those of a
    /// transaction that was rolled back, or pages that a transaction changes again. No flush that
    /// began earlier covers them.
    pub fn writes_over(&self, first: u32) {
        if first <= self.written() {
            self.word(Word::Rewinds).fetch_add(1, SeqCst);
            self.word(Word::Logged).fetch_min(u64::from(first) - 1, SeqCst);
        }
    }

    /// These frames were written, some of them over others. There may be more behind them.
    pub fn wrote_over(&self, first: u32, last: u32) {
        self.writes_over(first);
        self.word(Word::Written).fetch_max(u64::from(last), SeqCst);
    }

    /// These frames were written to the log, the last of all.
    pub fn wrote(&self, first: u32, last: u32) {
        self.writes_over(first);
        self.set(Word::Written, u64::from(last));
    }

    /// The frames up to this are durable.
    pub fn note_logged(&self, frame: u32) {
        self.word(Word::Logged).fetch_max(u64::from(frame), SeqCst);
    }

    /// Another process waits for frames that this one may hold.
    pub fn frames_are_wanted(&self) -> bool {
        self.get(Word::FramesWanted) != 0
    }

    /// Waits until no process holds frames. Frames are held for a few milliseconds, and after a
    /// failure until their process closes the log.
    pub fn wait_for_frames(&self, patience: Duration) -> Result<(), Code> {
        if self.0.read_frames()? {
            return Ok(());
        }
        let deadline = Instant::now() + patience;
        self.word(Word::FramesWanted).fetch_add(1, SeqCst);
        let mut result = Err(Code::BUSY);
        while result.is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
            match self.0.read_frames() {
                Ok(true) => result = Ok(()),
                Ok(false) => {
                    if let Some(code) = self.failure() {
                        result = Err(code);
                        break;
                    }
                }
                Err(code) => {
                    result = Err(code);
                    break;
                }
            }
        }
        self.word(Word::FramesWanted).fetch_sub(1, SeqCst);
        result
    }

    /// The frames of this log that were durable when its last user left it. `None`: the system was
    /// started since. Then all that can be read is durable. `log` is the log's path.
    pub fn durable_before(&self, uuid: Uuid, log: &str) -> Option<u32> {
        let is_of_now = self.has_our_layout()
            && self.uuid() == uuid
            && self.get(Word::Identity) == self.0.identity(log);
        is_of_now.then(|| self.logged())
    }

    /// The frames behind `durable` may be on the device or not.
    pub fn set_unsure_behind(&self, durable: u32) {
        self.set(Word::Unsure, u64::from(durable) + 1);
        self.set(Word::Logged, u64::from(durable));
    }

    /// A write or sync has failed. The frames behind `durable` may be there or not.
    pub fn fail_behind(&self, code: Code, durable: u32) {
        self.fail(code, Some(Lsn(u64::from(durable) + 1)));
    }
}
