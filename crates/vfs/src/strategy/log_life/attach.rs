//! How a process comes to use a log, and how the log is made, set aside and removed.
//!
//! | step of making a log | what a crash after it leaves |
//! |---|---|
//! | 1. a foreign log is set aside, an empty WAL removed | a plain database |
//! | 2. the log is made; its directory is synced | a plain database, and a log without records |
//! | 3. this process joins, and makes the board anew | the same |
//! | 4. the log gets page 1 | a plain database, and a log without commits |
//! | 5. the guard is written and synced | a guarded database, and a log without commits |
//! | 6. the caller sets `Open` and releases the lock | the same, and each logged commit |
//!
//! | step of retiring a log | what a crash after it leaves |
//! |---|---|
//! | 1. the database file is synced | a guarded database, and a log that repeats its pages |
//! | 2. the log is ended | a guarded database, and a log without commits |
//! | 3. the guard is taken away, and that is synced | a plain database, and a log without commits |
//! | 4. the board, then the log is deleted | a plain database |

use std::time::{Duration, Instant};

use oneflush_blocklog::{Error as LogError, Uuid};

use super::{AttachError, KeptLog, LogLife, why_kept};
use crate::config::Options;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::names::{aside_path, board_path, kept_path, wal_path};
use crate::port::{Below, LockLevel, SyncRequest};
use crate::strategy::board::Board;
use crate::strategy::guard;

/// How often an opener that waits for the board's lock looks whether it can join without it. The
/// one that has the lock may be making the log.
const JOINS_EVERY: Duration = Duration::from_millis(2);

/// How long the maker of a log waits for other openers to go, and how often it looks.
const GO_PATIENCE: Duration = Duration::from_millis(10);
const GO_POLL: Duration = Duration::from_micros(200);

/// A log that this process has joined, and its board.
pub struct Attached<L> {
    pub log: L,
    pub board: Board,
    pub how: How,
}

/// How a process has joined. But for [`How::Beside`] it has the board's lock and is alone. Then it
/// makes board and log ready, sets `Open`, and releases the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Others use the log.
    Beside,
    /// The log was there, and nobody used it. The board is as the last user left it.
    Alone,
    /// The log, the board and the guard are made.
    Made,
}

impl<L: KeptLog> LogLife<L> {
    /// Joins the users of the log, or makes it and sets the guard. `level` is the connection's lock
    /// on the database.
    pub fn attach(
        &self,
        main: &dyn Below,
        level: LockLevel,
        options: &Options,
    ) -> Result<Attached<L>, AttachError> {
        let deadline = Instant::now() + self.open_patience();
        let mut patience = Duration::ZERO;
        let board = loop {
            match self.files.common(&self.path, &self.log_path(), patience) {
                Err(Code::BUSY) => {}
                common => break Board::new(common?),
            }
            // Where many commit, the lock is hardly ever free.
            if level >= LockLevel::Shared {
                if let Some(attached) = self.join_beside(main, options)? {
                    return Ok(attached);
                }
                if self.is_in_the_way(main)? {
                    return Err(AttachError::Below(Code::BUSY));
                }
            }
            if Instant::now() >= deadline {
                break self.lock_board_within(Duration::ZERO)?;
            }
            patience = JOINS_EVERY;
        };
        let mut joined = false;
        match self.attach_alone(&mut joined, &board, main, level, options) {
            Ok((log, how)) => {
                if how == How::Beside {
                    board.common().unlock(0..0);
                }
                Ok(Attached { log, board, how })
            }
            Err(error) => {
                if joined {
                    board.common().leave();
                }
                self.tidy(&board);
                board.common().unlock(0..0);
                Err(error)
            }
        }
    }

