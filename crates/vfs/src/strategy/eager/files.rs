//! The log of a database and what belongs to it, as a strategy may open them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use oneflush_blocklog::{Storage, Uuid};

use super::board::Common;
use super::space::Room;
use crate::error::Code;
use crate::port::SideFiles;

/// An open log.
pub struct LogFile(pub Box<dyn Storage>);

impl Storage for LogFile {
    fn block_bytes(&self) -> usize {
        self.0.block_bytes()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.0.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_durable(blocks, offset)
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.0.write(blocks, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.0.extend(size_bytes)
    }
}

/// A log that others use is kept in use by this.
pub struct LogInUse {
    pub uuid: Uuid,
    /// With a shared lock; None: on a simulated disk.
    pub file: Option<File>,
}

/// So much of an image can be in memory: what it has before a checkpoint, where pages of 4 KiB are changed often. It counts as memory of the process.
pub const IMAGE_MEMORY_BYTES: u64 = 8 << 20;

/// The first [`IMAGE_MEMORY_BYTES`] of an image, in memory.
pub trait ImageMemory: Send + Sync {
    /// Makes these bytes ready to be stored to; false: they are not there. They stay ready until the image is cut, or for some seconds.
    fn prepare(&self, range: Range<u64>) -> bool;
    /// Stores bytes in a range that is ready; false: they, or some of them, are not stored.
    fn store(&self, data: &[u8], offset: u64) -> bool;
}

/// Opens such files: real ones, or those of a simulated disk.
pub trait LogFiles: SideFiles {
    /// Opens, or makes, what the processes share that use the log of this database, and takes its lock; `SQLITE_BUSY`: somebody else has it for
    /// longer than `patience`. Whoever has the lock may remove it.
    fn common(&self, database: &str, patience: Duration) -> Result<Arc<dyn Common>, Code>;
    /// The same without the lock; None: there is none, or it cannot be used without.
    fn common_in_use(&self, database: &str) -> Result<Option<Arc<dyn Common>>, Code>;
    /// Joins those who use the log, without the board and with rights to read only. None: nobody uses it.
    fn look_on(&self, database: &str) -> Result<Option<LogInUse>, Code>;
    /// None: there is none.
    fn open_log(&self, path: &str) -> Result<Option<LogFile>, Code>;
    /// Makes a new one, in place of one that may be there. It belongs to whom the database belongs to.
    fn create_log(&self, path: &str) -> Result<LogFile, Code>;
    /// An image that a process of another user's may have left is given to whom the database belongs to; it need not be there.
    fn claim_image(&self, path: &str) -> Result<(), Code>;
    /// The memory of the image at this path, which begins with `header`; None: it has to be written as a file.
    fn map_image(&self, path: &str, header: &[u8]) -> Option<Box<dyn ImageMemory>>;
    /// These pages of a database that is open will be read soon. Advice: who cannot use it does nothing.
    fn will_read(&self, database: &str, pages: &[u32], page_bytes: usize);
    /// Copies the WAL of SQLite's own that lies beside the database into it and removes it, if nobody else has the database open. False: SQLite takes
    /// the file for no database, and the WAL has no first page that it could take instead.
    fn fold_wal(&self, database: &str) -> Result<bool, String>;
    /// Opens the database with `eager` and closes it: what the log has is in the database file then, and the log is gone.
    fn recover(&self, database: &str) -> Result<(), String>;
    /// This process was forked from one that has the database open, and has SQLite's view of its WAL index.
    fn is_inherited(&self, _database: &str) -> bool {
        false
    }
    /// What the file system has for the image and the log of this database; None: that cannot be known.
    fn room(&self, database: &str) -> Option<Room>;
}
