//! `eager`: eager synching for SQLite's WAL (Sung, "Fast Synchronous File Writing for Flash Storage", 2013): a sync writes only the
//! commit's own new bytes, to one sequential log.
//!
//! SQLite's WAL becomes a volatile image, `DB-oneflush-wal`, which is written like any WAL and not synced. What is durable is the log,
//! `DB-oneflush`. Commit sequence (what survives a crash after each step):
//!
//! 1. SQLite writes the frames to the image                                   nothing
//! 2. SQLite syncs the WAL: the pages of the frames, packed, go into the log
//!    by one aligned direct write that is durable when it returns            the commit
//! 3. SQLite publishes the frames and releases the write lock
//! 4. `SQLITE_FCNTL_COMMIT_PHASETWO`, acknowledgement
//!
//! Group commit, turns and checkpoints are those of [`plain`](super::plain), with "append what is not logged yet" in the place of
//! the WAL's sync: whoever leads logs the frames of all who wait, in one record.
//!
//! Processes share the log by a board ([`board`]): each append is by whoever has its lock, for all who have committed.
//!
//! A checkpoint copies from the image to the database file as always, but first the log gets what a torn page would take
//! with it ([`log`], invariant 3). When SQLite begins the WAL anew, the database file has everything and is synced, and a new epoch of
//! the log begins. A transaction that is large, or a log that is full, makes the image durable for once: it is synced, and an
//! epoch begins that stands on it. So the log never needs more than its size.
//!
//! While the log may hold anything, the guard keeps other SQLites out ([`guard`]). The last close, and `oneflush recover`, leave one plain
//! database file and nothing else. The first opener after a crash builds the image from the log ([`recover`]).
//!
//! # Differences to the paper
//!
//! The thesis puts eager synching into ext4: fsync writes the file's dirty data and metadata to the file system's journal and leaves the copy
//! in place to write-back. Here the file is one SQLite WAL, the log is a file, and what goes into it is the difference between page versions
//! rather than blocks. The thesis copies back lazily and bounds that by the journal; here SQLite's checkpoint is the copying.

pub mod board;
pub mod files;
pub mod guard;
pub mod image;
mod log;
#[cfg(all(test, feature = "shuttle"))]
mod model;
pub mod mutant;
mod recent;
pub mod recover;

use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflush_blocklog::{Error as LogError, Log, Uuid};
use serde::Serialize;

use self::board::{Board, Private};
use self::files::{SideFiles, board_path, image_path, log_path};
use self::image::Image;
use self::log::{LogCounts, OpenLog, code_of};
use self::mutant::Mutant;
pub use self::recent::{Frames, Held};
use self::recover::{RecoverError, Recovered};
use crate::config::Options;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::stats::clock;
use crate::strategy::{Below, LockLevel, SyncRequest};
use crate::sync::{Mutex, MutexGuard, lock};

/// What each lane of a new log holds.
const LANE_BYTES: u64 = 512 << 10;

/// When a checkpoint is due, whatever SQLite's own threshold says: this many frames in the image, or so much in the log (more, if it
/// changes more pages than that), or so many frames so long after the image was begun, so that the kernel need not write them back. For fewer
/// a checkpoint would cost more than that.
const CHECKPOINT_FRAMES: u32 = 16_000;
/// The same where the image is synced, because the transaction was large: it changes each page once, and who reads finds its pages faster in the
/// database file.
const CHECKPOINT_IMAGE_FRAMES: u32 = 1000;
const CHECKPOINT_LOG_BYTES: u64 = 4 << 20;
const CHECKPOINT_AFTER: [(u32, Duration); 2] = [(160, Duration::from_secs(5)), (32, Duration::from_secs(20))];

/// From this age on the image is cut when it is begun anew; the kernel writes back what has been dirty for 30 s.
const CUT_AFTER: Duration = Duration::from_secs(5);

