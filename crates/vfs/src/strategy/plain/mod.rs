//! `plain`: SQLite's own WAL files without the waste (group commit; preallocation after WALDIO, ATC'15).
//!
//! Commit sequence, for a commit that nobody waits behind (what survives a crash after each step):
//!
//! 1. SQLite writes the frames to the WAL, in space made ahead ([`extent`])     nothing, or by luck the whole commit
//! 2. SQLite syncs the WAL: the one flush                                        the commit
//! 3. SQLite publishes the frames in the WAL index and releases the write lock
//! 4. `SQLITE_FCNTL_COMMIT_PHASETWO`, acknowledgement
//!
//! Behind which another writer waits ([`turns`]), or lately came in time to share its flush ([`flush`]), group commit:
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
//!    `COMMIT_PHASETWO` of the same transaction and that SQLite hears its answer: its WAL is linked to it exactly, and no super-journal is open.
//! 2. After a failed sync of the WAL, or of the database by a checkpoint, no connection of this process gets a commit acknowledged, until all have closed.
//! 3. Whatever waits, waits no longer than the connection's busy handler allows; a connection without one does not wait.
//! 4. At a clean close the database file has everything. The WAL that is kept holds no frame that
//!    anybody would recover ([`kept`]), and has a name that SQLite does not open (`kept_file.rs`).

mod checkpointer;
mod closing;
mod company;
#[cfg(all(test, not(feature = "shuttle")))]
mod connection_tests;
mod crowded;
mod door;
mod extent;
mod flush;
mod generation;
mod kept;
mod locking;
mod logged;
mod pacing;
mod shared;
mod syncing;
mod turns;
mod unchained;
mod unsure;
mod writing;

pub use checkpointer::{Progress, RunCheckpoint};
pub use kept::is_marked;
pub use locking::sleep;
pub use shared::{EagerReport, PlainReport, Shared};
pub use syncing::For;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use self::closing::Closing;
use self::logged::Frame;
use self::syncing::PutOff;
use self::unchained::Unchained;
use super::eager::{Frames, Held};
use super::{Below, BusyHandler, Deletion, DeviceCharacteristics, LockLevel, Purpose, ShmLock, Strategy, SyncRequest};
use crate::config::{Durability, Options, StrategyKind};
use crate::error::{Code, Error};
use crate::role::Role;
use crate::sync::{Mutex, lock};

/// From so many frames on SQLite checkpoints after each commit, if nobody has told it otherwise (`SQLITE_DEFAULT_WAL_AUTOCHECKPOINT`).
const AUTOMATIC_FRAMES: u32 = 1000;

thread_local! {
    /// How many PRAGMAs this thread has prepared. `PRAGMA wal_checkpoint` is for all attached databases and SQLite tells only the main
    /// one of it, so each database looks here whether there was one since its commit.
    static PRAGMAS: Cell<u64> = const { Cell::new(0) };
}

fn pragmas() -> u64 {
    PRAGMAS.try_with(Cell::get).unwrap_or(0)
}

/// Takes a flag back that may be up. Only its connection's thread touches it, so this needs no `swap`, which every read would pay for.
fn taken(flag: &AtomicBool) -> bool {
    let is_up = flag.load(Relaxed);
    if is_up {
        flag.store(false, Relaxed);
    }
    is_up
}

/// What a connection does under its read lock.
mod doing {
    /// It has none.
    pub const NOTHING: u8 = 0;
    pub const READS: u8 = 1;
    /// Or tries to.
    pub const WRITES: u8 = 2;
}

