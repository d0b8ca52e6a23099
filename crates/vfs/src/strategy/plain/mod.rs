//! `plain`: SQLite's own WAL files without the waste (group commit; preallocation after WALDIO, ATC'15).
//!
//! Commit sequence, for a commit that nobody waits behind (what survives a crash after each step):
//!
//! 1. SQLite writes the frames to the WAL, in space made ahead ([`extent`])     nothing, or by luck the whole commit
//! 2. SQLite syncs the WAL: the one flush                                        the commit
//! 3. SQLite publishes the frames in the WAL index and releases the write lock
//! 4. `SQLITE_FCNTL_COMMIT_PHASETWO`, acknowledgement
//!
//! Behind which another writer of this process waits ([`turns`]), group commit:
//!
//! 1. as above
//! 2. the sync is put off: the commit only takes a number ([`flush`])            nothing, or by luck the whole commit
//! 3. as above; the next writer goes on and may read what is not durable yet
//! 4. in `SQLITE_FCNTL_COMMIT_PHASETWO` the commit waits for a flush that began after 2; if that fails, so does the commit
//!
//! Either way a commit is acknowledged after a flush that began when its frames were written, and a WAL is a prefix: whoever
//! commits on top of a commit that is not durable yet writes behind it, and the flush that saves the later saves the earlier.
//! Checkpoints sync the WAL before they copy and the database before the WAL is used again; those syncs, and the sync of a new
//! WAL header, are never put off. One flush a commit or less; a checkpoint adds two for each of its passes ([`checkpointer`]).
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. A sync is put off only by the holder of the write lock, for frames, and only if this connection is sure to get the
//!    `COMMIT_PHASETWO` of the same transaction: its WAL is linked to it exactly.
//! 2. After a failed sync of the WAL no connection of this process gets a commit acknowledged, until all have closed.
//! 3. Whatever waits, waits no longer than the connection's busy handler allows; a connection without one does not wait.
//! 4. At a clean close the database file has everything, and the WAL that is kept holds no frame that anybody would recover.

mod checkpointer;
mod door;
mod extent;
mod flush;
mod generation;
mod turns;
mod unsure;

pub use checkpointer::{Checkpointer, Progress, RunCheckpoint};

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde::Serialize;

use self::checkpointer::{CheckpointCounts, WRITE_LOCK_MAX};
use self::door::Door;
use self::extent::Extent;
use self::flush::{CommitNo, GroupFlush};
use self::generation::Generation;
use self::turns::{IDLE_MAX, Turns};
use super::{Below, BusyHandler, DeviceCharacteristics, LockLevel, ShmLock, Strategy, SyncRequest};
use crate::config::{Durability, Options, StrategyKind};
use crate::error::{Code, Error};
use crate::role::Role;
use crate::sync::{Mutex, lock};

/// Stands in the place of the first frame of a WAL that was closed empty: no SQLite takes it for one. It also says that the
/// directory has been synced since the file was made, as it is when space is made ahead, so that the next opener need not do it
/// again.
pub const EMPTY_WAL: &[u8; 32] = b"Oneflush: empty WAL, kept; fine.";

/// Where the first frame of a WAL begins ("WAL file format"). The header before it stays: a reader that may not write the WAL index
/// wants to see one.
pub const FIRST_FRAME: u64 = 32;

/// How often a connection that has its turn looks whether another process has released the write lock.
const POLL: Duration = Duration::from_micros(100);

/// For so many commits after it was met, another process that writes is taken to be still there. Queues do not reach across
/// processes, so that it waits cannot be seen.
const OUTSIDERS_COMMITS: u64 = 32;

/// How long a connection waits at the door before it goes for the write lock as SQLite would.
const DOOR_PATIENCE: Duration = Duration::from_millis(200);

/// How long the checkpointer waits for a writer outside the queue before it gives up for now.
const CHECKPOINTER_PATIENCE: Duration = Duration::from_secs(1);

/// How long the checkpointer keeps the writers out in order to wait for readers.
const READERS_PATIENCE: Duration = Duration::from_millis(3);

thread_local! {
    /// The connection of this thread that was last told "busy" and may be about to sleep for it.
    static WAITING: RefCell<Weak<Plain>> = const { RefCell::new(Weak::new()) };
}