/// Why a database cannot be opened with `eager`.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error(
        "the log is missing: this database was in use with strategy eager, and commits may be in it. Put it back beside the database"
    )]
    LogMissing,
    #[error("the log belongs to another database (it is {found}, the database wants {wanted}). Put the right one back")]
    OtherLog { wanted: Uuid, found: Uuid },
    #[error("the log is for pages of {log} bytes, the database has {database}")]
    PageSize { log: u32, database: u32 },
    #[error(
        "strategy eager cannot mark this database as in use: its header is not that of a database in WAL mode, or uses reserved bytes"
    )]
    NoGuard,
    #[error(
        "the database cannot be locked for writing (code {}); a read-only connection cannot be the first with strategy eager: use strategy=plain",
        .0.0
    )]
    NotWritable(Code),
    #[error("another process keeps the log to itself (oneflush recover --dry-run does, while it reads)")]
    InUse,
    #[error(
        "strategy eager was asked for, but the database is open elsewhere with SQLite's own WAL (SQLite alone, or strategy stock or plain); close it there first"
    )]
    OtherStrategy,
    #[error("its WAL, which SQLite or strategy plain has left, cannot be copied into the database file: {0}")]
    Fold(String),
    #[error("{0}")]
    Log(#[from] LogError),
    #[error("{0}")]
    Recover(#[from] RecoverError),
    #[error(
        "the database's header is damaged, not by a crash of ours, and there is a log beside it whose commits it may lack. Restore both files from a backup, or bytes 18 and 19 of the database"
    )]
    HeaderDamaged,
    #[error("other processes use another log beside this database; close it there")]
    OtherBoard,
    #[error("code {}", .0.0)]
    Below(Code),
}

impl From<Code> for AttachError {
    fn from(code: Code) -> AttachError {
        AttachError::Below(code)
    }
}

impl AttachError {
    fn code(&self) -> Code {
        match self {
            AttachError::LogMissing
            | AttachError::OtherLog { .. }
            | AttachError::PageSize { .. }
            | AttachError::NoGuard
            | AttachError::NotWritable(_)
            | AttachError::OtherStrategy
            | AttachError::Fold(_)
            | AttachError::OtherBoard
            | AttachError::HeaderDamaged
            | AttachError::InUse => Code::CANTOPEN,
            AttachError::Log(error) => code_of(error),
            AttachError::Recover(error) => error.code(),
            AttachError::Below(code) => *code,
        }
    }
}

/// The log of one database in this process.
pub struct EagerLog {
    path: String,
    files: Arc<dyn SideFiles>,
    /// Held over an append and its flush; taken before the board's lock.
    state: Mutex<State>,
    /// What a writer has to know while somebody else appends; one of our own while there is no log.
    board: Mutex<Board>,
    /// Frames that are not logged yet. Taken last, and never held over a write.
    unlogged: Mutex<Frames>,
}

#[derive(Default)]
struct State {
    /// How many connections have the image open.
    images_open: u32,
    open: Option<OpenLog>,
    /// This process has joined those who use the log.
    joined: bool,
    /// The image has to be built, or emptied, before SQLite sees it; until then this process keeps the board's lock.
    image: Stale,
    recovered: Option<Recovered>,
}

#[derive(Default, PartialEq)]
enum Stale {
    #[default]
    No,
    /// The last user's, if it is whole: invariant 5 of the board.
    Check,
    Rebuild,
    Empty,
}

fn private_board() -> Board {
    Board::new(Arc::new(Private::default()))
}

impl EagerLog {
    pub fn new(path: &str, files: Arc<dyn SideFiles>) -> EagerLog {
        EagerLog {
            path: path.to_owned(),
            files,
            state: Mutex::default(),
            board: Mutex::new(private_board()),
            unlogged: Mutex::default(),
        }
    }

