//! What a crash may have left of a database file that SQLite would stumble over or not see: it is mended when a connection opens the file.
//!
//! | found | left by | mended by |
//! |---|---|---|
//! | page 1 garbled | a crash while it was written | SQLite, from its journal or WAL, or from the log |
//! | the guard, and a WAL of SQLite's own | a close that was not synced; SQLite alone went on | taking the guard away again; then as the next |
//! | no guard, and a WAL of SQLite's own | SQLite alone, `stock`, `plain` | copying it into the database file |

use oneflush_blocklog::{Error as LogError, Log};

use super::attach::write_guard;
use super::attach_error::AttachError;
use super::board::Board;
use super::files::{log_path, wal_path};
use super::{EagerLog, guard, recover};
use crate::error::{Code, Error};
use crate::strategy::Below;

impl EagerLog {
    /// A connection has opened the database.
    pub fn opened_database(&self, main: &dyn Below) -> Result<(), Error> {
        let header = match guard::header(main) {
            Ok(header) => header,
            Err(Code::SHORT_READ) => return Ok(()),
            Err(code) => return Err(code.into()),
        };
        let mended = if !guard::is_database(&header) {
            self.mend_header(main)
        } else if guard::of(&header).is_some() {
            self.end_close_again(main)
        } else {
            self.fold_wal()
        };
        mended.map_err(|error| self.refuse(&error))
    }

    /// A WAL of SQLite's own, or of strategy `plain`, goes into the database file first.
    fn fold_wal(&self) -> Result<(), AttachError> {
        let wal = wal_path(&self.path);
        if !self.files.is_there(&wal)? {
            return Ok(());
        }
        if !self.files.fold_wal(&self.path).map_err(AttachError::Fold)? {
            return Err(AttachError::FoldNoDatabase);
        }
        if self.files.is_there(&wal)? { Err(AttachError::OtherStrategy) } else { Ok(()) }
    }

    /// A crash has garbled the first page while it was written, and with it the guard.
    fn mend_header(&self, main: &dyn Below) -> Result<(), AttachError> {
        // What SQLite can recover by itself is its business: from a journal it does so through us, from a WAL of its own only without us.
        if self.files.exists(&format!("{}-journal", self.path))? {
            return Ok(());
        }
        if !self.files.exists(&wal_path(&self.path))? {
            return self.restore_page_one(main);
        }
        match self.fold_wal() {
            // Then SQLite alone has not written the page either, since the close whose write it is that was lost.
            Err(AttachError::FoldNoDatabase) => {}
            folded => return folded,
        }
        self.restore_page_one(main)?;
        let header = guard::header(main)?;
        if guard::of(&header).is_some() { self.end_close_again(main) } else { Err(AttachError::FoldNoDatabase) }
    }

    /// A WAL of SQLite's own beside a guarded database: the last close had taken the guard away, but that did not reach the device before power was
    /// lost, while SQLite alone had gone on. The log says that it holds no commit then, so the close can be ended again. (Any other log stays, and
    /// [`attach`](super::attach) refuses both.)
    fn end_close_again(&self, main: &dyn Below) -> Result<(), AttachError> {
        if !self.files.exists(&wal_path(&self.path))? {
            return Ok(());
        }
        let mut has_ended = false;
        self.if_alone(|board| {
            let mut header = guard::header(main)?;
            if let Some(wanted) = guard::of(&header) {
                let Some(file) = self.files.open_log(&log_path(&self.path))? else { return Ok(()) };
                match Log::open(file) {
                    Ok(log) if log.uuid() == wanted && !recover::holds_commits(&log)? => {}
                    _ => return Ok(()),
                }
                guard::hide(&mut header);
                write_guard(board, main, &header)?;
            }
            has_ended = true;
            Ok(())
        })?;
        if has_ended { self.fold_wal() } else { Ok(()) }
    }

    fn restore_page_one(&self, main: &dyn Below) -> Result<(), AttachError> {
        self.if_alone(|board| {
            let header = guard::header(main)?;
            let Some(file) = self.files.open_log(&log_path(&self.path))?.filter(|_| !guard::is_database(&header))
            else {
                return Ok(());
            };
            let log = match Log::open(file) {
                Ok(log) => log,
                // Its making was not finished, so the guard was not set.
                Err(LogError::Unfinished) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            // Whatever a crash can leave of page 1, the log has it then.
            let mut page = recover::page_one(&log)?.ok_or(AttachError::HeaderDamaged)?;
            guard::set(&mut page, log.uuid());
            main.write(&page, 0)?;
            Ok(write_guard(board, main, &page)?)
        })
    }

    /// Mends the database file if there is a log and nobody uses it: one that somebody uses is one whose database has been mended.
    fn if_alone(&self, mend: impl FnOnce(&Board) -> Result<(), AttachError>) -> Result<(), AttachError> {
        let _state = self.state();
        if !self.files.exists(&log_path(&self.path))? {
            return Ok(());
        }
        let board = Board::new(self.files.common(&self.path)?);
        let alone = board.common().join();
        let result = match alone {
            Ok(false) | Err(Code::BUSY) => Ok(()),
            Ok(true) => mend(&board),
            Err(code) => Err(code.into()),
        };
        if alone.is_ok() {
            board.common().leave();
        }
        self.tidy(&board);
        board.common().unlock(0..0);
        result
    }
}