    /// Joins without the board's lock, which a stopped process may hold (invariant 9 of the board).
    /// `None`: no process uses the log, or none is known to have finished its opening.
    fn join_beside(
        &self,
        main: &dyn Below,
        options: &Options,
    ) -> Result<Option<Attached<L>>, AttachError> {
        let header = guard::header(main)?;
        let (Some(wanted), Some(common)) =
            (guard::of(&header), self.files.common_in_use(&self.path, &self.log_path())?)
        else {
            return Ok(None);
        };
        let board = Board::new(common);
        if !board.join_beside(wanted)? {
            return Ok(None);
        }
        let log =
            self.open_guarded(&header, wanted, options).inspect_err(|_| board.common().leave())?;
        KillPoint::LogOpened.reached();
        Ok(Some(Attached { log, board, how: How::Beside }))
    }

    /// Opens the log that the guard names.
    fn open_guarded(
        &self,
        header: &[u8],
        wanted: Uuid,
        options: &Options,
    ) -> Result<L, AttachError> {
        // A WAL here is that of another database, or of another time; or the log is. SQLite alone
        // cannot have made it behind the guard. Before the guard was set there was none, durably.
        // What an undone close has left was mended before ([`mend`](super::mend)).
        if self.files.exists(&wal_path(&self.path))? {
            return Err(AttachError::WalBesideLog);
        }
        let file = self.files.open_log(&self.log_path())?;
        let log = L::open(file.ok_or(AttachError::LogMissing)?, options)?;
        let found = log.uuid();
        if found != wanted {
            return Err(AttachError::OtherLog { wanted, found });
        }
        let database = guard::page_bytes(header);
        if log.page_bytes() != database {
            return Err(AttachError::PageSize { log: log.page_bytes(), database });
        }
        Ok(log)
    }

    /// Removes the board, if no process uses it and no later one needs what it says. The caller has
    /// the board's lock. A board that cannot be removed is made anew by the next opener.
    pub fn tidy(&self, board: &Board) {
        let is_used = match board.join() {
            Ok(alone) => {
                board.common().leave();
                !alone
            }
            // The log cannot be opened. If it is gone, it was taken away from all who still have
            // the board open.
            Err(_) => self.files.is_there(&self.log_path()).unwrap_or(true),
        };
        let has_unsure_records =
            board.unsure().is_some() && self.files.is_there(&self.log_path()).unwrap_or(true);
        if !is_used && !board.is_guard_unsure() && !has_unsure_records {
            let _ = self.files.delete(&board_path(&self.path), false);
        }
    }

    #[cold]
    pub fn refuse(&self, error: &AttachError) -> Error {
        let way_out = match error {
            AttachError::Below(Code::BUSY) => return Error::Below(Code::BUSY),
            AttachError::Log(_) | AttachError::Recover { .. } => {
                ". Nothing was changed. Restore the database and its log together from a backup, \
                    or see `oneflush recover --dry-run` [OF-333]"
            }
            _ => "",
        };
        self.files.warn(&format!("oneflush: {}: {error}{way_out}", self.path));
        Error::Below(error.code())
    }

    fn attach_alone(
        &self,
        joined: &mut bool,
        board: &Board,
        main: &dyn Below,
        level: LockLevel,
        options: &Options,
    ) -> Result<(L, How), AttachError> {
        let header = guard::header(main)?;
        if let Some(wanted) = guard::of(&header) {
            let log = self.open_guarded(&header, wanted, options)?;
            KillPoint::LogOpened.reached();
            if join(joined, board)? {
                KillPoint::Joined.reached();
                return Ok((log, How::Alone));
            }
            if !board.has_our_layout() {
                return Err(AttachError::OtherVersion);
            } else if board.uuid() != wanted {
                return Err(AttachError::OtherBoard);
            } else if !board.is_open() {
                // Another process is between two steps of joining (invariant 10 of the board).
                return Err(AttachError::Below(Code::BUSY));
            }
            return Ok((log, How::Beside));
        }
        if !guard::is_possible(&header, L::MODE) {
            let is_any = guard::is_any_database(&header);
            return Err(if is_any {
                AttachError::NoGuard(L::STRATEGY)
            } else {
                AttachError::Below(Code::NOTADB)
            });
        }
        // An empty WAL that nobody has open is in nobody's way. A copy in a rollback mode may have
        // been put beside it.
        if self.files.exists(&wal_path(&self.path))? {
            return Err(AttachError::OtherStrategy(L::STRATEGY));
        }
        // The exclusive lock shows that nobody else has the database open: every user without a
        // guard holds a shared lock.
        if level < LockLevel::Exclusive {
            match lock_exclusively(main) {
                Ok(()) => {}
                Err(Code::BUSY) if self.files.is_there(&wal_path(&self.path))? => {
                    return Err(AttachError::OtherStrategy(L::STRATEGY));
                }
                Err(Code::BUSY) => return Err(AttachError::Below(Code::BUSY)),
                Err(code) => return Err(AttachError::NotWritable(L::STRATEGY, code)),
            }
        }
        let result = self.make(joined, board, main, options);
        if level < LockLevel::Exclusive {
            main.unlock(level)?;
        }
        Ok((result?, How::Made))
    }