/// One connection. SQLite uses it from one thread at a time; the atomics only satisfy the compiler, so all are relaxed.
pub struct Plain {
    /// The number of the connection.
    id: u64,
    options: Options,
    shared: Arc<Shared>,
    /// This connection belongs to the checkpointer: it may wait for the write lock inside the lock call.
    is_checkpointer: bool,
    is_read_only: bool,
    me: Weak<Plain>,
    main: Mutex<Option<Box<dyn Below>>>,
    wal: Mutex<Option<Box<dyn Below>>>,
    busy_handler: Mutex<Option<Arc<dyn BusyHandler>>>,
    /// A note says that it may be about to sleep, and it has not asked for a lock of the WAL index since.
    may_sleep: AtomicBool,
    /// How often it has asked for one after such a note; held while the write lock is tried for a sleep.
    asked: Mutex<u64>,
    /// Above 0: the next transaction is expected to write.
    prediction: AtomicI8,
    /// It has waited for its turn and was told "busy" at the read lock, to read the WAL index again.
    looks_again: AtomicBool,
    /// What it does under its read lock.
    doing: AtomicU8,
    writing: AtomicBool,
    /// It uses the WAL index that all processes share, not one of its own (`locking_mode=EXCLUSIVE` from the start).
    shares_index: AtomicBool,
    checkpointing: AtomicBool,
    /// It recovers the WAL, and nobody else writes to it or to the database file.
    recovering: AtomicBool,
    /// When it took its read lock, if it was expected to write; 0: it was not.
    reads_since_ns: AtomicU64,
    /// In its last transaction that wrote it read for a while before.
    writes_late: AtomicBool,
    /// It has its turn and stands in the queue of the processes.
    waits_at_door: AtomicBool,
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
    /// With `eager`: SQLite has not tried a checkpoint after the last commits, though there were frames enough: one that comes was asked for.
    no_automatic: AtomicBool,
    /// [`pragmas`] at that time.
    pragmas_before: AtomicU64,
    /// SQLite's automatic checkpoint is running, and it has not taken the write lock, as one that was asked for would.
    automatic: AtomicBool,
    /// Frames were written since the last sync of this connection.
    unsynced_frames: AtomicBool,
    /// For `durability=full` over `synchronous=OFF`, where SQLite leaves out every sync: the WAL's header was written and not synced;
    /// the WAL was not synced since the checkpoint began; the checkpoint has written its pages.
    header_unsynced: AtomicBool,
    checkpoint_wal_unsynced: AtomicBool,
    checkpoint_copied: AtomicBool,
    /// The sync of what a pass of the checkpointer copied has failed, and SQLite, which does not look at that, takes it for copied.
    copied_in_vain: AtomicBool,
    /// With `eager`: where the frame that ends the commit begins; 0: it is not written yet, or noted.
    commit_frame: AtomicU64,
    /// With `eager`: the same, after the write lock was released and before SQLite says that the commit succeeded.
    released_frame: AtomicU64,
    /// Frames, or without `eager` the header of one, that are to be written at once.
    held: Mutex<Held>,
    /// With `eager`: frames of this transaction that were written.
    frames: Mutex<Frames>,
    frame: Mutex<Frame>,
    unchained: Unchained,
    /// With `eager`: this checkpoint may write to the database file.
    checkpoint_prepared: AtomicBool,
    /// With `eager`: it has opened the image, or tried to.
    used_log: AtomicBool,
    /// The connection's lock on the database.
    level: Mutex<LockLevel>,
    put_off: Mutex<Option<PutOff>>,
    /// What the kept WAL had that got its name back, until it is taken up.
    kept: Mutex<Option<kept::Same>>,
    closing: Mutex<Closing>,
}

