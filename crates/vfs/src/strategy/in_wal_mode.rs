//! The strategies for WAL mode: an engine's connection as a [`Strategy`], and what the connections
//! share.

use std::sync::{Arc, OnceLock};

use serde::Serialize;

use super::eager::{EagerLog, EagerReport};
use super::plain::{PlainReport, PlainStore};
use super::waldio::{WaldioReport, WaldioStore};
use super::{AbsorbsJournal, LogFiles, MawLog, MawReport, Strategy};
use crate::config::{Options, StrategyKind};
use crate::engine::{
    Checkpointer, Progress, RunCheckpoint, Shared, Store, WalConnection, WalReport,
};
use crate::error::{Code, Error};
use crate::port::{
    Below, BusyHandler, Deletion, DeviceCharacteristics, LockLevel, MainFile, ShmLock, SyncRequest,
    WalIndex,
};
use crate::role::Role;

/// What the connections of this process to one database share, by their store.
pub enum SharedWal {
    Plain(Arc<Shared<PlainStore>>),
    Eager(Arc<Shared<EagerLog>>),
    Waldio(Arc<Shared<WaldioStore>>),
}

/// One database in this process: what the strategies of its connections are built on.
pub struct Site {
    pub path: String,
    pub run_checkpoint: Arc<dyn RunCheckpoint>,
    pub files: Arc<dyn LogFiles>,
    shared: OnceLock<SharedWal>,
    maw: OnceLock<Arc<MawLog>>,
}

impl Site {
    pub fn new(
        path: &str,
        run_checkpoint: &Arc<dyn RunCheckpoint>,
        files: &Arc<dyn LogFiles>,
    ) -> Site {
        let (run_checkpoint, files) = (Arc::clone(run_checkpoint), Arc::clone(files));
        Site {
            path: path.to_owned(),
            run_checkpoint,
            files,
            shared: OnceLock::new(),
            maw: OnceLock::new(),
        }
    }

    /// What the connections with a strategy for WAL mode share. None: there were no such
    /// connections.
    pub fn shared(&self) -> Option<&SharedWal> {
        self.shared.get()
    }

    /// What connections with `plain` share.
    ///
    /// If the first connection had another strategy, theirs: two strategies for WAL mode do not go
    /// together.
    pub(super) fn plain(&self) -> &SharedWal {
        let store = || PlainStore::new(&self.path, Arc::clone(&self.files) as _);
        self.shared.get_or_init(|| SharedWal::Plain(self.share(store())))
    }

    /// The same for `eager`.
    pub(super) fn eager(&self) -> &SharedWal {
        let store = || EagerLog::new(&self.path, Arc::clone(&self.files));
        self.shared.get_or_init(|| SharedWal::Eager(self.share(store())))
    }

    /// The same for `waldio`.
    pub(super) fn waldio(&self) -> &SharedWal {
        let store = || WaldioStore::new(&self.path, Arc::clone(&self.files));
        self.shared.get_or_init(|| SharedWal::Waldio(self.share(store())))
    }

    /// What connections with `maw` share.
    pub(super) fn maw(&self) -> &Arc<MawLog> {
        self.maw.get_or_init(|| Arc::new(MawLog::new(&self.path, Arc::clone(&self.files))))
    }

    /// The log of `maw`, if connections of this process have that strategy.
    pub fn maw_log(&self) -> Option<&Arc<MawLog>> {
        self.maw.get()
    }

    /// The strategy of the connections of this process. None: `stock`.
    pub fn kind(&self) -> Option<StrategyKind> {
        let of_maw = || self.maw.get().map(|_| StrategyKind::Maw);
        self.shared().map(SharedWal::kind).or_else(of_maw)
    }

    fn share<S: Store>(&self, store: S) -> Arc<Shared<S>> {
        Arc::new(Shared::new(&self.path, Arc::clone(&self.run_checkpoint), store))
    }

    /// A panic was stopped at a callback of some connection.
    pub fn panicked(&self) {
        match self.shared() {
            Some(SharedWal::Plain(shared)) => shared.panicked(),
            Some(SharedWal::Eager(shared)) => shared.panicked(),
            Some(SharedWal::Waldio(shared)) => shared.panicked(),
            None => {}
        }
        if let Some(log) = self.maw_log() {
            log.panicked();
        }
    }

    /// Runs a checkpoint now, by a connection of its own.
    pub fn checkpoint_now(&self, options: &Options) -> Result<Progress, String> {
        match self.shared() {
            Some(shared) => shared.checkpointer().run_now(options),
            None => {
                Checkpointer::new(&self.path, Arc::clone(&self.run_checkpoint)).run_now(options)
            }
        }
    }
}

/// What a strategy adds to `PRAGMA oneflush_stats`, under the strategy's name.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StrategyReport {
    Plain(WalReport<PlainReport>),
    Eager(WalReport<EagerReport>),
    Waldio(WalReport<WaldioReport>),
    Maw(MawReport),
}

