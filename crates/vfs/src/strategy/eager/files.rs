//! The files of `eager` beside the database, as a strategy may open and remove them.

use std::io;

use oneflush_blocklog::Storage;

use crate::error::Code;

/// The log of a database.
pub fn log_path(database: &str) -> String {
    format!("{database}-oneflush")
}

/// The volatile image that SQLite takes for its WAL.
pub fn image_path(database: &str) -> String {
    format!("{database}-oneflush-wal")
}

/// An open log, kept from other processes as long as it is open.
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

/// Opens and removes such files: real ones, or those of a simulated disk.
pub trait SideFiles: Send + Sync {
    /// None: there is none. `SQLITE_BUSY`: somebody has it open.
    fn open_log(&self, path: &str) -> Result<Option<LogFile>, Code>;
    /// Makes a new one, in place of one that may be there.
    fn create_log(&self, path: &str) -> Result<LogFile, Code>;
    /// Removes a file; it need not be there.
    fn delete(&self, path: &str, sync_directory: bool) -> Result<(), Code>;
    fn exists(&self, path: &str) -> Result<bool, Code>;
    /// Copies the WAL of SQLite's own that lies beside the database into it and removes it, if nobody else has the database open.
    fn fold_wal(&self, database: &str) -> Result<(), String>;
    /// Opens the database with `eager` and closes it: what the log has is in the database file then, and the log is gone.
    fn recover(&self, database: &str) -> Result<(), String>;
    /// A line in SQLite's error log.
    fn warn(&self, message: &str);
}
