//! The board: shared memory of all processes that use one database with `eager`.
//!
//! The log has one tail and many writers. A process appends only while it holds the board's lock.
//! The kernel takes that lock back when its holder dies. The board says where the next record goes,
//! up to which frame the log has everything, and what a checkpoint still has to log.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. The board is changed only under its lock. The exceptions are [`Word::Committed`],
//!    [`Word::Written`], [`Word::ImageBytes`], [`Word::ImageCuts`] and [`Word::DatabaseUnsynced`].
//! 2. `Busy` is set before log or board is changed, and cleared when both agree again. A process
//!    that takes the lock and finds `Busy` set knows that another died in between. It believes only
//!    the log itself.
//! 3. `Logged` grows only after those frames are durable. So a reader without the lock may trust
//!    it.
//! 4. After a failed write or sync `Failed` stays set until no process has the database open.
//! 5. A process that finds itself alone makes the board anew. One case is excepted: board and image
//!    are as the last user left them, and the system has not been restarted. Then the process goes
//!    on with both, as if it had been there when the last user died. (A commit that asked for no
//!    durability outlives its process.)
//!
//! # Joining
//!
//! A stopped process (`SIGSTOP`, a debugger, a frozen cgroup) may hold the board's lock for as long
//! as it is stopped. So every wait for the lock has a limit, and a process can join the users of
//! the log without it. For this there are three locks on the log. The kernel takes all of them back
//! from a dead process.
//!
//! | lock | held by | kind |
//! |---|---|---|
//! | *use* | each process that has joined, or is about to | shared |
//! | *alone* | a process that found no other with *use* | *use*, exclusively |
//! | *shown* | each process that has joined | shared; can be seen without being taken |
//!
//! | state of a process | holds | entered by |
//! |---|---|---|
//! | alone | the board's lock, *alone* | [`Common::be_alone`] |
//! | opening | the board's lock, *use*, *shown*; `Open` is clear | [`Board::join`], alone |
//! | joined | *use*, *shown*; `Open` is set | [`Board::set_open`] after that |
//! | joined | the same | [`Board::join`] or [`Board::join_beside`], beside others |
//! | gone | nothing | [`Common::leave`], or death |
//!
//! 6. A process is alone only if it has *alone*. A process that tries for *alone*, or takes *shown*
//!    by another way than 9, has the board's lock.
//! 7. `Open` says that board and image are whole. A process that is alone clears `Open` before it
//!    releases *alone*. It sets `Open` under the board's lock, when board and image are made or
//!    checked. So while any process has *use*, `Open` is not cleared.
//! 8. Only a process that was alone, and has kept the board's lock since, recovers, rebuilds or
//!    makes the board anew.
//! 9. A process joins without the board's lock in this order:
//!    - it sees *shown*: so a process lives that has joined, and the board is of this start of the
//!      system;
//!    - it takes *use*;
//!    - it checks that log and board are still the files of those names, and that `Open` is set;
//!    - it takes *shown*.
//!
//!    By 7 no process has been alone since `Open` was set, and none will be. A connection that only
//!    reads does the same and does not take *shown*.
//! 10. A process may have the board's lock, not be alone, and find `Open` clear. Then another
//!     process is between two steps of 9, and the answer is "busy".
//! 11. A process that retires the log has the database locked exclusively. A process that joins has
//!     a shared lock on the database.
//!
//! # Waiting
//!
//! 12. A process that waits for the lock gives up when nobody has released it for a while. What is
//!     not published then is answered "busy" and stays as it was. A published commit fails, and its
//!     process acknowledges nothing more.
//! 13. A panic under the lock is a failed write: 4 holds, and then the lock is released.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use oneflush_blocklog::{Epoch, Head, Lsn, Uuid};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::log::{OpenLog, Page};
use super::tickets::Tickets;
use crate::engine::ProcessBatching;
use crate::error::Code;
use crate::kill_point::KillPoint;
use crate::strategy::mutant::{self, Mutant};
use crate::sync::{Condvar, Mutex, lock, wait_timeout};