    pub fn image_path(&self) -> String {
        image_path(&self.path)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn board(&self) -> Board {
        lock(&self.board).clone()
    }

    /// Something that the log does while no other process does anything with it. An error is the end of it, for all processes.
    fn with_log<T>(
        &self,
        image: Option<&dyn Below>,
        act: impl FnOnce(&mut OpenLog, &Board) -> Result<T, Code>,
    ) -> Result<T, Code> {
        let done = self.with_log_unless(image, |_| false, act)?;
        done.ok_or(Code::IOERR_LOCK)
    }

    /// The same, if it is still needed when its turn comes.
    fn with_log_unless<T>(
        &self,
        image: Option<&dyn Below>,
        is_done: impl Fn(&Board) -> bool,
        act: impl FnOnce(&mut OpenLog, &Board) -> Result<T, Code>,
    ) -> Result<Option<T>, Code> {
        let mut state = self.state();
        let Some(log) = state.open.as_mut() else { return Err(Code::READONLY) };
        let board = self.board();
        if !board.common().lock_unless(&|| is_done(&board))? {
            return Ok(None);
        }
        KillPoint::Locked.reached();
        let result = match board.failure() {
            Some(code) => Err(code),
            None => self.act_alone(log, &board, image, act).inspect_err(|&code| board.fail(code, log.unsure)),
        };
        KillPoint::Shown.reached();
        board.set_busy(false);
        KillPoint::Unlocking.reached();
        board.common().unlock();
        result.map(Some)
    }

    fn act_alone<T>(
        &self,
        log: &mut OpenLog,
        board: &Board,
        image: Option<&dyn Below>,
        act: impl FnOnce(&mut OpenLog, &Board) -> Result<T, Code>,
    ) -> Result<T, Code> {
        if board.is_busy() {
            self.files.warn(&format!("oneflush: {}: a process died while it wrote to the log", self.path));
            log.repair(board, image)?;
        }
        if !mutant::is(Mutant::StaleHead) || !log.begun {
            log.follow(board, image)?;
        }
        board.set_busy(true);
        KillPoint::Busy.reached();
        let result = act(log, board)?;
        log.show(board);
        Ok(result)
    }

    /// The error after which nothing is acknowledged any more.
    pub fn failure(&self) -> Option<Code> {
        self.board().failure()
    }

    /// A connection has opened the database. A crash may have garbled the first page while it was written, and with it the guard; then
    /// the log has it.
    pub fn opened_database(&self, main: &dyn Below) -> Result<(), Error> {
        let mut header = [0; guard::HEADER_BYTES];
        match main.read(&mut header, 0) {
            Ok(()) if !guard::is_database(&header) => {}
            Ok(()) if guard::of(&header).is_some() => return Ok(()),
            Ok(()) => return self.fold_wal().map_err(|error| self.refuse(&error)),
            Err(Code::SHORT_READ) => return Ok(()),
            Err(code) => return Err(code.into()),
        }
        // What SQLite can recover by itself is its business: from a journal it does so through us, from a WAL of its own only without us.
        if self.files.exists(&format!("{}-journal", self.path))? {
            return Ok(());
        }
        if self.files.exists(&format!("{}-wal", self.path))? {
            return self.fold_wal().map_err(|error| self.refuse(&error));
        }
        let _state = self.state();
        let result = self.restore_page_one(main);
        result.map_err(|error| self.refuse(&error))
    }

    /// A WAL of SQLite's own, or of strategy `plain`, goes into the database file first.
    fn fold_wal(&self) -> Result<(), AttachError> {
        let wal = format!("{}-wal", self.path);
        if !self.files.is_there(&wal)? {
            return Ok(());
        }
        self.files.fold_wal(&self.path).map_err(AttachError::Fold)?;
        if self.files.is_there(&wal)? { Err(AttachError::OtherStrategy) } else { Ok(()) }
    }

    fn restore_page_one(&self, main: &dyn Below) -> Result<(), AttachError> {
        if !self.files.exists(&log_path(&self.path))? {
            return Ok(());
        }
        let board = Board::new(self.files.common(&self.path)?);
        let alone = board.common().join();
        let result = match alone {
            // A log that somebody uses is one whose database has been mended.
            Ok(false) | Err(Code::BUSY) => Ok(()),
            Ok(true) => self.restore_page_one_alone(&board, main),
            Err(code) => Err(code.into()),
        };
        if alone.is_ok() {
            board.common().leave();
        }
        self.tidy(&board);
        board.common().unlock();
        result
    }

    fn restore_page_one_alone(&self, board: &Board, main: &dyn Below) -> Result<(), AttachError> {
        let mut header = [0; guard::HEADER_BYTES];
        main.read(&mut header, 0)?;
        let Some(file) = self.files.open_log(&log_path(&self.path))?.filter(|_| !guard::is_database(&header)) else {
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
        write_guard(board, main, &page)?;
        Ok(())
    }

    /// Before a connection opens the image: the log is opened, or made, and the guard set. `level` is the connection's lock on the
    /// database. Every success wants a [`EagerLog::closed_image`].
    pub fn before_image(&self, main: &dyn Below, level: LockLevel, options: &Options) -> Result<(), Error> {
        let mut state = self.state();
        if state.open.is_none() {
            let result = self.attach(&mut state, main, level, options);
            result.map_err(|error| self.refuse(&error))?;
        }
        state.images_open += 1;
        Ok(())
    }

    /// The board's lock is kept until the image is there, if this process is the first.
    fn attach(
        &self,
        state: &mut State,
        main: &dyn Below,
        level: LockLevel,
        options: &Options,
    ) -> Result<(), AttachError> {
        let board = Board::new(self.files.common(&self.path)?);
        let result = self.attach_alone(state, &board, main, level, options);
        if result.is_err() {
            if std::mem::take(&mut state.joined) {
                board.common().leave();
            }
            self.tidy(&board);
        }
        if result.is_err() || state.image == Stale::No {
            board.common().unlock();
        }
        if result.is_ok() {
            *lock(&self.board) = board;
        }
        result
    }

    /// Removes a board whose lock this process has, and that nobody uses or has to know anything of. One that cannot be removed is made anew by
    /// the next opener.
    fn tidy(&self, board: &Board) {
        let is_used = match board.common().join() {
            Ok(alone) => {
                board.common().leave();
                !alone
            }
            // Who has it open without its log can only be somebody from whom the log was taken away.
            Err(_) => self.files.is_there(&log_path(&self.path)).unwrap_or(true),
        };
        if !is_used && !board.is_guard_unsure() && !board.is_unsure() {
            let _ = self.files.delete(&board_path(&self.path), false);
        }
    }

    #[cold]
    fn refuse(&self, error: &AttachError) -> Error {
        let way_out = match error {
            AttachError::Below(Code::BUSY) => return Error::Below(Code::BUSY),
            AttachError::Log(_) | AttachError::Recover(_) => {
                ". Nothing was changed. Restore the database and its log together from a backup, or see `oneflush recover --dry-run`"
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
        let mut header = [0; guard::HEADER_BYTES];
        main.read(&mut header, 0)?;
        let path = log_path(&self.path);
        let database_page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65536,
            bytes => u32::from(bytes),
        };
        if let Some(wanted) = guard::of(&header) {
            let log = Log::open(self.files.open_log(&path)?.ok_or(AttachError::LogMissing)?)?;
            let found = log.uuid();
            if found != wanted {
                return Err(AttachError::OtherLog { wanted, found });
            }
            if log.page_bytes() != database_page_bytes {
                return Err(AttachError::PageSize { log: log.page_bytes(), database: database_page_bytes });
            }
            let head = log.empty_head()?;
            let mut log = OpenLog::new(log, head, options.log_size_bytes);
            if join(state, board)? {
                KillPoint::Joined.reached();
                if board.can_go_on(found, log.page_bytes, &self.image_path()) {
                    state.image = Stale::Check;
                } else {
                    log.unsure = board.begin(found, log.page_bytes);
                    state.image = Stale::Rebuild;
                }
            } else if board.uuid() != found {
                return Err(AttachError::OtherBoard);
            }
            state.open = Some(log);
            return Ok(());
        }
        if !guard::is_possible(&header) {
            let is_any = guard::is_any_database(&header);
            return Err(if is_any { AttachError::NoGuard } else { AttachError::Below(Code::NOTADB) });
        }
        if self.files.is_there(&format!("{}-wal", self.path))? {
            return Err(AttachError::OtherStrategy);
        }
        // Alone with the database: whoever has it open without us holds a shared lock.
        if level < LockLevel::Exclusive {
            match main.lock(LockLevel::Exclusive) {
                Ok(()) => {}
                Err(Code::BUSY) => return Err(AttachError::Below(Code::BUSY)),
                Err(code) => return Err(AttachError::NotWritable(code)),
            }
        }
        let result = self.set_guard(state, board, main, &path, database_page_bytes, options);
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
        let mut header = [0; guard::HEADER_BYTES];
        main.read(&mut header, 0)?;
        if !guard::is_possible(&header) {
            return Err(AttachError::Below(Code::BUSY));
        }
        if board.is_guard_unsure() {
            write_guard(board, main, &header)?;
        }
        // A WAL of SQLite's own that was cut to nothing counts as none, but the device may still have all of it, and would show it after the
        // log's commits are in the database file. The making of the log syncs the directory, before the guard is set.
        self.files.delete(&format!("{}-wal", self.path), false)?;
        // A log that is there is one of a database that was closed: the guard was taken away first.
        let uuid = Uuid::random()?;
        let lane_bytes = LANE_BYTES.min(options.log_size_bytes / 2);
        let (log, head) = Log::create(self.files.create_log(path)?, uuid, page_bytes, lane_bytes)?;
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

    /// A connection has opened the image. The first builds it.
    pub fn opened_image(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Error> {
        let mut state = self.state();
        let result = self.prepare_image(&mut state, main, image);
        if let Err(error) = result {
            if image.size_bytes() == Ok(0) {
                // Made by this very open.
                let _ = self.files.delete(&self.image_path(), false);
            }
            self.forget(&mut state);
            return Err(self.refuse(&error));
        }
        Ok(())
    }

    fn prepare_image(&self, state: &mut State, main: &dyn Below, image: &dyn Below) -> Result<(), AttachError> {
        let board = self.board();
        let Some(log) = state.open.as_mut() else { return Err(AttachError::Below(Code::BUSY)) };
        if state.image == Stale::Check {
            let of = Image { file: image, page_bytes: log.page_bytes };
            if log.ends_as(&board) && of.continues(0, board.committed())? {
                // What a checkpoint need not log is in other pages of the board's file: those may be older than the rest.
                board.forget_contained();
                state.image = Stale::No;
                board.common().unlock();
                return Ok(());
            }
            board.begin(log.log.uuid(), log.page_bytes);
            state.image = Stale::Rebuild;
        }
        match state.image {
            Stale::No | Stale::Check => return Ok(()),
            Stale::Empty => image.truncate(0)?,
            Stale::Rebuild => {
                let began = Instant::now();
                let salt = Uuid::random()?.0;
                let word = |at: usize| u32::from_ne_bytes([salt[at], salt[at + 1], salt[at + 2], salt[at + 3]]);
                let recovered = recover::run(log, main, image, [word(0), word(4)])?;
                board.set_sure();
                KillPoint::Rebuilt.reached();
                if board.is_guard_unsure() {
                    log.log_page_one(main)?;
                    let mut header = [0; guard::HEADER_BYTES];
                    main.read(&mut header, 0)?;
                    write_guard(&board, main, &header)?;
                }
                state.recovered = Some(Recovered { time_ns: began.elapsed().as_nanos() as u64, ..recovered });
            }
        }
        board.note_committed(log.logged);
        board.note_contained(&log.pages);
        board.set_since_ns(clock::now_ns());
        log.show(&board);
        board.identify(&self.image_path());
        KillPoint::Opened.reached();
        state.image = Stale::No;
        board.common().unlock();
        Ok(())
    }

    /// A connection has closed the image, or failed to open it; the log stays open until the connection is closed or
    /// [`EagerLog::retire`] is called.
    pub fn closed_image(&self) {
        let mut state = self.state();
        state.images_open -= 1;
        if state.images_open == 0 && state.image != Stale::No {
            self.forget(&mut state);
        }
    }

    /// A connection is closed. After the last one the log stays for the next opener.
    pub fn detach_if_unused(&self) {
        let mut state = self.state();
        if state.images_open == 0 {
            self.forget(&mut state);
        }
    }

    fn forget(&self, state: &mut State) {
        if state.open.is_some() {
            let board = std::mem::replace(&mut *lock(&self.board), private_board());
            board.common().leave();
            if state.image != Stale::No {
                self.tidy(&board);
                board.common().unlock();
            }
        }
        *state = State { recovered: state.recovered, images_open: state.images_open, ..State::default() };
        lock(&self.unlogged).clear();
    }

    /// SQLite deletes its WAL: everything is in the database file, which it has locked exclusively. Takes the guard and the log away.
    pub fn retire(&self, main: &dyn Below) -> Result<(), Error> {
        if self.state().open.is_none() {
            return Ok(());
        }
        self.with_log(None, |log, board| {
            sync_database(board, main)?;
            let mut header = [0; guard::HEADER_BYTES];
            main.read(&mut header, 0)?;
            if guard::of(&header) == Some(log.log.uuid()) {
                log.log_page_one(main)?;
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

    /// Reads the database's first bytes as SQLite is to see them.
    pub fn hide_guard(&self, buffer: &mut [u8], offset: u64) {
        if offset == 0 {
            guard::hide(buffer);
        }
    }

    /// Before a checkpoint writes its first page to the database file.
    pub fn before_checkpoint(&self, main: &dyn Below, image: &dyn Below, published: Option<u32>) -> Result<(), Code> {
        self.settle(image, published)?;
        self.with_log(Some(image), |log, board| log.before_checkpoint(board, main, image, board.committed()))
    }

    /// A page that a checkpoint writes to the database file, as it is to be written; None: unchanged.
    pub fn guarded(&self, data: &[u8], offset: u64) -> Option<Vec<u8>> {
        self.board().set_database_unsynced(true);
        if offset != 0 || data.len() < guard::END || mutant::is(Mutant::GuardClearedEarly) {
            return None;
        }
        let state = self.state();
        let log = state.open.as_ref()?;
        let mut page = data.to_vec();
        guard::set(&mut page, log.log.uuid());
        Some(page)
    }

    pub fn database_synced(&self) {
        self.board().set_database_unsynced(false);
    }

    /// SQLite begins the image anew, or cuts it to nothing: the database file has everything.
    pub fn restart(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Code> {
        lock(&self.unlogged).clear();
        self.with_log(Some(image), |log, board| {
            sync_database(board, main)?;
            // First: who finds this half done must know that no frame is needed any more.
            board.take_back(0);
            KillPoint::RestartNoted.reached();
            let is_old = age(board) >= CUT_AFTER;
            log.restart(board, image, is_old)?;
            if is_old {
                board.image_cut(0);
            }
            board.set_since_ns(clock::now_ns());
            Ok(())
        })
    }

    /// Before the frame at this offset is written. If the log has it already, or is about to get it, the commit that it was part of failed.
    pub fn before_frame(&self, image: &dyn Below, offset: u64) -> Result<(), Code> {
        let board = self.board();
        let Some(frame) = frame_at(&board, offset) else { return Ok(()) };
        if frame > board.committed().max(board.written()).max(board.logged()) {
            return Ok(());
        }
        lock(&self.unlogged).clear();
        board.take_back(frame - 1);
        KillPoint::TakenBack.reached();
        self.with_log(Some(image), |log, board| log.take_back(board, image, frame - 1))
    }

    /// True if this write to the image is the header of a frame that ends a commit, None if it is no frame's header.
    pub fn ends_commit(&self, data: &[u8], offset: u64) -> Option<bool> {
        frame_at(&self.board(), offset)?;
        Some(data.get(4..8)? != [0; 4])
    }

    /// Of a page.
    pub fn page_bytes(&self) -> usize {
        self.board().page_bytes()
    }

    /// The commit that ends with the frame at this offset of the image is complete there; `frames` has those of its frames that are known.
    pub fn note_commit(&self, offset: u64, frames: &mut Frames) {
        let board = self.board();
        if let Some(frame) = frame_at(&board, offset) {
            self.keep(&board, frames);
            board.note_committed(frame);
            KillPoint::Noted.reached();
        }
    }

    /// A writer lets the others in. The commit that ends with the frame at this offset was written and not synced: SQLite may have
    /// published it, but has not said so yet.
    pub fn note_written(&self, offset: u64, frames: &mut Frames) {
        let board = self.board();
        if let Some(frame) = frame_at(&board, offset) {
            self.keep(&board, frames);
            board.note_written(frame);
        }
    }

    /// Takes the frames of one commit.
    fn keep(&self, board: &Board, frames: &mut Frames) {
        if frames.is_of(board.generation()) && !frames.bytes().is_empty() {
            lock(&self.unlogged).take(board.generation(), frames.first(), frames.bytes(), board.page_bytes());
        }
        frames.clear();
    }

    /// What was written and not synced is a commit if SQLite has published it, or would take it for one when it recovers. (A process that
    /// wrote it and died cannot have noted it.)
    fn settle(&self, image: &dyn Below, published: Option<u32>) -> Result<(), Code> {
        let board = self.board();
        if let Some(published) = published {
            board.note_committed(published);
        }
        let (committed, written) = (board.committed(), board.written());
        let of = Image { file: image, page_bytes: board.page_bytes() };
        if written > committed && of.continues(committed, written)? {
            board.note_committed(written);
        }
        Ok(())
    }

    /// The last frame of the last commit.
    pub fn frames(&self) -> u32 {
        self.board().committed()
    }

    /// True if every commit so far is durable.
    pub fn is_durable(&self, image: &dyn Below, published: Option<u32>) -> Result<bool, Code> {
        self.settle(image, published)?;
        let board = self.board();
        Ok(board.committed() <= board.logged())
    }

    /// Makes all commits noted so far durable; false: they were.
    pub fn append(&self, main: &dyn Below, image: &dyn Below) -> Result<bool, Code> {
        // Those that come later are not needed here.
        let committed = self.board().committed();
        let by_another = |board: &Board| committed <= board.logged() && board.failure().is_none();
        let records = self.with_log_unless(Some(image), by_another, |log, board| {
            let records_before = log.counts.records;
            // Frames first: whoever commits meanwhile adds his own, which are not needed here.
            let frames = std::mem::take(&mut *lock(&self.unlogged));
            let frames = if frames.is_of(board.generation()) { frames } else { Frames::default() };
            log.append(board, main, image, &frames, board.committed())?;
            Ok(log.counts.records - records_before)
        })?;
        KillPoint::Durable.reached();
        Ok(records.is_some_and(|records| records > 0))
    }

    /// Makes the image's file longer ahead, with a hole: a write that does so itself would change the inode every time.
    pub fn extend_image(&self, image: &dyn Below, end_bytes: u64, by_bytes: u64) -> Result<(), Code> {
        let board = self.board();
        if by_bytes == 0 || end_bytes <= board.image_bytes() {
            return Ok(());
        }
        let size_bytes = image.size_bytes()?.max(end_bytes.next_multiple_of(by_bytes));
        image.truncate(size_bytes)?;
        board.image_reaches(size_bytes);
        Ok(())
    }

    pub fn image_cut(&self, size_bytes: u64) {
        self.board().image_cut(size_bytes);
    }

    /// Frames that have been written to the image, from this offset on, join those of their transaction.
    pub fn wrote_frames(&self, frames: &mut Frames, bytes: &[u8], offset: u64) {
        let board = self.board();
        match frame_at(&board, offset) {
            Some(first) => frames.take(board.generation(), first, bytes, board.page_bytes()),
            // A page that is written over its first version.
            None => frames.clear(),
        }
    }

    /// True if a checkpoint is worth it now.
    pub fn checkpoint_is_due(&self, options: &Options) -> bool {
        let board = self.board();
        let committed = board.committed();
        // Where pages are changed all over the database, a checkpoint writes most of them for one change each: then later is cheaper.
        let wanted_bytes = board.changed_bytes().max(CHECKPOINT_LOG_BYTES);
        committed >= CHECKPOINT_FRAMES
            || (board.is_on_image() && committed >= CHECKPOINT_IMAGE_FRAMES)
            || board.used_bytes() >= wanted_bytes.min(options.log_size_bytes / 4)
            || CHECKPOINT_AFTER.iter().any(|&(frames, after)| committed >= frames && age(&board) >= after)
    }

    pub fn report(&self) -> EagerReport {
        let board = self.board();
        let state = self.state();
        let counts = state.open.as_ref().map(|log| log.counts).unwrap_or_default();
        let (lane_used_bytes, lane_bytes) = (board.used_bytes(), board.lane_bytes());
        let packing_ratio =
            if counts.logged_bytes == 0 { 0.0 } else { counts.frame_bytes as f64 / counts.logged_bytes as f64 };
        EagerReport { counts, packing_ratio, lane_used_bytes, lane_bytes, recovered: state.recovered }
    }
}

/// Writes what the guard changes of a header, and syncs it. The log must have page 1.
fn write_guard(board: &Board, main: &dyn Below, header: &[u8]) -> Result<(), Code> {
    board.set_guard_unsure(true);
    main.write(&header[guard::FIRST..guard::END], guard::FIRST as u64)?;
    if guard::of(header).is_none() || !mutant::is(Mutant::GuardSetLate) {
        main.sync(SyncRequest::ALL)?;
    }
    board.set_guard_unsure(false);
    Ok(())
}

/// With `synchronous=OFF` SQLite does not sync what its checkpoint has written.
fn sync_database(board: &Board, main: &dyn Below) -> Result<(), Code> {
    if board.is_database_unsynced() {
        main.sync(SyncRequest::ALL)?;
        board.set_database_unsynced(false);
    }
    Ok(())
}

/// Joins those who use the log.
fn join(state: &mut State, board: &Board) -> Result<bool, AttachError> {
    match board.common().join() {
        Err(Code::BUSY) => Err(AttachError::InUse),
        joined => {
            state.joined = joined.is_ok();
            Ok(joined?)
        }
    }
}

/// Of the generation of the image.
fn age(board: &Board) -> Duration {
    Duration::from_nanos(clock::now_ns().saturating_sub(board.since_ns()))
}

/// The frame whose header is written at this offset; None: something else is.
fn frame_at(board: &Board, offset: u64) -> Option<u32> {
    let frame_bytes = (image::FRAME_HEADER_BYTES + board.page_bytes()) as u64;
    let at = offset.checked_sub(image::HEADER_BYTES)?;
    at.is_multiple_of(frame_bytes).then(|| u32::try_from(at / frame_bytes + 1).ok()).flatten()
}

/// `eager` in `PRAGMA oneflush_stats`, since the log was opened.
#[derive(Serialize)]
pub struct EagerReport {
    #[serde(flatten)]
    counts: LogCounts,
    /// Bytes of frames for one byte of the log.
    packing_ratio: f64,
    /// Of the lane that is in use; a log has two.
    lane_used_bytes: u64,
    lane_bytes: u64,
    /// The last recovery.
    recovered: Option<Recovered>,
}
