//! Mends a database file when a connection opens it. SQLite would stumble over what a crash has
//! left, or not see it.
//!
//! | found | left by | mended by |
//! |---|---|---|
//! | page 1 garbled | a crash while it was written | SQLite, by journal or WAL; or the log |
//! | the guard, and SQLite's own WAL | an undone close | removing the guard; then as below |
//! | no guard, and SQLite's own WAL | SQLite, `stock`, `plain` | copying it into the database |
//! | no WAL mode; a log or an image | a backup over a crashed database | setting the log aside |
//! | no guard, a log without commits; `maw` | a death while it was made or retired | removing it |
//! | no database, and a log | the same, encrypted ([`garbled`]) | nothing: it is refused |
//!
//! - A close is *undone* when it was not synced, SQLite alone went on, and power was lost.
//! - "No WAL mode" is a rollback mode, or an empty file.
//! - Where the file is refused, no file is changed.

use oneflush_blocklog::Error as LogError;

use super::{AttachError, KeptLog, LogLife, garbled, write_guard};
use crate::config::Options;
use crate::error::{Code, Error};
use crate::names::{board_path, journal_path, wal_path};
use crate::port::{Below, SyncRequest};
use crate::strategy::board::Board;
use crate::strategy::guard;
use crate::sync::lock;

/// The smallest sector that a device writes whole or not. A crash garbles all of it or nothing.
const HEADER_SECTOR_BYTES: usize = 512;

impl<L: KeptLog> LogLife<L> {
    /// A connection has opened the database. The header decides first, then the files beside the
    /// database.
    pub fn opened_database(&self, main: &dyn Below) -> Result<(), Error> {
        let mended = match guard::header(main) {
            // An empty file is a database without content. SQLite would delete its WAL.
            Err(Code::SHORT_READ) if main.size_bytes()? == 0 => self.fold_wal_without_use(),
            Err(Code::SHORT_READ) => return Ok(()),
            Err(code) => return Err(code.into()),
            Ok(header) if !guard::is_database(&header) => self.mend_header(main),
            Ok(header) if guard::of(&header).is_some() => self.end_close_again(main),
            Ok(header) if !guard::has_wal(&header) => self.fold_wal_without_use(),
            Ok(_) => self.fold_wal(),
        };
        mended.map_err(|error| self.refuse(&error))?;
        // A failure here does no harm. While the header says that there is no WAL, SQLite sees none
        // ([`LogLife::has_wal`]).
        let _ = self.clear_the_way(main);
        Ok(())
    }

    /// A connection has opened a database that may be in a rollback mode. Mends what a crash has
    /// garbled, no more: SQLite sees to its own journal and WAL.
    pub fn mend_garbled(&self, main: &dyn Below) -> Result<(), Error> {
        match guard::header(main) {
            Err(Code::SHORT_READ) => Ok(()),
            Ok(header) if guard::is_database(&header) => Ok(()),
            Ok(_) => self.mend_header(main).map_err(|error| self.refuse(&error)),
            Err(code) => Err(code.into()),
        }
    }

    /// False if SQLite is to see no WAL of this database. There may be an image nevertheless, of
    /// the database that was here before.
    pub fn has_wal(&self, main: &dyn Below) -> Result<bool, Code> {
        match guard::header(main) {
            Err(Code::SHORT_READ) => Ok(false),
            header => Ok(guard::has_wal(&header?)),
        }
    }

    /// Sets the log aside and deletes the image, where a backup in a rollback mode or an empty file
    /// has replaced a crashed database.
    fn clear_the_way(&self, main: &dyn Below) -> Result<(), AttachError> {
        let needs_none = || -> Result<bool, Code> {
            match guard::header(main) {
                Err(Code::SHORT_READ) => Ok(main.size_bytes()? == 0),
                header => {
                    header.map(|header| guard::is_database(&header) && !guard::has_wal(&header))
                }
            }
        };
        let is_beside = |path: &str| self.files.is_there(path);
        let log = self.log_path();
        if !(is_beside(&log)? || self.is_image_there()?) || !needs_none()? {
            return Ok(());
        }
        let _mending = lock(&self.mending);
        let board = self.lock_board()?;
        // A process that sets the guard has this lock. So a guard that is not there now is not
        // there until the unlock.
        let result = needs_none().map_err(AttachError::from).and_then(|needs_none| {
            if needs_none {
                self.set_log_aside(&board)?;
                if let Some(image) = L::image_path(&self.path) {
                    self.files.delete(&image, false)?;
                }
                self.files.delete(&log, false)?;
            }
            Ok(())
        });
        self.tidy(&board);
        board.common().unlock(0..0);
        result
    }

    /// Removes log and board that nobody uses, where no guard names them. A process that dies while
    /// it makes a log or retires it leaves them. Only the next commit would find them, and a
    /// connection that reads makes none. A log with commits stays.
    ///
    /// The caller has a shared lock on the database, so nobody sets a guard. `header` was read
    /// under it.
    pub fn clear_leftovers(
        &self,
        main: &dyn Below,
        header: &[u8; guard::HEADER_BYTES],
    ) -> Result<(), AttachError> {
        let log = self.log_path();
        let is_there =
            self.files.is_there(&log)? || self.files.is_there(&board_path(&self.path))?;
        if !is_there || !guard::is_database(header) {
            return Ok(());
        }
        let board = self.lock_board()?;
        let result = self.why_log_stays(&board).and_then(|why| {
            if why.is_some() {
                return Ok(());
            }
            if board.is_guard_unsure() {
                // After a loss of power the guard may be there again, and name this log.
                write_guard(&board, main, header)?;
            }
            Ok(self.files.delete(&log, true)?)
        });
        self.tidy(&board);
        board.common().unlock(0..0);
        result
    }