/// Memory and locks that all processes share which use a database with `eager`.
pub trait Common: Send + Sync {
    /// [`WORDS`] words, all zero in a new board.
    fn words(&self) -> &[AtomicU64];
    /// Waits for the lock and takes it. False: not taken, because `done` says that it is not needed
    /// any more. `done` may change when `frame` is logged; 0: at no frame. `SQLITE_BUSY`: nobody
    /// has released the lock for `patience`. One caller at a time in each process.
    fn lock_unless(
        &self,
        frame: u32,
        patience: Duration,
        done: &dyn Fn() -> bool,
    ) -> Result<bool, Code>;
    /// Releases the lock. These frames were logged under it.
    fn unlock(&self, logged: Range<u32>);
    /// The holder of the lock, if it is another process. It may have died since.
    fn holder(&self) -> Option<Holder>;
    /// True if any process has the lock.
    fn is_locked(&self) -> bool;
    /// Waits until the lock is released. May end early.
    fn wait_for_unlock(&self, at_most: Duration);
    fn tickets(&self) -> &Tickets;
    fn batching(&self) -> &ProcessBatching;
    /// Takes *alone*, if no process has *use* (invariant 6).
    fn be_alone(&self) -> Result<bool, Code>;
    /// Takes *use*; gives *alone* back for it. `SQLITE_BUSY`: another process is alone.
    fn begin_use(&self) -> Result<(), Code>;
    /// Takes *shown*. The caller has *use*.
    fn show_use(&self);
    /// Another process has *shown*.
    fn is_shown(&self) -> bool;
    /// The files of board and log have been neither replaced nor removed.
    fn is_there(&self) -> bool;
    /// Releases all locks on the log that this process has.
    fn leave(&self);
    /// A number for this board, the log, the image at this path, and this start of the system.
    /// Another number means other files or another start. 0: that cannot be known. Its algorithm is
    /// part of the board's layout.
    fn identity(&self, image: &str) -> u64;
}

/// The process that has the board's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number, as the process sees it.
    pub pid: u32,
    /// When it took the lock, by the monotonic clock.
    pub since_ns: u64,
}

/// The size of the board's memory.
pub const WORDS: usize = FIRST_PAGE + PAGES_WORDS;
const FIRST_BITS: usize = 64;
/// For so many words of frames, a bit a frame, the board knows whether the log has the whole page.
/// Of other frames it is assumed that the log has not.
const BITS_WORDS: usize = 1024;
const FIRST_PAGE: usize = FIRST_BITS + BITS_WORDS;
/// Of this many frames, those logged last, the board knows the page. Of other frames the image
/// knows it.
const PAGES_WORDS: usize = 1024;

/// The version of the board's layout, and of what the processes share behind it. It grows by one
/// whenever either changes. The words before [`Word::Layout`] keep their places.
const LAYOUT: u64 = 4;

#[derive(Clone, Copy)]
enum Word {
    UuidHigh,
    UuidLow,
    Busy,
    Failed,
    /// The LSN of a record whose append failed. The log may have it or not.
    Unsure,
    /// Counts how often committed or logged frames may have got other contents.
    Generation,
    Epoch,
    Position,
    Lsn,
    Previous,
    LaneBytes,
    Begun,
    OnImage,
    RecordsInEpoch,
    /// How many pages the log has changes of in this epoch.
    Pages,
    Logged,
    /// The log has the whole page of each frame up to this.
    Contained,
    PageBytes,
    /// The last frame of the last commit. It need not be durable.
    Committed,
    /// The last frame of a commit that was written and not synced. It may be published, or may have
    /// failed.
    Written,
    /// The image's file has at least this many bytes.
    ImageBytes,
    /// When the image's generation began, by the monotonic clock.
    SinceNs,
    /// The database file was written since its last sync.
    DatabaseUnsynced,
    /// The guard was written and could not be synced. The cache may have what the device lacks.
    GuardUnsure,
    /// [`Common::identity`], taken when the image was whole.
    Identity,
    /// The generation of the frames whose pages the board knows.
    PagesGeneration,
    /// [`LAYOUT`].
    Layout,
    /// Counts how often the image's file was made shorter.
    ImageCuts,
    /// Board and image are whole (invariant 7).
    Open,
}

/// What a board says to a process that does not use the database.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Look {
    pub epoch: u64,
    /// Records of this epoch.
    pub records: u64,
    /// How many pages the log has changes of in this epoch.
    pub pages: u64,
    /// The image's last frame that is durable in the log.
    pub logged_frames: u64,
    /// The last frame of the last commit. It need not be durable yet.
    pub committed_frames: u64,
    /// A write or sync has failed. Nothing is acknowledged until all processes have closed the
    /// database.
    pub failed: bool,
}

