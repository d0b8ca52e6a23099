//! The log of a database and the files that belong to it, as a strategy may open them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use oneflush_blocklog::{Error as LogError, Log, Lsn, Storage, Uuid, Written, is_full};

use super::board::{Board, Common};
use super::guard::HEADER_BYTES;
use super::space::Room;
use crate::config::StrategyKind;
use crate::error::Code;
use crate::journal_end::Seen;
use crate::port::{AtomicWrite, Below, ExchangeFile, SideFiles};

/// An open log.
pub struct LogFile(pub Box<dyn Storage>);

impl Storage for LogFile {
    fn block_bytes(&self) -> usize {
        self.0.block_bytes()
    }

    fn alignment_bytes(&self) -> usize {
        self.0.alignment_bytes()
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

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        self.0.zero(range)
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.0.cut(size_bytes)
    }

    fn written(&self) -> Written {
        self.0.written()
    }
}

/// Keeps a log in use that others use.
pub struct LogInUse {
    pub uuid: Uuid,
    /// The log, with a shared lock. `None`: on a simulated disk.
    pub file: Option<File>,
}

/// This much of an image can be in memory: as much as an image has before a checkpoint, where pages
/// of 4 KiB are changed often. It counts as memory of the process.
pub const IMAGE_MEMORY_BYTES: u64 = 8 << 20;

/// The first [`IMAGE_MEMORY_BYTES`] of an image, in memory.
pub trait ImageMemory: Send + Sync {
    /// What becomes ready at once: the system's pages.
    fn page_bytes(&self) -> u64;
    /// Makes these bytes ready for a store. False: they are not there. They stay ready for some
    /// seconds, or until the image is cut.
    fn prepare(&self, range: Range<u64>) -> bool;
    /// Stores bytes in a range that is ready. False: some or all of them are not stored.
    fn store(&self, data: &[u8], offset: u64) -> bool;
}

/// Opens these files: real ones, or those of a simulated disk.
pub trait LogFiles: SideFiles {
    /// Opens or makes the board of this database and its log, and takes the board's lock. The
    /// holder of the lock may remove the board. `SQLITE_BUSY`: another process has had the lock for
    /// longer than `patience`.
    fn common(
        &self,
        database: &str,
        log: &str,
        patience: Duration,
    ) -> Result<Arc<dyn Common>, Code>;
    /// Opens the board without its lock. `None`: there is no board, or it cannot be used without
    /// the lock.
    fn common_in_use(&self, database: &str, log: &str) -> Result<Option<Arc<dyn Common>>, Code>;
    /// Joins the users of the log without the board, with rights to read only. `None`: nobody uses
    /// the log of this strategy.
    fn look_on(&self, database: &str, kind: StrategyKind) -> Result<Option<LogInUse>, Code>;
    /// True if processes use this log of `maw`, and the database file has all that it has.
    fn is_in_place(&self, database: &str, uuid: Uuid) -> Result<bool, Code>;
    /// Opens a database with `maw`, takes its log and guard away if no other process uses it, and
    /// closes it. The connections of this process stay.
    fn retire(&self, database: &str) -> Result<(), String>;
    /// `None`: there is no log.
    fn open_log(&self, path: &str) -> Result<Option<LogFile>, Code>;
    /// Opens a log to read it only. `None`: there is no log.
    fn open_log_to_read(&self, path: &str) -> Result<Option<LogFile>, Code>;
    /// Makes a new log in place of any other. The owner of the database owns it.
    fn create_log(&self, path: &str) -> Result<LogFile, Code>;
    /// Gives the image to the owner of the database. Another user's process may have left it. The
    /// image need not be there.
    fn claim_image(&self, path: &str) -> Result<(), Code>;
    /// The memory of the image at this path, which begins with `header`. `None`: the image has to
    /// be written as a file.
    fn map_image(&self, path: &str, header: &[u8]) -> Option<Box<dyn ImageMemory>>;
    /// Advice: these pages of an open database will be read soon.
    fn will_read(&self, database: &str, pages: &[u32], page_bytes: usize);
    /// Copies SQLite's own WAL into the database beside it and removes the WAL, if nobody else has
    /// the database open. False: SQLite takes the file for no database, and the WAL has no page 1
    /// to take instead.
    fn fold_wal(&self, database: &str) -> Result<bool, String>;
    /// Opens the database with the strategy of its log and closes it. Then the database file has
    /// what the log had, and the log is gone. False: another connection has it locked.
    fn recover(&self, database: &str, strategy: StrategyKind) -> Result<bool, String>;
    /// Opens a database with `maw` whose commits are in the log of another one, has it leave that
    /// log, and closes it. False: another connection has it locked.
    fn leave_log(&self, database: &str) -> Result<bool, String>;
    /// The header of a database file, which connections of this process may have open. `None`:
    /// there is no such file, or not so much of it.
    fn header(&self, database: &str) -> Result<Option<[u8; HEADER_BYTES]>, Code>;
    /// This process was forked from one that has the database open, and has that one's view of
    /// SQLite's WAL index.
    fn is_inherited(&self, _database: &str) -> bool {
        false
    }
    /// False: this process may not make files beside the database.
    fn may_make_files(&self, _database: &str) -> bool {
        true
    }
    /// F2FS's atomic write for this open database, tried before. The error says why there is none.
    fn atomic_write(&self, database: &str) -> Result<Box<dyn AtomicWrite>, String>;
    /// A temporary file to exchange blocks with this open database, tried before. The error says
    /// why there is none.
    fn exchange_file(&self, database: &str) -> Result<Box<dyn ExchangeFile>, String>;
    /// Makes the end of every rollback journal of this database durable: [`settle`]. False: these
    /// are files of a simulated disk, which tell no times.
    ///
    /// [`settle`]: crate::journal_end::settle
    fn settle_journals(
        &self,
        database: &str,
        in_order: bool,
        seen: &mut Seen,
    ) -> Result<bool, Code>;
    /// Makes a rollback journal of this name, or cuts the one that is there to nothing. Its first
    /// sync makes the name durable.
    fn create_journal(&self, path: &str) -> Result<Box<dyn Below>, Code>;
    /// Opens a rollback journal that may be there, if only an empty one.
    fn open_journal(&self, path: &str) -> Result<Option<Box<dyn Below>>, Code>;
    /// Syncs a database file without its connections.
    fn sync_database(&self, database: &str) -> Result<(), Code>;
    /// The room that the file system has for image and log of this database. `None`: it cannot be
    /// known.
    fn room(&self, database: &str) -> Option<Room>;
}

