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
//! Group commit, turns and checkpoints are those of [the engine](crate::engine), with "append what is not logged yet" in the place of
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

mod attach;
mod attach_error;
pub mod board;
pub mod building;
#[cfg(all(test, not(feature = "shuttle")))]
mod building_tests;
mod encode;
pub mod files;
mod garbled;
mod image_store;

mod log;
mod mend;
#[cfg(all(test, feature = "shuttle"))]
mod model;
pub mod onlooker;
pub mod rebuilt;
mod recent;
pub mod recover;
pub mod space;
mod store;
pub mod tickets;
#[cfg(all(test, not(feature = "shuttle")))]
mod unlogged_tests;
mod waiting;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use self::board::{Board, Private};
use self::files::LogFiles;
use self::image_store::ImageStore;
use self::log::{LogCounts, OpenLog};
use self::recent::Frames;
use self::recover::Recovered;
use self::space::Space;
pub use self::store::{Eager, EagerReport};
use self::tickets::Ticket;
use self::waiting::{Gate, Locked, Waits};
use crate::config::Options;
use crate::engine::For;
use crate::error::Code;
use crate::kill_point::KillPoint;
use crate::names::image_path;
use crate::port::{Below, SyncRequest};
use crate::stats::clock;
use crate::strategy::guard;
use crate::strategy::mutant::{self, Mutant};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::wal_file::{self, WalFile};

/// When a checkpoint is due, whatever SQLite's own threshold says: this many frames in the image, or so much in the log (more, if it
/// changes more pages than that), or so many frames so long after the image was begun, so that the kernel need not write them back. For fewer
/// a checkpoint would cost more than that.
const CHECKPOINT_FRAMES: u32 = 16_000;
/// The same where each changed page was changed so often on average: a checkpoint writes few pages, and the image, which the kernel may write
/// back, stays small.
const CHECKPOINT_DENSE_FRAMES: (u32, u64) = (2000, 16);
/// The same where the image is synced, because the transaction was large: it changes each page once, and who reads finds its pages faster in the
/// database file.
const CHECKPOINT_IMAGE_FRAMES: u32 = 1000;
const CHECKPOINT_LOG_BYTES: u64 = 4 << 20;
const CHECKPOINT_AFTER: [(u32, Duration); 2] = [(160, Duration::from_secs(5)), (32, Duration::from_secs(20))];

/// From this age on the image is cut when it is begun anew; the kernel writes back what has been dirty for 30 s.
const CUT_AFTER: Duration = Duration::from_secs(5);

/// Between two records of page images before a checkpoint, so that whoever waits for the log gets it.
const IMAGES_PAUSE: Duration = Duration::from_micros(50);

/// The log of one database in this process.
pub struct EagerLog {
    path: String,
    files: Arc<dyn LogFiles>,
    /// Whoever of this process wants the board's lock stands here first.
    appending: Gate,
    /// Held over an append and its flush; taken after the board's lock, so that nobody waits here for another process.
    state: Mutex<State>,
    /// What a writer has to know while somebody else appends; one of our own while there is no log.
    board: Mutex<Board>,
    ticket: Ticket,
    /// Frames that are not logged yet. Taken last, and never held over a write.
    unlogged: Mutex<Frames>,
    image: ImageStore,
    waits: Waits,
    space: Space,
}

#[derive(Default)]
struct State {
    /// How many connections have used the log and are not closed.
    users: u32,
    /// How many have the image open.
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

/// What SQLite writes to the image.
pub struct FramePart {
    /// It is the header of a frame that ends a commit; None: no frame's header.
    pub ends_commit: Option<bool>,
    /// Of a page.
    pub page_bytes: usize,
}

/// What somebody wants of the log.
struct Needs {
    /// It is not needed any more when this frame is logged; 0: it always is.
    frame: u32,
    /// Others are waited for who are likely to come.
    awaits_batch: bool,
    /// For how long it waits for somebody who does not go on.
    patience: Duration,
}

fn private_board() -> Board {
    Board::new(Arc::new(Private::default()))
}

impl EagerLog {
    pub fn new(path: &str, files: Arc<dyn LogFiles>) -> EagerLog {
        EagerLog {
            path: path.to_owned(),
            files,
            appending: Gate::default(),
            state: Mutex::default(),
            board: Mutex::new(private_board()),
            ticket: Ticket::default(),
            unlogged: Mutex::default(),
            image: ImageStore::default(),
            waits: Waits::default(),
            space: Space::default(),
        }
    }

