//! One connection of a strategy for WAL mode: what SQLite asks of it, and what it keeps in mind between two calls.
//!
//! | state of a connection | begins | ends | what holds |
//! |---|---|---|---|
//! | idle | [`release_read_lock`](WalConnection::release_read_lock) | the next lock | no lock of the WAL index |
//! | reads | [`take_read_lock`](WalConnection::take_read_lock) | its release | the snapshot of the read lock |
//! | writes | the write lock ([`locking`](super::locking)) | its release | nobody else writes to the WAL; frames may be held back |
//! | commits | a sync of the WAL, or the publication ([`syncing`](super::syncing)) | `COMMIT_PHASETWO` | acknowledged only after the flush |
//! | checkpoints | the checkpoint lock | its release | pages go to the database file only after the WAL is durable |
//! | closes | [`closing`](super::closing) | | the states of a last close, in their order |

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
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
use crate::port::{
    Below, BusyHandler, DeviceCharacteristics, LockLevel, MainFile, Purpose, ShmLock, SyncRequest, WalIndex,
};
use crate::role::Role;
use crate::sync::{Barrier, Mutex, lock};

/// From so many frames on SQLite checkpoints after each commit, if nobody has told it otherwise (`SQLITE_DEFAULT_WAL_AUTOCHECKPOINT`).
pub(super) const AUTOMATIC_FRAMES: u32 = 1000;

thread_local! {
    /// How many PRAGMAs this thread has prepared. `PRAGMA wal_checkpoint` is for all attached databases and SQLite tells only the main
    /// one of it, so each database looks here whether there was one since its commit.
    static PRAGMAS: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn pragmas() -> u64 {
    PRAGMAS.try_with(Cell::get).unwrap_or(0)
}

/// Takes a flag back that may be up. Only the connection's own thread touches it, so this needs no `swap`, which every read would pay for.
pub(crate) fn taken(flag: &AtomicBool) -> bool {
    let is_up = flag.load(Relaxed);
    if is_up {
        flag.store(false, Relaxed);
    }
    is_up
}

/// What a connection does under its read lock.
pub(crate) mod doing {
    /// It has none.
    pub const NOTHING: u8 = 0;
    pub const READS: u8 = 1;
    /// Or tries to.
    pub const WRITES: u8 = 2;
}

/// One connection. SQLite uses it from one thread at a time; the atomics only satisfy the compiler, so all are relaxed.
pub struct WalConnection<S: Store> {
    /// The number of the connection.
    pub(crate) id: u64,
    pub(crate) options: Options,
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) purpose: Purpose,
    pub(super) me: Weak<WalConnection<S>>,
    pub(crate) main: Mutex<Option<Box<dyn MainFile>>>,
    pub(crate) wal: Mutex<Option<Box<dyn Below>>>,
    pub(crate) busy_handler: Mutex<Option<Arc<dyn BusyHandler>>>,
    pub(crate) waiter: Waiter,
    /// What it does under its read lock.
    pub(crate) doing: AtomicU8,
    pub(crate) writing: AtomicBool,
    /// It uses the WAL index that all processes share, not one of its own (`locking_mode=EXCLUSIVE` from the start).
    pub(crate) shares_index: AtomicBool,
    /// It recovers the WAL, and nobody else writes to it or to the database file.
    pub(crate) recovering: AtomicBool,
    /// The last call was the commit's end: a checkpoint that begins now is SQLite's automatic one.
    pub(crate) just_committed: AtomicBool,
    /// SQLite has not tried a checkpoint after the last commits, though there were frames enough: one that comes was asked for.
    pub(super) no_automatic: AtomicBool,
    /// [`pragmas`] at that time.
    pub(super) pragmas_before: AtomicU64,
    /// Frames were written since the last sync of this connection.
    pub(crate) unsynced_frames: AtomicBool,
    /// For `durability=full` over `synchronous=OFF`, where SQLite leaves out every sync: the WAL's header was written and not synced.
    pub(crate) header_unsynced: AtomicBool,
    pub(crate) checkpoint: Checkpoint,
    /// Frames, or the header of one, that are to be written at once.
    pub(crate) held: Mutex<Held>,
    pub(crate) unchained: Unchained,
    /// The connection's lock on the database.
    pub(crate) level: Mutex<LockLevel>,
    pub(crate) put_off: Mutex<Option<PutOff>>,
    pub(crate) closing: Mutex<Closing>,
    /// What the store keeps for the connection.
    pub(crate) own: S::Own,
}

