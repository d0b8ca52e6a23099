//! `eager`: eager synching for SQLite's WAL. A sync writes only the commit's own new bytes, to one
//! sequential log (Sung, "Fast Synchronous File Writing for Flash Storage", 2013).
//!
//! SQLite's WAL becomes a volatile image, `DB-oneflush-wal`. The image is written like any WAL and
//! not synced. What is durable is the log, `DB-oneflush`.
//!
//! | step of a commit | what survives a crash after it |
//! |---|---|
//! | 1. SQLite writes the frames to the image | nothing |
//! | 2. SQLite syncs the WAL: one aligned, durable write to the log has the pages | the commit |
//! | 3. SQLite publishes the frames and releases the write lock | the commit |
//! | 4. `SQLITE_FCNTL_COMMIT_PHASETWO`, acknowledgement | the commit |
//!
//! - **Group commit, turns, checkpoints** are those of [the engine](crate::engine). Where the
//!   engine syncs a WAL, `eager` appends the frames that are not logged yet. The flush leader logs
//!   the frames of the whole batch in one record.
//! - **Processes** share the log by a [`board`]. The holder of the board's lock appends for every
//!   process that has committed.
//! - **A checkpoint** copies pages from the image to the database file, as SQLite always does.
//!   Before the first page is copied, the log gets whole every page that a torn write could destroy
//!   ([`log`], invariant 3).
//! - **A new epoch** of the log begins after SQLite has begun the WAL anew. At that point the
//!   database file has every commit and is synced.
//! - **A large transaction, or a full log**, makes the image durable for once: the image is synced,
//!   and an epoch begins that stands on the image. So the log never needs more than its size.
//! - **The guard** ([`guard`]) keeps other SQLites out while the log may hold commits. The last
//!   close, and `oneflush recover`, leave one plain database file and nothing else.
//! - **Recovery** ([`recover`]): the first opener after a crash builds the image from the log.
//!
//! # Which file says what
//!
//! | question | file |
//! |---|---|
//! | what an append, a checkpoint and a new epoch write | [`log`], [`draft`], [`encode`] |
//! | how SQLite's calls reach the log | [`store`], [`writing`] |
//! | how processes share the log, its lock and the turns | [`board`], [`waiting`], [`entrance`] |
//! | how a process joins; how the log is made and retired | [`attach`], [`kept`], [`log_life`] |
//! | what is done after a crash | [`recover`], [`building`], [`rebuilt`], [`log_life`] |
//! | how frames reach the image, and which are kept in memory | [`image_store`], [`recent`] |
//!
//! [`board`]: crate::strategy::board
//! [`log_life`]: crate::strategy::log_life
//!
//! # Differences to the paper
//!
//! - The thesis puts eager synching into ext4. `fsync` writes the file's dirty data and metadata to
//!   the file system's journal, and write-back copies them in place later. Here the file is one
//!   SQLite WAL and the log is a file.
//! - The thesis logs blocks. Here the log gets the difference between two versions of a page.
//! - The thesis copies back lazily, bounded by the journal. Here SQLite's checkpoint does the
//!   copying.

mod attach;
pub mod building;
#[cfg(all(test, not(feature = "shuttle")))]
mod building_tests;
mod draft;
mod encode;
mod entrance;
mod image_store;
mod kept;
pub mod log;
#[cfg(all(test, feature = "shuttle"))]
mod model;
pub mod rebuilt;
mod recent;
pub mod recover;
mod store;
#[cfg(all(test, not(feature = "shuttle")))]
mod unlogged_tests;
mod waiting;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use self::entrance::Entrance;
use self::image_store::ImageStore;
use self::log::OpenLog;
use self::recent::Frames;
use self::recover::Recovered;
pub use self::store::{Eager, EagerReport};
use crate::engine::For;
use crate::error::Code;
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::names::image_path;
use crate::port::Below;
use crate::stats::clock;
use crate::strategy::board::{Board, OwnBoard};
use crate::strategy::guard;
use crate::strategy::log_files::LogFiles;
use crate::strategy::log_life::LogLife;
use crate::strategy::space::Space;
use crate::sync::{Mutex, MutexGuard, lock, ranks};
use crate::wal_file::{self, WalFile};