    pub fn image_path(&self) -> String {
        image_path(&self.path)
    }

    fn note_space(&self) {
        self.space.note(self.files.room(&self.path));
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
        let needs = Needs { frame: 0, awaits_batch: false, patience: waiting::REFUSED_AFTER };
        let done = self.with_log_unless(image, needs, |_| false, act)?;
        done.ok_or(Code::IOERR_LOCK)
    }

    /// The same, if it is still needed when its turn comes. `SQLITE_BUSY`: whoever has the lock does not go on.
    fn with_log_unless<T>(
        &self,
        image: Option<&dyn Below>,
        needs: Needs,
        is_done: impl Fn(&Board) -> bool,
        act: impl FnOnce(&mut OpenLog, &Board) -> Result<T, Code>,
    ) -> Result<Option<T>, Code> {
        let Some(_entered) = self.appending.enter(needs.patience) else { return Err(Code::BUSY) };
        let board = self.board();
        match board.common().lock_unless(needs.frame, needs.patience, &|| is_done(&board)) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(code) => {
                if code == Code::BUSY {
                    self.say_who_holds(&board);
                }
                return Err(code);
            }
        }
        let locked = Locked { board: &board, logged_before: board.logged() };
        KillPoint::Locked.reached();
        if needs.awaits_batch {
            board.common().batching().wait();
            KillPoint::Gathered.reached();
        }
        let mut state = self.state();
        // Closed meanwhile.
        let Some(log) = state.open.as_mut().filter(|_| self.board().is_of(&board)) else { return Err(Code::READONLY) };
        let result = match board.failure() {
            Some(code) => Err(code),
            None => self.act_alone(log, &board, image, act).inspect_err(|&code| board.fail(code, log.unsure)),
        };
        KillPoint::Shown.reached();
        board.set_busy(false);
        KillPoint::Unlocking.reached();
        drop(locked);
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
        log.share_bytes_max = self.space.share_bytes();
        let result = act(log, board)?;
        log.show(board);
        Ok(result)
    }

    /// The error after which nothing is acknowledged any more.
    pub fn log_failure(&self) -> Option<Code> {
        self.board().failure()
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
        let mut missing = Vec::new();
        let mut done = self.with_log(Some(image), |log, board| {
            log.append(board, main, image, &Frames::default(), board.committed())?;
            log.log_images(board, image, &mut missing)
        })?;
        while !done {
            // A checkpoint of many pages: who commits waits for one record of them.
            std::thread::sleep(IMAGES_PAUSE);
            done = self.with_log(Some(image), |log, board| log.log_images(board, image, &mut missing))?;
        }
        Ok(())
    }