/// The checkpoint that a connection runs.
#[derive(Default)]
pub(crate) struct Checkpoint {
    pub running: AtomicBool,
    /// It is SQLite's automatic one, and has not taken the write lock, as one that was asked for would.
    pub automatic: AtomicBool,
    /// The store is prepared for its writes to the database file.
    pub prepared: AtomicBool,
    /// For `durability=full` over `synchronous=OFF`: the WAL was not synced since it began; it has written its pages.
    pub wal_unsynced: AtomicBool,
    pub copied: AtomicBool,
    /// The sync of what a pass of the checkpointer copied has failed, and SQLite, which does not look at that, takes it for copied.
    pub copied_in_vain: AtomicBool,
}

/// What SQLite has told a connection.
pub(crate) struct Told {
    level: LockLevel,
    busy_handler: Option<Arc<dyn BusyHandler>>,
    shares_index: bool,
}

/// A connection of a strategy for WAL mode, whatever its store.
pub(crate) trait InWalMode: Send + Sync {
    /// Outside of any transaction, also one of a reader. In exclusive locking mode it never is.
    fn is_idle(&self) -> bool;
    /// While the database is in use plain SQLite must not open it.
    fn is_guarded(&self) -> bool;
    /// It has opened the WAL, and with it the WAL index.
    fn has_wal(&self) -> bool;
    /// Its lock on the database file.
    fn level(&self) -> LockLevel;
    fn purpose(&self) -> Purpose;
    /// Of the WAL index.
    fn barrier(&self) -> Arc<Barrier>;
    fn told(&self) -> Told;
    /// This connection stands from now on for one that was idle.
    fn take_over(&self, told: Told);
}

impl<S: Store> InWalMode for WalConnection<S> {
    fn is_idle(&self) -> bool {
        let has_wal = self.has_wal();
        self.doing.load(Relaxed) == doing::NOTHING
            && [&self.writing, &self.checkpoint.running, &self.recovering].iter().all(|flag| !flag.load(Relaxed))
            && self.level() <= if has_wal { LockLevel::Shared } else { LockLevel::None }
            && (!has_wal || self.shares_index.load(Relaxed))
    }

    fn is_guarded(&self) -> bool {
        S::IS_GUARDED
    }

