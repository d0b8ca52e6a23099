//! What ends the commits of a process from outside the protocol: a panic, and what other programs
//! do to the files in use.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use super::MawLog;
use crate::config::Options;
use crate::engine::{self, Harm};
use crate::error::{Code, Error};
use crate::port::{Below, LockLevel};
use crate::strategy::board::Board;
use crate::strategy::guard;
use crate::strategy::maw::OpenLog;
use crate::strategy::maw::log_lock::under_lock;

impl MawLog {
    /// A connection of this process is about to write.
    pub fn writes(&self) -> Result<(), Code> {
        self.has_written.store(true, Relaxed);
        self.has_not_panicked()
    }

    pub(super) fn has_not_panicked(&self) -> Result<(), Code> {
        if self.has_panicked.load(Relaxed) { Err(Code::PANICKED) } else { Ok(()) }
    }

    /// A panic was stopped at a callback. Nobody knows what it has left half done.
    #[cold]
    pub fn panicked(&self) {
        if !self.has_panicked.swap(true, Relaxed) {
            self.life.files.warn(&engine::told_panic(&self.life.path));
        }
        let mut state = self.state();
        if state.open.is_some() && !state.board.is_open() {
            // It was alone, and made board and file ready.
            state.detach();
        }
    }

    pub fn has_written(&self) -> bool {
        self.has_written.load(Relaxed)
    }

    /// While there is a guard, only commits of the log change the file. Another counter than the
    /// last commit has left: another program has written over the file, and pages of two databases
    /// must not become one.
    pub fn must_be_as_left(
        &self,
        board: &Board,
        log: &mut OpenLog,
        header: &[u8],
        options: &Options,
    ) -> Result<(), Error> {
        let (left, found) = (board.change_counter(), guard::change_counter(header));
        if left.is_none() || left == found || !options.has_seatbelt() {
            return Ok(());
        }
        under_lock(board, || {
            log.why_failed = Some("another program has written over the database file".to_owned());
            self.log_failed(board, log, Code::IOERR_WRITE);
            Err(Error::Below(Code::IOERR_WRITE))
        })
    }

    /// Says what became of a file in use, and saves what was acknowledged, once: the database file
    /// has all of it. `level` is the caller's lock.
    #[cold]
    pub(crate) fn save_orphan(&self, main: &dyn Below, level: LockLevel, harm: &Harm) {
        let read = |buffer: &mut [u8], offset| guard::read(main, buffer, offset);
        let path = &self.life.path;
        let save = || match self.state().board.is_busy() {
            true => Err(io::Error::other("a commit is not finished")),
            false => engine::save(path, main, &read, None),
        };
        self.saved.once(harm, main, |is_first| {
            let saved = is_first.then(|| engine::while_whole(path, main, level, save));
            self.life.files.warn(&harm.told(path, saved));
        });
    }
}