/// What the connections of this process to one database share.
pub struct Shared {
    turns: Turns,
    flush: GroupFlush,
    extent: Extent,
    generation: Generation,
    path: String,
    /// Where the bytes of the WAL begin that a failed flush, now or when the database was open before, has left unsure.
    left: Mutex<Option<u64>>,
    checkpointer: Arc<Checkpointer>,
    /// The number of the checkpointer's last connection.
    checkpointer_id: AtomicU64,
    /// For how many commits more writers of other processes are taken to wait.
    outsiders: AtomicU64,
    door: Arc<Door>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    turn_waits: AtomicU64,
    turn_wait_ns_sum: AtomicU64,
    turn_wait_ns_max: AtomicU64,
    bounced: AtomicU64,
    mispredicted: AtomicU64,
}

impl Shared {
    pub fn new(path: &str, run: Arc<dyn RunCheckpoint>) -> Shared {
        Shared {
            turns: Turns::default(),
            flush: GroupFlush::default(),
            path: path.to_owned(),
            left: Mutex::new(unsure::take(path)),
            extent: Extent::default(),
            generation: Generation::default(),
            checkpointer: Checkpointer::new(path, run),
            checkpointer_id: AtomicU64::new(0),
            outsiders: AtomicU64::new(0),
            door: Door::new(path),
            counts: Counts::default(),
        }
    }

    /// A checkpoint, now, by a connection of its own.
    pub fn checkpoint_now(&self, options: &Options) -> Result<Progress, String> {
        self.checkpointer.run_now(options)
    }

    /// Notes what a failed flush has left unsure.
    fn note_failure(&self) {
        let mut left = lock(&self.left);
        *left = left.iter().copied().chain(self.generation.unsure_from()).min();
    }

    /// Mends what is unsure before `end_bytes`. The caller keeps all writers out.
    fn mend(&self, wal: &dyn Below, end_bytes: u64) -> Result<(), Code> {
        let mut left = lock(&self.left);
        if let Some(unsure_from) = *left {
            unsure::write_again(wal, unsure_from, end_bytes)?;
            *left = None;
        }
        Ok(())
    }

    /// Ends the turn of a connection, if it has it, and lets the next process through the door.
    fn leave(&self, id: u64) {
        let had_turn = self.turns.holds(id);
        self.turns.leave(id);
        if had_turn {
            self.door.leave();
        }
    }

    fn waited(&self, began: Instant) {
        let waited_ns = began.elapsed().as_nanos() as u64;
        self.counts.turn_waits.fetch_add(1, Relaxed);
        self.counts.turn_wait_ns_sum.fetch_add(waited_ns, Relaxed);
        self.counts.turn_wait_ns_max.fetch_max(waited_ns, Relaxed);
    }