impl Plain {
    pub fn new(id: u64, options: &Options, shared: Arc<Shared>, purpose: Purpose) -> Arc<Plain> {
        let is_checkpointer = purpose == Purpose::Checkpoints;
        if is_checkpointer {
            shared.checkpointer_id.store(id, Relaxed);
        } else {
            shared.users.fetch_add(1, Relaxed);
        }
        Arc::new_cyclic(|me| Plain {
            id,
            options: options.clone(),
            shared,
            is_checkpointer,
            is_read_only: purpose == Purpose::ReadOnly,
            me: Weak::clone(me),
            main: Mutex::default(),
            wal: Mutex::default(),
            busy_handler: Mutex::default(),
            may_sleep: AtomicBool::new(false),
            asked: Mutex::default(),
            prediction: AtomicI8::new(0),
            looks_again: AtomicBool::new(false),
            doing: AtomicU8::new(doing::NOTHING),
            writing: AtomicBool::new(false),
            shares_index: AtomicBool::new(false),
            checkpointing: AtomicBool::new(false),
            recovering: AtomicBool::new(false),
            reads_since_ns: AtomicU64::new(0),
            writes_late: AtomicBool::new(false),
            waits_at_door: AtomicBool::new(false),
            outside_holder: AtomicBool::new(false),
            passes_by_the_door: AtomicBool::new(false),
            has_slept: AtomicBool::new(false),
            bounced: AtomicBool::new(false),
            sleeps: AtomicBool::new(true),
            just_committed: AtomicBool::new(false),
            no_automatic: AtomicBool::new(false),
            pragmas_before: AtomicU64::new(0),
            automatic: AtomicBool::new(false),
            unsynced_frames: AtomicBool::new(false),
            header_unsynced: AtomicBool::new(false),
            checkpoint_wal_unsynced: AtomicBool::new(false),
            checkpoint_copied: AtomicBool::new(false),
            copied_in_vain: AtomicBool::new(false),
            commit_frame: AtomicU64::new(0),
            released_frame: AtomicU64::new(0),
            held: Mutex::default(),
            frames: Mutex::default(),
            frame: Mutex::default(),
            unchained: Unchained::default(),
            checkpoint_prepared: AtomicBool::new(false),
            used_log: AtomicBool::new(false),
            level: Mutex::new(LockLevel::None),
            put_off: Mutex::default(),
            kept: Mutex::default(),
            closing: Mutex::default(),
        })
    }

    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    pub fn purpose(&self) -> Purpose {
        match (self.is_checkpointer, self.is_read_only) {
            (true, _) => Purpose::Checkpoints,
            (false, true) => Purpose::ReadOnly,
            (false, false) => Purpose::ReadWrite,
        }
    }

    /// Outside of any transaction, also one of a reader. In exclusive locking mode it never is.
    pub fn is_idle(&self) -> bool {
        let has_wal = lock(&self.wal).is_some();
        self.doing.load(Relaxed) == doing::NOTHING
            && [&self.writing, &self.checkpointing, &self.recovering].iter().all(|flag| !flag.load(Relaxed))
            && self.level() <= if has_wal { LockLevel::Shared } else { LockLevel::None }
            && (!has_wal || self.shares_index.load(Relaxed))
    }

    pub fn is_eager(&self) -> bool {
        self.shared.log.is_some()
    }

    /// It has opened the WAL, and with it the WAL index.
    pub fn has_wal(&self) -> bool {
        lock(&self.wal).is_some()
    }

    /// Its lock on the database file.
    pub fn level(&self) -> LockLevel {
        *lock(&self.level)
    }

    /// What SQLite has told a connection that was idle and that this one stands for from now on.
    pub fn take_over(&self, before: &Plain) {
        *lock(&self.level) = before.level();
        lock(&self.busy_handler).clone_from(&lock(&before.busy_handler));
        self.shares_index.store(before.shares_index.load(Relaxed), Relaxed);
    }

    fn promises_full(&self) -> bool {
        self.options.durability == Durability::Full
    }

    fn group_commit(&self) -> bool {
        self.options.group_commit
    }

    fn request_checkpoint(&self) -> bool {
        self.options.checkpoints_in_background
            && !self.is_checkpointer
            && self.shared.checkpointer.request(&self.options)
    }

    /// With `eager` SQLite's own threshold does not count.
    fn checkpoint_is_due(&self) -> bool {
        self.shared.log.as_ref().is_none_or(|log| log.checkpoint_is_due(&self.options))
    }
}

impl Strategy for Plain {
    fn kind(&self) -> StrategyKind {
        if self.shared.log.is_some() { StrategyKind::Eager } else { StrategyKind::Plain }
    }

    fn opened(&self, main: Box<dyn Below>) -> Result<(), Error> {
        if let Some(log) = &self.shared.log {
            log.opened_database(main.as_ref())?;
        }
        *lock(&self.main) = Some(main);
        Ok(())
    }

    fn opening_wal(&self) -> Result<(), Error> {
        let Some(log) = &self.shared.log else {
            self.take_kept_wal_back();
            return Ok(());
        };
        let main = lock(&self.main);
        let main = main.as_deref().ok_or(Error::Below(Code::CANTOPEN))?;
        if !self.used_log.swap(true, Relaxed) {
            log.enter();
        }
        log.before_image(main, *lock(&self.level), &self.options)
    }

