//! Strategies: what happens to a read, a write, a sync and a lock on its way to the VFS below.
//!
//! A strategy sees roles, offsets and bytes, never a SQLite pointer or flag. To add one: a file here that implements
//! [`Strategy`], a word in [`StrategyKind`], a variant of [`Chosen`].

mod stock;

pub use stock::Stock;

use crate::config::{Options, StrategyKind};
use crate::error::{Code, Error};
use crate::role::Role;

/// A file of the VFS below, as a strategy may use it.
///
/// Offsets and sizes are bytes. A read that meets the end of the file zero-fills the rest of the buffer and answers
/// `SQLITE_IOERR_SHORT_READ`, as SQLite's contract for `xRead` has it.
pub trait Below: Send + Sync {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code>;
    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code>;
    fn truncate(&self, size_bytes: u64) -> Result<(), Code>;
    fn sync(&self, request: SyncRequest) -> Result<(), Code>;
    fn size_bytes(&self) -> Result<u64, Code>;
    fn lock(&self, level: LockLevel) -> Result<(), Code>;
    fn unlock(&self, level: LockLevel) -> Result<(), Code>;
    fn shm_lock(&self, lock: ShmLock) -> Result<(), Code>;
    /// Bytes that the storage writes at once, as the VFS below reports it.
    fn sector_size(&self) -> i32;
    fn device_characteristics(&self) -> DeviceCharacteristics;
}

/// The way of one connection to carry out SQLite's calls.
///
/// No method has a default: one that forgot to sync, or to say what the device is, would lose data silently.
pub trait Strategy: Send + Sync {
    fn kind(&self) -> StrategyKind;
    fn read(&self, below: &dyn Below, role: Role, buffer: &mut [u8], offset: u64) -> Result<(), Error>;
    fn write(&self, below: &dyn Below, role: Role, data: &[u8], offset: u64) -> Result<(), Error>;
    fn truncate(&self, below: &dyn Below, role: Role, size_bytes: u64) -> Result<(), Error>;
    fn sync(&self, below: &dyn Below, role: Role, request: SyncRequest) -> Result<(), Error>;
    fn size_bytes(&self, below: &dyn Below, role: Role) -> Result<u64, Error>;
    fn lock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error>;
    fn unlock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error>;
    fn shm_lock(&self, below: &dyn Below, lock: ShmLock) -> Result<(), Error>;
    fn sector_size(&self, below: &dyn Below, role: Role) -> i32;
    fn device_characteristics(&self, below: &dyn Below, role: Role) -> DeviceCharacteristics;
}

/// A strategy in force. An enum rather than a box: the compiler sees through it, so that `stock` costs next to nothing.
pub enum Chosen {
    Stock(Stock),
}

/// The strategy that the options of a connection ask for.
pub fn build(options: &Options) -> Chosen {
    match options.strategy {
        StrategyKind::Stock => Chosen::Stock(Stock),
    }
}

impl Chosen {
    /// Calls the strategy.
    #[inline(always)]
    pub fn call<R>(&self, method: impl FnOnce(&dyn Strategy) -> R) -> R {
        match self {
            Chosen::Stock(stock) => method(stock),
        }
    }
}

/// What `xSync` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRequest {
    /// `SQLITE_SYNC_FULL` (on macOS `F_FULLFSYNC`) against `SQLITE_SYNC_NORMAL`.
    pub full: bool,
    /// `SQLITE_SYNC_DATAONLY`: the file's size has not changed.
    pub data_only: bool,
}

/// The locks of a database file, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockLevel {
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

/// One call of `xShmLock`: `count` slots of the WAL index from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShmLock {
    pub first: u8,
    pub count: u8,
    pub acquire: bool,
    pub exclusive: bool,
}

impl ShmLock {
    /// Slot that a writer holds (`WAL_WRITE_LOCK`, "WAL-Index Format", section 2.3).
    pub const WRITE: u8 = 0;
    /// Slot that a checkpointer holds (`WAL_CKPT_LOCK`).
    pub const CHECKPOINT: u8 = 1;

    /// True if the call takes or releases `slot`.
    pub fn covers(&self, slot: u8) -> bool {
        (self.first..self.first.saturating_add(self.count)).contains(&slot)
    }
}

/// The bits of `xDeviceCharacteristics`. A strategy claims no more than is proved, so it can only take bits away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCharacteristics(pub i32);
