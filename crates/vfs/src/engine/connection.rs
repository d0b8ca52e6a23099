//! One connection of a strategy for WAL mode: its entry points, and its state between two calls.
//!
//! | state | begins with | ends with | what holds |
//! |---|---|---|---|
//! | idle | [`release_read_lock`] | the next lock | no lock of the WAL index |
//! | reads | [`take_read_lock`] | [`release_read_lock`] | the snapshot of the read lock |
//! | writes | the write lock ([`locking`]) | its release | nobody else writes to the WAL |
//! | commits | a sync of the WAL or publication ([`syncing`]) | [`commit_phase_two`] | see below |
//! | checkpoints | the checkpoint lock | its release | pages follow a durable WAL |
//! | closes | [`closing`] | | the states of a last close, in order |
//!
//! - While a connection writes, frames may be held back.
//! - A commit is acknowledged only after the flush.
//! - A checkpoint writes pages to the database file only after the WAL is durable.
//!
//! [`release_read_lock`]: WalConnection::release_read_lock
//! [`take_read_lock`]: WalConnection::take_read_lock
//! [`commit_phase_two`]: WalConnection::commit_phase_two
//! [`locking`]: super::locking
//! [`syncing`]: super::syncing
//! [`closing`]: super::closing

use std::cell::Cell;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Weak};

use super::closing::Closing;
use super::held::Held;
use super::shared::Shared;
use super::store::Store;
use super::syncing::{For, PutOff};
use super::unchained::Unchained;
use super::waiter::Waiter;
use crate::config::{Durability, Options};
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::port::{
    Below, BusyHandler, DeviceCharacteristics, LockLevel, MainFile, Purpose, ShmLock, SyncRequest,
    WalIndex,
};
use crate::role::Role;
use crate::sync::{Barrier, Mutex, lock, ranks};

/// SQLite's default threshold for an automatic checkpoint, in frames
/// (`SQLITE_DEFAULT_WAL_AUTOCHECKPOINT`).
///
/// From this many frames on, SQLite checkpoints after each commit unless the application has
/// changed the threshold.
pub(super) const AUTOMATIC_FRAMES: u32 = 1000;

thread_local! {
    /// The number of PRAGMAs that this thread has prepared.
    ///
    /// `PRAGMA wal_checkpoint` is for all attached databases, but SQLite reports it only to the
    /// main one. Each database therefore compares this count with the count at its own commit.
    static PRAGMAS: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn pragmas() -> u64 {
    PRAGMAS.try_with(Cell::get).unwrap_or(0)
}

/// Lowers a flag and answers whether it was up.
///
/// Only the connection's own thread touches the flag, so no `swap` is needed. Every read would pay
/// for one.
pub(super) fn taken(flag: &AtomicBool) -> bool {
    let is_up = flag.load(Relaxed);
    if is_up {
        flag.store(false, Relaxed);
    }
    is_up
}

/// What a connection does under its read lock.
pub(crate) mod doing {
    /// The connection has no read lock.
    pub const NOTHING: u8 = 0;
    pub const READS: u8 = 1;
    /// The connection writes or tries to.
    pub const WRITES: u8 = 2;
}

/// One connection of SQLite to one database.
///
/// SQLite uses a connection from one thread at a time. The atomics only satisfy the compiler, so
/// all accesses are relaxed.
pub struct WalConnection<S: Store> {
    /// The connection's number.
    pub(super) id: u64,
    pub(crate) options: Options,
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) purpose: Purpose,
    pub(super) me: Weak<WalConnection<S>>,
    pub(crate) main: Mutex<Option<Arc<dyn MainFile>>, { ranks::MAIN }>,
    pub(crate) wal: Mutex<Option<Box<dyn Below>>, { ranks::WAL }>,
    /// Whether `wal` has one. The end of a process asks, and must not wait for a flush.
    pub(super) wal_is_open: AtomicBool,
    pub(crate) busy_handler: Mutex<Option<Arc<dyn BusyHandler>>>,
    pub(super) waiter: Waiter,
    /// A constant of [`mod@doing`]: what the connection does under its read lock.
    pub(crate) doing: AtomicU8,
    pub(crate) writing: AtomicBool,
    /// The connection uses the WAL index that all processes share. With `locking_mode=EXCLUSIVE`
    /// from the start it has an index of its own instead.
    pub(crate) shares_index: AtomicBool,
    /// The connection recovers the WAL. Nobody else writes to the WAL or to the database file.
    pub(crate) recovering: AtomicBool,
    /// The last call was the end of a commit. A checkpoint that begins now is SQLite's automatic
    /// one.
    pub(super) just_committed: AtomicBool,
    /// After its last commit SQLite would try its automatic checkpoint, and has not tried one
    /// since.
    pub(super) expects_automatic: AtomicBool,
    /// SQLite has tried no checkpoint after the last commits, though there were enough frames. A
    /// checkpoint that comes now was asked for.
    pub(super) no_automatic: AtomicBool,
    /// The count of [`pragmas`] at the last commit.
    pub(super) pragmas_before: AtomicU64,
    /// This connection has written frames since its last sync.
    pub(crate) unsynced_frames: AtomicBool,
    /// The WAL's header was written and not synced. For `durability=full` over `synchronous=OFF`,
    /// where SQLite leaves out every sync.
    pub(crate) header_unsynced: AtomicBool,
    pub(crate) checkpoint: Checkpoint,
    /// Frames, or a frame's header, held back to be written at once.
    pub(crate) held: Mutex<Held, { ranks::HELD }>,
    pub(super) unchained: Unchained,
    /// The connection's lock on the database.
    pub(super) level: Mutex<LockLevel>,
    pub(super) put_off: Mutex<Option<PutOff>>,
    pub(crate) closing: Mutex<Closing, { ranks::CLOSING }>,
    /// The connection has the turn to close.
    pub(super) has_turn_to_close: AtomicBool,
    /// The store's own state for this connection.
    pub(crate) own: S::Own,
}