    /// A checkpoint makes the database file shorter. A commit that nobody has published yet may be in the log against a page behind the new end.
    pub fn cut_database(&self, main: &dyn Below, image: &dyn Below, size_bytes: u64) -> Result<(), Code> {
        if main.size_bytes()? <= size_bytes {
            return main.truncate(size_bytes);
        }
        self.with_log(Some(image), |log, board| {
            let mut missing = Vec::new();
            while !log.log_images(board, image, &mut missing)? {}
            // Nothing is logged against the file before it is shorter. If that fails, the log is as good as it was.
            Ok(main.truncate(size_bytes))
        })?
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

    pub fn note_database_synced(&self) {
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
            let is_old = age(board) >= CUT_AFTER || self.space.is_short();
            log.restart(board, image, is_old)?;
            board.set_since_ns(clock::now_ns());
            self.note_space();
            Ok(())
        })
    }

    /// Before this is written to the image. If it is a frame, and the log has that already or is about to get it, the commit that it was part of failed.
    /// Nothing may be written after the log has failed.
    pub fn before_frame(&self, image: &dyn Below, data: &[u8], offset: u64) -> Result<FramePart, Code> {
        let board = self.board();
        board.failure().map_or(Ok(()), Err)?;
        let page_bytes = board.page_bytes();
        let Some(frame) = frame_at(&board, offset) else { return Ok(FramePart { ends_commit: None, page_bytes }) };
        let (committed, written) = (board.committed(), board.written());
        if frame <= committed.max(written).max(board.logged()) {
            lock(&self.unlogged).clear();
            board.take_back(frame - 1);
            KillPoint::TakenBack.reached();
            let taken_back = self.with_log(Some(image), |log, board| log.take_back(board, image, frame - 1));
            if taken_back == Err(Code::BUSY) {
                // It is not overwritten, and so to be taken back the next time.
                board.note_committed(committed);
                board.note_written(written);
            }
            taken_back?;
        }
        Ok(FramePart { ends_commit: data.get(4..8).map(|pages| pages != [0; 4]), page_bytes })
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
        if frames.is_of(board.generation()) && !frames.is_empty() {
            lock(&self.unlogged).append(frames, board.page_bytes());
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
        let of = WalFile { file: image, page_bytes: board.page_bytes() };
        if written > committed && of.continues(committed, written)? {
            board.note_committed(written);
        }
        Ok(())
    }

    /// Reads a page of a commit that this process still keeps for the log, as a writer needs it that another thread came before; false: it has to be
    /// read from the image.
    pub fn read_unlogged(&self, page: &mut [u8], offset: u64) -> bool {
        let board = self.board();
        let frame = offset.checked_sub(wal_file::FRAME_HEADER_BYTES as u64).and_then(|header| frame_at(&board, header));
        let Some(frame) = frame.filter(|_| page.len() == board.page_bytes()) else { return false };
        let unlogged = lock(&self.unlogged);
        // Whoever overwrites frames that are here begins a generation first.
        let known = if unlogged.is_of(board.generation()) { unlogged.get(frame, page.len()) } else { None };
        known.map(|(_, known)| page.copy_from_slice(known)).is_some()
    }

    /// The commit that ends with the frame at this offset is told "busy" before anybody has heard of it. Nobody shall take it for one who recovers
    /// the image.
    pub fn unwrite(&self, image: &dyn Below, offset: u64) -> Result<(), Code> {
        image.write(&[0; wal_file::FRAME_HEADER_BYTES], offset)
    }

    /// The last frame of the last commit.
    pub fn committed_frames(&self) -> u32 {
        self.board().committed()
    }

    /// True if every commit so far is durable.
    pub fn has_logged_all(&self, image: &dyn Below, published: Option<u32>) -> Result<bool, Code> {
        self.settle(image, published)?;
        let board = self.board();
        Ok(board.committed() <= board.logged())
    }

    /// Makes all commits noted so far durable; false: they were. Whoever keeps others from committing meanwhile must not gather. `SQLITE_BUSY`, but not
    /// for a commit: whoever has the log does not go on.
    pub fn append(&self, main: &dyn Below, image: &dyn Below, what: For) -> Result<bool, Code> {
        let board = self.board();
        // Those that come later are not needed here.
        let frame = board.committed();
        let by_another = |board: &Board| frame <= board.logged() && board.failure().is_none();
        if !by_another(&board) {
            board.common().batching().arrive(board.common().tickets().are_waited_for());
        }
        let is_commit = what != For::Other;
        let patience = if is_commit { waiting::failed_after() } else { waiting::REFUSED_AFTER };
        let needs = Needs { frame, awaits_batch: what == For::CommitInBatch, patience };
        let records = self.with_log_unless(Some(image), needs, by_another, |log, board| {
            let records_before = log.counts.records;
            let begun = board.common().batching().begin();
            // Frames first: whoever commits meanwhile adds his own, which are not needed here.
            let mut frames = lock(&self.unlogged).hand_over(&mut log.spare_frames);
            if !frames.is_of(board.generation()) {
                frames.clear();
            }
            log.append(board, main, image, &frames, board.committed())?;
            log.spare_frames.reuse(frames);
            let records = log.counts.records - records_before;
            if records > 0 {
                begun.ended();
            }
            Ok(records)
        });
        // Published, or noted for whoever has the lock: it cannot be taken back (invariant 12 of the board).
        let records = records.map_err(|code| if code == Code::BUSY && is_commit { Code::IOERR_FSYNC } else { code })?;
        KillPoint::Durable.reached();
        Ok(records.is_some_and(|records| records > 0))
    }

    /// Writes frames to the image, and takes them out of `bytes`: they join `frames`, those of their transaction.
    pub fn write_frames(
        &self,
        image: &dyn Below,
        bytes: &mut Vec<u8>,
        offset: u64,
        frames: &mut Frames,
        by_bytes: u64,
    ) -> Result<(), Code> {
        let board = self.board();
        if extend_image(&board, image, offset + bytes.len() as u64, by_bytes)? {
            self.note_space();
        }
        self.image.put(&board, image, bytes, offset, |header| self.files.map_image(&self.image_path(), header))?;
        match frame_at(&board, offset) {
            Some(first) => frames.take(board.generation(), first, bytes, board.page_bytes()),
            // A page that is written over its first version.
            None => frames.clear(),
        }
        Ok(())
    }

    pub fn image_cut(&self, size_bytes: u64) {
        self.board().image_cut(size_bytes);
    }

    /// True if a checkpoint is worth it now.
    pub fn is_checkpoint_due(&self, options: &Options) -> bool {
        let board = self.board();
        let committed = board.committed();
        // Where pages are changed all over the database, a checkpoint writes most of them for one change each: then later is cheaper.
        let changed_bytes = board.changed_bytes();
        let wanted_bytes = changed_bytes.max(CHECKPOINT_LOG_BYTES);
        let (dense_frames, changes) = CHECKPOINT_DENSE_FRAMES;
        let is_dense = u64::from(committed) * board.page_bytes() as u64 >= changed_bytes * changes;
        let share_bytes = self.space.share_bytes();
        committed >= CHECKPOINT_FRAMES
            || u64::from(committed) * board.page_bytes() as u64 >= share_bytes
            || (is_dense && committed >= dense_frames)
            || (board.is_on_image() && committed >= CHECKPOINT_IMAGE_FRAMES)
            || board.used_bytes() >= wanted_bytes.min(options.log_size_bytes.min(share_bytes) / 4)
            || is_old(&board, committed)
    }

    pub fn log_report(&self) -> LogReport {
        let board = self.board();
        let state = self.state();
        let counts = state.open.as_ref().map(|log| log.counts).unwrap_or_default();
        let (lane_used_bytes, lane_bytes) = (board.used_bytes(), board.lane_bytes());
        let packing_ratio =
            if counts.logged_bytes == 0 { 0.0 } else { counts.frame_bytes as f64 / counts.logged_bytes as f64 };
        LogReport { counts, packing_ratio, lane_used_bytes, lane_bytes, recovered: state.recovered }
    }
}