    /// Makes the log and sets the guard.
    fn make(
        &self,
        joined: &mut bool,
        board: &Board,
        main: &dyn Below,
        options: &Options,
    ) -> Result<L, AttachError> {
        let mut header = guard::header(main)?;
        if !guard::is_possible(&header, L::MODE) {
            return Err(AttachError::Below(Code::BUSY));
        }
        if board.is_guard_unsure() {
            write_guard(board, main, &header)?;
        }
        // A WAL of SQLite's own that was cut to nothing counts as none. The device may still have
        // all of it, and show it once the log's commits are in the database file. The making of the
        // log syncs the directory before the guard is set.
        self.files.delete(&wal_path(&self.path), false)?;
        self.set_log_aside(board)?;
        // A file that strategy `plain` keeps. To all others it only takes room.
        let _ = self.files.delete(&kept_path(&self.path), false);
        let (uuid, page_bytes, path) =
            (Uuid::random()?, guard::page_bytes(&header), self.log_path());
        let created = L::create(self.files.create_log(&path)?, uuid, page_bytes, options);
        // The log holds nothing, and without a guard nobody looks for it. On a full disk it would
        // only take room.
        let mut log = created.map_err(|error| {
            let _ = self.files.delete(&path, false);
            match error {
                LogError::BlockSize { log_bytes, storage_bytes } => {
                    AttachError::BlockSize { log_bytes, storage_bytes }
                }
                error => error.into(),
            }
        })?;
        KillPoint::LogMade.reached();
        if !join(joined, board)? {
            return Err(AttachError::InUse);
        }
        board.begin(uuid, page_bytes as usize);
        log.keep_page_one(main)?;
        KillPoint::PageOneLogged.reached();
        guard::set(&mut header, uuid);
        write_guard(board, main, &header)?;
        KillPoint::Guarded.reached();
        Ok(log)
    }

    /// Deals with a log beside a database without a guard:
    ///
    /// - A log without commits may be replaced or removed. An interrupted close leaves one: it says
    ///   that the database file has everything. So does an interrupted making.
    /// - Any other log may be all that is left of commits: of another database, or of one that a
    ///   backup has replaced. It gets another name, with the image that it may stand on.
    pub(super) fn set_log_aside(&self, board: &Board) -> Result<(), AttachError> {
        let path = self.log_path();
        let Some(why) = self.why_log_stays(board)? else { return Ok(()) };
        let uuid =
            self.files.open_log(&path)?.and_then(|file| L::open(file, &Options::default()).ok());
        let aside = self.free_aside_path(uuid.map(|log| log.uuid()))?;
        if let Some(image) = L::image_path(&self.path)
            && self.is_image_there()?
        {
            self.files.rename(&image, &format!("{aside}-wal"))?;
        }
        self.files.rename(&path, &aside)?;
        self.files.warn(&format!(
            "oneflush: {aside}: this log was in the way and is not this database's; {why} \
                [OF-132]"
        ));
        Ok(())
    }