/// The checkpoint that this connection runs.
#[derive(Default)]
pub(crate) struct Checkpoint {
    pub running: AtomicBool,
    /// The checkpoint is SQLite's automatic one. It has not taken the write lock, which a requested
    /// checkpoint would take.
    pub automatic: AtomicBool,
    /// The store is prepared for this checkpoint's writes to the database file.
    pub prepared: AtomicBool,
    /// The WAL was not synced since the checkpoint began. For `durability=full` over
    /// `synchronous=OFF`, as is `copied`.
    pub wal_unsynced: AtomicBool,
    pub copied: AtomicBool,
    /// A pass of the checkpointer copied pages and the sync of these pages failed. SQLite does not
    /// look at that error and takes the pages for copied.
    pub copied_in_vain: AtomicBool,
}

/// What SQLite has told a connection. In a child of `fork` it is carried over to the new
/// connection.
pub(crate) struct Told {
    level: LockLevel,
    busy_handler: Option<Arc<dyn BusyHandler>>,
    shares_index: bool,
}

/// A connection of a strategy for WAL mode, whatever its store.
pub(crate) trait InWalMode: Send + Sync {
    /// True outside of any transaction, readers' transactions included. A connection in exclusive
    /// locking mode is never idle.
    fn is_idle(&self) -> bool;
    /// Plain SQLite must not open the database while it is in use.
    fn is_guarded(&self) -> bool;
    /// The connection has opened the WAL, and the WAL index with it.
    fn has_wal(&self) -> bool;
    /// The connection's lock on the database file.
    fn level(&self) -> LockLevel;
    fn purpose(&self) -> Purpose;
    /// The barrier of the WAL index.
    fn barrier(&self) -> Arc<Barrier>;
    fn told(&self) -> Told;
    /// From now on this connection stands for an idle connection that was told `told`.
    fn take_over(&self, told: Told);
}

impl<S: Store> InWalMode for WalConnection<S> {
    fn is_idle(&self) -> bool {
        let has_wal = self.has_wal();
        self.doing.load(Relaxed) == doing::NOTHING
            && [&self.writing, &self.checkpoint.running, &self.recovering]
                .iter()
                .all(|flag| !flag.load(Relaxed))
            && self.level() <= if has_wal { LockLevel::Shared } else { LockLevel::None }
            && (!has_wal || self.shares_index.load(Relaxed))
    }

    fn is_guarded(&self) -> bool {
        S::IS_GUARDED
    }

    fn has_wal(&self) -> bool {
        self.wal_is_open.load(Acquire)
    }

    fn level(&self) -> LockLevel {
        *lock(&self.level)
    }

    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn barrier(&self) -> Arc<Barrier> {
        self.shared.barrier()
    }

    fn told(&self) -> Told {
        Told {
            level: self.level(),
            busy_handler: lock(&self.busy_handler).clone(),
            shares_index: self.shares_index.load(Relaxed),
        }
    }