impl SharedWal {
    pub fn kind(&self) -> StrategyKind {
        match self {
            SharedWal::Plain(_) => PlainStore::KIND,
            SharedWal::Eager(_) => EagerLog::KIND,
            SharedWal::Waldio(_) => WaldioStore::KIND,
        }
    }

    /// See [`Store::IS_GUARDED`].
    pub fn is_guarded(&self) -> bool {
        match self {
            SharedWal::Plain(_) => PlainStore::IS_GUARDED,
            SharedWal::Eager(_) => EagerLog::IS_GUARDED,
            SharedWal::Waldio(_) => WaldioStore::IS_GUARDED,
        }
    }

    pub fn checkpointer(&self) -> &Arc<Checkpointer> {
        match self {
            SharedWal::Plain(shared) => shared.checkpointer(),
            SharedWal::Eager(shared) => shared.checkpointer(),
            SharedWal::Waldio(shared) => shared.checkpointer(),
        }
    }

    pub fn report(&self) -> StrategyReport {
        match self {
            SharedWal::Plain(shared) => StrategyReport::Plain(shared.report()),
            SharedWal::Eager(shared) => StrategyReport::Eager(shared.report()),
            SharedWal::Waldio(shared) => StrategyReport::Waldio(shared.report()),
        }
    }
}

impl<S: Store> Strategy for WalConnection<S> {
    fn kind(&self) -> StrategyKind {
        S::KIND
    }

    fn absorbs_journal(&self) -> Option<&dyn AbsorbsJournal> {
        None
    }

    fn read(
        &self,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error> {
        self.read(below, role, buffer, offset)
    }

    fn write(&self, below: &dyn Below, role: Role, data: &[u8], offset: u64) -> Result<(), Error> {
        self.write(below, role, data, offset)
    }

    fn truncate(&self, below: &dyn Below, role: Role, size_bytes: u64) -> Result<(), Error> {
        self.truncate(below, role, size_bytes)
    }

    fn sync(&self, below: &dyn Below, role: Role, request: SyncRequest) -> Result<(), Error> {
        self.sync(below, role, request)
    }

    fn size_bytes(&self, below: &dyn Below, role: Role) -> Result<u64, Error> {
        self.size_bytes(below, role)
    }

    fn lock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        self.lock(below, level)
    }

    fn unlock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        self.unlock(below, level)
    }

    #[inline(always)]
    fn take_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code> {
        self.take_read_lock(index, read)
    }

    #[inline(always)]
    fn release_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code> {
        self.release_read_lock(index, read)
    }

    fn shm_lock(&self, index: &dyn WalIndex, lock: ShmLock) -> Result<(), Error> {
        self.shm_lock(index, lock)
    }

    fn unmapping_index(&self) {
        self.unmapping_index();
    }

    fn sector_size(&self, below: &dyn Below, _: Role) -> i32 {
        below.sector_size()
    }

    fn device_characteristics(&self, below: &dyn Below, role: Role) -> DeviceCharacteristics {
        self.device_characteristics(below, role)
    }

    fn opened(&self, main: Arc<dyn MainFile>) -> Result<(), Error> {
        self.opened(main)
    }

    fn closing(&self) {
        self.closing();
    }

    fn opening_wal(&self) -> Result<(), Error> {
        self.store().opening_wal(self)
    }

    fn opened_wal(&self, wal: Box<dyn Below>) -> Result<(), Error> {
        self.opened_wal(wal)
    }

    fn closing_wal(&self) {
        self.closing_wal();
    }

    fn deleting_wal(&self) -> Result<Deletion, Error> {
        self.store().deleting_wal(self)
    }

    fn wal_path(&self) -> Option<String> {
        self.store().wal_path()
    }

    fn open_virtual(&self) -> Result<Option<Box<dyn Below>>, Error> {
        Ok(self.store().open_virtual(self))
    }

    fn hides_wal(&self) -> Result<bool, Error> {
        self.hides_wal()
    }

    fn maps(&self, offset: u64) -> bool {
        // Page 1 may hold the guard.
        !S::IS_GUARDED || offset > 0
    }

    fn has_durable_wal(&self) -> bool {
        self.store().has_durable_wal()
    }

    fn knows_wal(&self, wal: &dyn Below) -> bool {
        self.store().knows_wal(wal)
    }

    fn panicked(&self, released: Option<ShmLock>) {
        self.panicked(released);
    }

    fn asked_whether_moved(&self, has_moved: bool) {
        self.asked_whether_moved(has_moved);
    }

    fn asked_whether_wal_stays(&self, stays: bool) -> bool {
        self.asked_whether_wal_stays(stays)
    }

    fn asked_by_pragma(&self) {
        self.asked_by_pragma();
    }

    fn busy_handler(&self, handler: Arc<dyn BusyHandler>) {
        self.busy_handler(handler);
    }

    fn commit_phase_two(&self) -> Result<(), Error> {
        self.commit_phase_two()
    }

    fn checkpoint_announced(&self, running: bool) -> Result<(), Error> {
        self.checkpoint_announced(running)
    }
}
