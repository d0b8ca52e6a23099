//! `stock`: SQLite alone.
//!
//! The commit sequence, the number of syncs and what survives a crash at each step are SQLite's
//! own. They depend on its journal mode and `synchronous`. Nothing is added, delayed or left out
//! (invariant 1 of the crate).
//!
//! `stock` is the control in every comparison.

use std::sync::Arc;

use super::{AbsorbsJournal, Strategy};
use crate::config::StrategyKind;
use crate::error::{Code, Error};
use crate::port::{
    Below, BusyHandler, Deletion, DeviceCharacteristics, LockLevel, MainFile, ShmLock, SyncRequest,
    WalIndex,
};
use crate::role::Role;

pub struct Stock;

impl Strategy for Stock {
    fn kind(&self) -> StrategyKind {
        StrategyKind::Stock
    }

    fn absorbs_journal(&self) -> Option<&dyn AbsorbsJournal> {
        None
    }

    fn read(
        &self,
        below: &dyn Below,
        _: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error> {
        Ok(below.read(buffer, offset)?)
    }

    fn write(&self, below: &dyn Below, _: Role, data: &[u8], offset: u64) -> Result<(), Error> {
        Ok(below.write(data, offset)?)
    }

    fn truncate(&self, below: &dyn Below, _: Role, size_bytes: u64) -> Result<(), Error> {
        Ok(below.truncate(size_bytes)?)
    }

    fn sync(&self, below: &dyn Below, _: Role, request: SyncRequest) -> Result<(), Error> {
        Ok(below.sync(request)?)
    }

    fn size_bytes(&self, below: &dyn Below, _: Role) -> Result<u64, Error> {
        Ok(below.size_bytes()?)
    }

    fn lock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        Ok(below.lock(level)?)
    }

    fn unlock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        Ok(below.unlock(level)?)
    }

    #[inline(always)]
    fn take_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code> {
        index.shm_lock(read)
    }

    #[inline(always)]
    fn release_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code> {
        index.shm_lock(read)
    }

    fn shm_lock(&self, index: &dyn WalIndex, lock: ShmLock) -> Result<(), Error> {
        Ok(index.shm_lock(lock)?)
    }

    fn unmapping_index(&self) {}

    fn sector_size(&self, below: &dyn Below, _: Role) -> i32 {
        below.sector_size()
    }

    fn device_characteristics(&self, below: &dyn Below, _: Role) -> DeviceCharacteristics {
        below.device_characteristics()
    }

    fn opened(&self, _: Arc<dyn MainFile>) -> Result<(), Error> {
        Ok(())
    }

    fn closing(&self) {}

    fn opening_wal(&self) -> Result<(), Error> {
        Ok(())
    }

    fn opened_wal(&self, _: Box<dyn Below>) -> Result<(), Error> {
        Ok(())
    }

    fn deleting_wal(&self) -> Result<Deletion, Error> {
        Ok(Deletion::Delete)
    }

    fn wal_path(&self) -> Option<String> {
        None
    }

    fn open_virtual(&self) -> Result<Option<Box<dyn Below>>, Error> {
        Ok(None)
    }

    fn hides_wal(&self) -> Result<bool, Error> {
        Ok(false)
    }

    fn maps(&self, _: u64) -> bool {
        true
    }

    fn closing_wal(&self) {}

    fn has_durable_wal(&self) -> bool {
        false
    }

    fn knows_wal(&self, _: &dyn Below) -> bool {
        false
    }

    fn panicked(&self, _: Option<ShmLock>) {}

    fn asked_whether_moved(&self, _: bool) {}

    fn asked_whether_wal_stays(&self, stays: bool) -> bool {
        stays
    }

    fn asked_by_pragma(&self) {}

    fn busy_handler(&self, _: Arc<dyn BusyHandler>) {}

    fn commit_phase_two(&self) -> Result<(), Error> {
        Ok(())
    }

    fn checkpoint_announced(&self, _: bool) -> Result<(), Error> {
        Ok(())
    }
}