    fn take_over(&self, told: Told) {
        *lock(&self.level) = told.level;
        *lock(&self.busy_handler) = told.busy_handler;
        self.shares_index.store(told.shares_index, Relaxed);
    }
}

impl<S: Store> WalConnection<S> {
    pub fn new(
        id: u64,
        options: &Options,
        shared: Arc<Shared<S>>,
        purpose: Purpose,
    ) -> Arc<WalConnection<S>> {
        if purpose == Purpose::Checkpoints {
            shared.checkpointer_id.store(id, Relaxed);
        } else {
            shared.users.fetch_add(1, Relaxed);
        }
        Arc::new_cyclic(|me| WalConnection {
            id,
            options: options.clone(),
            shared,
            purpose,
            me: Weak::clone(me),
            main: Mutex::default(),
            wal: Mutex::default(),
            wal_is_open: AtomicBool::new(false),
            busy_handler: Mutex::default(),
            waiter: Waiter::default(),
            doing: AtomicU8::new(doing::NOTHING),
            writing: AtomicBool::new(false),
            shares_index: AtomicBool::new(false),
            recovering: AtomicBool::new(false),
            just_committed: AtomicBool::new(false),
            expects_automatic: AtomicBool::new(false),
            no_automatic: AtomicBool::new(false),
            pragmas_before: AtomicU64::new(0),
            unsynced_frames: AtomicBool::new(false),
            header_unsynced: AtomicBool::new(false),
            checkpoint: Checkpoint::default(),
            held: Mutex::default(),
            unchained: Unchained::default(),
            level: Mutex::new(LockLevel::None),
            put_off: Mutex::default(),
            closing: Mutex::default(),
            has_turn_to_close: AtomicBool::new(false),
            own: S::Own::default(),
        })
    }

    pub(crate) fn store(&self) -> &S {
        &self.shared.store
    }

    pub(super) fn is_checkpointer(&self) -> bool {
        self.purpose == Purpose::Checkpoints
    }

    pub(crate) fn promises_full(&self) -> bool {
        self.options.durability == Durability::Full
    }

    pub(super) fn group_commit(&self) -> bool {
        self.options.group_commit
    }

    /// The number of published frames, if this connection uses the WAL index that all processes
    /// share.
    pub(crate) fn published_frames(&self) -> Option<u32> {
        let shares_index = self.shares_index.load(Relaxed);
        shares_index
            .then(|| lock(&self.main).as_deref().and_then(|main| main.published_frames()))
            .flatten()
    }

    pub(crate) fn is_likely_to_write(&self) -> bool {
        self.waiter.prediction.load(Relaxed) > 0
    }

    pub fn opened(&self, main: Arc<dyn MainFile>) -> Result<(), Error> {
        self.store().opened(main.as_ref())?;
        *lock(&self.main) = Some(main);
        Ok(())
    }

    pub fn closing(&self) {
        self.shared.leave(self.id);
        if !self.is_checkpointer() && self.shared.users.fetch_sub(1, Relaxed) == 1 {
            self.shared.checkpointer.end();
        }
        KillPoint::Closing.reached();
        self.store().closing(self);
        let main = lock(&self.main).take();
        // Invariant of `closing.rs`: by now nothing of this connection is in the way of a last
        // close.
        if let Some(main) = main.filter(|_| taken(&self.has_turn_to_close)) {
            let _ = main.turn_to_close(false);
        }
    }