    /// Why the log beside a database without a guard must not be removed. `None`: it holds no
    /// commit, or there is none.
    pub(super) fn why_log_stays(&self, board: &Board) -> Result<Option<String>, AttachError> {
        let path = self.log_path();
        if !self.files.exists(&path)? {
            return Ok(None);
        }
        let missing = || AttachError::LogMissing;
        let why = why_kept::<L, _>(|| self.files.open_log(&path)?.ok_or_else(missing))?;
        let alone = board.join();
        board.common().leave();
        if !alone? {
            // Their database was moved away, and this one has its name.
            return Err(AttachError::OtherBoard);
        }
        Ok(why)
    }

    /// SQLite is about to delete a WAL that nobody has open, as it does where the database file is
    /// empty. A log may stand for that WAL, or on it, so the log is set aside.
    pub fn loses_wal(&self) -> Result<(), AttachError> {
        if !self.files.is_there(&self.log_path())? {
            return Ok(());
        }
        let board = self.lock_board()?;
        let result = self.set_log_aside(&board);
        self.tidy(&board);
        board.common().unlock(0..0);
        result
    }

    /// Ends the log and takes the guard away. The database file has everything and is synced. The
    /// caller has the database locked exclusively.
    pub fn take_guard_away(
        &self,
        board: &Board,
        log: &mut L,
        main: &dyn Below,
    ) -> Result<(), Code> {
        self.hide_guard(board, log.uuid(), main, || log.end(main))
    }

    /// The same, where the log may have to stay as it is.
    pub fn hide_guard(
        &self,
        board: &Board,
        uuid: Uuid,
        main: &dyn Below,
        end: impl FnOnce() -> Result<(), Code>,
    ) -> Result<(), Code> {
        let mut header = guard::header(main)?;
        if guard::of(&header) == Some(uuid) {
            end()?;
            guard::hide(&mut header);
            write_guard(board, main, &header)?;
            KillPoint::GuardHidden.reached();
        }
        Ok(())
    }

    /// Removes the board. The log gets another name: its own database needs it no more.
    pub fn keep_aside(&self, uuid: Uuid) -> Result<String, Code> {
        self.files.delete(&board_path(&self.path), false)?;
        let aside = self.free_aside_path(Some(uuid))?;
        self.files.rename(&self.log_path(), &aside)?;
        Ok(aside)
    }

    /// A name for a log that is set aside. By its UUID it can be found.
    fn free_aside_path(&self, uuid: Option<Uuid>) -> Result<String, Code> {
        let random = || Uuid::random().map_err(|_| Code::IOERR_READ);
        let aside = aside_path(&self.log_path(), uuid.map_or_else(random, Ok)?);
        if uuid.is_none() || !self.files.is_there(&aside)? {
            return Ok(aside);
        }
        Ok(aside_path(&self.log_path(), random()?))
    }

    /// Removes board and log.
    pub fn remove(&self) -> Result<(), Code> {
        self.files.delete(&board_path(&self.path), false)?;
        KillPoint::BoardDeleted.reached();
        self.files.delete(&self.log_path(), true)
    }
}

/// Writes and syncs the bytes of a header that the guard changes. The log must have page 1.
pub fn write_guard(board: &Board, main: &dyn Below, header: &[u8]) -> Result<(), Code> {
    board.set_guard_unsure(true);
    main.write(&header[guard::FIRST..guard::END], guard::FIRST as u64)?;
    if guard::of(header).is_none() || !mutant::is(Mutant::GuardSetLate) {
        main.sync(SyncRequest::ALL)?;
    }
    board.set_guard_unsure(false);
    Ok(())
}

/// Other openers may share the database. They see that a log is to be made, and go.
fn lock_exclusively(main: &dyn Below) -> Result<(), Code> {
    let until = Instant::now() + GO_PATIENCE;
    loop {
        match main.lock(LockLevel::Exclusive) {
            Err(Code::BUSY) if Instant::now() < until => std::thread::sleep(GO_POLL),
            locked => return locked,
        }
    }
}

/// Joins the users of the log. True: this process is alone.
fn join(joined: &mut bool, board: &Board) -> Result<bool, AttachError> {
    match board.join() {
        Err(Code::BUSY) => Err(AttachError::InUse),
        alone => {
            *joined = alone.is_ok();
            Ok(alone?)
        }
    }
}
