//! `maw`: commits of the rollback modes without a journal (Cheon and Won, "Exploiting Multi-Block
//! Atomic Write in SQLite Transaction").
//!
//! SQLite's rollback journal is absorbed in memory, and so are the transaction's writes to the
//! database file ([`overlay`]). At the commit point a [`provider`] makes them durable at once, all
//! or none. The rules of the protocol, cited by number in code and tests:
//!
//! 1. Only an open of the journal with `SQLITE_OPEN_CREATE` is absorbed. All other opens are of
//!    real files, but for that of a connection which plays back its own absorbed journal under the
//!    exclusive lock. The absorbed journal outlives `xClose` until `xDelete`. No other connection
//!    sees it.
//! 2. Without a super-journal the commit point is the end of the journal: its deletion, truncation
//!    or zeroing. A rollback ends in the same calls and commits nothing.
//! 3. With a super-journal the commit point is its deletion ([`together`]).
//! 4. The connection that writes reads its own writes. Beyond a limit of memory the transaction
//!    goes on as an ordinary journaled one.
//! 5. The log: [`shared`], [`open_log`], [`replay`].
//! 6. XFS: [`xfs`]. 7. F2FS: [`f2fs`].
//! 8. `RWF_ATOMIC` is no provider.
//! 9. No commit without a journal before the end of the last journal is durable: `journal_end.rs`.
//!
//! # The states of a transaction
//!
//! | state | journal | writes to the database | entered by | left by |
//! |---|---|---|---|---|
//! | none | none, or empty | in place | any other's end | SQLite's first write to the journal |
//! | absorbed | in memory | in memory | that write | the journal's end; or what follows |
//! | ordinary | a real file | in place | [`Transaction::materialise`] | the journal's end |
//!
//! An absorbed transaction becomes an ordinary one where
//!
//! - a super-journal is open that the provider cannot do without (rule 3);
//! - its changes take more memory than [`memory_bytes_max`] (rule 4);
//! - the provider declines: a new database, a change of the page size or of the journal mode;
//! - nothing was synced, as with `synchronous=OFF`. SQLite's own way is as safe and cheaper then.
//!
//! A database file is written in place without a journal in `journal_mode=MEMORY` and `OFF`, and by
//! SQLite when it plays back a journal that another process has left. All that is as with SQLite
//! alone, except that the log is retired before.
//!
//! # Differences to the paper
//!
//! - The paper changes SQLite's pager. Here SQLite is as it is, and its journal never reaches a
//!   file.
//! - The paper needs F2FS. Here XFS and a log beside the database can do the same.

mod absorbed;
mod absorbing;
mod f2fs;
#[cfg(all(test, not(feature = "shuttle")))]
mod fakes;
mod in_place;
mod journal;
mod left_journal;
mod linked;
mod log_lock;
mod open_log;
mod outcome;
mod overlay;
mod provider;
mod providers;
mod record;
mod replay;
mod several;
mod shared;
mod syncer;
mod together;
mod transaction;
mod xfs;

use std::sync::Arc;

use serde::Serialize;

pub use self::linked::{
    Coordinator, Follower, Look, Named, Need, find as find_linked, name_other_side,
};
pub use self::open_log::OpenLog;
use self::outcome::Outcome;
use self::providers::Providers;
pub use self::record::{Record, own_group};
pub use self::replay::{FirstCommit, is_behind};
pub use self::several::{commit_together, materialise_together};
pub use self::shared::MawLog;
use self::shared::{Counts, LogReport};
use self::transaction::{Ended, Transaction};
use super::{AbsorbsJournal, Chosen, Strategy};
use crate::config::{Atomic, Durability, Options, StrategyKind};
use crate::engine::Harm;
use crate::error::{Code, Error};
use crate::journal_end::Seen;
use crate::mutant::{self, Mutant};
use crate::names::journal_path;
use crate::port::{
    Below, BusyHandler, Deletion, DeviceCharacteristics, LockLevel, MainFile, Purpose, ShmLock,
    SyncRequest, WalIndex,
};
use crate::role::Role;
use crate::strategy::guard;
use crate::strategy::log_files::LogFiles;
use crate::super_journal;
use crate::sync::{Mutex, MutexGuard, lock, ranks};