    fn opened_wal(&self, wal: Box<dyn Below>) -> Result<(), Error> {
        if let Some(log) = &self.shared.log {
            let main = lock(&self.main);
            let main = main.as_deref().ok_or(Error::Below(Code::CANTOPEN))?;
            log.opened_image(main, wal.as_ref())?;
        }
        self.shared.open_wals.fetch_add(1, Relaxed);
        if !self.knows_wal(wal.as_ref()) {
            self.shared.extent.forget();
            self.shared.generation.forget();
            self.shared.directory_synced.store(false, Relaxed);
        }
        self.shared.door.forget_file();
        *lock(&self.wal) = Some(wal);
        Ok(())
    }

    fn closing(&self) {
        self.shared.leave(self.id);
        if !self.is_checkpointer && self.shared.users.fetch_sub(1, Relaxed) == 1 {
            self.shared.checkpointer.end();
        }
        if let Some(log) = &self.shared.log
            && taken(&self.used_log)
        {
            log.leave();
        }
        *lock(&self.main) = None;
    }

    fn closing_wal(&self) {
        self.close_wal();
    }

    fn deleting_wal(&self) -> Result<Deletion, Error> {
        let Some(log) = &self.shared.log else { return Ok(self.keep_closed_wal()) };
        let main = lock(&self.main);
        main.as_deref().map_or(Ok(()), |main| self.retire_log(log, main))?;
        Ok(Deletion::Delete)
    }

    fn wal_path(&self) -> Option<String> {
        self.shared.log.as_ref().map(|log| log.image_path())
    }

    fn hides_wal(&self) -> Result<bool, Error> {
        match (&self.shared.log, lock(&self.main).as_deref()) {
            (Some(log), Some(main)) => Ok(!log.has_wal(main)?),
            _ => Ok(false),
        }
    }

    fn maps(&self, offset: u64) -> bool {
        // The first page may show the guard.
        self.shared.log.is_none() || offset > 0
    }

    fn has_durable_wal(&self) -> bool {
        self.shared.log.is_none() && self.shared.directory_synced.load(Relaxed)
    }

    fn knows_wal(&self, wal: &dyn Below) -> bool {
        self.has_durable_wal() && self.shared.generation.is_of(wal)
    }

    fn asked_whether_moved(&self) {
        *lock(&self.closing) = Closing::Announced;
    }

    fn asked_whether_wal_stays(&self, stays: bool) -> bool {
        self.asked_at_the_close(stays)
    }

    fn asked_by_pragma(&self) {
        // During thread exit the count may be gone; then there is no checkpoint to come either.
        let _ = PRAGMAS.try_with(|pragmas| pragmas.set(pragmas.get() + 1));
    }

    fn busy_handler(&self, handler: Arc<dyn BusyHandler>) {
        *lock(&self.busy_handler) = Some(handler);
    }

    fn checkpoint_announced(&self, running: bool) -> Result<(), Error> {
        if !running {
            self.advance(Closing::Exclusive, Closing::Copied);
            self.checkpoint_copied.store(true, Relaxed);
            // SQLite syncs the database when a checkpoint is complete. While writers go on none is, but the last, which keeps them waiting:
            // that would be for all pages, so each of the passes before syncs its own.
            return match lock(&self.main).as_deref() {
                Some(main) if self.copies_beside_writers() => {
                    self.shared.checkpointer.begin_pass();
                    let synced = self.sync_database(main, SyncRequest::ALL);
                    self.copied_in_vain.store(synced.is_err(), Relaxed);
                    Ok(synced?)
                }
                _ => Ok(()),
            };
        }
        // In exclusive locking mode no lock says that a checkpoint begins.
        self.checkpoint_prepared.store(false, Relaxed);
        match lock(&self.wal).as_deref() {
            Some(wal) if self.promises_full() && self.checkpoint_wal_unsynced.load(Relaxed) => {
                self.sync_shared(wal, SyncRequest::ALL)
            }
            _ => Ok(()),
        }
    }