/// Reads the words of a board's file without mapping it. `None`: the file is being made.
pub fn read_words(board: &File) -> Option<Vec<u64>> {
    let mut bytes = vec![0; WORDS * size_of::<u64>()];
    board.read_exact_at(&mut bytes, 0).ok()?;
    let words = bytes.chunks_exact(size_of::<u64>()).filter_map(|word| word.try_into().ok());
    Some(words.map(u64::from_ne_bytes).collect())
}

/// What these words say. `None`: they are of another version.
pub fn look(words: &[u64]) -> Option<Look> {
    let word = |word: Word| words.get(word as usize).copied();
    (word(Word::Layout)? == LAYOUT).then_some(Look {
        epoch: word(Word::Epoch)?,
        records: word(Word::RecordsInEpoch)?,
        pages: word(Word::Pages)?,
        logged_frames: word(Word::Logged)?,
        committed_frames: word(Word::Committed)?,
        failed: word(Word::Failed)? != 0,
    })
}

/// These words say that board and image are whole. With `uuid` they must also be of that log.
pub fn is_open(words: &[u64], uuid: Option<Uuid>) -> bool {
    let word = |word: Word| words.get(word as usize).copied().unwrap_or_default();
    let is_of = |uuid: Uuid| {
        u128::from_be_bytes(uuid.0)
            == u128::from(word(Word::UuidHigh)) << 64 | u128::from(word(Word::UuidLow))
    };
    word(Word::Layout) == LAYOUT && word(Word::Open) != 0 && uuid.is_none_or(is_of)
}

/// The board of one database. Where there is no log, it is a [`Private`] one.
#[derive(Clone)]
pub struct Board(Arc<dyn Common>);

impl Board {
    pub fn new(common: Arc<dyn Common>) -> Board {
        Board(common)
    }

    pub fn common(&self) -> &dyn Common {
        &*self.0
    }

    pub fn is_of(&self, other: &Board) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Under the board's lock: this process uses the log from now on. True: no other process does.
    /// `SQLITE_BUSY`: another process has *alone*.
    pub fn join(&self) -> Result<bool, Code> {
        let alone = self.0.be_alone()?;
        if alone {
            self.set(Word::Open, 0);
        }
        // This is not one step. A process that takes *use* in between finds `Open` clear.
        KillPoint::Alone.reached();
        self.0.begin_use()?;
        self.0.show_use();
        Ok(alone)
    }

    /// Joins without the board's lock, if others use this log (invariant 9). False: the caller
    /// needs the lock.
    pub fn join_beside(&self, uuid: Uuid) -> Result<bool, Code> {
        if !self.0.is_shown() || !self.is_open_for(uuid) {
            return Ok(false);
        }
        KillPoint::Seen.reached();
        match self.0.begin_use() {
            Err(Code::BUSY) => return Ok(false),
            result => result?,
        }
        KillPoint::Using.reached();
        let joined = self.0.is_there() && self.is_open_for(uuid);
        if joined {
            self.0.show_use();
        } else {
            self.0.leave();
        }
        Ok(joined)
    }

    fn is_open_for(&self, uuid: Uuid) -> bool {
        self.has_our_layout() && self.is_open() && self.uuid() == uuid
    }

    /// Board and image are whole.
    pub fn is_open(&self) -> bool {
        self.get(Word::Open) != 0
    }

    /// Board and image are whole from now on (invariant 7).
    pub fn set_open(&self) {
        self.set(Word::Open, 1);
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.0.words()[word as usize]
    }

    fn get(&self, word: Word) -> u64 {
        self.word(word).load(SeqCst)
    }

    fn set(&self, word: Word, value: u64) {
        self.word(word).store(value, SeqCst);
    }

    fn frame(&self, word: Word) -> u32 {
        // These words hold frame numbers only.
        self.get(word) as u32
    }

    /// True if a process that is alone may go on with this board and the image at this path
    /// (invariant 5).
    pub fn can_go_on(&self, uuid: Uuid, page_bytes: usize, image: &str) -> bool {
        let identity = self.0.identity(image);
        identity != 0
            && self.has_our_layout()
            && self.get(Word::Identity) == identity
            && self.uuid() == uuid
            && self.page_bytes() == page_bytes
            && self.failure().is_none()
            && !self.is_unsure()
            && !self.is_guard_unsure()
    }