/// An image of this age is cut when SQLite begins it anew. The kernel writes back what has been
/// dirty for 30 s.
const CUT_AFTER: Duration = Duration::from_secs(5);

/// The pause between two records of page images before a checkpoint. A waiting commit gets the log
/// meanwhile.
const IMAGES_PAUSE: Duration = Duration::from_micros(50);

/// The log of one database in this process.
pub struct EagerLog {
    life: LogLife<OpenLog>,
    /// A thread passes this entrance before it waits for the board's lock. So one thread of this
    /// process at a time waits there.
    appending: Entrance,
    /// Held over an append and its flush. Taken after the board's lock, so no thread waits here for
    /// another process.
    state: Mutex<State, { ranks::LOG }>,
    /// The board, for writers that need it while another thread appends.
    own_board: OwnBoard,
    /// Committed frames that are not logged yet. This lock is taken last and never held over a
    /// write.
    unlogged: Mutex<Frames, { ranks::UNLOGGED }>,
    image: ImageStore,
    space: Space,
}

#[derive(Default)]
struct State {
    /// Connections that have used the log and are not closed.
    users: u32,
    /// Connections that have the image open.
    images_open: u32,
    open: Option<OpenLog>,
    /// What must be done to the image before SQLite sees it. Unless it is [`Stale::No`], this
    /// process keeps the board's lock.
    image: Stale,
    recovered: Option<Recovered>,
}

#[derive(Default, PartialEq)]
enum Stale {
    #[default]
    No,
    /// The image of the last user: to be checked, and rebuilt if it is not whole (invariant 5 of
    /// the board).
    Check,
    Rebuild,
    Empty,
}

/// What a write of SQLite's to the image is.
pub struct FramePart {
    /// `Some`: a frame's header, and whether that frame ends a commit. `None`: something else.
    pub ends_commit: Option<bool>,
    /// The database's page size.
    pub page_bytes: usize,
}

/// Why a thread wants the log, and how long it waits.
struct Needs {
    /// The log is needed only until this frame is logged. 0: it is always needed.
    frame: u32,
    /// With the lock in hand, wait for other commits that are likely to join the batch.
    awaits_batch: bool,
    /// The wait ends when the holder of the lock has not gone on for so long.
    patience: Duration,
}

impl EagerLog {
    pub fn new(path: &str, files: Arc<dyn LogFiles>) -> EagerLog {
        EagerLog {
            life: LogLife::new(path, files),
            appending: Entrance::default(),
            state: Mutex::default(),
            own_board: OwnBoard::default(),
            unlogged: Mutex::default(),
            image: ImageStore::default(),
            space: Space::default(),
        }
    }

    pub fn image_path(&self) -> String {
        image_path(&self.life.path)
    }

    fn note_space(&self) {
        self.space.note(self.life.files.room(&self.life.path));
    }