/// With `synchronous=OFF` SQLite does not sync what its checkpoint has written.
fn sync_database(board: &Board, main: &dyn Below) -> Result<(), Code> {
    if board.is_database_unsynced() {
        main.sync(SyncRequest::ALL)?;
        board.set_database_unsynced(false);
    }
    Ok(())
}

/// Makes the image's file longer ahead, with a hole: a write that does so itself would change the inode every time. True: it did.
fn extend_image(board: &Board, image: &dyn Below, end_bytes: u64, by_bytes: u64) -> Result<bool, Code> {
    if by_bytes == 0 || end_bytes <= board.image_bytes() {
        return Ok(false);
    }
    let size_bytes = image.size_bytes()?.max(end_bytes.next_multiple_of(by_bytes));
    image.truncate(size_bytes)?;
    board.image_reaches(size_bytes);
    Ok(true)
}

/// So many frames have been there for so long that a checkpoint is due.
fn is_old(board: &Board, frames: u32) -> bool {
    let is_enough = |&(least, after): &(u32, Duration)| (frames >= least).then_some(after);
    let after = CHECKPOINT_AFTER.iter().filter_map(is_enough).min();
    after.is_some_and(|after| age(board) >= after)
}

/// Of the generation of the image.
fn age(board: &Board) -> Duration {
    Duration::from_nanos(clock::now_ns().saturating_sub(board.since_ns()))
}

/// The frame whose header is written at this offset; None: something else is.
fn frame_at(board: &Board, offset: u64) -> Option<u32> {
    let frame_bytes = (wal_file::FRAME_HEADER_BYTES + board.page_bytes()) as u64;
    let at = offset.checked_sub(wal_file::HEADER_BYTES)?;
    at.is_multiple_of(frame_bytes).then(|| u32::try_from(at / frame_bytes + 1).ok()).flatten()
}

/// The log in `PRAGMA oneflush_stats`, since it was opened.
#[derive(Serialize)]
pub struct LogReport {
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