    /// Copies a WAL of SQLite's own, or of strategy `plain`, into the database file.
    fn fold_wal(&self) -> Result<(), AttachError> {
        let wal = wal_path(&self.path);
        if !self.files.is_there(&wal)? {
            return Ok(());
        }
        if !self.files.fold_wal(&self.path).map_err(AttachError::Fold)? {
            return Err(AttachError::FoldNoDatabase);
        }
        if self.files.is_there(&wal)? {
            Err(AttachError::OtherStrategy(L::STRATEGY))
        } else {
            Ok(())
        }
    }

    /// Like [`LogLife::fold_wal`], where the header says that there is no WAL. SQLite takes a WAL
    /// nevertheless if one is there, and leaves an empty one alone.
    fn fold_wal_without_use(&self) -> Result<(), AttachError> {
        if self.files.exists(&wal_path(&self.path))? { self.fold_wal() } else { Ok(()) }
    }

    /// A crash has garbled page 1 while it was written, and the guard with it.
    fn mend_header(&self, main: &dyn Below) -> Result<(), AttachError> {
        // SQLite recovers what it can: from a journal through this VFS, from its own WAL only
        // without it.
        if self.has_hot_journal()? {
            return Ok(());
        }
        if !self.files.exists(&wal_path(&self.path))? {
            return self.restore_page_one(main);
        }
        match self.fold_wal() {
            // The WAL has no page 1. So SQLite alone has not written page 1 since the close whose
            // write was lost.
            Err(AttachError::FoldNoDatabase) => {}
            folded => return folded,
        }
        self.restore_page_one(main)?;
        let header = guard::header(main)?;
        if guard::of(&header).is_some() {
            self.end_close_again(main)
        } else {
            Err(AttachError::FoldNoDatabase)
        }
    }

    /// A journal that SQLite would play back is beside the database. PERSIST and TRUNCATE leave
    /// finished ones.
    fn has_hot_journal(&self) -> Result<bool, Code> {
        /// "Rollback Journal Header Format".
        const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        let path = journal_path(&self.path);
        if !self.files.exists(&path)? {
            return Ok(false);
        }
        let Some(journal) = self.files.open_journal(&path)? else { return Ok(false) };
        let mut magic = [0; MAGIC.len()];
        match journal.read(&mut magic, 0) {
            Ok(()) => Ok(magic == MAGIC),
            Err(Code::SHORT_READ) => Ok(false),
            Err(code) => Err(code),
        }
    }

    /// Ends an undone close again, where SQLite's own WAL is beside a guarded database. The last
    /// close took the guard away. That did not reach the device, while SQLite alone went on, and
    /// then power was lost. The log of such a close holds no commit. (Any other log stays, and
    /// [`attach`](super::attach) refuses both.)
    fn end_close_again(&self, main: &dyn Below) -> Result<(), AttachError> {
        if !self.files.exists(&wal_path(&self.path))? {
            return Ok(());
        }
        let mut has_ended = false;
        self.if_alone(|board| {
            let mut header = guard::header(main)?;
            if let Some(wanted) = guard::of(&header) {
                let Some(file) = self.files.open_log(&self.log_path())? else { return Ok(()) };
                match L::open(file, &Options::default()) {
                    Ok(log) if log.uuid() == wanted && !log.holds_commits()? => {}
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
            let Some(file) =
                self.files.open_log(&self.log_path())?.filter(|_| !guard::is_database(&header))
            else {
                return Ok(());
            };
            let log = match L::open(file, &Options::default()) {
                Ok(log) => log,
                // The log was not finished, so the guard was not set.
                Err(LogError::Unfinished) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            // The guard was set, so the log has page 1 whatever a crash has left of it.
            let mut page = log.page_one()?.ok_or(AttachError::HeaderDamaged)?;
            if !garbled::is_likely(main, &page, log.pages()?.as_ref(), L::GROWS_BEFORE_COMMIT)? {
                return Err(AttachError::NoDatabase);
            }
            guard::set(&mut page, log.uuid());
            // A crash may tear this write, too. While the header is garbled, the page is mended
            // again. So the header comes last, and alone.
            let (header, rest) = page.split_at(HEADER_SECTOR_BYTES.min(page.len()));
            if !rest.is_empty() {
                main.write(rest, header.len() as u64)?;
                main.sync(SyncRequest::ALL)?;
            }
            main.write(header, 0)?;
            Ok(write_guard(board, main, &page)?)
        })
    }

    /// Runs `mend` if there is a log and nobody uses it. A log in use has a database that was
    /// mended before.
    fn if_alone(
        &self,
        mend: impl FnOnce(&Board) -> Result<(), AttachError>,
    ) -> Result<(), AttachError> {
        let _mending = lock(&self.mending);
        if !self.files.exists(&self.log_path())? {
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