    fn state(&self) -> MutexGuard<'_, State, { ranks::LOG }> {
        lock(&self.state)
    }

    fn board(&self) -> Board {
        self.own_board.get()
    }

    /// Runs `act` with the log while no other process uses it. An error ends the log for all
    /// processes.
    fn with_log<T>(
        &self,
        image: Option<&dyn Below>,
        act: impl FnOnce(&mut OpenLog, &Board) -> Result<T, Code>,
    ) -> Result<T, Code> {
        let needs = Needs { frame: 0, awaits_batch: false, patience: entrance::REFUSED_AFTER };
        let done = self.with_log_unless(image, needs, |_| false, act)?;
        done.ok_or(Code::IOERR_LOCK)
    }

    /// Like [`EagerLog::with_log`], unless `is_done` when the turn comes: then `None`.
    /// `SQLITE_BUSY`: the holder of the lock does not go on.
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
                    self.life.say_who_holds(&board);
                }
                return Err(code);
            }
        }
        let locked = board.locked(false);
        KillPoint::Locked.reached();
        if needs.awaits_batch {
            board.common().batching().wait();
            KillPoint::BatchAwaited.reached();
        }
        let mut state = self.state();
        let is_image_whole = state.image == Stale::No;
        // `None`, or another board: the log was closed during the wait.
        let Some(log) = state.open.as_mut().filter(|_| self.board().is_of(&board)) else {
            return Err(Code::READONLY);
        };
        debug_assert!(
            is_image_whole,
            "invariant 7 of the board: the log is used when the image is whole"
        );
        let result = match board.failure() {
            Some(code) => Err(code),
            None => self.act_alone(log, &board, image, act).inspect_err(|&code| {
                self.life.log_failed(&board, code, log.unsure, log.why_failed.take());
            }),
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
        debug_assert!(board.is_open(), "invariant 7 of the board: `Open` is set while it is used");
        if board.is_busy() {
            self.life.files.warn(&format!(
                "oneflush: {}: a process died while it wrote to the log [OF-202]",
                self.life.path
            ));
            log.repair(board, image)?;
        }
        if !mutant::is(Mutant::StaleHead) || !log.begun {
            log.follow(board, image)?;
        }
        board.appends_at(&log.head);
        board.set_busy(true);
        KillPoint::Busy.reached();
        log.share_bytes_max = self.space.share_bytes();
        let result = act(log, board)?;
        log.show(board);
        Ok(result)
    }

    /// To be called before a checkpoint writes its first page to the database file.
    pub fn before_checkpoint(
        &self,
        main: &dyn Below,
        image: &dyn Below,
        published: Option<u32>,
    ) -> Result<(), Code> {
        self.settle(image, published)?;
        let mut missing = Vec::new();
        let mut done = self.with_log(Some(image), |log, board| {
            log.append(board, main, image, &Frames::default(), board.committed())?;
            log.log_images(board, image, &mut missing)
        })?;
        while !done {
            // A checkpoint of many pages: a waiting commit waits for one record of images at most.
            std::thread::sleep(IMAGES_PAUSE);
            done = self
                .with_log(Some(image), |log, board| log.log_images(board, image, &mut missing))?;
        }
        Ok(())
    }

    /// Truncates the database file for a checkpoint. An unpublished commit may be in the log as a
    /// delta against a page behind the new end. So the log first gets those pages whole.
    pub fn cut_database(
        &self,
        main: &dyn Below,
        image: &dyn Below,
        size_bytes: u64,
    ) -> Result<(), Code> {
        if main.size_bytes()? <= size_bytes {
            return main.truncate(size_bytes);
        }
        self.with_log(Some(image), |log, board| {
            let mut missing = Vec::new();
            while !log.log_images(board, image, &mut missing)? {}
            // The lock is held, so no delta is logged against the file before the cut. The inner
            // result keeps a failed cut from failing the log.
            Ok(main.truncate(size_bytes))
        })?
    }

    /// A checkpoint writes this page to the database file. Answers the page with the guard in it,
    /// or `None` if the page can be written as it is.
    pub fn guarded(&self, data: &[u8], offset: u64) -> Option<Vec<u8>> {
        self.board().set_database_unsynced(true);
        guard::guarded(data, offset, || Some(self.state().open.as_ref()?.log.uuid()))
    }

    /// SQLite begins the image anew, or cuts it to nothing. The database file has every commit.
    pub fn restart(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Code> {
        lock(&self.unlogged).clear();
        self.with_log(Some(image), |log, board| {
            board.sync_database(main)?;
            // This comes first. A process that finds the restart half done must see that no frame
            // is needed any more.
            board.take_back(0);
            KillPoint::RestartNoted.reached();
            let is_old = age(board) >= CUT_AFTER || self.space.is_short();
            log.restart(board, image, is_old)?;
            board.set_since_ns(clock::now_ns());
            self.note_space();
            Ok(())
        })
    }

    /// To be called before `data` is written to the image. A frame that is committed, written or
    /// logged already is about to be overwritten. So its commit has failed, and is taken back here.
    /// After a failure of the log this is an error, and nothing may be written.
    pub fn before_frame(
        &self,
        image: &dyn Below,
        data: &[u8],
        offset: u64,
    ) -> Result<FramePart, Code> {
        let board = self.board();
        board.failure().map_or(Ok(()), Err)?;
        let page_bytes = board.page_bytes();
        let Some(frame) = frame_at(&board, offset) else {
            return Ok(FramePart { ends_commit: None, page_bytes });
        };
        let (committed, written) = (board.committed(), board.written());
        if frame <= committed.max(written).max(board.logged()) {
            lock(&self.unlogged).clear();
            board.take_back(frame - 1);
            KillPoint::TakenBack.reached();
            let taken_back =
                self.with_log(Some(image), |log, board| log.take_back(board, image, frame - 1));
            if taken_back == Err(Code::BUSY) {
                // Nothing was overwritten, so the next write has to take the commit back.
                board.note_committed(committed);
                board.note_written(written);
            }
            taken_back?;
        }
        Ok(FramePart { ends_commit: data.get(4..8).map(|pages| pages != [0; 4]), page_bytes })
    }

    /// The frame at this offset of the image ends a commit, and all of the commit is in the image.
    /// `frames` has those of its frames that are known.
    pub fn note_commit(&self, offset: u64, frames: &mut Frames) {
        let board = self.board();
        if let Some(frame) = frame_at(&board, offset) {
            self.keep(&board, frames);
            board.note_committed(frame);
            KillPoint::Noted.reached();
        }
    }

    /// The frame at this offset ends a commit that was written and not synced, and the writer lets
    /// others in. SQLite may have published the commit, but has not said so yet.
    pub fn note_written(&self, offset: u64, frames: &mut Frames) {
        let board = self.board();
        if let Some(frame) = frame_at(&board, offset) {
            self.keep(&board, frames);
            board.note_written(frame);
        }
    }

    /// Moves the frames of one commit to those that wait for the log.
    fn keep(&self, board: &Board, frames: &mut Frames) {
        if frames.is_of(board.generation()) && !frames.is_empty() {
            lock(&self.unlogged).append(frames, board.page_bytes());
        }
        frames.clear();
    }

    /// Decides whether what was written and not synced is a commit. It is one if SQLite has
    /// published it, or would accept it in a recovery of the WAL. (A process that wrote a commit
    /// and died cannot have noted it.)
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

    /// Reads a page of a commit that this process still keeps for the log. A writer needs such
    /// pages after another thread's commit. False: the page has to be read from the image.
    pub fn read_unlogged(&self, page: &mut [u8], offset: u64) -> bool {
        let board = self.board();
        let frame = offset
            .checked_sub(wal_file::FRAME_HEADER_BYTES as u64)
            .and_then(|header| frame_at(&board, header));
        let Some(frame) = frame.filter(|_| page.len() == board.page_bytes()) else { return false };
        let unlogged = lock(&self.unlogged);
        // A process that overwrites these frames begins a new generation first.
        let known =
            if unlogged.is_of(board.generation()) { unlogged.get(frame, page.len()) } else { None };
        known.map(|(_, known)| page.copy_from_slice(known)).is_some()
    }

    /// The commit that ends with the frame at this offset is answered "busy" and not published.
    /// Zeros in place of the frame's header keep SQLite's recovery from taking it for a commit.
    pub fn unwrite(&self, image: &dyn Below, offset: u64) -> Result<(), Code> {
        image.write(&[0; wal_file::FRAME_HEADER_BYTES], offset)
    }

    /// True if every commit so far is durable in the log.
    pub fn has_logged_all(&self, image: &dyn Below, published: Option<u32>) -> Result<bool, Code> {
        self.settle(image, published)?;
        let board = self.board();
        Ok(board.committed() <= board.logged())
    }

    /// Makes all commits noted so far durable. False: they were durable already. A caller that
    /// keeps others from committing must not ask for a batch. `SQLITE_BUSY`, never for a commit:
    /// the holder of the log does not go on.
    pub fn append(&self, main: &dyn Below, image: &dyn Below, what: For) -> Result<bool, Code> {
        let board = self.board();
        // Commits that come later are not needed here.
        let frame = board.committed();
        let by_another = |board: &Board| frame <= board.logged() && board.failure().is_none();
        if !by_another(&board) {
            board.common().batching().arrive(board.common().tickets().are_waited_for());
        }
        let is_commit = what != For::Other;
        let patience = if is_commit { entrance::failed_after() } else { entrance::REFUSED_AFTER };
        let needs = Needs { frame, awaits_batch: what == For::CommitInBatch, patience };
        let records = self.with_log_unless(Some(image), needs, by_another, |log, board| {
            let records_before = log.counts.records;
            let begun = board.common().batching().begin();
            // The frames are taken before `committed` is read. A commit in between adds frames that
            // this append does not need: it reads them from the image.
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
        // The commit is published, or noted for the holder of the lock: it cannot be taken back
        // (invariant 12 of the board).
        let records = records.map_err(|code| {
            if code == Code::BUSY && is_commit { Code::IOERR_FSYNC } else { code }
        })?;
        KillPoint::Durable.reached();
        Ok(records.is_some_and(|records| records > 0))
    }

    /// Writes frames to the image and moves them out of `bytes` to `frames`, the frames of their
    /// transaction.
    pub fn write_frames(
        &self,
        image: &dyn Below,
        bytes: &mut Vec<u8>,
        offset: u64,
        frames: &mut Frames,
        by_bytes: u64,
    ) -> Result<(), Code> {
        let board = self.board();
        if self.image.is_cut(&board, image)? {
            self.life.files.warn(&format!(
                "oneflush: {}: somebody has cut this file while it is in use. What was \
                    acknowledged is in the log. Close the database everywhere, and open it \
                    again [OF-237]",
                self.image_path()
            ));
            return Err(Code::IOERR_WRITE);
        }
        if extend_image(&board, image, offset + bytes.len() as u64, by_bytes)? {
            self.note_space();
        }
        self.image.put(&board, image, bytes, offset, |header| {
            self.life.files.map_image(&self.image_path(), header)
        })?;
        match frame_at(&board, offset) {
            Some(first) => frames.take(board.generation(), first, bytes, board.page_bytes()),
            // A page that SQLite writes over its first version, without its header.
            None => frames.clear(),
        }
        Ok(())
    }
}

/// Makes the image's file longer ahead, by a hole; true if it did. A write that extends the file
/// would change the inode each time.
fn extend_image(
    board: &Board,
    image: &dyn Below,
    end_bytes: u64,
    by_bytes: u64,
) -> Result<bool, Code> {
    if by_bytes == 0 || end_bytes <= board.image_bytes() {
        return Ok(false);
    }
    let size_bytes = image.size_bytes()?.max(end_bytes.next_multiple_of(by_bytes));
    image.truncate(size_bytes)?;
    board.image_reaches(size_bytes);
    Ok(true)
}

/// The age of the image's generation.
fn age(board: &Board) -> Duration {
    Duration::from_nanos(clock::now_ns().saturating_sub(board.since_ns()))
}

/// The frame whose header begins at this offset. `None`: no frame's header does.
fn frame_at(board: &Board, offset: u64) -> Option<u32> {
    let frame_bytes = (wal_file::FRAME_HEADER_BYTES + board.page_bytes()) as u64;
    let at = offset.checked_sub(wal_file::HEADER_BYTES)?;
    at.is_multiple_of(frame_bytes).then(|| u32::try_from(at / frame_bytes + 1).ok()).flatten()
}
