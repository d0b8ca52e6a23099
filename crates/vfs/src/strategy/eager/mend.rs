//! What a crash may have left of a database file that SQLite would stumble over or not see: it is mended when a connection opens the file.
//!
//! | found | left by | mended by |
//! |---|---|---|
//! | page 1 garbled | a crash while it was written | SQLite, from its journal or WAL, or from the log |
//! | the guard, and a WAL of SQLite's own | a close that was not synced; SQLite alone went on | taking the guard away again; then as the next |
//! | no guard, and a WAL of SQLite's own | SQLite alone, `stock`, `plain` | copying it into the database file |
//! | a rollback mode, or nothing, and a log or an image | a backup in the place of a database that has crashed | setting the log aside |
//! | no database, and a log | the same, with an encrypted file ([`garbled`]) | nothing: it is refused, and no file is changed |

use oneflush_blocklog::{Error as LogError, Log};

use super::attach::write_guard;
use super::attach_error::AttachError;
use super::board::Board;
use super::{EagerLog, garbled, recover};
use crate::error::{Code, Error};
use crate::names::{log_path, wal_path};
use crate::port::Below;
use crate::strategy::guard;

impl EagerLog {
    /// A connection has opened the database. What lies beside the file decides nothing before its header is looked at.
    pub fn opened_database(&self, main: &dyn Below) -> Result<(), Error> {
        let mended = match guard::header(main) {
            // An empty file is a database without content: SQLite deletes its WAL.
            Err(Code::SHORT_READ) if main.size_bytes()? == 0 => self.fold_wal_without_use(),
            Err(Code::SHORT_READ) => return Ok(()),
            Err(code) => return Err(code.into()),
            Ok(header) if !guard::is_database(&header) => self.mend_header(main),
            Ok(header) if guard::of(&header).is_some() => self.end_close_again(main),
            Ok(header) if !guard::has_wal(&header) => self.fold_wal_without_use(),
            Ok(_) => self.fold_wal(),
        };
        mended.map_err(|error| self.refuse(&error))?;
        // Nobody needs it to succeed: while the header says that there is no WAL, SQLite is shown none ([`EagerLog::has_wal`]).
        let _ = self.clear_the_way(main);
        Ok(())
    }

    /// False if SQLite is to see no WAL of this database, though there may be an image: of what was here before.
    pub fn has_wal(&self, main: &dyn Below) -> Result<bool, Code> {
        match guard::header(main) {
            Err(Code::SHORT_READ) => Ok(false),
            header => Ok(guard::has_wal(&header?)),
        }
    }

    /// A backup in a rollback mode, or an empty file, was put in the place of a database that has crashed: its log is set aside, and the image goes.
    fn clear_the_way(&self, main: &dyn Below) -> Result<(), AttachError> {
        let needs_none = || -> Result<bool, Code> {
            match guard::header(main) {
                Err(Code::SHORT_READ) => Ok(main.size_bytes()? == 0),
                header => header.map(|header| guard::is_database(&header) && !guard::has_wal(&header)),
            }
        };
        let is_beside = |path: &str| self.files.is_there(path);
        let (log, image) = (log_path(&self.path), self.image_path());
        if !(is_beside(&log)? || is_beside(&image)?) || !needs_none()? {
            return Ok(());
        }
        let _state = self.state();
        let board = self.lock_board()?;
        // Whoever sets the guard has this lock: so if there is still none, there is none until it is released.
        let result = needs_none().map_err(AttachError::from).and_then(|needs_none| {
            if needs_none {
                self.set_log_aside(&board, &log)?;
                self.files.delete(&image, false)?;
                self.files.delete(&log, false)?;
            }
            Ok(())
        });
        self.tidy(&board);
        board.common().unlock(0..0);
        result
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

    /// The same where the header says that there is no WAL: SQLite takes one that is there nevertheless, unless it is empty, and leaves that alone.
    fn fold_wal_without_use(&self) -> Result<(), AttachError> {
        if self.files.exists(&wal_path(&self.path))? { self.fold_wal() } else { Ok(()) }
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
            if !garbled::is_likely(main, page.len() as u64, recover::pages_of(&log)?.as_ref())? {
                return Err(AttachError::NoDatabase);
            }
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
        let board = self.lock_board()?;
        let alone = board.join();
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