    pub fn report(&self) -> PlainReport {
        let flush = self.flush.counts();
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        PlainReport {
            commits: flush.commits,
            flushes: flush.flushes,
            commits_per_flush: if flush.flushes == 0 { 0.0 } else { flush.commits as f64 / flush.flushes as f64 },
            flush_failed: self.flush.failure().is_some(),
            turns: TurnsReport {
                waits: get(&self.counts.turn_waits),
                wait_ns_sum: get(&self.counts.turn_wait_ns_sum),
                wait_ns_max: get(&self.counts.turn_wait_ns_max),
                bounced: get(&self.counts.bounced),
                mispredicted: get(&self.counts.mispredicted),
            },
            wal_extensions: self.extent.extensions(),
            checkpoints: self.checkpointer.counts(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(unsure_from) = *lock(&self.left) {
            unsure::leave(&self.path, unsure_from);
        }
        self.checkpointer.stop();
        self.door.stop();
    }
}

/// `plain` in `PRAGMA oneflush_stats`, for all connections of this process to the database.
#[derive(Serialize)]
pub struct PlainReport {
    /// Commits that asked for durability.
    commits: u64,
    /// Flushes of the WAL, those before checkpoints included.
    flushes: u64,
    commits_per_flush: f64,
    flush_failed: bool,
    turns: TurnsReport,
    /// How often the WAL was extended by a chunk of zeros.
    wal_extensions: u64,
    checkpoints: CheckpointCounts,
}

#[derive(Serialize)]
struct TurnsReport {
    /// How often a connection waited for its turn, and how long.
    waits: u64,
    wait_ns_sum: u64,
    wait_ns_max: u64,
    /// Writers that found the write lock taken and had not queued for it.
    bounced: u64,
    /// Turns taken for a transaction that did not write.
    mispredicted: u64,
}

/// One connection. SQLite uses it from one thread at a time; the atomics only satisfy the compiler, so all are relaxed.
pub struct Plain {
    /// The number of the connection.
    id: u64,
    options: Options,
    shared: Arc<Shared>,
    /// This connection belongs to the checkpointer: it may wait for the write lock inside the lock call.
    is_checkpointer: bool,
    me: Weak<Plain>,
    main: Mutex<Option<Box<dyn Below>>>,
    wal: Mutex<Option<Box<dyn Below>>>,
    busy_handler: Mutex<Option<Arc<dyn BusyHandler>>>,
    /// Above 0: the next transaction is expected to write.
    prediction: AtomicI8,
    /// It wrote, or tried to, since it last took a read lock.
    wrote: AtomicBool,
    writing: AtomicBool,
    /// It uses the WAL index that all processes share, not one of its own (`locking_mode=EXCLUSIVE` from the start).
    shares_index: AtomicBool,
    checkpointing: AtomicBool,
    /// It had its turn and found the write lock taken, so another process, or somebody without a turn, has it.
    outside_holder: AtomicBool,
    /// It has waited at the door for long enough to do without.
    passes_by_the_door: AtomicBool,
    /// Its busy handler has been seen to sleep through this VFS.
    has_slept: AtomicBool,
    /// It was told "busy" at the write lock and has neither slept nor been called since.
    bounced: AtomicBool,
    /// Its busy handler sleeps through this VFS, or has not been seen not to.
    sleeps: AtomicBool,
    /// The last call was the commit's end: a checkpoint that begins now is SQLite's automatic one.
    just_committed: AtomicBool,
    /// SQLite's automatic checkpoint is running, and it has not taken the write lock, as one that was asked for would.
    automatic: AtomicBool,
    /// Frames were written since the last sync of this connection.
    unsynced_frames: AtomicBool,
    /// For `durability=full` over `synchronous=OFF`, where SQLite leaves out every sync: the WAL's header was written and not synced;
    /// the WAL was not synced since the checkpoint began; the checkpoint has written its pages.
    header_unsynced: AtomicBool,
    checkpoint_wal_unsynced: AtomicBool,
    checkpoint_copied: AtomicBool,
    /// The first sync of a WAL through this connection syncs its directory too, or it was opened as one that does not need it.
    directory_synced: AtomicBool,
    /// The commit whose sync is put off, and how SQLite wanted it.
    put_off: Mutex<Option<(CommitNo, SyncRequest)>>,
    closing: Mutex<Closing>,
}

/// How far the last close of a database has come: only in this order, with nothing between, is the WAL's content known to be in the
/// database file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Closing {
    #[default]
    No,
    /// The database is locked exclusively.
    Exclusive,
    /// A checkpoint has written its pages.
    Copied,
    /// It has also cut the database to its size, as it does only if it is complete.
    Complete,
    /// SQLite asked whether the WAL is to be kept, as it does only at the end of a close.
    Kept,
}

impl Plain {
    pub fn new(id: u64, options: &Options, shared: Arc<Shared>, is_checkpointer: bool) -> Arc<Plain> {
        if is_checkpointer {
            shared.checkpointer_id.store(id, Relaxed);
        }
        Arc::new_cyclic(|me| Plain {
            id,
            options: options.clone(),
            shared,
            is_checkpointer,
            me: Weak::clone(me),
            main: Mutex::default(),
            wal: Mutex::default(),
            busy_handler: Mutex::default(),
            prediction: AtomicI8::new(0),
            wrote: AtomicBool::new(false),
            writing: AtomicBool::new(false),
            shares_index: AtomicBool::new(false),
            checkpointing: AtomicBool::new(false),
            outside_holder: AtomicBool::new(false),
            passes_by_the_door: AtomicBool::new(false),
            has_slept: AtomicBool::new(false),
            bounced: AtomicBool::new(false),
            sleeps: AtomicBool::new(true),
            just_committed: AtomicBool::new(false),
            automatic: AtomicBool::new(false),
            unsynced_frames: AtomicBool::new(false),
            header_unsynced: AtomicBool::new(false),
            checkpoint_wal_unsynced: AtomicBool::new(false),
            checkpoint_copied: AtomicBool::new(false),
            directory_synced: AtomicBool::new(false),
            put_off: Mutex::default(),
            closing: Mutex::default(),
        })
    }

    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    fn promises_full(&self) -> bool {
        self.options.durability == Durability::Full
    }

