//! How a process comes to use a log and leaves it: from the opening of the image to the retirement
//! of the log. The steps of making and retiring are those of [`log_life`].
//!
//! [`log_life`]: crate::strategy::log_life

use std::time::Instant;

use oneflush_blocklog::Uuid;

use super::recover::{self, Recovered};
use super::{EagerLog, Stale, State};
use crate::config::Options;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::port::{Below, LockLevel};
use crate::stats::clock;
use crate::strategy::guard;
use crate::strategy::log_life::{AttachError, Attached, How, write_guard};
use crate::sync::lock;
use crate::wal_file::WalFile;

impl EagerLog {
    /// To be called before a connection opens the image. Opens or makes the log, and sets the
    /// guard. `level` is the connection's lock on the database. After each success
    /// [`EagerLog::closed_image`] must follow.
    pub fn before_image(
        &self,
        main: &dyn Below,
        level: LockLevel,
        options: &Options,
    ) -> Result<(), Error> {
        let _opening = self.life.begin_opening(main)?;
        let mut state = self.state();
        if state.images_open == 0 {
            // The log was not in use since. Others may have closed the database, and its log may be
            // another one.
            self.forget(&mut state);
        }
        if state.open.is_none() {
            self.life.files.claim_image(&self.image_path())?;
            let attached = self.life.attach(main, level, options);
            self.use_log(&mut state, attached.map_err(|error| self.life.refuse(&error))?);
        }
        state.images_open += 1;
        self.note_space();
        Ok(())
    }

    /// A connection is about to use the log for the first time. [`EagerLog::remove_user`] must
    /// follow.
    pub fn add_user(&self) {
        self.state().users += 1;
    }

    /// Uses a log that this process has joined. A process that is alone keeps the board's lock
    /// until the image is whole.
    fn use_log(&self, state: &mut State, attached: Attached<super::OpenLog>) {
        let Attached { mut log, board, how } = attached;
        state.image = match how {
            How::Beside => Stale::No,
            How::Made => Stale::Empty,
            How::Alone if board.can_go_on(log.log.uuid(), log.page_bytes, &self.image_path()) => {
                Stale::Check
            }
            How::Alone => {
                log.unsure = board.begin(log.log.uuid(), log.page_bytes);
                Stale::Rebuild
            }
        };
        state.open = Some(log);
        self.own_board.set(board);
    }

    /// A connection has opened the image. The first one builds it.
    pub fn opened_image(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Error> {
        let mut state = self.state();
        let result = self.prepare_image(&mut state, main, image);
        if let Err(error) = result {
            if image.size_bytes() == Ok(0) {
                // This very open has made the file.
                let _ = self.life.files.delete(&self.image_path(), false);
            }
            self.forget(&mut state);
            return Err(self.life.refuse(&error));
        }
        Ok(())
    }

    fn prepare_image(
        &self,
        state: &mut State,
        main: &dyn Below,
        image: &dyn Below,
    ) -> Result<(), AttachError> {
        let board = self.board();
        let Some(log) = state.open.as_mut() else { return Err(AttachError::Below(Code::BUSY)) };
        if state.image == Stale::Check {
            let of = WalFile { file: image, page_bytes: log.page_bytes };
            if log.ends_as(&board) && of.continues(0, board.committed())? {
                // The bits for contained pages are in other memory pages of the board's file. They
                // may be older than the rest.
                board.forget_contained();
                board.set_open();
                state.image = Stale::No;
                board.common().unlock(0..0);
                return Ok(());
            }
            log.unsure = board.begin(log.log.uuid(), log.page_bytes);
            state.image = Stale::Rebuild;
        }
        // In a child of a fork SQLite has the WAL index of the image as it was before.
        if state.image != Stale::No && self.life.files.is_inherited(&self.life.path) {
            return Err(AttachError::Inherited);
        }
        match state.image {
            Stale::No | Stale::Check => return Ok(()),
            Stale::Empty => WalFile { file: image, page_bytes: log.page_bytes }.empty()?,
            Stale::Rebuild => {
                let began = Instant::now();
                let salt = Uuid::random()?.0;
                let word = |at: usize| {
                    u32::from_ne_bytes([salt[at], salt[at + 1], salt[at + 2], salt[at + 3]])
                };
                let page_bytes = log.page_bytes;
                let will_read =
                    |pages: &[u32]| self.life.files.will_read(&self.life.path, pages, page_bytes);
                let recovered = recover::run(log, main, image, [word(0), word(4)], &will_read)?;
                board.set_sure();
                KillPoint::Rebuilt.reached();
                if board.is_guard_unsure() {
                    // A page 1 in the log is newer than the file's.
                    if !log.pages.contains_key(&1) {
                        log.log_page_one(main)?;
                    }
                    let header = guard::header(main)?;
                    write_guard(&board, main, &header)?;
                }
                state.recovered =
                    Some(Recovered { time_ns: began.elapsed().as_nanos() as u64, ..recovered });
            }
        }
        board.note_committed(log.logged);
        log.show_contained(&board);
        board.set_since_ns(clock::now_ns());
        log.show(&board);
        board.identify(&self.image_path());
        board.set_open();
        KillPoint::Opened.reached();
        state.image = Stale::No;
        board.common().unlock(0..0);
        Ok(())
    }

    /// A connection has closed the image, or failed to open it. The log stays open until the last
    /// connection that used it is closed, or [`EagerLog::retire`] is called.
    pub fn closed_image(&self) {
        let mut state = self.state();
        state.images_open -= 1;
        if state.images_open == 0 {
            self.image.closed();
            if state.image != Stale::No {
                self.forget(&mut state);
            }
        }
    }

    /// A connection that has used the log is closed. After the last one the log stays for the next
    /// opener. (A connection that has only closed the image may be about to retire the log.)
    pub fn remove_user(&self) {
        let mut state = self.state();
        state.users -= 1;
        if state.users == 0 {
            self.forget(&mut state);
        }
    }

    fn forget(&self, state: &mut State) {
        if state.open.is_some() {
            let board = self.own_board.leave();
            if state.image != Stale::No {
                self.life.tidy(&board);
                board.common().unlock(0..0);
            }
        }
        let &mut State { users, images_open, recovered, .. } = state;
        *state = State { users, images_open, recovered, ..State::default() };
        lock(&self.unlogged).clear();
    }

    /// Takes guard and log away. SQLite deletes its WAL: the database file has everything, and
    /// SQLite has it locked exclusively.
    pub fn retire(&self, main: &dyn Below) -> Result<(), Error> {
        if self.state().open.is_none() {
            return self.life.loses_wal().map_err(|error| self.life.refuse(&error));
        }
        let board = self.board();
        // The sync comes first. If a process has died with the log, `with_log` begins an epoch that
        // stands on the database file.
        board.sync_database(main).inspect_err(|&code| self.life.database_failed(&board, code))?;
        self.with_log(None, |log, board| self.life.take_guard_away(board, log, main))?;
        self.forget(&mut self.state());
        Ok(self.life.remove()?)
    }
}