/// A transaction may take so much memory before it goes on as an ordinary one. No log takes a
/// transaction that is larger than the log may be.
fn memory_bytes_max(options: &Options) -> u64 {
    options.log_size_bytes.min(16 << 20)
}

/// `SQLITE_IOCAP_BATCH_ATOMIC`. It is never claimed: with it, SQLite keeps the journal in its own
/// memory at `synchronous=OFF`, and the death of the process in a commit would leave half of it.
const BATCH_ATOMIC: i32 = 0x4000;

/// One connection with `maw`.
pub struct Maw {
    path: String,
    options: Options,
    purpose: Purpose,
    files: Arc<dyn LogFiles>,
    log: Arc<MawLog>,
    /// What does everything that no absorbed transaction is concerned with.
    inner: Chosen,
    state: Mutex<State, { ranks::ABSORBED }>,
}

struct State {
    main: Option<Arc<dyn MainFile>>,
    level: LockLevel,
    /// SQLite has the absorbed journal open.
    is_journal_open: bool,
    /// It has a real one open.
    has_journal_file: bool,
    transaction: Transaction,
    /// A commit has failed, and the file may have a part of it. In exclusive locking mode SQLite
    /// goes on without a new lock.
    is_unsettled: bool,
    providers: Providers,
    /// The end of the last journal of any process.
    journals: Seen,
}

/// What `PRAGMA oneflush_stats` says of the strategy.
#[derive(Serialize)]
pub struct MawReport {
    /// The provider of this connection. `auto`: none was needed yet.
    provider: &'static str,
    #[serde(flatten)]
    counts: Counts,
    log: LogReport,
}

impl Maw {
    pub fn new(
        path: &str,
        options: &Options,
        files: Arc<dyn LogFiles>,
        log: Arc<MawLog>,
        inner: Chosen,
        purpose: Purpose,
    ) -> Maw {
        Maw {
            path: path.to_owned(),
            options: options.clone(),
            purpose,
            files,
            log,
            inner,
            state: Mutex::new(State {
                main: None,
                level: LockLevel::None,
                is_journal_open: false,
                has_journal_file: false,
                transaction: Transaction::default(),
                is_unsettled: false,
                providers: Providers::default(),
                journals: Seen::default(),
            }),
        }
    }

    /// False with `strategy=auto`, which leaves the file a plain one at all times.
    fn may_have_log(&self) -> bool {
        self.options.strategy == StrategyKind::Maw
    }

    pub fn inner(&self) -> &Chosen {
        &self.inner
    }

