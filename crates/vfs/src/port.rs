//! The world below the engine and the strategies: files, the WAL index, locks, SQLite's busy
//! handler.
//!
//! Nothing here is a SQLite pointer or flag. The FFI layer, `crates/crashlab` and tests implement
//! these traits.

use std::ops::Range;
use std::os::fd::RawFd;

use crate::error::Code;

/// A file of the VFS below, as a strategy may use it.
///
/// Offsets and sizes are bytes. A read that meets the end of the file zero-fills the rest of the
/// buffer. It then answers `SQLITE_IOERR_SHORT_READ`, as SQLite's contract for `xRead` requires.
pub trait Below: Send + Sync {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code>;
    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code>;
    fn truncate(&self, size_bytes: u64) -> Result<(), Code>;
    fn sync(&self, request: SyncRequest) -> Result<(), Code>;
    fn size_bytes(&self) -> Result<u64, Code>;
    fn lock(&self, level: LockLevel) -> Result<(), Code>;
    fn unlock(&self, level: LockLevel) -> Result<(), Code>;
    /// Bytes that the storage writes at once, as the VFS below reports it.
    fn sector_size(&self) -> i32;
    fn device_characteristics(&self) -> DeviceCharacteristics;
    /// The operating system's descriptor of the file. It is SQLite's own and stays open while this
    /// file is. None: it is not known, and nothing is done that needs it.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }
    /// This connection is the first, of whatever process, to save what is in this file, which has
    /// lost its name. `None`: it may not write the file, and saves nothing.
    fn is_first_to_save(&self) -> Option<bool> {
        Some(true)
    }
    /// It has saved that, and the file may get its name back.
    fn may_save_again(&self) {}
    /// Mode, user and group of the file.
    fn owner(&self) -> Option<(u32, u32, u32)> {
        None
    }
    /// What the file's name leads to. The error is the name of this file, or of the index of a main
    /// file, if it leads to another file by now or to none. False negatives are possible, for
    /// example where the folder cannot be reached. `None`: the file tells nothing by its stamp.
    fn look_at_name(&self) -> Result<Option<Stamp>, String> {
        Ok(None)
    }
    /// Takes the turn to close the database, or gives it back. `BUSY`: another connection, of
    /// whichever process, has it. Without such a lock every connection has its turn.
    fn turn_to_close(&self, _take: bool) -> Result<(), Code> {
        Ok(())
    }
    /// Another process has the database's shared lock, or more. False: nobody has, or it is not
    /// known.
    fn is_shared_by_others(&self) -> bool {
        false
    }
}

/// What the file system says of a file that somebody may have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub size_bytes: i64,
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
}

/// How far the checkpoints of a WAL have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// To tell one WAL from another, and no more.
    pub salt: [u32; 2],
    /// `nBackfill`, and the frames that a checkpoint has begun to copy: `nBackfillAttempted`.
    pub frames: u32,
    pub attempted: u32,
}

/// The last frame that the WAL index has published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    pub frame: u32,
    pub page_bytes: u32,
    pub salt: [u32; 2],
    pub checksum: [u32; 2],
}

/// A place in the WAL, as a WAL index has published it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The first one.
    pub salt: u32,
    pub frame: u32,
}

/// The WAL index of a main database file, which all its connections share ("WAL-Index Format").
pub trait WalIndex: Send + Sync {
    fn shm_lock(&self, lock: ShmLock) -> Result<(), Code>;
    /// The number of frames in the WAL that are published. None: the index cannot be read. The file
    /// must have a WAL index.
    fn published_frames(&self) -> Option<u32>;
    /// None: it cannot be read or is to be made anew, a writer changes it just now, or no frame is
    /// published.
    fn tail(&self) -> Option<Tail> {
        None
    }
    /// None: it cannot be read, or is to be made anew.
    fn published(&self) -> Option<Published> {
        None
    }
    /// The two copies of its header differ: it is half written, and SQLite makes it anew.
    fn is_torn(&self) -> bool {
        false
    }
    /// Has SQLite make the index anew, from the WAL. The caller has the write lock.
    fn make_anew(&self) {}
    /// None: it cannot be read.
    fn copied(&self) -> Option<Copied> {
        None
    }
    /// Makes the next checkpoint, by whichever process, copy all frames of the WAL. Frames that an
    /// earlier checkpoint has copied are copied again. The caller holds the checkpoint lock.
    fn forget_backfill(&self);
    /// The next checkpoint need not copy the first `frames` frames of the WAL. Nobody else has the
    /// file open.
    fn believe_backfill(&self, frames: u32);
}

/// Runs `act` with the write lock.
pub fn with_write_lock<T>(
    index: &dyn WalIndex,
    act: impl FnOnce() -> Result<T, Code>,
) -> Result<T, Code> {
    struct Held<'a>(&'a dyn WalIndex);
    impl Drop for Held<'_> {
        fn drop(&mut self) {
            // Nobody waits for it for ever: the slot of an open file can always be released.
            let _ = self.0.shm_lock(ShmLock::of_writer(false));
        }
    }
    index.shm_lock(ShmLock::of_writer(true))?;
    let _held = Held(index);
    act()
}

/// A main database file.
pub trait MainFile: Below + WalIndex {}

impl<F: Below + WalIndex> MainFile for F {}