    fn group_commit(&self) -> bool {
        self.options.group_commit
    }

    fn take_read_lock(&self, below: &dyn Below, read: ShmLock) -> Result<(), Error> {
        if self.group_commit() && self.prediction.load(Relaxed) > 0 && self.wait_for_turn() {
            // SQLite has read the WAL index before the wait: "busy" makes it look again, with the turn in hand.
            return Err(Error::Below(Code::BUSY));
        }
        below.shm_lock(read)?;
        self.wrote.store(false, Relaxed);
        Ok(())
    }

    /// Waits for the turn as long as the busy handler allows; true if it was waited for and got.
    fn wait_for_turn(&self) -> bool {
        let turns = &self.shared.turns;
        if turns.take(self.id) {
            return false;
        }
        let began = Instant::now();
        // The checkpointer is waited for with or without a busy handler, as SQLite's own checkpoint would be.
        let checkpointer = self.shared.checkpointer_id.load(Relaxed);
        while turns.holds(checkpointer) && began.elapsed() < WRITE_LOCK_MAX {
            if turns.wait(self.id, IDLE_MAX) {
                self.shared.waited(began);
                return true;
            }
        }
        let handler = lock(&self.busy_handler).clone();
        let Some(handler) = handler else {
            self.shared.leave(self.id);
            return false;
        };
        while !turns.wait(self.id, Duration::ZERO) {
            self.about_to_sleep();
            if !handler.wait() {
                self.shared.leave(self.id);
                self.shared.waited(began);
                return false;
            }
        }
        self.shared.waited(began);
        true
    }

    fn released_read_lock(&self) {
        if self.wrote.load(Relaxed) {
            self.prediction.store((self.prediction.load(Relaxed) + 1).min(2), Relaxed);
            return;
        }
        // Two steps down for one up: who reads and writes in turn should not queue in order to read.
        self.prediction.store((self.prediction.load(Relaxed) - 2).max(-1), Relaxed);
        if self.shared.turns.holds(self.id) {
            self.shared.counts.mispredicted.fetch_add(1, Relaxed);
            self.shared.leave(self.id);
        }
    }

    fn take_write_lock(&self, below: &dyn Below, write: ShmLock) -> Result<(), Error> {
        self.automatic.store(false, Relaxed);
        if !self.group_commit() {
            self.try_write_lock(below, write)?;
            self.writing.store(true, Relaxed);
            return Ok(());
        }
        self.wrote.store(true, Relaxed);
        if self.bounced.swap(false, Relaxed) && !self.has_slept.load(Relaxed) {
            // It was told "busy" and came back without sleeping here, and never has slept here: it must not stand in the queue while it
            // does other things. (Once is no proof: SQLite also asks for this lock to read a WAL index that is being changed, and
            // then tries again at once.)
            self.sleeps.store(false, Relaxed);
            self.shared.leave(self.id);
        }
        let has_turn = self.shared.turns.take(self.id);
        // Who does not wait has no use for a queue.
        let uses_door = has_turn
            && self.has_slept.load(Relaxed)
            && !self.passes_by_the_door.load(Relaxed)
            && self.shared.outsiders.load(Relaxed) > 0;
        if !uses_door || self.shared.door.enter() {
            match self.try_write_lock(below, write) {
                Ok(()) => {
                    if has_turn {
                        self.shared.turns.begin_writing(self.id);
                        self.shared.door.begin_writing();
                    }
                    self.passes_by_the_door.store(false, Relaxed);
                    self.writing.store(true, Relaxed);
                    return Ok(());
                }
                Err(Code::BUSY) => {}
                Err(code) => return Err(code.into()),
            }
        }
        self.prediction.store(2, Relaxed);
        self.outside_holder.store(has_turn, Relaxed);
        if has_turn {
            self.shared.outsiders.store(OUTSIDERS_COMMITS, Relaxed);
        }
        self.shared.counts.bounced.fetch_add(1, Relaxed);
        if self.sleeps.load(Relaxed) {
            // Takes the place; the waiting is done where SQLite sleeps.
            self.shared.turns.wait(self.id, Duration::ZERO);
            self.bounced.store(true, Relaxed);
            self.about_to_sleep();
        }
        Err(Error::Below(Code::BUSY))
    }

