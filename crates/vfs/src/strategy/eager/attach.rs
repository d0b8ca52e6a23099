//! How a process comes to use a log and leaves it: from the opening of the image to the retirement
//! of the log.
//!
//! | step of making a log | what a crash after it leaves |
//! |---|---|
//! | 1. a foreign log is set aside, an empty WAL removed | a plain database |
//! | 2. the log is made; its directory is synced | a plain database, and a log without records |
//! | 3. this process joins, and makes the board anew | the same |
//! | 4. page 1 is logged | a plain database, and a log without commits |
//! | 5. the guard is written and synced | a guarded database, and a log without commits |
//! | 6. the image is emptied, `Open` set, the lock released | the same, and each logged commit |
//!
//! | step of retiring a log | what a crash after it leaves |
//! |---|---|
//! | 1. the database file is synced | a guarded database, and a log that repeats its pages |
//! | 2. an epoch without commits begins | a guarded database, and a log without commits |
//! | 3. the guard is taken away, and that is synced | a plain database, and a log without commits |
//! | 4. the board, then the log is deleted | a plain database |

use std::time::{Duration, Instant};

use oneflush_blocklog::{Log, Uuid};

use super::attach_error::AttachError;
use super::board::Board;
use super::log::OpenLog;
use super::recover::{self, Recovered};
use super::{EagerLog, Stale, State, private_board, sync_database};
use crate::config::Options;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::names::{board_path, kept_path, log_path, wal_path};
use crate::port::{Below, LockLevel, SyncRequest};
use crate::stats::clock;
use crate::strategy::guard;
use crate::strategy::mutant::{self, Mutant};
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
        let mut state = self.state();
        if state.images_open == 0 {
            // The log was not in use since. Others may have closed the database, and its log may be
            // another one.
            self.forget(&mut state);
        }
        if state.open.is_none() {
            self.files.claim_image(&self.image_path())?;
            let result = self.attach(&mut state, main, level, options);
            result.map_err(|error| self.refuse(&error))?;
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

    /// Joins, or makes the log. A process that is alone keeps the board's lock until the image is
    /// whole.
    fn attach(
        &self,
        state: &mut State,
        main: &dyn Below,
        level: LockLevel,
        options: &Options,
    ) -> Result<(), AttachError> {
        let board = match self.files.common(&self.path, Duration::ZERO) {
            Err(Code::BUSY) => {
                if level >= LockLevel::Shared && self.join_beside(state, main, options)? {
                    return Ok(());
                }
                self.lock_board()?
            }
            common => Board::new(common?),
        };
        let result = self.attach_alone(state, &board, main, level, options);
        if result.is_err() {
            if std::mem::take(&mut state.joined) {
                board.common().leave();
            }
            self.tidy(&board);
        }
        if result.is_err() || state.image == Stale::No {
            board.common().unlock(0..0);
        }
        if result.is_ok() {
            *lock(&self.board) = board;
        }
        result
    }

    /// Opens the board and takes its lock.
    pub(super) fn lock_board(&self) -> Result<Board, Code> {
        let common = self.files.common(&self.path, self.open_patience());
        match &common {
            Ok(_) => self.opened(),
            Err(Code::BUSY) => self.open_refused(),
            Err(_) => {}
        }
        Ok(Board::new(common?))
    }

    /// Joins without the board's lock, which a stopped process may hold (invariant 9 of the board).
    /// False: no process uses the log, or none is known to have finished its opening.
    fn join_beside(
        &self,
        state: &mut State,
        main: &dyn Below,
        options: &Options,
    ) -> Result<bool, AttachError> {
        let header = guard::header(main)?;
        let (Some(wanted), Some(common)) =
            (guard::of(&header), self.files.common_in_use(&self.path)?)
        else {
            return Ok(false);
        };
        let board = Board::new(common);
        if !board.join_beside(wanted)? {
            return Ok(false);
        }
        let opened =
            self.open_guarded(&header, wanted, options).inspect_err(|_| board.common().leave())?;
        state.open = Some(opened);
        state.joined = true;
        *lock(&self.board) = board;
        Ok(true)
    }

    /// Opens the log that the guard names.
    fn open_guarded(
        &self,
        header: &[u8],
        wanted: Uuid,
        options: &Options,
    ) -> Result<OpenLog, AttachError> {
        // A WAL here is that of another database, or of another time; or the log is. SQLite alone
        // cannot have made it behind the guard. Before the guard was set there was none, durably.
        // What an undone close has left was mended before ([`mend`](super::mend)).
        if self.files.exists(&wal_path(&self.path))? {
            return Err(AttachError::WalBesideLog);
        }
        let file = self.files.open_log(&log_path(&self.path))?;
        let log = Log::open(file.ok_or(AttachError::LogMissing)?)?;
        let found = log.uuid();
        if found != wanted {
            return Err(AttachError::OtherLog { wanted, found });
        }
        let database = page_bytes_of(header);
        if log.page_bytes() != database {
            return Err(AttachError::PageSize { log: log.page_bytes(), database });
        }
        let head = log.empty_head()?;
        Ok(OpenLog::new(log, head, options.log_size_bytes))
    }

    /// Removes the board, if no process uses it and no later one needs what it says. The caller has
    /// the board's lock. A board that cannot be removed is made anew by the next opener.
    pub(super) fn tidy(&self, board: &Board) {
        let is_used = match board.join() {
            Ok(alone) => {
                board.common().leave();
                !alone
            }
            // The log cannot be opened. If it is gone, it was taken away from all who still have
            // the board open.
            Err(_) => self.files.is_there(&log_path(&self.path)).unwrap_or(true),
        };
        if !is_used && !board.is_guard_unsure() && !board.is_unsure() {
            let _ = self.files.delete(&board_path(&self.path), false);
        }
    }

    #[cold]
    pub(super) fn refuse(&self, error: &AttachError) -> Error {
        let way_out = match error {
            AttachError::Below(Code::BUSY) => return Error::Below(Code::BUSY),
            AttachError::Log(_) | AttachError::Recover(_) => {
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
        state: &mut State,
        board: &Board,
        main: &dyn Below,
        level: LockLevel,
        options: &Options,
    ) -> Result<(), AttachError> {
        let header = guard::header(main)?;
        let path = log_path(&self.path);
        if let Some(wanted) = guard::of(&header) {
            let mut log = self.open_guarded(&header, wanted, options)?;
            if join(state, board)? {
                KillPoint::Joined.reached();
                if board.can_go_on(wanted, log.page_bytes, &self.image_path()) {
                    state.image = Stale::Check;
                } else {
                    log.unsure = board.begin(wanted, log.page_bytes);
                    state.image = Stale::Rebuild;
                }
            } else if !board.has_our_layout() {
                return Err(AttachError::OtherVersion);
            } else if board.uuid() != wanted {
                return Err(AttachError::OtherBoard);
            } else if !board.is_open() {
                // Another process is between two steps of joining (invariant 10 of the board).
                return Err(AttachError::Below(Code::BUSY));
            }
            state.open = Some(log);
            return Ok(());
        }
        if !guard::is_possible(&header) {
            let is_any = guard::is_any_database(&header);
            return Err(if is_any {
                AttachError::NoGuard
            } else {
                AttachError::Below(Code::NOTADB)
            });
        }
        // An empty WAL that nobody has open is in nobody's way. A copy in a rollback mode may have
        // been put beside it.
        if self.files.exists(&wal_path(&self.path))? {
            return Err(AttachError::OtherStrategy);
        }
        // The exclusive lock shows that nobody else has the database open: every user without
        // `eager` holds a shared lock.
        if level < LockLevel::Exclusive {
            match main.lock(LockLevel::Exclusive) {
                Ok(()) => {}
                Err(Code::BUSY) if self.files.is_there(&wal_path(&self.path))? => {
                    return Err(AttachError::OtherStrategy);
                }
                Err(Code::BUSY) => return Err(AttachError::Below(Code::BUSY)),
                Err(code) => return Err(AttachError::NotWritable(code)),
            }
        }
        let result = self.set_guard(state, board, main, &path, page_bytes_of(&header), options);
        if level < LockLevel::Exclusive {
            main.unlock(level)?;
        }
        result
    }

    fn set_guard(
        &self,
        state: &mut State,
        board: &Board,
        main: &dyn Below,
        path: &str,
        page_bytes: u32,
        options: &Options,
    ) -> Result<(), AttachError> {
        let mut header = guard::header(main)?;
        if !guard::is_possible(&header) {
            return Err(AttachError::Below(Code::BUSY));
        }
        if board.is_guard_unsure() {
            write_guard(board, main, &header)?;
        }
        // A WAL of SQLite's own that was cut to nothing counts as none. The device may still have
        // all of it, and show it once the log's commits are in the database file. The making of the
        // log syncs the directory before the guard is set.
        self.files.delete(&wal_path(&self.path), false)?;
        self.set_log_aside(board, path)?;
        // A file that strategy `plain` keeps. To all others it only takes room.
        let _ = self.files.delete(&kept_path(&self.path), false);
        let uuid = Uuid::random()?;
        // A program that opens many databases commits little to most of them. So the log begins
        // with the smallest lanes, and doubles.
        let created = Log::create(self.files.create_log(path)?, uuid, page_bytes, 1);
        // The log holds nothing, and without a guard nobody looks for it. On a full disk it would
        // only take room.
        let (log, head) = created.inspect_err(|_| {
            let _ = self.files.delete(path, false);
        })?;
        let mut log = OpenLog::new(log, head, options.log_size_bytes);
        KillPoint::LogMade.reached();
        if !join(state, board)? {
            return Err(AttachError::InUse);
        }
        board.begin(uuid, log.page_bytes);
        log.log_page_one(main)?;
        KillPoint::PageOneLogged.reached();
        guard::set(&mut header, uuid);
        write_guard(board, main, &header)?;
        KillPoint::Guarded.reached();
        state.open = Some(log);
        state.image = Stale::Empty;
        Ok(())
    }

    /// Deals with a log beside a database without a guard:
    ///
    /// - A log without commits may be replaced or removed. An interrupted close leaves one: its
    ///   epoch says that the database file has everything. So does an interrupted making: that log
    ///   has no record.
    /// - Any other log may be all that is left of commits: of another database, or of one that a
    ///   backup has replaced. It gets another name, with the image that it may stand on.
    pub(super) fn set_log_aside(&self, board: &Board, path: &str) -> Result<(), AttachError> {
        if !self.files.exists(path)? {
            return Ok(());
        }
        let why = recover::why_kept(|| self.files.open_log(path)?.ok_or(AttachError::LogMissing))?;
        let alone = board.join();
        board.common().leave();
        if !alone? {
            // Their database was moved away, and this one has its name.
            return Err(AttachError::OtherBoard);
        }
        let Some(why) = why else { return Ok(()) };
        let aside = format!("{path}-{}", &Uuid::random()?.to_string()[..8]);
        if self.files.is_there(&self.image_path())? {
            self.files.rename(&self.image_path(), &format!("{aside}-wal"))?;
        }
        self.files.rename(path, &aside)?;
        self.files.warn(&format!(
            "oneflush: {aside}: this log was in the way and is not this database's; {why} \
                [OF-132]"
        ));
        Ok(())
    }

    /// SQLite is about to delete an image that nobody has open, as it does where the database file
    /// is empty. A log may stand on that image, so the log is set aside.
    fn loses_image(&self) -> Result<(), AttachError> {
        let path = log_path(&self.path);
        if !self.files.is_there(&path)? {
            return Ok(());
        }
        let board = self.lock_board()?;
        let result = self.set_log_aside(&board, &path);
        self.tidy(&board);
        board.common().unlock(0..0);
        result
    }

    /// A connection has opened the image. The first one builds it.
    pub fn opened_image(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Error> {
        let mut state = self.state();
        let result = self.prepare_image(&mut state, main, image);
        if let Err(error) = result {
            if image.size_bytes() == Ok(0) {
                // This very open has made the file.
                let _ = self.files.delete(&self.image_path(), false);
            }
            self.forget(&mut state);
            return Err(self.refuse(&error));
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
            board.begin(log.log.uuid(), log.page_bytes);
            state.image = Stale::Rebuild;
        }
        // In a child of a fork SQLite has the WAL index of the image as it was before.
        if state.image != Stale::No && self.files.is_inherited(&self.path) {
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
                let will_read = |pages: &[u32]| self.files.will_read(&self.path, pages, page_bytes);
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
        board.note_contained(&log.pages);
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
            let board = std::mem::replace(&mut *lock(&self.board), private_board());
            self.ticket.give_back(board.common().tickets());
            board.common().leave();
            if state.image != Stale::No {
                self.tidy(&board);
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
            return self.loses_image().map_err(|error| self.refuse(&error));
        }
        let board = self.board();
        // The sync comes first. If a process has died with the log, `with_log` begins an epoch that
        // stands on the database file.
        sync_database(&board, main).inspect_err(|&code| board.fail(code, None))?;
        self.with_log(None, |log, board| {
            let mut header = guard::header(main)?;
            if guard::of(&header) == Some(log.log.uuid()) {
                log.end(main)?;
                guard::hide(&mut header);
                write_guard(board, main, &header)?;
                KillPoint::GuardHidden.reached();
            }
            Ok(())
        })?;
        self.forget(&mut self.state());
        self.files.delete(&board_path(&self.path), false)?;
        KillPoint::BoardDeleted.reached();
        self.files.delete(&log_path(&self.path), true)?;
        Ok(())
    }
}

fn page_bytes_of(header: &[u8]) -> u32 {
    match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65536,
        bytes => u32::from(bytes),
    }
}

/// Writes and syncs the bytes of a header that the guard changes. The log must have page 1.
pub(super) fn write_guard(board: &Board, main: &dyn Below, header: &[u8]) -> Result<(), Code> {
    board.set_guard_unsure(true);
    main.write(&header[guard::FIRST..guard::END], guard::FIRST as u64)?;
    if guard::of(header).is_none() || !mutant::is(Mutant::GuardSetLate) {
        main.sync(SyncRequest::ALL)?;
    }
    board.set_guard_unsure(false);
    Ok(())
}

/// Joins the users of the log. True: this process is alone.
fn join(state: &mut State, board: &Board) -> Result<bool, AttachError> {
    match board.join() {
        Err(Code::BUSY) => Err(AttachError::InUse),
        joined => {
            state.joined = joined.is_ok();
            Ok(joined?)
        }
    }
}