    fn commit_phase_two(&self) -> Result<(), Error> {
        let none_came = self.just_committed.swap(true, Relaxed);
        if none_came && self.shared.log.as_ref().is_some_and(|log| log.frames() >= AUTOMATIC_FRAMES) {
            self.no_automatic.store(true, Relaxed);
        }
        self.pragmas_before.store(pragmas(), Relaxed);
        let put_off = lock(&self.put_off).take();
        let wal = lock(&self.wal);
        let Some(wal) = wal.as_deref() else { return Ok(()) };
        if let Some(log) = &self.shared.log {
            self.note_commit(log);
            log.note_commit(self.released_frame.swap(0, Relaxed), &mut lock(&self.frames));
        }
        if let Some(log) = &self.shared.log
            && !self.is_checkpointer
        {
            if log.checkpoint_is_due(&self.options) {
                self.request_checkpoint();
            } else if self.options.checkpoints_in_background && log.frames() >= AUTOMATIC_FRAMES {
                self.shared.checkpointer.request_when_idle(&self.options);
            }
        }
        if let Some(PutOff { number, request, end_bytes }) = put_off {
            return self.flush_for(wal, number, request, For::CommitInCompany).inspect_err(|_| {
                if let Some(end_bytes) = end_bytes {
                    self.shared.write_published_again(wal, end_bytes);
                }
            });
        }
        if self.promises_full() && self.unsynced_frames.load(Relaxed) {
            return self.flush(wal, self.shared.flush.register(0), SyncRequest::ALL);
        }
        Ok(())
    }

    fn read(&self, below: &dyn Below, role: Role, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        if role == Role::Wal {
            self.write_all_held(below)?;
            if self.unchained.is_passed_over(buffer.len(), offset) {
                return self.mend_chain(below, buffer, offset);
            }
        }
        let Some(log) = &self.shared.log else {
            if role == Role::Wal && offset == 0 && self.recovering.load(Relaxed) {
                self.take_up_kept_wal(below);
            }
            return Ok(below.read(buffer, offset)?);
        };
        // Who only reads shall not meet the writers at a mutex.
        if role == Role::Wal && self.prediction.load(Relaxed) > 0 && log.read_unlogged(buffer, offset) {
            return Ok(());
        }
        let result = below.read(buffer, offset);
        if role == Role::Db && matches!(result, Ok(()) | Err(Code::SHORT_READ)) {
            log.hide_guard(buffer, offset);
        }
        Ok(result?)
    }

    fn write(&self, below: &dyn Below, role: Role, data: &[u8], offset: u64) -> Result<(), Error> {
        if role == Role::Wal {
            self.unchained.note(data, offset);
        }
        if let Some(log) = &self.shared.log {
            return self.write_logged(log, below, role, data, offset);
        }
        // Invariant 2; and no page may go into the database that the WAL is not sure to have.
        if matches!(role, Role::Wal | Role::Db) {
            self.refuse_if_failed()?;
        }
        match role {
            Role::Wal => self.write_wal(below, data, offset),
            Role::Db => {
                *lock(&self.shared.taken_up) = None;
                below.write(data, offset)?;
                Ok(self.pace_checkpoint(data, offset)?)
            }
            Role::RollbackJournal | Role::SuperJournal | Role::Temp => Ok(below.write(data, offset)?),
        }
    }

    fn truncate(&self, below: &dyn Below, role: Role, size_bytes: u64) -> Result<(), Error> {
        if role == Role::Wal {
            // The database file may lack what the WAL has.
            self.refuse_if_failed()?;
            self.write_all_held(below)?;
        }
        match role {
            Role::Wal if self.shared.log.is_some() => {
                if let Some(log) = &self.shared.log {
                    if let (0, Some(main)) = (size_bytes, lock(&self.main).as_deref()) {
                        self.restart_image(log, main, below)?;
                    }
                    log.image_cut(size_bytes);
                }
            }
            Role::Wal => {
                *lock(&self.closing) = Closing::No;
                self.shared.extent.forget();
                self.shared.generation.forget();
            }
            Role::Db => self.advance(Closing::Copied, Closing::Complete),
            Role::RollbackJournal | Role::SuperJournal | Role::Temp => {}
        }
        match (&self.shared.log, lock(&self.wal).as_deref()) {
            (Some(log), Some(image)) if role == Role::Db => log.cut_database(below, image, size_bytes)?,
            _ => below.truncate(size_bytes)?,
        }
        // A complete checkpoint ends with this call and a sync; with `synchronous=OFF` the sync is left out, and the WAL used again.
        if role == Role::Db && self.checkpoint_copied.swap(false, Relaxed) && self.promises_full() {
            self.sync_database(below, SyncRequest::ALL)?;
        }
        Ok(())
    }