    /// Takes the write lock, or waits for it, if the checkpointer of this process has it: a connection without a busy handler must not
    /// meet that either.
    fn try_write_lock(&self, below: &dyn Below, write: ShmLock) -> Result<(), Code> {
        loop {
            let writings = self.shared.checkpointer.writings();
            match below.shm_lock(write) {
                Err(Code::BUSY) if self.shared.checkpointer.gave_way(writings) => {}
                result => return result,
            }
        }
    }

    /// The checkpointer's way to the write lock. The answer is never "busy", which would make SQLite go on without the lock, and a
    /// writer begin the WAL anew meanwhile: what the WAL-reset bug needs.
    fn take_write_lock_for_checkpoint(&self, below: &dyn Below, write: ShmLock) -> Result<(), Error> {
        let began = Instant::now();
        while began.elapsed() < CHECKPOINTER_PATIENCE {
            // With its turn, no writer of this process that queues is between its read lock, which would keep the WAL from beginning
            // anew, and its write lock.
            self.shared.turns.wait(self.id, CHECKPOINTER_PATIENCE);
            self.shared.checkpointer.writes(true);
            match below.shm_lock(write) {
                Ok(()) => {
                    self.shared.turns.begin_writing(self.id);
                    self.writing.store(true, Relaxed);
                    return Ok(());
                }
                Err(code) => {
                    self.shared.checkpointer.writes(false);
                    if code != Code::BUSY {
                        self.shared.leave(self.id);
                        return Err(code.into());
                    }
                }
            }
            std::thread::sleep(POLL);
            self.shared.turns.renew(self.id);
        }
        self.shared.leave(self.id);
        Err(Error::Below(Code::LOCKED))
    }

    /// The checkpointer holds the write lock and needs the readers to be gone for a moment. Commits that wait for their flush are
    /// readers too, and soon gone; whoever stays longer must not stop the writers.
    fn wait_for_readers(&self, below: &dyn Below, lock: ShmLock) -> Result<(), Error> {
        let deadline = Instant::now() + READERS_PATIENCE;
        loop {
            match below.shm_lock(lock) {
                Err(Code::BUSY) if Instant::now() < deadline => std::thread::sleep(POLL / 4),
                result => return Ok(result?),
            }
        }
    }

    fn released_write_lock(&self) {
        self.writing.store(false, Relaxed);
        if self.is_checkpointer {
            self.shared.checkpointer.writes(false);
        }
        if self.group_commit() {
            self.shared.leave(self.id);
        }
    }

    fn about_to_sleep(&self) {
        // During thread exit the note may be gone already; then it is an ordinary sleep.
        let _ = WAITING.try_with(|waiting| *waiting.borrow_mut() = Weak::clone(&self.me));
    }

    /// Waits for the turn instead of sleeping; the answer says that the time is over or the turn there.
    fn sleep(&self, at_most: Duration) {
        self.bounced.store(false, Relaxed);
        self.has_slept.store(true, Relaxed);
        let deadline = Instant::now() + at_most;
        if !self.shared.turns.wait(self.id, at_most) || !self.outside_holder.load(Relaxed) {
            return;
        }
        let began = Instant::now();
        while !self.shared.door.wait(IDLE_MAX / 2) && began.elapsed() < DOOR_PATIENCE {
            self.shared.turns.renew(self.id);
            if Instant::now() >= deadline {
                return;
            }
        }
        self.passes_by_the_door.store(began.elapsed() >= DOOR_PATIENCE, Relaxed);
        // The write lock may still be with somebody who does not use the door.
        self.outside_holder.store(false, Relaxed);
        let main = lock(&self.main);
        let Some(below) = main.as_deref() else { return };
        let write_lock = |acquire| ShmLock { first: ShmLock::WRITE, count: 1, acquire, exclusive: true };
        while below.shm_lock(write_lock(true)) == Err(Code::BUSY) {
            if Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(POLL);
            // Keeps the turn: to wait for another process is not to be idle.
            self.shared.turns.renew(self.id);
        }
        let _ = below.shm_lock(write_lock(false));
    }