    pub fn opened_wal(&self, wal: Box<dyn Below>) -> Result<(), Error> {
        self.store().opened_wal(self, wal.as_ref())?;
        *lock(&self.wal) = Some(wal);
        self.wal_is_open.store(true, Release);
        if !self.is_checkpointer() {
            self.shared.open_wals.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    pub fn hides_wal(&self) -> Result<bool, Error> {
        lock(&self.main).as_deref().map_or(Ok(false), |main| self.store().hides_wal(main))
    }

    pub fn asked_by_pragma(&self) {
        // During thread exit the count may be gone. No checkpoint comes then either.
        let _ = PRAGMAS.try_with(|pragmas| pragmas.set(pragmas.get() + 1));
    }

    pub fn busy_handler(&self, handler: Arc<dyn BusyHandler>) {
        *lock(&self.busy_handler) = Some(handler);
    }

    pub fn checkpoint_announced(&self, running: bool) -> Result<(), Error> {
        if !running {
            self.advance(Closing::Exclusive, Closing::Copied);
            self.checkpoint.copied.store(true, Relaxed);
            // SQLite syncs the database only when a checkpoint is complete. While writers go on,
            // only the last pass completes it, and that pass keeps the writers waiting. One sync in
            // the last pass would be for all pages. Each earlier pass therefore syncs its own.
            return match lock(&self.main).as_deref() {
                Some(main) if self.copies_beside_writers() => {
                    self.shared.checkpointer.begin_pass();
                    let synced = self.sync_main(main, SyncRequest::ALL);
                    self.checkpoint.copied_in_vain.store(synced.is_err(), Relaxed);
                    Ok(synced?)
                }
                _ => Ok(()),
            };
        }
        // In exclusive locking mode no lock call announces a checkpoint.
        self.checkpoint.prepared.store(false, Relaxed);
        match lock(&self.wal).as_deref() {
            Some(wal) if self.promises_full() && self.checkpoint.wal_unsynced.load(Relaxed) => {
                self.sync_shared(wal, SyncRequest::ALL)
            }
            _ => Ok(()),
        }
    }

    pub fn commit_phase_two(&self) -> Result<(), Error> {
        self.just_committed.store(true, Relaxed);
        if self.has_automatic_frames() && self.expects_automatic.swap(true, Relaxed) {
            self.no_automatic.store(true, Relaxed);
        }
        self.pragmas_before.store(pragmas(), Relaxed);
        let put_off = lock(&self.put_off).take();
        let wal = lock(&self.wal);
        let Some(wal) = wal.as_deref() else { return Ok(()) };
        self.store().committed(self);
        self.request_own_checkpoint();
        if let Some(PutOff { number, request, end_bytes }) = put_off {
            return self
                .flush_for(wal, number, request, For::CommitInBatch)
                .inspect_err(|_| self.store().flush_failed(wal, end_bytes));
        }
        if self.promises_full() && self.unsynced_frames.load(Relaxed) {
            return self.flush(wal, self.shared.flush.register(0), SyncRequest::ALL);
        }
        Ok(())
    }

    /// True if the store decides itself when a checkpoint is due, and SQLite would have tried one
    /// by now.
    pub(super) fn has_automatic_frames(&self) -> bool {
        self.store().frames().is_some_and(|frames| frames >= AUTOMATIC_FRAMES)
    }

    pub(super) fn checkpoint_is_due(&self) -> bool {
        self.store().checkpoint_is_due(&self.options)
    }

    pub(super) fn request_checkpoint(&self) -> bool {
        self.options.checkpoints_in_background
            && !self.is_checkpointer()
            && self.shared.checkpointer.request(&self.options)
    }

    /// Requests a checkpoint if the store says that one is due.
    fn request_own_checkpoint(&self) {
        let Some(frames) = self.store().frames().filter(|_| !self.is_checkpointer()) else {
            return;
        };
        if self.checkpoint_is_due() {
            self.request_checkpoint();
        } else if self.options.checkpoints_in_background && frames >= AUTOMATIC_FRAMES {
            self.shared.checkpointer.request_when_idle(&self.options);
        }
    }

    pub fn read(
        &self,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error> {
        if role == Role::Wal && self.unchained.is_passed_over(buffer.len(), offset) {
            self.store().write_held(self, below)?;
            return self.mend_chain(below, buffer, offset);
        }
        self.store().read(self, below, role, buffer, offset)
    }

    pub fn write(
        &self,
        below: &dyn Below,
        role: Role,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        self.shared.writes();
        match role {
            Role::Wal => {
                self.unchained.note(data, offset);
                self.store().write_wal(self, below, data, offset).map_err(|error| match error {
                    Error::Below(code) => Error::Below(self.save_from_lost_log(code, below)),
                    error => error,
                })
            }
            Role::Db => {
                // Invariant 2. And the database must not get a page that the WAL may lack. In a
                // rollback mode SQLite may be playing back.
                if self.has_wal() {
                    self.refuse_if_failed()?;
                }
                self.store().write_page(self, below, data, offset)
            }
            Role::RollbackJournal | Role::SuperJournal | Role::Temp => {
                Ok(below.write(data, offset)?)
            }
        }
    }

    pub fn truncate(&self, below: &dyn Below, role: Role, size_bytes: u64) -> Result<(), Error> {
        match role {
            Role::Wal => {
                // The database file may lack what the WAL has.
                self.refuse_if_failed()?;
                self.store().write_held(self, below)?;
                self.store().truncate_wal(self, below, size_bytes)
            }
            Role::Db => {
                self.advance(Closing::Copied, Closing::Complete);
                self.store().truncate_database(self, below, size_bytes)?;
                // A complete checkpoint ends with this call and a sync. With `synchronous=OFF`
                // SQLite leaves out that sync and uses the WAL again.
                if self.checkpoint.copied.swap(false, Relaxed) && self.promises_full() {
                    self.sync_database(below, SyncRequest::ALL)?;
                }
                Ok(())
            }
            Role::RollbackJournal | Role::SuperJournal | Role::Temp => {
                Ok(below.truncate(size_bytes)?)
            }
        }
    }

    pub fn sync(&self, below: &dyn Below, role: Role, request: SyncRequest) -> Result<(), Error> {
        match role {
            Role::Wal => self.sync_wal(below, request),
            Role::Db if self.has_wal() => {
                // After a failed sync the next one may succeed although the device lacks pages.
                self.refuse_if_failed()?;
                self.sync_database(below, request)?;
                self.store().database_synced();
                Ok(())
            }
            Role::Db | Role::RollbackJournal | Role::SuperJournal | Role::Temp => {
                Ok(below.sync(request)?)
            }
        }
    }

    pub fn size_bytes(&self, below: &dyn Below, role: Role) -> Result<u64, Error> {
        if role == Role::Wal {
            self.store().write_held(self, below)?;
        }
        Ok(below.size_bytes()?)
    }

    pub fn lock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        if level != LockLevel::Exclusive || self.is_checkpointer() {
            if level == LockLevel::Reserved {
                // A rollback mode. In WAL mode a failure is met at the WAL.
                self.refuse_if_failed()?;
            }
            below.lock(level)?;
            *lock(&self.level) = level;
            return Ok(());
        }
        let held_off = self.shared.checkpointer.hold_off();
        let result =
            self.take_turn_to_close(below).and_then(|()| below.lock(level)).and_then(|()| {
                // Beside others there is nothing to look at.
                self.may_be_alone().inspect_err(|_| _ = below.unlock(LockLevel::Shared))
            });
        if result.is_err() && self.closes_last_here() {
            // A checkpoint that began now would keep the next one from closing last.
            self.shared.checkpointer.forget();
        }
        drop(held_off);
        result?;
        *lock(&self.level) = level;
        self.locked_exclusively();
        Ok(())
    }

    pub fn unlock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        self.forget_closing();
        below.unlock(level)?;
        *lock(&self.level) = level;
        Ok(())
    }

    #[inline(always)]
    pub fn take_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code> {
        self.shares_index.store(true, Relaxed);
        self.waiter.ends_sleep();
        self.just_committed.store(false, Relaxed);
        if self.waiter.prediction.load(Relaxed) > 0 && self.group_commit() {
            return self.take_read_lock_to_write(index, read);
        }
        self.waiter.looks_again.store(false, Relaxed);
        index.shm_lock(read)?;
        self.doing.store(doing::READS, Relaxed);
        self.waiter.reads_since_ns.store(0, Relaxed);
        Ok(())
    }

    #[inline(always)]
    pub fn release_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code> {
        let result = index.shm_lock(read);
        let did = self.doing.load(Relaxed);
        self.doing.store(doing::NOTHING, Relaxed);
        // A connection that only reads, as predicted, teaches nothing.
        if did == doing::WRITES || self.waiter.prediction.load(Relaxed) >= 0 {
            self.learn(did);
        }
        result
    }

    pub fn shm_lock(&self, index: &dyn WalIndex, lock: ShmLock) -> Result<(), Error> {
        let result = self.change_lock(index, lock);
        if self.is_checkpointer()
            && lock.acquire
            && lock.exclusive
            && lock.first >= ShmLock::READ
            && matches!(result, Err(Error::Below(Code::BUSY)))
        {
            self.shared.checkpointer.saw_reader();
        }
        if lock.exclusive && lock.covers(ShmLock::RECOVER) {
            self.recovering.store(lock.acquire && result.is_ok(), Relaxed);
        }
        result
    }

    pub fn unmapping_index(&self) {
        self.waiter.ends_sleep();
    }

    pub fn device_characteristics(&self, below: &dyn Below, role: Role) -> DeviceCharacteristics {
        let characteristics = below.device_characteristics();
        if role == Role::Db && self.has_wal() {
            self.store().claimed(characteristics)
        } else {
            characteristics
        }
    }
}