    fn sync(&self, below: &dyn Below, role: Role, request: SyncRequest) -> Result<(), Error> {
        match role {
            Role::Wal => self.sync_wal(below, request),
            Role::Db if lock(&self.wal).is_some() => {
                // After one that failed the next may succeed, and the device lack pages all the same.
                self.refuse_if_failed()?;
                self.sync_database(below, request)?;
                if let Some(log) = &self.shared.log {
                    log.database_synced();
                }
                Ok(())
            }
            Role::Db | Role::RollbackJournal | Role::SuperJournal | Role::Temp => Ok(below.sync(request)?),
        }
    }

    fn size_bytes(&self, below: &dyn Below, role: Role) -> Result<u64, Error> {
        if role == Role::Wal {
            self.write_all_held(below)?;
        }
        Ok(below.size_bytes()?)
    }

    fn lock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        if level != LockLevel::Exclusive || self.is_checkpointer {
            below.lock(level)?;
            *lock(&self.level) = level;
            return Ok(());
        }
        let held_off = self.shared.checkpointer.hold_off();
        let result = below.lock(level);
        drop(held_off);
        result?;
        *lock(&self.level) = level;
        self.locked_exclusively(below);
        Ok(())
    }

    fn unlock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        *lock(&self.closing) = Closing::No;
        below.unlock(level)?;
        *lock(&self.level) = level;
        Ok(())
    }

    #[inline(always)]
    fn take_read_lock(&self, below: &dyn Below, read: ShmLock) -> Result<(), Code> {
        self.shares_index.store(true, Relaxed);
        self.ends_sleep();
        self.just_committed.store(false, Relaxed);
        if self.prediction.load(Relaxed) > 0 && self.group_commit() {
            return self.take_read_lock_to_write(below, read);
        }
        self.looks_again.store(false, Relaxed);
        below.shm_lock(read)?;
        self.doing.store(doing::READS, Relaxed);
        self.reads_since_ns.store(0, Relaxed);
        Ok(())
    }

    #[inline(always)]
    fn release_read_lock(&self, below: &dyn Below, read: ShmLock) -> Result<(), Code> {
        let result = below.shm_lock(read);
        let did = self.doing.load(Relaxed);
        self.doing.store(doing::NOTHING, Relaxed);
        // Who only reads, as expected, has nothing to be learnt about.
        if did == doing::WRITES || self.prediction.load(Relaxed) >= 0 {
            self.learn(did);
        }
        result
    }

    fn shm_lock(&self, below: &dyn Below, lock: ShmLock) -> Result<(), Error> {
        let result = self.change_lock(below, lock);
        if lock.exclusive && lock.covers(ShmLock::RECOVER) {
            self.recovering.store(lock.acquire && result.is_ok(), Relaxed);
        }
        result
    }

    fn unmapping_index(&self) {
        self.ends_sleep();
    }

    fn sector_size(&self, below: &dyn Below, _: Role) -> i32 {
        below.sector_size()
    }

    fn device_characteristics(&self, below: &dyn Below, role: Role) -> DeviceCharacteristics {
        let characteristics = below.device_characteristics();
        if role == Role::Db && self.shared.log.is_some() && lock(&self.wal).is_some() {
            // By this bit of the database file SQLite decides whether it has to fill the sectors of its WAL. Of the image nothing has to
            // survive a loss of power; and to the database file SQLite writes the same with and without the bit while it has a WAL.
            return characteristics.with_powersafe_overwrite();
        }
        characteristics
    }
}