    /// A sync of the WAL, shared with whoever else wants one.
    fn flush(&self, wal: &dyn Below, number: CommitNo, request: SyncRequest) -> Result<(), Error> {
        self.unsynced_frames.store(false, Relaxed);
        self.header_unsynced.store(false, Relaxed);
        self.checkpoint_wal_unsynced.store(false, Relaxed);
        Ok(self.shared.flush.wait_for(number, || {
            let writes = self.shared.generation.begin_flush();
            wal.sync(request).inspect_err(|_| self.shared.note_failure())?;
            self.directory_synced.store(true, Relaxed);
            self.shared.generation.flushed(writes);
            Ok(())
        })?)
    }

    fn sync_wal(&self, wal: &dyn Below, request: SyncRequest) -> Result<(), Error> {
        let of_commit = self.unsynced_frames.load(Relaxed) && !self.checkpointing.load(Relaxed);
        if !of_commit && lock(&self.shared.left).is_some() && self.shared.flush.failure().is_none() {
            self.mend_for_checkpoint(wal)?;
        }
        if !of_commit && self.shared.generation.is_durable(wal) {
            // Nothing to sync. A failed flush before would have been the end of it.
            self.checkpoint_wal_unsynced.store(false, Relaxed);
            return self.shared.flush.failure().map_or(Ok(()), |code| Err(code.into()));
        }
        if !of_commit {
            return self.flush(wal, self.shared.flush.register_sync(), request);
        }
        let number = self.shared.flush.register();
        // Invariant 1: a WAL that comes here has been linked to this connection.
        if self.writing.load(Relaxed) && self.group_commit() && self.somebody_waits() {
            *lock(&self.put_off) = Some((number, request));
            return Ok(());
        }
        self.flush(wal, number, request)
    }

    /// True if another writer of this process waits, or one of another process is likely to.
    fn somebody_waits(&self) -> bool {
        let outsiders = self.shared.outsiders.load(Relaxed);
        if outsiders > 0 {
            self.shared.outsiders.store(outsiders - 1, Relaxed);
        }
        outsiders > 0 || self.shared.turns.wanted()
    }

    /// Before the sync of a checkpoint, whose connection need not have the write lock.
    fn mend_for_checkpoint(&self, wal: &dyn Below) -> Result<(), Error> {
        let main = lock(&self.main);
        let write_lock = |acquire| ShmLock { first: ShmLock::WRITE, count: 1, acquire, exclusive: true };
        let takes_lock = self.shares_index.load(Relaxed) && !self.writing.load(Relaxed);
        let below = main.as_deref().filter(|_| takes_lock);
        if let Some(below) = below {
            below.shm_lock(write_lock(true))?;
        }
        let result = wal.size_bytes().and_then(|end_bytes| self.shared.mend(wal, end_bytes));
        if let Some(below) = below {
            below.shm_lock(write_lock(false))?;
        }
        Ok(result?)
    }

    fn advance(&self, from: Closing, to: Closing) {
        let mut closing = lock(&self.closing);
        *closing = if *closing == from { to } else { Closing::No };
    }
}

impl Strategy for Plain {
    fn kind(&self) -> StrategyKind {
        StrategyKind::Plain
    }

    fn opened(&self, main: Box<dyn Below>) {
        *lock(&self.main) = Some(main);
    }

    fn opened_wal(&self, wal: Box<dyn Below>) {
        self.shared.extent.forget();
        self.shared.generation.forget();
        self.shared.door.forget_file();
        self.directory_synced.store(false, Relaxed);
        *lock(&self.wal) = Some(wal);
    }

    fn closing(&self) {
        self.shared.leave(self.id);
        *lock(&self.main) = None;
    }

    fn closing_wal(&self) {
        let wal = lock(&self.wal).take();
        // Invariant 4. Without it the next opener would recover the kept WAL, and every close would copy all of it again. No sync:
        // the old frame only means a needless recovery, and SQLite syncs the next header before the frames behind it.
        let closing = *lock(&self.closing);
        if let Some(wal) = wal.as_deref().filter(|_| closing == Closing::Kept) {
            let frame = if self.directory_synced.load(Relaxed) { *EMPTY_WAL } else { [0; EMPTY_WAL.len()] };
            let _ = wal.write(&frame, FIRST_FRAME);
        }
        // The checkpoint of the last close was refused, so the WAL stays.
        if let Some(wal) = wal.as_deref().filter(|_| closing == Closing::Exclusive)
            && let Ok(end_bytes) = wal.size_bytes()
        {
            // If it fails, it stays noted.
            let _ = self.shared.mend(wal, end_bytes);
        }
        self.shared.extent.forget();
    }

