//! Strategies: what happens to a read, a write, a sync and a lock on its way to the VFS below.
//!
//! A strategy sees roles, offsets and bytes, never a SQLite pointer or flag. To add one: a file here that implements
//! [`Strategy`], a word in [`StrategyKind`], a variant of [`Chosen`].

mod eager;
mod plain;
mod stock;
#[cfg(all(test, not(feature = "shuttle")))]
mod test_wal;
mod wal_file;

pub use eager::EagerLog;
pub use eager::board::{
    Common, Holder, Look as BoardLook, Private, WORDS, is_open as board_is_open, look as look_at_board,
    read_words as read_board,
};
pub use eager::building::build_of;
pub use eager::files::{
    IMAGE_MEMORY_BYTES, ImageMemory, LogFile, LogInUse, SideFiles, board_path, database_of, image_path, kept_path,
    log_path, wal_path,
};
pub use eager::gathering::Gathering;
pub use eager::guard;
#[cfg(feature = "mutants")]
pub use eager::mutant;
pub use eager::onlooker::Onlooker;
pub use eager::rebuilt::RebuiltPages;
pub use eager::recover::{RecoverError, check, page_one_of, why_kept, write_image};
pub use eager::space::Room;
pub use eager::tickets::Tickets;
pub use plain::{Plain, Progress, RunCheckpoint, Shared as PlainShared, is_marked, sleep};
pub use stock::Stock;
pub use wal_file::{FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES, WalFile, frames_to_recover as wal_frames};

use std::sync::Arc;

use serde::Serialize;

use crate::config::{Options, StrategyKind};
use crate::connection::Database;
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
    /// How many frames of the WAL are published in the WAL index that all connections share; None: it cannot be read. To be asked of a main
    /// database file that has a WAL index.
    fn published_frames(&self) -> Option<u32>;
    /// Makes the next checkpoint, by whichever process, copy all frames of the WAL, also those that an earlier one has copied. To be asked
    /// of a main database file whose checkpoint lock is held.
    fn forget_backfill(&self);
    /// The first `frames` frames of the WAL need not be copied by the next checkpoint. To be asked of a main database file that nobody else has open.
    fn believe_backfill(&self, frames: u32);
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
    /// A reader's lock: one slot from [`ShmLock::READ`] on, shared. Each read makes this call and the next, and nothing else is between SQLite and
    /// its WAL index, so both are to be small.
    fn take_read_lock(&self, below: &dyn Below, read: ShmLock) -> Result<(), Code>;
    fn release_read_lock(&self, below: &dyn Below, read: ShmLock) -> Result<(), Code>;
    /// Any other lock of the WAL index.
    fn shm_lock(&self, below: &dyn Below, lock: ShmLock) -> Result<(), Error>;
    /// The WAL index is about to be unmapped, and its locks with it.
    fn unmapping_index(&self);
    fn sector_size(&self, below: &dyn Below, role: Role) -> i32;
    fn device_characteristics(&self, below: &dyn Below, role: Role) -> DeviceCharacteristics;
    /// The main database file was opened; the file below stays usable until [`Strategy::closing`].
    fn opened(&self, main: Box<dyn Below>) -> Result<(), Error>;
    fn closing(&self);
    /// Before the WAL of this very connection is opened; where it succeeds, [`Strategy::opened_wal`] or [`Strategy::closing_wal`] follows.
    fn opening_wal(&self) -> Result<(), Error>;
    /// The WAL was opened; the file below stays usable until [`Strategy::closing_wal`], which follows even on an error.
    fn opened_wal(&self, wal: Box<dyn Below>) -> Result<(), Error>;
    fn closing_wal(&self);
    /// SQLite is about to delete its WAL.
    fn deleting_wal(&self) -> Result<Deletion, Error>;
    /// The file that stands for SQLite's WAL; None: the WAL.
    fn wal_path(&self) -> Option<String>;
    /// True if SQLite is to see no WAL, whatever lies beside the database.
    fn hides_wal(&self) -> Result<bool, Error>;
    /// True if reads of the database file may be served from memory that the file is mapped to.
    fn maps(&self, offset: u64) -> bool;
    /// True if this process writes a WAL of this database whose directory entry is durable.
    fn has_durable_wal(&self) -> bool;
    /// True if this file is that WAL.
    fn knows_wal(&self, wal: &dyn Below) -> bool;
    /// SQLite asked whether the main database file has been moved (`SQLITE_FCNTL_HAS_MOVED`).
    fn asked_whether_moved(&self);
    /// SQLite asked whether the WAL is to stay, as `SQLITE_FCNTL_PERSIST_WAL` has it, and the answer would be `stays`. The answer is what this returns.
    fn asked_whether_wal_stays(&self, stays: bool) -> bool;
    /// A PRAGMA is being prepared: what comes next may be asked for by the user.
    fn asked_by_pragma(&self);
    /// `SQLITE_FCNTL_BUSYHANDLER`.
    fn busy_handler(&self, handler: Arc<dyn BusyHandler>);
    /// `SQLITE_FCNTL_COMMIT_PHASETWO`; an error fails the commit.
    fn commit_phase_two(&self) -> Result<(), Error>;
    /// `SQLITE_FCNTL_CKPT_START` and `SQLITE_FCNTL_CKPT_DONE`.
    fn checkpoint_announced(&self, running: bool) -> Result<(), Error>;
}