    /// The board was made by a version of Oneflush with the same layout.
    pub fn has_our_layout(&self) -> bool {
        self.get(Word::Layout) == LAYOUT
    }

    /// Marks board and image so that a later process may go on with both.
    pub fn identify(&self, image: &str) {
        self.set(Word::Identity, self.0.identity(image));
    }

    /// Makes the board anew (invariant 5). Answers the record of this log that the last user left
    /// unsure.
    pub fn begin(&self, uuid: Uuid, page_bytes: usize) -> Option<Lsn> {
        let unsure =
            Some(self.get(Word::Unsure)).filter(|&lsn| lsn != 0 && self.uuid() == uuid).map(Lsn);
        let guard_unsure = self.is_guard_unsure();
        self.0.words().iter().for_each(|word| word.store(0, SeqCst));
        let (high, low) = uuid.0.split_at(8);
        for (word, half) in [(Word::UuidHigh, high), (Word::UuidLow, low)] {
            self.set(word, half.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)));
        }
        self.set(Word::PageBytes, page_bytes as u64);
        self.set(Word::Layout, LAYOUT);
        self.set(Word::Unsure, unsure.map_or(0, |lsn| lsn.0));
        self.set_guard_unsure(guard_unsure);
        unsure
    }

    pub fn is_guard_unsure(&self) -> bool {
        self.get(Word::GuardUnsure) != 0
    }

    pub fn set_guard_unsure(&self, unsure: bool) {
        self.set(Word::GuardUnsure, u64::from(unsure));
    }

    /// The log may have a certain record or not.
    pub fn is_unsure(&self) -> bool {
        self.get(Word::Unsure) != 0
    }

    /// The unsure record was written again.
    pub fn set_sure(&self) {
        self.set(Word::Unsure, 0);
    }

    pub fn uuid(&self) -> Uuid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.get(Word::UuidHigh).to_be_bytes());
        bytes[8..].copy_from_slice(&self.get(Word::UuidLow).to_be_bytes());
        Uuid(bytes)
    }

    pub fn page_bytes(&self) -> usize {
        self.get(Word::PageBytes) as usize
    }

    pub fn is_busy(&self) -> bool {
        self.get(Word::Busy) != 0
    }

    pub fn set_busy(&self, busy: bool) {
        self.set(Word::Busy, u64::from(busy));
    }

    pub fn failure(&self) -> Option<Code> {
        // The word holds a code.
        Some(self.get(Word::Failed) as i32).filter(|&code| code != 0).map(Code)
    }

    /// Ends the log for all processes (invariant 4).
    pub fn fail(&self, code: Code, unsure: Option<Lsn>) {
        self.set(Word::Unsure, unsure.map_or(0, |lsn| lsn.0));
        self.set(Word::Failed, code.0 as u64);
    }

    /// The number of the record that the holder of the lock may be writing.
    pub fn next_lsn(&self) -> Lsn {
        Lsn(self.get(Word::Lsn) + 1)
    }

    pub fn generation(&self) -> u64 {
        self.get(Word::Generation)
    }

    pub fn next_generation(&self) {
        self.word(Word::Generation).fetch_add(1, SeqCst);
    }

    pub fn committed(&self) -> u32 {
        self.frame(Word::Committed)
    }

    pub fn written(&self) -> u32 {
        self.frame(Word::Written)
    }

    pub fn logged(&self) -> u32 {
        self.frame(Word::Logged)
    }

    pub fn note_committed(&self, frame: u32) {
        self.word(Word::Committed).fetch_max(u64::from(frame), SeqCst);
    }

    pub fn note_written(&self, frame: u32) {
        self.word(Word::Written).fetch_max(u64::from(frame), SeqCst);
    }

    /// The frames behind `kept` belong to a commit that failed.
    pub fn take_back(&self, kept: u32) {
        self.word(Word::Committed).fetch_min(u64::from(kept), SeqCst);
        self.word(Word::Written).fetch_min(u64::from(kept), SeqCst);
    }

    pub fn image_bytes(&self) -> u64 {
        self.get(Word::ImageBytes)
    }

    pub fn image_reaches(&self, bytes: u64) {
        self.word(Word::ImageBytes).fetch_max(bytes, SeqCst);
    }

    /// To be called before the image's file is made shorter.
    pub fn image_cut(&self, bytes: u64) {
        if mutant::is(Mutant::CutUntold) {
            return;
        }
        self.word(Word::ImageCuts).fetch_add(1, SeqCst);
        self.word(Word::ImageBytes).fetch_min(bytes, SeqCst);
    }

    pub fn image_cuts(&self) -> u64 {
        self.get(Word::ImageCuts)
    }

    pub fn since_ns(&self) -> u64 {
        self.get(Word::SinceNs)
    }

    pub fn set_since_ns(&self, now_ns: u64) {
        self.set(Word::SinceNs, now_ns);
    }

    pub fn is_database_unsynced(&self) -> bool {
        self.get(Word::DatabaseUnsynced) != 0
    }

    pub fn set_database_unsynced(&self, unsynced: bool) {
        self.set(Word::DatabaseUnsynced, u64::from(unsynced));
    }

    /// The epoch stands on the synced image.
    pub fn is_on_image(&self) -> bool {
        self.get(Word::OnImage) != 0
    }

    /// Used bytes of the lane in use.
    pub fn used_bytes(&self) -> u64 {
        if self.get(Word::Begun) != 0 { self.get(Word::Position) } else { 0 }
    }

    pub fn lane_bytes(&self) -> u64 {
        self.get(Word::LaneBytes)
    }

    /// Takes from the board where the next record goes, as the last holder of the lock left it.
    pub fn read(&self, log: &mut OpenLog) {
        let words = self.0.words();
        let get = |word: Word| words[word as usize].load(SeqCst);
        log.head = Head {
            epoch: Epoch(get(Word::Epoch)),
            position: get(Word::Position),
            lsn: Lsn(get(Word::Lsn)),
            previous: get(Word::Previous) as u32,
            lane_bytes: get(Word::LaneBytes),
        };
        log.begun = get(Word::Begun) != 0;
        log.on_image = get(Word::OnImage) != 0;
        log.records_in_epoch = get(Word::RecordsInEpoch);
    }

    /// Puts on the board where the next record goes. `Logged` comes last (invariant 3).
    pub fn write(&self, log: &OpenLog) {
        let words = self.0.words();
        let Head { epoch, position, lsn, previous, lane_bytes } = log.head;
        for (at, (word, value)) in [
            (Word::Epoch, epoch.0),
            (Word::Position, position),
            (Word::Lsn, lsn.0),
            (Word::Previous, u64::from(previous)),
            (Word::LaneBytes, lane_bytes),
            (Word::Begun, u64::from(log.begun)),
            (Word::OnImage, u64::from(log.on_image)),
            (Word::RecordsInEpoch, log.records_in_epoch),
            (Word::Pages, log.pages.len() as u64),
            (Word::Logged, u64::from(log.logged)),
        ]
        .into_iter()
        .enumerate()
        {
            if at == 4 {
                KillPoint::HalfShown.reached();
            }
            words[word as usize].store(value, SeqCst);
        }
    }

    /// Bytes of the pages that a checkpoint would write.
    pub fn changed_bytes(&self) -> u64 {
        self.get(Word::Pages) * self.get(Word::PageBytes)
    }

    fn bit_of(&self, frame: u32) -> Option<(&AtomicU64, u64)> {
        let at = frame as usize / 64;
        (at < BITS_WORDS).then(|| (&self.0.words()[FIRST_BITS + at], 1 << (frame % 64)))
    }

    /// True if the log has the whole page of this frame. The frame must be the page's last that is
    /// logged.
    pub fn contains(&self, frame: u32) -> bool {
        frame <= self.frame(Word::Contained)
            || self.bit_of(frame).is_some_and(|(word, bit)| word.load(SeqCst) & bit != 0)
    }

    pub fn set_contained(&self, frame: u32) {
        if let Some((word, bit)) = self.bit_of(frame) {
            word.fetch_or(bit, SeqCst);
        }
    }

    /// The log has the whole page of each frame up to this.
    pub fn set_all_contained(&self, upto: u32) {
        self.set(Word::Contained, u64::from(upto));
    }

    /// Forgets for all frames that the log has their pages.
    pub fn forget_contained(&self) {
        self.set(Word::Contained, 0);
        self.0.words()[FIRST_BITS..FIRST_PAGE].iter().for_each(|word| word.store(0, SeqCst));
    }

    fn pages(&self) -> &[AtomicU64] {
        &self.0.words()[FIRST_PAGE..]
    }

    /// The frame, which is being logged, is of this page.
    pub fn note_page(&self, frame: u32, page_no: u32) {
        let generation = self.generation();
        if self.get(Word::PagesGeneration) != generation {
            self.pages().iter().for_each(|word| word.store(0, SeqCst));
            self.set(Word::PagesGeneration, generation);
        }
        self.pages()[frame as usize % PAGES_WORDS]
            .store(u64::from(frame) << 32 | u64::from(page_no), SeqCst);
    }

    /// The page of a frame up to `Logged`. `None`: the image has to be asked.
    pub fn page_of(&self, frame: u32) -> Option<u32> {
        let noted = self.pages()[frame as usize % PAGES_WORDS].load(SeqCst);
        let is_known =
            self.get(Word::PagesGeneration) == self.generation() && noted >> 32 == u64::from(frame);
        is_known.then_some(noted as u32).filter(|&page_no| page_no != 0)
    }

    pub fn note_contained(&self, pages: &FxHashMap<u32, Page>) {
        pages
            .values()
            .filter(|page| page.contained)
            .for_each(|page| self.set_contained(page.frame));
    }
}