    fn has_wal(&self) -> bool {
        lock(&self.wal).is_some()
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
    pub fn new(id: u64, options: &Options, shared: Arc<Shared<S>>, purpose: Purpose) -> Arc<WalConnection<S>> {
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
            busy_handler: Mutex::default(),
            waiter: Waiter::default(),
            doing: AtomicU8::new(doing::NOTHING),
            writing: AtomicBool::new(false),
            shares_index: AtomicBool::new(false),
            recovering: AtomicBool::new(false),
            just_committed: AtomicBool::new(false),
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

    /// What the WAL index says of commits, if this connection uses the one that all share.
    pub(crate) fn published_frames(&self) -> Option<u32> {
        let shares_index = self.shares_index.load(Relaxed);
        shares_index.then(|| lock(&self.main).as_deref().and_then(|main| main.published_frames())).flatten()
    }

    /// The next transaction is expected to write.
    pub(crate) fn is_likely_to_write(&self) -> bool {
        self.waiter.prediction.load(Relaxed) > 0
    }

    pub fn opened(&self, main: Box<dyn MainFile>) -> Result<(), Error> {
        self.store().opened(main.as_ref())?;
        *lock(&self.main) = Some(main);
        Ok(())
    }

    pub fn closing(&self) {
        self.shared.leave(self.id);
        if !self.is_checkpointer() && self.shared.users.fetch_sub(1, Relaxed) == 1 {
            self.shared.checkpointer.end();
        }
        self.store().closing(self);
        *lock(&self.main) = None;
    }

    pub fn opened_wal(&self, wal: Box<dyn Below>) -> Result<(), Error> {
        self.store().opened_wal(self, wal.as_ref())?;
        *lock(&self.wal) = Some(wal);
        Ok(())
    }

    pub fn hides_wal(&self) -> Result<bool, Error> {
        lock(&self.main).as_deref().map_or(Ok(false), |main| self.store().hides_wal(main))
    }

    pub fn asked_by_pragma(&self) {
        // During thread exit the count may be gone; then there is no checkpoint to come either.
        let _ = PRAGMAS.try_with(|pragmas| pragmas.set(pragmas.get() + 1));
    }

    pub fn busy_handler(&self, handler: Arc<dyn BusyHandler>) {
        *lock(&self.busy_handler) = Some(handler);
    }

    pub fn checkpoint_announced(&self, running: bool) -> Result<(), Error> {
        if !running {
            self.advance(Closing::Exclusive, Closing::Copied);
            self.checkpoint.copied.store(true, Relaxed);
            // SQLite syncs the database when a checkpoint is complete. While writers go on none is, but the last, which keeps them waiting:
            // that would be for all pages, so each of the passes before syncs its own.
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
        // In exclusive locking mode no lock says that a checkpoint begins.
        self.checkpoint.prepared.store(false, Relaxed);
        match lock(&self.wal).as_deref() {
            Some(wal) if self.promises_full() && self.checkpoint.wal_unsynced.load(Relaxed) => {
                self.sync_shared(wal, SyncRequest::ALL)
            }
            _ => Ok(()),
        }
    }

    pub fn commit_phase_two(&self) -> Result<(), Error> {
        let none_came = self.just_committed.swap(true, Relaxed);
        if none_came && self.has_automatic_frames() {
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

    /// The store says itself when a checkpoint is due, and SQLite would have tried one by now.
    pub(super) fn has_automatic_frames(&self) -> bool {
        self.store().frames().is_some_and(|frames| frames >= AUTOMATIC_FRAMES)
    }

    pub(super) fn checkpoint_is_due(&self) -> bool {
        self.store().checkpoint_is_due(&self.options)
    }

    pub(crate) fn request_checkpoint(&self) -> bool {
        self.options.checkpoints_in_background
            && !self.is_checkpointer()
            && self.shared.checkpointer.request(&self.options)
    }

    /// Asks for the checkpoint that the store says is due.
    fn request_own_checkpoint(&self) {
        let Some(frames) = self.store().frames().filter(|_| !self.is_checkpointer()) else { return };
        if self.checkpoint_is_due() {
            self.request_checkpoint();
        } else if self.options.checkpoints_in_background && frames >= AUTOMATIC_FRAMES {
            self.shared.checkpointer.request_when_idle(&self.options);
        }
    }

    pub fn read(&self, below: &dyn Below, role: Role, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        if role == Role::Wal {
            self.store().write_held(self, below)?;
            if self.unchained.is_passed_over(buffer.len(), offset) {
                return self.mend_chain(below, buffer, offset);
            }
        }
        Ok(self.store().read(self, below, role, buffer, offset)?)
    }

    pub fn write(&self, below: &dyn Below, role: Role, data: &[u8], offset: u64) -> Result<(), Error> {
        match role {
            Role::Wal => {
                self.unchained.note(data, offset);
                self.store().write_wal(self, below, data, offset)
            }
            Role::Db => {
                // Invariant 2; and no page may go into the database that the WAL is not sure to have.
                self.refuse_if_failed()?;
                self.store().write_page(self, below, data, offset)
            }
            Role::RollbackJournal | Role::SuperJournal | Role::Temp => Ok(below.write(data, offset)?),
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
                // A complete checkpoint ends with this call and a sync; with `synchronous=OFF` the sync is left out, and the WAL used again.
                if self.checkpoint.copied.swap(false, Relaxed) && self.promises_full() {
                    self.sync_database(below, SyncRequest::ALL)?;
                }
                Ok(())
            }
            Role::RollbackJournal | Role::SuperJournal | Role::Temp => Ok(below.truncate(size_bytes)?),
        }
    }

    pub fn sync(&self, below: &dyn Below, role: Role, request: SyncRequest) -> Result<(), Error> {
        match role {
            Role::Wal => self.sync_wal(below, request),
            Role::Db if self.has_wal() => {
                // After one that failed the next may succeed, and the device lack pages all the same.
                self.refuse_if_failed()?;
                self.sync_database(below, request)?;
                self.store().database_synced();
                Ok(())
            }
            Role::Db | Role::RollbackJournal | Role::SuperJournal | Role::Temp => Ok(below.sync(request)?),
        }
    }

    pub fn size_bytes(&self, below: &dyn Below, role: Role) -> Result<u64, Error> {
        if role != Role::Wal {
            return Ok(below.size_bytes()?);
        }
        self.store().write_held(self, below)?;
        Ok(self.store().wal_size_bytes(self, below)?)
    }

    pub fn lock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        if level != LockLevel::Exclusive || self.is_checkpointer() {
            below.lock(level)?;
            *lock(&self.level) = level;
            return Ok(());
        }
        let held_off = self.shared.checkpointer.hold_off();
        let result = below.lock(level);
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
        // Who only reads, as expected, has nothing to be learnt about.
        if did == doing::WRITES || self.waiter.prediction.load(Relaxed) >= 0 {
            self.learn(did);
        }
        result
    }

    pub fn shm_lock(&self, index: &dyn WalIndex, lock: ShmLock) -> Result<(), Error> {
        let result = self.change_lock(index, lock);
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
        if role == Role::Db && self.has_wal() { self.store().claimed(characteristics) } else { characteristics }
    }
}
