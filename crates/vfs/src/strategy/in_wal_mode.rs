//! The strategies for WAL mode: a connection of the engine as a [`Strategy`], and what the connections to one database share.

use std::sync::Arc;

use serde::Serialize;

use super::eager::{EagerLog, EagerReport};
use super::plain::{PlainReport, PlainStore};
use super::{SideFiles, Strategy};
use crate::config::StrategyKind;
use crate::engine::{Checkpointer, RunCheckpoint, Shared, Store, WalConnection, WalReport};
use crate::error::{Code, Error};
use crate::port::{
    Below, BusyHandler, Deletion, DeviceCharacteristics, LockLevel, MainFile, ShmLock, SyncRequest, WalIndex,
};
use crate::role::Role;

/// What the connections of this process to one database share, by the store that they have.
pub enum SharedWal {
    Plain(Arc<Shared<PlainStore>>),
    Eager(Arc<Shared<EagerLog>>),
}

/// Makes what the connections to the database of this path share.
pub type NewSharedWal = fn(&str, Arc<dyn RunCheckpoint>, Arc<dyn SideFiles>) -> SharedWal;

/// What a strategy adds to `PRAGMA oneflush_stats`, under its own name.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StrategyReport {
    Plain(WalReport<PlainReport>),
    Eager(WalReport<EagerReport>),
}

impl SharedWal {
    pub fn plain(path: &str, run: Arc<dyn RunCheckpoint>, files: Arc<dyn SideFiles>) -> SharedWal {
        SharedWal::Plain(Arc::new(Shared::new(path, run, PlainStore::new(path, files))))
    }

    pub fn eager(path: &str, run: Arc<dyn RunCheckpoint>, files: Arc<dyn SideFiles>) -> SharedWal {
        SharedWal::Eager(Arc::new(Shared::new(path, run, EagerLog::new(path, files))))
    }

    pub fn kind(&self) -> StrategyKind {
        match self {
            SharedWal::Plain(_) => PlainStore::KIND,
            SharedWal::Eager(_) => EagerLog::KIND,
        }
    }

    /// While the database is in use plain SQLite must not open it, and a WAL that belongs to no connection for sure must not be written.
    pub fn is_guarded(&self) -> bool {
        match self {
            SharedWal::Plain(_) => PlainStore::IS_GUARDED,
            SharedWal::Eager(_) => EagerLog::IS_GUARDED,
        }
    }

    pub fn checkpointer(&self) -> &Arc<Checkpointer> {
        match self {
            SharedWal::Plain(shared) => shared.checkpointer(),
            SharedWal::Eager(shared) => shared.checkpointer(),
        }
    }

    pub fn report(&self) -> StrategyReport {
        match self {
            SharedWal::Plain(shared) => StrategyReport::Plain(shared.report()),
            SharedWal::Eager(shared) => StrategyReport::Eager(shared.report()),
        }
    }
}

impl<S: Store> Strategy for WalConnection<S> {
    fn kind(&self) -> StrategyKind {
        S::KIND
    }

    fn read(&self, below: &dyn Below, role: Role, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
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

    fn opened(&self, main: Box<dyn MainFile>) -> Result<(), Error> {
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

    fn hides_wal(&self) -> Result<bool, Error> {
        self.hides_wal()
    }

    fn maps(&self, offset: u64) -> bool {
        self.store().maps(offset)
    }

    fn has_durable_wal(&self) -> bool {
        self.store().has_durable_wal()
    }

    fn knows_wal(&self, wal: &dyn Below) -> bool {
        self.store().knows_wal(wal)
    }

    fn asked_whether_moved(&self) {
        self.asked_whether_moved();
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