/// A board within one process. On a simulated disk each "process" is a group of connections. It is
/// also the board where there is no log.
pub struct Private {
    words: Box<[AtomicU64]>,
    tickets: Tickets,
    batching: ProcessBatching,
    state: Mutex<PrivateState>,
    changed: Condvar,
}

#[derive(Default)]
struct PrivateState {
    locked: bool,
    alone: bool,
    users: u32,
}

impl Default for Private {
    fn default() -> Private {
        Private {
            words: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            tickets: Tickets::default(),
            batching: ProcessBatching::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl Common for Private {
    fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    fn lock_unless(
        &self,
        _: u32,
        patience: Duration,
        done: &dyn Fn() -> bool,
    ) -> Result<bool, Code> {
        let deadline = Instant::now() + patience;
        let mut state = lock(&self.state);
        loop {
            if done() {
                return Ok(false);
            }
            if !state.locked {
                state.locked = true;
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Code::BUSY);
            }
            state = wait_timeout(&self.changed, state, left);
        }
    }

    fn unlock(&self, _: Range<u32>) {
        lock(&self.state).locked = false;
        self.changed.notify_all();
    }

    fn holder(&self) -> Option<Holder> {
        None
    }

    fn is_locked(&self) -> bool {
        lock(&self.state).locked
    }

    fn wait_for_unlock(&self, _: Duration) {}

    fn tickets(&self) -> &Tickets {
        &self.tickets
    }

    fn batching(&self) -> &ProcessBatching {
        &self.batching
    }

    fn be_alone(&self) -> Result<bool, Code> {
        let mut state = lock(&self.state);
        state.alone = state.users == 0 && !state.alone;
        Ok(state.alone)
    }

    fn begin_use(&self) -> Result<(), Code> {
        let mut state = lock(&self.state);
        state.alone = false;
        state.users += 1;
        Ok(())
    }

    fn show_use(&self) {}

    /// Here a process that joins always needs the lock.
    fn is_shown(&self) -> bool {
        false
    }

    fn is_there(&self) -> bool {
        true
    }

    fn leave(&self) {
        let mut state = lock(&self.state);
        state.users = state.users.saturating_sub(1);
    }

    fn identity(&self, _: &str) -> u64 {
        0
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn which_page_a_frame_has_is_known_of_the_last_ones_of_a_generation() {
        let board = Board::new(Arc::new(Private::default()));
        board.begin(Uuid([1; 16]), 4096);
        assert_eq!(board.page_of(0), None);
        (1..=2000).for_each(|frame| board.note_page(frame, frame * 3));
        assert_eq!(
            [976, 977, 2000, 2001].map(|frame| board.page_of(frame)),
            [None, Some(977 * 3), Some(6000), None]
        );
        // The frames are taken back and logged again, with other pages.
        board.next_generation();
        assert_eq!(board.page_of(2000), None);
        board.note_page(1900, 7);
        assert_eq!([1899, 1900, 1901].map(|frame| board.page_of(frame)), [None, Some(7), None]);
        board.begin(Uuid([2; 16]), 4096);
        assert_eq!(board.page_of(1900), None);
    }
}
