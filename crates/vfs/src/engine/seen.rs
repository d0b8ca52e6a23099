//! A WAL as SQLite sees it. A store may hold the frames where it wants, so the bytes of the file
//! below are not the WAL's.

use super::connection::WalConnection;
use super::store::Store;
use crate::error::Code;
use crate::port::{Below, DeviceCharacteristics, LockLevel, SyncRequest};
use crate::role::Role;

/// Reads and the size come from the store, as for SQLite. Nothing else is asked of it.
pub struct SeenWal<'a, S: Store> {
    pub connection: &'a WalConnection<S>,
    pub wal: &'a dyn Below,
}

impl<S: Store> Below for SeenWal<'_, S> {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        self.connection.store().read(self.connection, self.wal, Role::Wal, buffer, offset)
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        self.connection.store().wal_size_bytes(self.connection, self.wal)
    }

    fn write(&self, _: &[u8], _: u64) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn truncate(&self, _: u64) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn lock(&self, _: LockLevel) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn unlock(&self, _: LockLevel) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn sector_size(&self) -> i32 {
        self.wal.sector_size()
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        self.wal.device_characteristics()
    }
}
