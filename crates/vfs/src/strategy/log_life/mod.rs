//! The life of a log beside a database: how a process comes to use it, what of a crash is mended
//! before, and how it goes. The same for each strategy that has a log.
//!
//! | question | file |
//! |---|---|
//! | how a log is made, joined, set aside and removed | [`attach`] |
//! | what is mended when a database is opened | [`mend`], [`garbled`] |
//! | why an open is refused | [`attach_error`] |
//! | what a connection does that only reads | [`onlooker`] |
//! | how long an opener waits for another process | [`patience`] |

mod attach;
mod attach_error;
mod garbled;
mod mend;
pub mod onlooker;
mod patience;

use std::marker::PhantomData;
use std::sync::Arc;

use oneflush_blocklog::{Error as LogError, Lsn, Uuid};
use rustc_hash::FxHashSet;

use self::patience::Patience;
use super::board::Board;
use super::guard::Mode;
use super::log_files::{LogFile, LogFiles, fail};
use crate::config::{Options, StrategyKind};
use crate::error::Code;
use crate::port::Below;
use crate::sync::{Mutex, ranks};

pub use self::attach::{Attached, How, write_guard};
pub use self::attach_error::AttachError;

/// A log, as far as its life is concerned.
pub trait KeptLog: Sized {
    const STRATEGY: StrategyKind;
    /// The mode of the databases that have such a log.
    const MODE: Mode = Mode::Wal;
    /// A file may gain pages before the commit that adds them.
    const GROWS_BEFORE_COMMIT: bool = false;
    /// The log of a database.
    fn path(database: &str) -> String;
    /// A file that the log may stand on. It goes where the log goes.
    fn image_path(database: &str) -> Option<String>;
    /// Reads and checks the first block, no more.
    fn open(file: LogFile, options: &Options) -> Result<Self, LogError>;
    /// Makes a log in an empty file. It holds nothing.
    fn create(
        file: LogFile,
        uuid: Uuid,
        page_bytes: u32,
        options: &Options,
    ) -> Result<Self, LogError>;
    fn uuid(&self) -> Uuid;
    fn page_bytes(&self) -> u32;
    /// The log gets page 1 whole, durably. The guard changes that page next.
    fn keep_page_one(&mut self, main: &dyn Below) -> Result<(), Code>;
    /// The database file has everything. From now on the log holds no commit, durably, and page 1.
    fn end(&mut self, main: &dyn Below) -> Result<(), Code>;
    /// True if the log holds commits that the database file may lack.
    fn holds_commits(&self) -> Result<bool, LogError>;
    /// The newest page 1 that the log has.
    fn page_one(&self) -> Result<Option<Vec<u8>>, AttachError>;
    /// The pages that the log has. No other page of the database file was written since the file
    /// was last synced. `None`: any page may have been.
    fn pages(&self) -> Result<Option<FxHashSet<u32>>, LogError>;
    /// True if there is something in this file that cannot be opened as a log. It may hold commits.
    fn shows_contents(file: &LogFile) -> Result<bool, LogError>;
}

/// Keeps the log of one database for this process.
pub struct LogLife<L> {
    pub path: String,
    pub files: Arc<dyn LogFiles>,
    patience: Patience,
    /// One thread at a time mends.
    mending: Mutex<(), { ranks::MENDING }>,
    kind: PhantomData<fn() -> L>,
}

impl<L: KeptLog> LogLife<L> {
    pub fn new(path: &str, files: Arc<dyn LogFiles>) -> LogLife<L> {
        LogLife {
            path: path.to_owned(),
            files,
            patience: Patience::default(),
            mending: Mutex::default(),
            kind: PhantomData,
        }
    }

    pub fn log_path(&self) -> String {
        L::path(&self.path)
    }

    /// The log has failed ([`fail`]).
    #[cold]
    pub fn log_failed(&self, board: &Board, code: Code, unsure: Option<Lsn>, why: Option<String>) {
        fail(&*self.files, &self.log_path(), board, code, unsure, why);
    }

    /// The same for the database file. The log must not be ended after that.
    #[cold]
    pub fn database_failed(&self, board: &Board, code: Code) {
        fail(&*self.files, &self.path, board, code, None, None);
    }

    fn is_image_there(&self) -> Result<bool, Code> {
        L::image_path(&self.path).map_or(Ok(false), |image| self.files.is_there(&image))
    }
}

/// Says why a log beside a database that names none must not be removed. `None`: it holds no
/// commit. `open` opens the log's file, each time anew.
pub fn why_kept<L: KeptLog, E: From<LogError>>(
    open: impl Fn() -> Result<LogFile, E>,
) -> Result<Option<String>, E> {
    match L::open(open()?, &Options::default()) {
        Ok(log) => Ok(match log.holds_commits() {
            Ok(holds) => holds.then(|| "it holds commits".to_owned()),
            Err(error) => Some(error.to_string()),
        }),
        Err(
            error @ (LogError::NewerFormat { .. }
            | LogError::BlockSize { .. }
            | LogError::OfDirectory),
        ) => Ok(Some(error.to_string())),
        Err(error) => Ok(L::shows_contents(&open()?)?.then(|| error.to_string())),
    }
}