/// The busy handler of a connection, as SQLite gives it to a VFS.
pub trait BusyHandler: Send + Sync {
    /// Waits a little; false if the connection has waited long enough, or does not wait at all.
    fn wait(&self) -> bool;
}

/// What becomes of a WAL that SQLite deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    Delete,
    /// It has another name already.
    Renamed,
}

/// A strategy in force. An enum rather than a box: the compiler sees through it, so that `stock` costs next to nothing.
pub enum Chosen {
    Stock(Stock),
    Plain(Arc<Plain>),
    Onlooker(Box<Onlooker>),
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    ReadWrite,
    /// The database file is open for reading only, so its close makes no checkpoint.
    ReadOnly,
    /// It belongs to the checkpointer.
    Checkpoints,
}

/// The strategy that the options of connection `id` ask for.
pub fn build(id: u64, options: &Options, database: &Database, purpose: Purpose) -> Chosen {
    match options.strategy {
        StrategyKind::Stock => Chosen::Stock(Stock),
        StrategyKind::Eager if purpose == Purpose::ReadOnly => {
            Chosen::Onlooker(Box::new(Onlooker::new(database.path(), Arc::clone(database.side_files()))))
        }
        StrategyKind::Plain | StrategyKind::Eager => {
            Chosen::Plain(Plain::new(id, options, database.wal(options.strategy), purpose))
        }
    }
}

/// What a strategy adds to `PRAGMA oneflush_stats`, under its own name.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StrategyReport {
    Plain(plain::PlainReport),
    Eager(plain::EagerReport),
}

impl Chosen {
    /// Calls the strategy.
    #[inline(always)]
    pub fn call<R>(&self, method: impl FnOnce(&dyn Strategy) -> R) -> R {
        match self {
            Chosen::Stock(stock) => method(stock),
            Chosen::Plain(plain) => method(plain.as_ref()),
            Chosen::Onlooker(onlooker) => method(onlooker.as_ref()),
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

impl SyncRequest {
    /// Data and size.
    pub const ALL: SyncRequest = SyncRequest { full: false, data_only: false };
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
    /// Slot that a connection holds, alone, while it recovers the WAL (`WAL_RECOVER_LOCK`).
    pub const RECOVER: u8 = 2;
    /// The first of the slots that readers share (`WAL_READ_LOCK(0)`).
    pub const READ: u8 = 3;
    /// Slot that a checkpointer holds (`WAL_CKPT_LOCK`).
    pub const CHECKPOINT: u8 = 1;

    /// The call that takes, or releases, the write lock.
    pub const fn of_writer(acquire: bool) -> ShmLock {
        ShmLock { first: ShmLock::WRITE, count: 1, acquire, exclusive: true }
    }

    /// The call that takes, or releases, a reader's lock.
    pub const fn of_reader(slot: u8, acquire: bool) -> ShmLock {
        ShmLock { first: slot, count: 1, acquire, exclusive: false }
    }

    /// True if the call takes or releases `slot`.
    pub fn covers(&self, slot: u8) -> bool {
        (self.first..self.first.saturating_add(self.count)).contains(&slot)
    }
}

/// The bits of `xDeviceCharacteristics`. A strategy claims no more than is proved, so of files that are durable it can only take bits away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCharacteristics(pub i32);

impl DeviceCharacteristics {
    /// With `SQLITE_IOCAP_POWERSAFE_OVERWRITE`.
    pub fn with_powersafe_overwrite(self) -> DeviceCharacteristics {
        DeviceCharacteristics(self.0 | 0x1000)
    }
}
