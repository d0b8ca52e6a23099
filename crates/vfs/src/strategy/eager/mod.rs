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

pub mod files;
pub mod guard;
pub mod image;
mod log;
mod recent;
mod recover;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use oneflush_blocklog::{Error as LogError, Log, Lsn, Uuid};
use serde::Serialize;

use self::files::{SideFiles, image_path, log_path};
use self::image::Image;
use self::log::{LogCounts, OpenLog, code_of};
use self::recent::Frames;
pub use self::recent::Held;
use self::recover::{RecoverError, Recovered};
use crate::config::Options;
use crate::error::{Code, Error};
use crate::stats::clock;
use crate::strategy::{Below, LockLevel, SyncRequest};
use crate::sync::{Mutex, MutexGuard, lock};

/// What each lane of a new log holds.
const LANE_BYTES: u64 = 512 << 10;

/// When a checkpoint is due, whatever SQLite's own threshold says: this many frames in the image, or so much in the log, or so long
/// after the image was begun, so that the kernel need not write it back.
const CHECKPOINT_FRAMES: u32 = 16_000;
const CHECKPOINT_LOG_BYTES: u64 = 6 << 20;
const CHECKPOINT_AFTER: Duration = Duration::from_secs(20);

/// From this age on the image is cut when it is begun anew; the kernel writes back what has been dirty for 30 s.
const CUT_AFTER: Duration = Duration::from_secs(5);

/// What this process left at its last close of a database: the record of this log whose append failed.
static UNSURE: LazyLock<Mutex<HashMap<String, (Uuid, Lsn)>>> = LazyLock::new(Mutex::default);

/// Databases whose guard this process has written and could not sync: the cache may have what the device lacks.
static GUARD_UNSURE: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// Why a database cannot be opened with `eager`.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error(
        "the log is missing: this database was in use with strategy eager, and commits may be in it. Put it back beside the database"
    )]
    LogMissing,
    #[error("the log belongs to another database (it is {found}, the database wants {wanted})")]
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
    #[error("another process has this database open with strategy eager, which only one process may do")]
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
    /// Held over an append and its flush.
    state: Mutex<State>,
    /// What a writer has to know while somebody else appends.
    now: Now,
    /// Frames that are not logged yet. Taken after `state`, and never held over a write.
    unlogged: Mutex<Frames>,
}

/// Of the generation of the image that is in use; zeros without one.
#[derive(Default)]
struct Now {
    page_bytes: AtomicU32,
    /// The last frame of the last commit, which need not be durable.
    committed: AtomicU32,
    /// The last frame of a commit that was written and not synced. It may be published, and may have failed.
    written: AtomicU32,
    logged: AtomicU32,
    used_bytes: AtomicU64,
    /// To where the image's file reaches at least.
    image_bytes: AtomicU64,
    /// When the generation began, by the monotonic clock.
    since_ns: AtomicU64,
    /// The database file was written and not synced.
    database_unsynced: AtomicBool,
}

#[derive(Default)]
struct State {
    /// How many connections have the image open.
    images_open: u32,
    open: Option<OpenLog>,
    /// The image has to be built, or emptied, before SQLite sees it.
    image: Stale,
    recovered: Option<Recovered>,
}

#[derive(Default, PartialEq)]
enum Stale {
    #[default]
    No,
    Rebuild,
    Empty,
}

impl EagerLog {
    pub fn new(path: &str, files: Arc<dyn SideFiles>) -> EagerLog {
        EagerLog {
            path: path.to_owned(),
            files,
            state: Mutex::default(),
            now: Now::default(),
            unlogged: Mutex::default(),
        }
    }

    pub fn image_path(&self) -> String {
        image_path(&self.path)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
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
        let _state = self.state();
        // What SQLite can recover by itself is its business.
        for side_file in ["-journal", "-wal"] {
            if self.files.exists(&format!("{}{side_file}", self.path))? {
                return Ok(());
            }
        }
        let result = self.restore_page_one(main);
        result.map_err(|error| self.refuse(&error))
    }