    pub fn report(&self) -> MawReport {
        MawReport {
            provider: self.state().providers.kind().map_or("none", Atomic::name),
            counts: self.log.counts(),
            log: self.log.report(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State, { ranks::ABSORBED }> {
        lock(&self.state)
    }

    fn save_orphan(&self, main: &dyn Below, level: LockLevel, harm: &Harm) {
        if self.options.has_seatbelt() {
            self.log.save_orphan(main, level, harm);
        }
    }

    /// A log that was removed or replaced fails the commit, and all that was acknowledged is saved.
    fn noted(&self, main: &dyn Below, error: Error) -> Error {
        if error.code() != Code::NAME_LOST.0 {
            return error;
        }
        // SQLite has the database locked.
        self.save_orphan(main, LockLevel::Exclusive, &Harm::LogLost);
        Error::Below(Code::IOERR_FSYNC)
    }

    /// The file may have a part of a commit, and a lock that is kept be enough to read it.
    fn transaction_panicked(&self) {
        self.log.panicked();
        self.state().is_unsettled = true;
    }

    /// The database file has moved. True: this process has written to it in a rollback mode, so it
    /// saves what it has acknowledged.
    #[cold]
    fn saves_what_has_moved(&self) -> bool {
        let (main, level) = {
            let state = self.state();
            (state.main.clone(), state.level)
        };
        let main = main.filter(|_| self.log.has_written());
        if let Some(main) = &main {
            self.save_orphan(&**main, level, &Harm::Moved);
        }
        main.is_some()
    }

    /// The state, for a call on the database file. What a failed commit has left there is mended
    /// before.
    fn settled(
        &self,
        below: &dyn Below,
    ) -> Result<MutexGuard<'_, State, { ranks::ABSORBED }>, Error> {
        let mut state = self.state();
        if state.is_unsettled && state.transaction.is_none() {
            self.log.finish(below, state.level)?;
            state.is_unsettled = false;
        }
        Ok(state)
    }

    /// Ends the journal, and with it the transaction (rule 2). SQLite gives up what it has in its
    /// cache after an I/O error or on a full disk only. So there is no other error here.
    fn end(&self, state: &mut State) -> Result<Ended, Error> {
        /// The primary code of all I/O errors.
        const IOERR: i32 = Code::IOERR_WRITE.0 & 0xff;
        self.try_end(state).map_err(|error| {
            let gives_up = error.code() & 0xff == IOERR || error.code() == Code::FULL.0;
            if gives_up { error } else { Error::Below(Code::IOERR_WRITE) }
        })
    }

    /// [`Ended::Ordinary`]: the call that ends the journal goes to the real file.
    fn try_end(&self, state: &mut State) -> Result<Ended, Error> {
        let State { main, transaction, is_unsettled, providers, journals, .. } = state;
        let Some(main) = main.as_deref() else { return Ok(Ended::Done) };
        if transaction.is_committed() {
            if let Some(code) = transaction.take_failure_to_end() {
                return Err(code.into());
            }
            transaction.clear();
            return Ok(Ended::Done);
        }
        if transaction.is_ordinary() {
            if self.options.durability == Durability::Full && !transaction.is_synced_by_sqlite() {
                main.sync(SyncRequest::ALL)?;
            }
            return Ok(Ended::Ordinary);
        }
        if !transaction.has_changes_to_commit(main)? {
            self.log.count(|counts| counts.empty += 1);
            transaction.clear();
            return Ok(Ended::Done);
        }
        let outcome = if transaction.is_synced(&self.options) {
            let committed = transaction.commit(main, |batch| {
                providers.commit(&self.log, main, batch, &self.options, |in_order| {
                    self.files.settle_journals(&self.path, in_order, journals)
                })
            });
            committed.map_err(|error| self.noted(main, error))?
        } else {
            Outcome::Declined
        };
        if let Outcome::InLogOnly(code) = outcome {
            transaction.note_committed();
            *is_unsettled = true;
            return Err(code.into());
        }
        if outcome == Outcome::Declined {
            self.materialise(state)?;
            // SQLite's own sync of the database file came while there was nothing in place. The
            // journal must not end before there is.
            if state.transaction.is_synced(&self.options)
                && let Some(main) = state.main.as_deref()
            {
                main.sync(SyncRequest::ALL)?;
            }
            return Ok(Ended::Ordinary);
        }
        self.log.count(|counts| counts.atomic += 1);
        if mutant::is(Mutant::JournalVisible) {
            self.files.delete(&journal_path(&self.path), false)?;
        }
        transaction.clear();
        Ok(Ended::Done)
    }

    /// The transaction goes on as an ordinary journaled one.
    fn materialise(&self, state: &mut State) -> Result<(), Error> {
        let State { main, transaction, .. } = state;
        let Some(main) = main.as_deref() else { return Err(Error::Below(Code::IOERR_WRITE)) };
        if transaction.is_ordinary() {
            return Ok(());
        }
        // With nothing to write yet SQLite may have the database only reserved. Then the log is
        // retired before the first page is written.
        if transaction.has_changes() {
            self.log.before_in_place(main).map_err(|error| self.noted(main, error))?;
        }
        self.log.last_commit.forget();
        self.log.count(|counts| counts.ordinary += 1);
        transaction.materialise(main, &*self.files, &self.path, &self.options)
    }

    /// What it has in memory is to be written out. Not after its journal may name a super-journal
    /// that is no file: that journal would say that its part is committed. What SQLite writes from
    /// then on was in its cache.
    fn is_too_large(&self, transaction: &mut Transaction) -> bool {
        transaction.is_named |= super_journal::is_open() && super_journal::is_absorbed();
        !transaction.is_named && transaction.memory_bytes() > memory_bytes_max(&self.options)
    }

    fn write_db(&self, below: &dyn Below, data: &[u8], offset: u64) -> Result<(), Error> {
        let mut state = self.settled(below)?;
        if state.transaction.is_absorbed() {
            state.transaction.write(below, data, offset)?;
            if self.is_too_large(&mut state.transaction) {
                self.materialise(&mut state)?;
            }
            return Ok(());
        }
        if state.main.is_some() {
            self.log.before_in_place(below).map_err(|error| self.noted(below, error))?;
        }
        drop(state);
        self.inner.call(|inner| inner.write(below, Role::Db, data, offset))
    }

    fn write_journal(&self, below: &dyn Below, data: &[u8], offset: u64) -> Result<(), Error> {
        let mut state = self.state();
        if !state.is_journal_open {
            // Invariant 4 of a transaction.
            if journal::Journal::is_validated_by(data) && self.keeps_promise(&mut state) {
                below.sync(SyncRequest::ALL)?;
            }
            drop(state);
            return self
                .inner
                .call(|inner| inner.write(below, Role::RollbackJournal, data, offset));
        }
        if journal::Journal::is_finished_by(data, offset) && state.transaction.has_begun() {
            return match self.end(&mut state)? {
                Ended::Done => Ok(()),
                Ended::Ordinary => {
                    state.transaction.end_ordinary(&self.options, |real| real.write(data, offset))
                }
            };
        }
        // Rule 3.
        if super_journal::is_open()
            && !super_journal::is_absorbed()
            && !mutant::is(Mutant::SuperJournalMissed)
            && state.transaction.is_absorbed()
        {
            self.materialise(&mut state)?;
        }
        state.transaction.write_journal(data, offset)?;
        if state.transaction.is_absorbed() && self.is_too_large(&mut state.transaction) {
            self.materialise(&mut state)?;
        }
        Ok(())
    }

    /// True if commits are durable at NORMAL too, whoever's the journal is. SQLite keeps a journal
    /// open that it has played back, for a transaction under the same lock.
    fn keeps_promise(&self, state: &mut State) -> bool {
        self.purpose == Purpose::ReadWrite
            && state.providers.are_there(&*self.files, &self.path, &self.options)
    }

    fn truncate_journal(&self, size_bytes: u64) -> Result<(), Error> {
        let mut state = self.state();
        if size_bytes > 0 || !state.transaction.has_begun() {
            return state.transaction.truncate_journal(size_bytes);
        }
        match self.end(&mut state)? {
            Ended::Done => Ok(()),
            Ended::Ordinary => {
                state.transaction.end_ordinary(&self.options, |real| real.truncate(0))
            }
        }
    }
}

impl Strategy for Maw {
    fn kind(&self) -> StrategyKind {
        self.options.strategy
    }

    fn absorbs_journal(&self) -> Option<&dyn AbsorbsJournal> {
        Some(self)
    }

    fn read(
        &self,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error> {
        let mut state = if role == Role::Db { self.settled(below)? } else { self.state() };
        match role {
            Role::Db if state.transaction.covers(offset, buffer.len() as u64) => {
                Ok(state.transaction.read(below, buffer, offset)?)
            }
            Role::RollbackJournal if state.is_journal_open => {
                state.transaction.read_journal(buffer, offset)
            }
            _ => {
                drop(state);
                let read = self.inner.call(|inner| inner.read(below, role, buffer, offset));
                if role == Role::Db && offset == 0 {
                    guard::hide(buffer);
                }
                read
            }
        }
    }

    fn write(&self, below: &dyn Below, role: Role, data: &[u8], offset: u64) -> Result<(), Error> {
        match role {
            Role::Db => self.write_db(below, data, offset),
            Role::RollbackJournal => self.write_journal(below, data, offset),
            _ => self.inner.call(|inner| inner.write(below, role, data, offset)),
        }
    }

    fn truncate(&self, below: &dyn Below, role: Role, size_bytes: u64) -> Result<(), Error> {
        let mut state = self.state();
        match role {
            Role::Db if state.transaction.is_absorbed() => {
                state.transaction.truncate(below, size_bytes)
            }
            Role::RollbackJournal if state.is_journal_open => {
                drop(state);
                self.truncate_journal(size_bytes)
            }
            Role::RollbackJournal if size_bytes == 0 && self.keeps_promise(&mut state) => {
                drop(state);
                self.inner.call(|inner| inner.truncate(below, role, size_bytes))?;
                Ok(below.sync(SyncRequest::ALL)?)
            }
            // After a commit SQLite cuts the file. A replay leaves it as long as the commit says.
            Role::Db if state.transaction.is_ordinary() => {
                self.log.before_in_place(below).map_err(|error| self.noted(below, error))?;
                drop(state);
                self.inner.call(|inner| inner.truncate(below, role, size_bytes))
            }
            _ => self.inner.call(|inner| inner.truncate(below, role, size_bytes)),
        }
    }

    fn sync(&self, below: &dyn Below, role: Role, request: SyncRequest) -> Result<(), Error> {
        let mut state = self.state();
        match role {
            // Rule 2: before the commit point nothing becomes durable.
            Role::Db if state.transaction.sync_database() => Ok(()),
            Role::RollbackJournal if state.is_journal_open => {
                state.transaction.sync_journal(request)?;
                if mutant::is(Mutant::JournalVisible) {
                    state.transaction.show_journal(&*self.files, &self.path)?;
                }
                Ok(())
            }
            _ => {
                drop(state);
                self.inner.call(|inner| inner.sync(below, role, request))
            }
        }
    }

    fn size_bytes(&self, below: &dyn Below, role: Role) -> Result<u64, Error> {
        let state = if role == Role::Db { self.settled(below)? } else { self.state() };
        let ours = match role {
            Role::Db => state.transaction.size_bytes(),
            Role::RollbackJournal if state.is_journal_open => {
                Some(state.transaction.journal_size_bytes()?)
            }
            _ => None,
        };
        drop(state);
        match ours {
            Some(size_bytes) => Ok(size_bytes),
            None => self.inner.call(|inner| inner.size_bytes(below, role)),
        }
    }

    fn lock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        if level == LockLevel::Reserved {
            self.log.writes()?;
        }
        self.inner.call(|inner| inner.lock(below, level))?;
        let had = self.state().level;
        if level == LockLevel::Shared && had < level && self.may_have_log() {
            let brought = self.log.before_reading(below, &self.options).and_then(|()| {
                if self.options.leaves_log { self.log.leave_now(below) } else { Ok(()) }
            });
            if let Err(error) = brought {
                self.inner.call(|inner| inner.unlock(below, LockLevel::None))?;
                return Err(error);
            }
        }
        let mut state = self.state();
        if level == LockLevel::Shared && had < level {
            state.providers.before_reading(below);
        }
        state.level = state.level.max(level);
        Ok(())
    }

    fn unlock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        let mut state = self.state();
        if level <= LockLevel::Shared {
            // A commit has failed, and SQLite gives up the transaction. An ordinary one has left a
            // hot journal, for SQLite to play back.
            state.transaction.clear();
        }
        // Who takes the lock next looks for itself.
        state.is_unsettled &= level > LockLevel::None;
        // It closes the journal with the last lock.
        state.has_journal_file &= level > LockLevel::None;
        state.level = state.level.min(level);
        drop(state);
        self.inner.call(|inner| inner.unlock(below, level))
    }

    #[inline(always)]
    fn take_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code> {
        self.inner.call(|inner| inner.take_read_lock(index, read))
    }

    #[inline(always)]
    fn release_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code> {
        self.inner.call(|inner| inner.release_read_lock(index, read))
    }

    fn shm_lock(&self, index: &dyn WalIndex, lock: ShmLock) -> Result<(), Error> {
        self.inner.call(|inner| inner.shm_lock(index, lock))
    }

    fn unmapping_index(&self) {
        self.inner.call(|inner| inner.unmapping_index());
    }

    fn sector_size(&self, below: &dyn Below, role: Role) -> i32 {
        match role {
            // SQLite asks the database file. The journal's own size would be that of no device.
            Role::RollbackJournal if self.state().is_journal_open => 512,
            _ => self.inner.call(|inner| inner.sector_size(below, role)),
        }
    }

    fn device_characteristics(&self, below: &dyn Below, role: Role) -> DeviceCharacteristics {
        match role {
            Role::RollbackJournal if self.state().is_journal_open => DeviceCharacteristics(0),
            _ => {
                let of_device = self.inner.call(|inner| inner.device_characteristics(below, role));
                DeviceCharacteristics(of_device.0 & !BATCH_ATOMIC)
            }
        }
    }

    fn opened(&self, main: Arc<dyn MainFile>) -> Result<(), Error> {
        let mut state = self.state();
        state.main = Some(Arc::clone(&main));
        if self.may_have_log() {
            self.log.opened(&*main)?;
        }
        if self.purpose == Purpose::ReadWrite {
            state.providers.choose(&*self.files, &self.path, &self.options)?;
        }
        drop(state);
        self.inner.call(|inner| inner.opened(main))
    }

    fn closing(&self) {
        self.inner.call(|inner| inner.closing());
        let mut state = self.state();
        state.transaction.clear();
        let level = state.level;
        if let Some(main) = state.main.take()
            && self.may_have_log()
        {
            drop(state);
            self.log.closed(&*main, level, self.options.retires_log);
        }
    }

    fn opening_wal(&self) -> Result<(), Error> {
        self.inner.call(|inner| inner.opening_wal())
    }

    fn opened_wal(&self, wal: Box<dyn Below>) -> Result<(), Error> {
        self.inner.call(|inner| inner.opened_wal(wal))
    }

    fn closing_wal(&self) {
        self.inner.call(|inner| inner.closing_wal());
    }

    fn deleting_wal(&self) -> Result<Deletion, Error> {
        self.inner.call(|inner| inner.deleting_wal())
    }

    fn wal_path(&self) -> Option<String> {
        self.inner.call(|inner| inner.wal_path())
    }

    fn open_virtual(&self) -> Result<Option<Box<dyn Below>>, Error> {
        self.inner.call(|inner| inner.open_virtual())
    }

    fn hides_wal(&self) -> Result<bool, Error> {
        self.inner.call(|inner| inner.hides_wal())
    }

    fn maps(&self, offset: u64) -> bool {
        // Page 1 may hold the guard, and the pages of the transaction are not in the file.
        let state = self.state();
        let is_in_file = !state.is_unsettled && !state.transaction.covers(offset, 1);
        drop(state);
        offset > 0 && is_in_file && self.inner.call(|inner| inner.maps(offset))
    }

    fn has_durable_wal(&self) -> bool {
        self.inner.call(|inner| inner.has_durable_wal())
    }

    fn knows_wal(&self, wal: &dyn Below) -> bool {
        self.inner.call(|inner| inner.knows_wal(wal))
    }

    fn panicked(&self, released: Option<ShmLock>) {
        self.transaction_panicked();
        self.inner.call(|inner| inner.panicked(released));
    }

    fn asked_whether_moved(&self, has_moved: bool) {
        if !has_moved {
            self.log.saved.forget_move();
        }
        let is_saved_here = has_moved && self.saves_what_has_moved();
        self.inner.call(|inner| inner.asked_whether_moved(has_moved && !is_saved_here));
    }

    fn asked_whether_wal_stays(&self, stays: bool) -> bool {
        self.inner.call(|inner| inner.asked_whether_wal_stays(stays))
    }

    fn asked_by_pragma(&self) {
        self.inner.call(|inner| inner.asked_by_pragma());
    }

    fn busy_handler(&self, handler: Arc<dyn BusyHandler>) {
        self.inner.call(|inner| inner.busy_handler(handler));
    }

    fn commit_phase_two(&self) -> Result<(), Error> {
        self.inner.call(|inner| inner.commit_phase_two())
    }

    fn checkpoint_announced(&self, running: bool) -> Result<(), Error> {
        self.inner.call(|inner| inner.checkpoint_announced(running))
    }
}