/// Writes the last record again if it is `unsure` (`Board::unsure`). After an error it still is.
pub fn settle(log: &Log<LogFile>, unsure: &mut Option<Lsn>) -> Result<(), LogError> {
    if let Some(first) = *unsure {
        log.write_again(first)?;
        *unsure = None;
    }
    Ok(())
}

/// The code that SQLite gets when the log fails.
pub fn code_of(error: &LogError) -> Code {
    match error {
        LogError::Io { source, .. } if is_full(source) => Code::FULL,
        LogError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => Code::NAME_LOST,
        LogError::Io { .. } => Code::IOERR_FSYNC,
        LogError::Full { .. } => Code::FULL,
        _ => Code::CORRUPT,
    }
}

/// A write or sync of a log has failed, or of the database file that it stands on: the board says
/// so to all processes, and one line to people. `why` is known where the system has said it.
#[cold]
pub fn fail(
    files: &dyn LogFiles,
    file: &str,
    board: &Board,
    code: Code,
    unsure: Option<Lsn>,
    why: Option<String>,
) {
    if board.failure().is_none() {
        say_failed(files, file, code, why);
    }
    board.fail(code.told(), unsure);
}

/// That nothing more is acknowledged.
#[cold]
pub fn say_failed(files: &dyn LogFiles, file: &str, code: Code, why: Option<String>) {
    let why = why.unwrap_or_else(|| what_failed(code).to_owned());
    files.warn(&format!(
        "oneflush: {file}: {why}. Nothing more is acknowledged until all processes have closed the \
            database [OF-230]"
    ));
}

fn what_failed(code: Code) -> &'static str {
    match code {
        Code::FULL => "there is no room",
        Code::NAME_LOST => "the log was deleted or replaced while it was in use",
        Code::IOERR_WRITE => "a write failed",
        Code::IOERR_READ | Code::SHORT_READ => "a read failed",
        _ => "a sync failed",
    }
}