    /// A WAL of SQLite's own, or of strategy `plain`, goes into the database file first.
    fn fold_wal(&self) -> Result<(), AttachError> {
        let wal = format!("{}-wal", self.path);
        if !self.files.exists(&wal)? {
            return Ok(());
        }
        self.files.fold_wal(&self.path).map_err(AttachError::Fold)?;
        if self.files.exists(&wal)? { Err(AttachError::OtherStrategy) } else { Ok(()) }
    }

    fn restore_page_one(&self, main: &dyn Below) -> Result<(), AttachError> {
        let file = match self.files.open_log(&log_path(&self.path)) {
            Ok(Some(file)) => file,
            Ok(None) | Err(Code::BUSY) => return Ok(()),
            Err(code) => return Err(code.into()),
        };
        let log = match Log::open(file) {
            Ok(log) => log,
            // Its making was not finished, so the guard was not set.
            Err(LogError::Unfinished) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if let Some(mut page) = recover::page_one(&log)? {
            guard::set(&mut page, log.uuid());
            main.write(&page, 0)?;
            self.write_guard(main, &page)?;
        }
        Ok(())
    }

    /// Writes what the guard changes of a header, and syncs it. The log must have page 1.
    fn write_guard(&self, main: &dyn Below, header: &[u8]) -> Result<(), Code> {
        lock(&GUARD_UNSURE).insert(self.path.clone());
        main.write(&header[guard::FIRST..guard::END], guard::FIRST as u64)?;
        main.sync(SyncRequest::ALL)?;
        lock(&GUARD_UNSURE).remove(&self.path);
        Ok(())
    }

    fn guard_is_unsure(&self) -> bool {
        lock(&GUARD_UNSURE).contains(&self.path)
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

    #[cold]
    fn refuse(&self, error: &AttachError) -> Error {
        if !matches!(error, AttachError::Below(Code::BUSY)) {
            self.files.warn(&format!("oneflush: {}: {error}", self.path));
        }
        Error::Below(error.code())
    }

    fn attach(
        &self,
        state: &mut State,
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
            let file = match self.files.open_log(&path) {
                Ok(file) => file.ok_or(AttachError::LogMissing)?,
                Err(Code::BUSY) => return Err(AttachError::InUse),
                Err(code) => return Err(code.into()),
            };
            let log = Log::open(file)?;
            let found = log.uuid();
            if found != wanted {
                return Err(AttachError::OtherLog { wanted, found });
            }
            if log.page_bytes() != database_page_bytes {
                return Err(AttachError::PageSize { log: log.page_bytes(), database: database_page_bytes });
            }
            let head = log.empty_head()?;
            let mut log = OpenLog::new(log, head, options.log_size_bytes);
            log.unsure = lock(&UNSURE).remove(&self.path).filter(|&(of, _)| of == found).map(|(_, lsn)| lsn);
            state.open = Some(log);
            state.image = Stale::Rebuild;
            return Ok(());
        }
        if !guard::is_possible(&header) {
            return Err(AttachError::NoGuard);
        }
        if self.files.exists(&format!("{}-wal", self.path))? {
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
        let result = self.set_guard(state, main, &path, database_page_bytes, options);
        if level < LockLevel::Exclusive {
            main.unlock(level)?;
        }
        result
    }

    fn set_guard(
        &self,
        state: &mut State,
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
        if self.guard_is_unsure() {
            self.write_guard(main, &header)?;
        }
        // A log that is there is one of a database that was closed: the guard was taken away first.
        let uuid = Uuid::random()?;
        let lane_bytes = LANE_BYTES.min(options.log_size_bytes / 2);
        let (log, head) = Log::create(self.files.create_log(path)?, uuid, page_bytes, lane_bytes)?;
        let mut log = OpenLog::new(log, head, options.log_size_bytes);
        log.log_page_one(main)?;
        guard::set(&mut header, uuid);
        self.write_guard(main, &header)?;
        state.open = Some(log);
        state.image = Stale::Empty;
        Ok(())
    }

    /// A connection has opened the image. The first builds it.
    pub fn opened_image(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Error> {
        let mut state = self.state();
        let result = self.prepare_image(&mut state, main, image);
        if let Err(error) = result {
            self.forget(&mut state);
            return Err(self.refuse(&error));
        }
        self.publish(&state);
        Ok(())
    }

    fn publish(&self, state: &State) {
        let Some(log) = &state.open else { return };
        self.now.page_bytes.store(log.page_bytes as u32, SeqCst);
        self.now.logged.store(log.logged, SeqCst);
        self.now.committed.fetch_max(log.logged, SeqCst);
        self.now.used_bytes.store(log.used_bytes().0, SeqCst);
    }

    fn prepare_image(&self, state: &mut State, main: &dyn Below, image: &dyn Below) -> Result<(), AttachError> {
        let stale = std::mem::take(&mut state.image);
        let Some(log) = state.open.as_mut() else { return Err(AttachError::Below(Code::BUSY)) };
        match stale {
            Stale::No => {}
            Stale::Empty => image.truncate(0)?,
            Stale::Rebuild => {
                let began = Instant::now();
                let salt = Uuid::random()?.0;
                let word = |at: usize| u32::from_ne_bytes([salt[at], salt[at + 1], salt[at + 2], salt[at + 3]]);
                let recovered = recover::run(log, main, image, [word(0), word(4)])?;
                if self.guard_is_unsure() {
                    log.log_page_one(main)?;
                    let mut header = [0; guard::HEADER_BYTES];
                    main.read(&mut header, 0)?;
                    self.write_guard(main, &header)?;
                }
                state.recovered = Some(Recovered { time_ns: began.elapsed().as_nanos() as u64, ..recovered });
                self.now.since_ns.store(clock::now_ns(), SeqCst);
            }
        }
        Ok(())
    }

    /// A connection has closed the image, or failed to open it; the log stays open until the connection is closed or
    /// [`EagerLog::retire`] is called.
    pub fn closed_image(&self) {
        self.state().images_open -= 1;
    }

    /// A connection is closed. After the last one the log stays for the next opener.
    pub fn detach_if_unused(&self) {
        let mut state = self.state();
        if state.images_open == 0 {
            self.forget(&mut state);
        }
    }

    fn forget(&self, state: &mut State) {
        if let Some(log) = &state.open
            && let Some(lsn) = log.unsure
        {
            lock(&UNSURE).insert(self.path.clone(), (log.log.uuid(), lsn));
        }
        *state = State { recovered: state.recovered, images_open: state.images_open, ..State::default() };
        lock(&self.unlogged).clear();
        self.now.committed.store(0, SeqCst);
        self.now.written.store(0, SeqCst);
        self.now.logged.store(0, SeqCst);
        self.now.used_bytes.store(0, SeqCst);
        self.now.image_bytes.store(0, SeqCst);
        self.now.database_unsynced.store(false, SeqCst);
    }

    /// SQLite deletes its WAL: everything is in the database file, which it has locked exclusively. Takes the guard and the log away.
    pub fn retire(&self, main: &dyn Below) -> Result<(), Error> {
        let mut state = self.state();
        let Some(log) = state.open.as_mut() else { return Ok(()) };
        self.sync_database(main)?;
        let mut header = [0; guard::HEADER_BYTES];
        main.read(&mut header, 0)?;
        if guard::of(&header) == Some(log.log.uuid()) {
            log.log_page_one(main)?;
            guard::hide(&mut header);
            self.write_guard(main, &header)?;
        }
        self.forget(&mut state);
        self.files.delete(&log_path(&self.path), true)?;
        Ok(())
    }

    /// With `synchronous=OFF` SQLite does not sync what its checkpoint has written.
    fn sync_database(&self, main: &dyn Below) -> Result<(), Code> {
        if self.now.database_unsynced.swap(false, SeqCst) {
            main.sync(SyncRequest::ALL).inspect_err(|_| self.now.database_unsynced.store(true, SeqCst))?;
        }
        Ok(())
    }

    /// Reads the database's first bytes as SQLite is to see them.
    pub fn hide_guard(&self, buffer: &mut [u8], offset: u64) {
        if offset == 0 {
            guard::hide(buffer);
        }
    }

    /// Before a checkpoint writes its first page to the database file.
    pub fn before_checkpoint(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Code> {
        let mut state = self.state();
        let Some(log) = state.open.as_mut() else { return Ok(()) };
        self.settle(image)?;
        let result = log.before_checkpoint(main, image, self.now.committed.load(SeqCst));
        self.publish(&state);
        result
    }

    /// A page that a checkpoint writes to the database file, as it is to be written; None: unchanged.
    pub fn guarded(&self, data: &[u8], offset: u64) -> Option<Vec<u8>> {
        self.now.database_unsynced.store(true, SeqCst);
        if offset != 0 || data.len() < guard::END {
            return None;
        }
        let state = self.state();
        let log = state.open.as_ref()?;
        let mut page = data.to_vec();
        guard::set(&mut page, log.log.uuid());
        Some(page)
    }

    pub fn database_synced(&self) {
        self.now.database_unsynced.store(false, SeqCst);
    }

    /// SQLite begins the image anew, or cuts it to nothing: the database file has everything.
    pub fn restart(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Code> {
        let mut state = self.state();
        self.sync_database(main)?;
        let Some(log) = state.open.as_mut() else { return Err(Code::READONLY) };
        lock(&self.unlogged).clear();
        let is_old = self.age() >= CUT_AFTER;
        log.restart(image, is_old)?;
        if is_old {
            self.image_cut(0);
        }
        self.now.since_ns.store(clock::now_ns(), SeqCst);
        self.now.committed.store(0, SeqCst);
        self.now.written.store(0, SeqCst);
        self.publish(&state);
        Ok(())
    }

    /// Before the frame at this offset is written. If the log has it already, the commit that it was part of failed after it was logged.
    pub fn before_frame(&self, image: &dyn Below, offset: u64) -> Result<(), Code> {
        let Some(frame) = self.frame_at(offset) else { return Ok(()) };
        let known = self.now.committed.load(SeqCst).max(self.now.written.load(SeqCst));
        if frame > known && frame > self.now.logged.load(SeqCst) {
            return Ok(());
        }
        let mut state = self.state();
        let Some(log) = state.open.as_mut() else { return Err(Code::READONLY) };
        lock(&self.unlogged).clear();
        self.now.committed.fetch_min(frame - 1, SeqCst);
        self.now.written.fetch_min(frame - 1, SeqCst);
        let result = log.take_back(image, frame - 1);
        self.publish(&state);
        result
    }

    /// The frame whose header is written at this offset; None: something else is.
    fn frame_at(&self, offset: u64) -> Option<u32> {
        let frame_bytes = image::FRAME_HEADER_BYTES as u64 + u64::from(self.now.page_bytes.load(SeqCst));
        let at = offset.checked_sub(image::HEADER_BYTES)?;
        at.is_multiple_of(frame_bytes).then(|| u32::try_from(at / frame_bytes + 1).ok()).flatten()
    }

    /// True if this write to the image is the header of a frame that ends a commit, None if it is no frame's header.
    pub fn ends_commit(&self, data: &[u8], offset: u64) -> Option<bool> {
        self.frame_at(offset)?;
        Some(data.get(4..8)? != [0; 4])
    }

    /// The commit that ends with the frame at this offset of the image is complete there.
    pub fn note_commit(&self, offset: u64) {
        if let Some(frame) = self.frame_at(offset) {
            self.now.committed.fetch_max(frame, SeqCst);
        }
    }

    /// A writer lets the others in. The commit that ends with the frame at this offset was written and not synced: SQLite may have
    /// published it, but has not said so yet.
    pub fn note_written(&self, offset: u64) {
        if let Some(frame) = self.frame_at(offset) {
            self.now.written.fetch_max(frame, SeqCst);
        }
    }

    /// What was written and not synced is a commit if SQLite would take it for one when it recovers.
    fn settle(&self, image: &dyn Below) -> Result<(), Code> {
        let (committed, written) = (self.now.committed.load(SeqCst), self.now.written.load(SeqCst));
        let of = Image { file: image, page_bytes: self.now.page_bytes.load(SeqCst) as usize };
        if written > committed && of.continues(committed, written)? {
            self.now.committed.fetch_max(written, SeqCst);
        }
        Ok(())
    }

    /// The last frame of the last commit.
    pub fn frames(&self) -> u32 {
        self.now.committed.load(SeqCst)
    }

    /// True if every commit so far is durable.
    pub fn is_durable(&self, image: &dyn Below) -> Result<bool, Code> {
        self.settle(image)?;
        Ok(self.now.committed.load(SeqCst) <= self.now.logged.load(SeqCst))
    }

    /// Makes all commits noted so far durable.
    pub fn append(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Code> {
        let mut state = self.state();
        let Some(log) = state.open.as_mut() else { return Err(Code::READONLY) };
        // Frames first: whoever commits meanwhile adds his own, which are not needed here.
        let frames = std::mem::take(&mut *lock(&self.unlogged));
        let result = log.append(main, image, &frames, self.now.committed.load(SeqCst));
        self.publish(&state);
        result
    }

    /// Makes the image's file longer ahead, with a hole: a write that does so itself would change the inode every time.
    pub fn extend_image(&self, image: &dyn Below, end_bytes: u64, by_bytes: u64) -> Result<(), Code> {
        if by_bytes == 0 || end_bytes <= self.now.image_bytes.load(SeqCst) {
            return Ok(());
        }
        let size_bytes = image.size_bytes()?.max(end_bytes.next_multiple_of(by_bytes));
        image.truncate(size_bytes)?;
        self.now.image_bytes.store(size_bytes, SeqCst);
        Ok(())
    }

    pub fn image_cut(&self, size_bytes: u64) {
        self.now.image_bytes.fetch_min(size_bytes, SeqCst);
    }

    /// Frames that have been written to the image, from this offset on.
    pub fn wrote_frames(&self, bytes: &[u8], offset: u64) {
        if let Some(first) = self.frame_at(offset) {
            lock(&self.unlogged).take(first, bytes, self.now.page_bytes.load(SeqCst) as usize);
        }
    }

    /// True if a checkpoint is worth it now.
    pub fn checkpoint_is_due(&self, options: &Options) -> bool {
        let committed = self.now.committed.load(SeqCst);
        committed >= CHECKPOINT_FRAMES
            || self.now.used_bytes.load(SeqCst) >= CHECKPOINT_LOG_BYTES.min(options.log_size_bytes / 4)
            || (committed > 0 && self.age() >= CHECKPOINT_AFTER)
    }

    /// Of the generation of the image.
    fn age(&self) -> Duration {
        Duration::from_nanos(clock::now_ns().saturating_sub(self.now.since_ns.load(SeqCst)))
    }

    pub fn report(&self) -> EagerReport {
        let state = self.state();
        let counts = state.open.as_ref().map(|log| log.counts).unwrap_or_default();
        let (lane_used_bytes, lane_bytes) = state.open.as_ref().map(OpenLog::used_bytes).unwrap_or_default();
        let packing_ratio =
            if counts.logged_bytes == 0 { 0.0 } else { counts.frame_bytes as f64 / counts.logged_bytes as f64 };
        EagerReport { counts, packing_ratio, lane_used_bytes, lane_bytes, recovered: state.recovered }
    }
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
