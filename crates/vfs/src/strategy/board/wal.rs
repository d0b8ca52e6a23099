//! What a board says of a log that is the WAL itself (`waldio`). SQLite's write lock is held by who
//! changes it, but for flushes.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use oneflush_blocklog::{Lsn, Uuid};

use super::Board;
use super::words::Word;
use crate::error::Code;

impl Board {
    /// The WAL begins anew: frames get other contents.
    pub fn begin_wal(&self) {
        self.word(Word::Generation).fetch_add(1, SeqCst);
        self.set(Word::Written, 0);
        self.set(Word::Logged, 0);
    }

    /// Notes that a write to the log begins or has ended. Answers the count.
    pub fn writes(&self) -> u64 {
        self.word(Word::Writes).fetch_add(1, SeqCst) + 1
    }

    pub fn write_count(&self) -> u64 {
        self.get(Word::Writes)
    }

    /// True if all that was ever written to the log is durable.
    ///
    /// A flush covers the writes that had ended when it began. A write that runs meanwhile counts
    /// once more when it ends. So the counts are equal only if the flush covers it.
    pub fn is_flushed(&self) -> bool {
        self.get(Word::Flushed) == self.get(Word::Writes)
    }

    /// A flush that began at this count of writes has succeeded.
    pub fn note_flushed(&self, writes: u64) {
        self.word(Word::Flushed).fetch_max(writes, SeqCst);
    }

    /// These frames were written to the log.
    pub fn wrote(&self, first: u32, last: u32) {
        self.word(Word::Logged).fetch_min(u64::from(first) - 1, SeqCst);
        self.set(Word::Written, u64::from(last));
    }

    /// The frames up to this are durable. They were all written when the flush began.
    pub fn note_logged(&self, frame: u32) {
        // Otherwise some of them were rolled back and written anew meanwhile.
        if self.written() >= frame {
            self.word(Word::Logged).fetch_max(u64::from(frame), SeqCst);
        }
    }

    /// Another process waits for frames that this one may hold.
    pub fn frames_are_wanted(&self) -> bool {
        self.get(Word::FramesWanted) != 0
    }

    /// Waits until no process holds frames. Frames are held for a few milliseconds.
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
                Ok(false) => {}
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