/// Removes and renames files beside the database: real ones, or those of a simulated disk.
pub trait SideFiles: Send + Sync {
    /// Removes a file beside the database. A missing file is no error.
    fn delete(&self, path: &str, sync_directory: bool) -> Result<(), Code>;
    /// Renames `from`, a file that nobody uses, to a name that no file has. The rename is durable.
    fn rename(&self, from: &str, to: &str) -> Result<(), Code>;
    /// Gives the WAL of a closed database the kept name (`kept_file.rs`). The caller has the
    /// database's exclusive lock. After an error the WAL still has its own name, and SQLite is to
    /// delete it.
    fn keep_wal(&self, database: &str) -> Result<(), Code>;
    /// Renames the kept file back to the name of the WAL if it `fits`; removes it otherwise. True:
    /// the file has the WAL's name now. The caller has a shared lock on the database. The directory
    /// is not synced.
    fn take_back_wal(&self, database: &str, fits: &mut dyn FnMut(&dyn Below) -> bool) -> bool;
    /// True if the file exists and is not empty, as SQLite understands the question.
    fn exists(&self, path: &str) -> Result<bool, Code>;
    /// True if the file exists, even if it is empty.
    fn is_there(&self, path: &str) -> Result<bool, Code>;
    /// Makes a file longer by [zeros without a write](oneflush_blocklog::zero_without_writing).
    /// False: the caller has to write them.
    fn extend_without_writing(&self, _path: &str, _new: Range<u64>) -> bool {
        false
    }
    /// Adds a line to SQLite's error log.
    fn warn(&self, message: &str);
}

/// F2FS's atomic write of one database file (`F2FS_IOC_START_ATOMIC_WRITE` and its companions).
///
/// `main` is the open file of the connection that asks. What it writes between start and commit is
/// kept apart.
pub trait AtomicWrite: Send + Sync {
    /// `in_parts`: new bytes at the end of the file that come in parts of its blocks. False: no
    /// atomic write can be begun on this file, and its content and size are as before.
    fn start(&self, main: &dyn Below, in_parts: Option<Range<u64>>) -> bool;
    /// Writes to the file, after the start.
    fn write(&self, main: &dyn Below, data: &[u8], offset: u64) -> Result<(), Code> {
        main.write(data, offset)
    }
    /// Makes all writes since the start durable, or none of them.
    fn commit(&self, main: &dyn Below) -> Result<(), Code>;
    /// Drops all writes since the start, whoever made them. Without a start it does nothing.
    fn abort(&self, main: &dyn Below);
    /// Says in SQLite's error log that nobody knows what became of a commit.
    fn say_unknown(&self);
}

/// A temporary file in the file system of a database. Its blocks can change places with the
/// database's (`XFS_IOC_EXCHANGE_RANGE`, Linux 6.10).
pub trait ExchangeFile: Send + Sync {
    /// The file system's block, the unit of an exchange. It is a power of two.
    fn block_bytes(&self) -> u64;
    /// Takes all blocks away.
    fn empty(&self) -> Result<(), Code>;
    /// Makes the file this long, without blocks.
    fn resize(&self, size_bytes: u64) -> Result<(), Code>;
    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code>;
    /// In this range, the blocks that were written to the temporary file change places with the
    /// blocks of `main` at the same offsets: all or none, durably on return.
    ///
    /// The range begins at a block. It ends at a block, or where both files end. False: these two
    /// files cannot exchange anything, and nothing has happened.
    fn exchange(&self, main: &dyn Below, range: Range<u64>) -> Result<bool, Code>;
    /// Says in SQLite's error log that nobody knows what became of an exchange.
    fn say_unknown(&self);
}

/// The busy handler of a connection, as SQLite gives it to a VFS.
pub trait BusyHandler: Send + Sync {
    /// Waits a little. False: the connection has waited long enough, or does not wait at all.
    fn wait(&self) -> bool;
}

/// What becomes of a WAL or a journal that SQLite deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    Delete,
    /// The deletion must be durable, whatever SQLite asks for.
    Durably,
    /// There was a file in memory only.
    Done,
    /// The WAL already has another name.
    Renamed,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    ReadWrite,
    /// The database file is open for reading only. The close of such a connection makes no
    /// checkpoint.
    ReadOnly,
    /// The connection belongs to the checkpointer.
    Checkpoints,
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
    /// Slot that a connection holds exclusively while it recovers the WAL (`WAL_RECOVER_LOCK`).
    pub const RECOVER: u8 = 2;
    /// The first of the slots that readers share (`WAL_READ_LOCK(0)`).
    pub const READ: u8 = 3;
    /// Slot that a checkpointer holds (`WAL_CKPT_LOCK`).
    pub const CHECKPOINT: u8 = 1;

    /// The call that takes, or releases, the write lock.
    pub const fn of_writer(acquire: bool) -> ShmLock {
        ShmLock { first: ShmLock::WRITE, count: 1, acquire, exclusive: true }
    }

    /// The call that takes, or releases, the checkpoint lock.
    pub const fn of_checkpoint(acquire: bool) -> ShmLock {
        ShmLock { first: ShmLock::CHECKPOINT, count: 1, acquire, exclusive: true }
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

/// The bits of `xDeviceCharacteristics`.
///
/// A strategy claims no more than is proved. For durable files it can only take bits away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCharacteristics(pub i32);

impl DeviceCharacteristics {
    /// With `SQLITE_IOCAP_POWERSAFE_OVERWRITE`.
    pub fn with_powersafe_overwrite(self) -> DeviceCharacteristics {
        DeviceCharacteristics(self.0 | 0x1000)
    }
}