    fn keeps_wal(&self) -> bool {
        self.options.keep_wal
    }

    fn wal_is_kept(&self) {
        self.advance(Closing::Complete, Closing::Kept);
    }

    fn asked_by_pragma(&self) {
        self.just_committed.store(false, Relaxed);
    }

    fn busy_handler(&self, handler: Arc<dyn BusyHandler>) {
        *lock(&self.busy_handler) = Some(handler);
    }

    fn checkpoint_announced(&self, running: bool) -> Result<(), Error> {
        if !running {
            self.advance(Closing::Exclusive, Closing::Copied);
            self.checkpoint_copied.store(true, Relaxed);
            return Ok(());
        }
        match lock(&self.wal).as_deref() {
            Some(wal) if self.promises_full() && self.checkpoint_wal_unsynced.load(Relaxed) => {
                self.flush(wal, self.shared.flush.register_sync(), SyncRequest::ALL)
            }
            _ => Ok(()),
        }
    }

    fn commit_phase_two(&self) -> Result<(), Error> {
        self.just_committed.store(true, Relaxed);
        let put_off = lock(&self.put_off).take();
        let wal = lock(&self.wal);
        let Some(wal) = wal.as_deref() else { return Ok(()) };
        if let Some((number, request)) = put_off {
            return self.flush(wal, number, request);
        }
        if self.promises_full() && self.unsynced_frames.load(Relaxed) {
            return self.flush(wal, self.shared.flush.register(), SyncRequest::ALL);
        }
        Ok(())
    }

    fn read(&self, below: &dyn Below, _: Role, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        Ok(below.read(buffer, offset)?)
    }

    fn write(&self, below: &dyn Below, role: Role, data: &[u8], offset: u64) -> Result<(), Error> {
        // Invariant 2; and no page may go into the database that the WAL is not sure to have.
        if matches!(role, Role::Wal | Role::Db)
            && let Some(code) = self.shared.flush.failure()
        {
            return Err(code.into());
        }
        if role == Role::Wal {
            *lock(&self.closing) = Closing::No;
            if offset == 0 {
                // A new header: another process may have cut or deleted the file since.
                self.shared.extent.forget();
                self.header_unsynced.store(true, Relaxed);
                // The frames of the old generation do not matter any more.
                *lock(&self.shared.left) = None;
            } else {
                self.shared.mend(below, offset)?;
                if self.promises_full() && self.header_unsynced.load(Relaxed) {
                    // Frames of the new generation must not reach the disk before its header: the old one would vouch for a part of
                    // the old frames.
                    self.flush(below, self.shared.flush.register_sync(), SyncRequest::ALL)?;
                }
            }
            let flush = || self.flush(below, self.shared.flush.register_sync(), SyncRequest::ALL);
            self.shared.extent.reserve(below, offset + data.len() as u64, self.options.prealloc_bytes, flush)?;
            self.unsynced_frames.store(offset != 0, Relaxed);
        }
        let result = below.write(data, offset);
        if role == Role::Wal {
            match result {
                Ok(()) => self.shared.generation.wrote(data, offset),
                Err(_) => self.shared.generation.forget(),
            }
        }
        Ok(result?)
    }

    fn truncate(&self, below: &dyn Below, role: Role, size_bytes: u64) -> Result<(), Error> {
        match role {
            Role::Wal => {
                *lock(&self.closing) = Closing::No;
                self.shared.extent.forget();
                self.shared.generation.forget();
            }
            Role::Db => self.advance(Closing::Copied, Closing::Complete),
            Role::RollbackJournal | Role::SuperJournal | Role::Temp => {}
        }
        below.truncate(size_bytes)?;
        // A complete checkpoint ends with this call and a sync; with `synchronous=OFF` the sync is left out, and the WAL used again.
        if role == Role::Db && self.checkpoint_copied.swap(false, Relaxed) && self.promises_full() {
            below.sync(SyncRequest::ALL)?;
        }
        Ok(())
    }

    fn sync(&self, below: &dyn Below, role: Role, request: SyncRequest) -> Result<(), Error> {
        match role {
            Role::Wal => self.sync_wal(below, request),
            Role::Db | Role::RollbackJournal | Role::SuperJournal | Role::Temp => Ok(below.sync(request)?),
        }
    }

    fn size_bytes(&self, below: &dyn Below, _: Role) -> Result<u64, Error> {
        Ok(below.size_bytes()?)
    }

    fn lock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        if level != LockLevel::Exclusive || self.is_checkpointer {
            return Ok(below.lock(level)?);
        }
        self.shared.checkpointer.hold_off();
        let result = below.lock(level);
        self.shared.checkpointer.go_on();
        result?;
        *lock(&self.closing) = Closing::Exclusive;
        Ok(())
    }

    fn unlock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        *lock(&self.closing) = Closing::No;
        Ok(below.unlock(level)?)
    }

    fn shm_lock(&self, below: &dyn Below, lock: ShmLock) -> Result<(), Error> {
        self.shares_index.store(true, Relaxed);
        let just_committed = lock.acquire && self.just_committed.swap(false, Relaxed);
        match (lock.exclusive, lock.acquire) {
            (false, true) if lock.first >= ShmLock::READ => self.take_read_lock(below, lock),
            (false, false) if lock.first >= ShmLock::READ => {
                let result = below.shm_lock(lock);
                self.released_read_lock();
                Ok(result?)
            }
            (true, true) if lock.covers(ShmLock::WRITE) && self.is_checkpointer => {
                self.take_write_lock_for_checkpoint(below, lock)
            }
            (true, true) if lock.covers(ShmLock::WRITE) => self.take_write_lock(below, lock),
            (true, false) if lock.covers(ShmLock::WRITE) => {
                let result = below.shm_lock(lock);
                self.released_write_lock();
                Ok(result?)
            }
            (true, true) if lock.covers(ShmLock::CHECKPOINT) => {
                if just_committed && !self.is_checkpointer && self.shared.checkpointer.is_at_it() {
                    return Err(Error::Below(Code::BUSY));
                }
                // A checkpoint that is asked for waits for the one in the background instead of finding it in the way.
                if !self.is_checkpointer {
                    self.shared.checkpointer.hold_off();
                }
                if let Err(code) = below.shm_lock(lock) {
                    if !self.is_checkpointer {
                        self.shared.checkpointer.go_on();
                    }
                    return Err(code.into());
                }
                self.checkpointing.store(true, Relaxed);
                self.checkpoint_wal_unsynced.store(true, Relaxed);
                self.automatic.store(just_committed, Relaxed);
                Ok(())
            }
            (true, true) if self.is_checkpointer && self.writing.load(Relaxed) => self.wait_for_readers(below, lock),
            (true, true) if self.automatic.load(Relaxed) && self.request_checkpoint() => {
                // As if a reader were in the way: SQLite lets it be, and the checkpoint has "succeeded".
                Err(Error::Below(Code::BUSY))
            }
            (true, false) if lock.covers(ShmLock::CHECKPOINT) => {
                self.checkpointing.store(false, Relaxed);
                self.automatic.store(false, Relaxed);
                let result = below.shm_lock(lock);
                if !self.is_checkpointer {
                    self.shared.checkpointer.go_on();
                }
                Ok(result?)
            }
            _ => Ok(below.shm_lock(lock)?),
        }
    }

    fn sector_size(&self, below: &dyn Below, _: Role) -> i32 {
        below.sector_size()
    }

    fn device_characteristics(&self, below: &dyn Below, _: Role) -> DeviceCharacteristics {
        below.device_characteristics()
    }
}

impl Plain {
    fn request_checkpoint(&self) -> bool {
        self.options.checkpoints_in_background
            && !self.is_checkpointer
            && self.shared.checkpointer.request(&self.options)
    }
}

/// `xSleep` of the VFS: true if the sleep was spent in a queue of ours, as long as it had to be.
pub fn sleep(microseconds: u64) -> bool {
    let waiting = WAITING.try_with(|waiting| waiting.take().upgrade()).ok().flatten();
    let Some(connection) = waiting else { return false };
    connection.sleep(Duration::from_micros(microseconds));
    true
}
