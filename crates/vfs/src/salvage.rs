//! What can be had of a database whose log is lost or damaged, for somebody who accepts the loss of the rest.
//!
//! Everything is copied aside first, into a folder beside the database, and the copies are durable before anything else is done. From the copies a
//! database is made in that folder, from one [`Source`] or another; its maker checks it and only then puts it in the place of the original.
//! What survives a crash after each step:
//!
//! 1. the copies are made                          the original, and a folder that may be incomplete
//! 2. a database is made beside the copies         the original
//! 3. it is renamed to the original's name         either of the two, whole; the log, which belongs to none then, is set aside by the next opener
//! 4. log, image and board are removed             the new one
//!
//! The records of a log before its damage are a consistent database only if no checkpoint behind them has written newer pages to the database file.
//! A checkpoint logs pages first, as a record of its own kind: so where each record that was lost can still be told, and none is of that kind, the
//! result is what the database was ([`Salvaged::is_exact`]). Otherwise a check of the structure is all that there is.

mod aside;
mod image;
mod records;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use oneflush_blocklog::{Error as LogError, Salvage, Uuid};
use serde::Serialize;

use self::aside::copy;
pub(crate) use self::aside::lock_alone;
use self::image::image_pages;
use self::records::Built;
use crate::InspectError;
use crate::error::Code;
use crate::path::{shown, with_suffix};
use crate::strategy::{guard, page_one_of};

#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    #[error("{}: {source}", shown(.path))]
    File { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Inspect(#[from] InspectError),
    #[error("{}: a program has the database open; end it first", shown(.0))]
    InUse(PathBuf),
    #[error("{}: a WAL of SQLite's own is beside the database, and may hold commits too; move it away first", shown(.0))]
    WalBeside(PathBuf),
    #[error("{}: its header is damaged, and no log says what it was", shown(.0))]
    NoHeader(PathBuf),
    #[error("reading or writing the copies failed: code {}", .0.0)]
    Below(Code),
    #[error("{0}")]
    Log(#[from] LogError),
}

impl From<Code> for SalvageError {
    fn from(code: Code) -> SalvageError {
        SalvageError::Below(code)
    }
}

/// Where the pages come from that the database file lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The records of the log up to the damage.
    Log,
    /// The WAL image, which has at least what the log's readable records have.
    Image,
    /// Nowhere: the database file alone.
    Database,
}

/// What is known of a database that was made.
#[derive(Clone, Debug, Serialize)]
pub struct Salvaged {
    pub source: Source,
    /// Records and pages of the log that it has.
    pub records: u64,
    pub pages: u64,
    /// Records of the log that it lacks, as far as they can be counted; None: nothing of the log
    /// tells.
    pub lost_records: Option<u64>,
    /// Different pages in those of them that can be read.
    pub lost_pages: u64,
    /// No checkpoint came behind what it has: it is what the database was at that time.
    pub is_exact: bool,
}

/// A database and the copies of its files.
pub struct Aside {
    database: PathBuf,
    pub folder: PathBuf,
    /// Names in the folder.
    pub files: Vec<OsString>,
    /// By what follows the database's name.
    changed: Vec<(&'static str, SystemTime)>,
    /// What the guard names, or the log where the database's header is damaged.
    uuid: Option<Uuid>,
    /// The database has no guard, so the log beside it is another's.
    pub is_plain: bool,
    page_bytes: usize,
    /// Why the log cannot be read to its end.
    pub damage: String,
    found: Salvage,
    /// Nobody opens the log while this is there.
    _alone: Option<File>,
}

const RECOVERED: &str = "recovered.db";

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SalvageError + '_ {
    move |source| SalvageError::File { path: path.to_owned(), source }
}

/// It need not be there.
fn remove(path: &Path) -> Result<(), SalvageError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path)(error)),
        _ => Ok(()),
    }
}

impl Aside {
    /// The sources that there are, the best first.
    pub fn sources(&self) -> Result<Vec<Source>, SalvageError> {
        let mut sources = vec![Source::Database];
        if self.is_plain {
            return Ok(sources);
        }
        let has_image =
            image_pages(&self.copied("-oneflush-wal"), self.page_bytes)?.is_some_and(|pages| !pages.is_empty());
        if !self.found.records.is_empty() {
            sources.insert(0, Source::Log);
        }
        if has_image && self.image_has_what_the_log_has()? {
            sources.insert(0, Source::Image);
        }
        Ok(sources)
    }

    fn copied(&self, suffix: &str) -> PathBuf {
        let name = self.database.file_name().unwrap_or_default();
        with_suffix(&self.folder.join(name), suffix)
    }

    /// The database that is made.
    pub fn recovered(&self) -> PathBuf {
        self.folder.join(RECOVERED)
    }

    /// Makes the database from a source; None: that has nothing. It is one in WAL mode, and its WAL is to be copied into it.
    pub fn make(&self, source: Source) -> Result<Option<Salvaged>, SalvageError> {
        let (made, wal) = (self.recovered(), with_suffix(&self.recovered(), "-wal"));
        for path in [&made, &wal, &with_suffix(&made, "-shm")] {
            remove(path)?;
        }
        copy(&self.copied(""), &made)?;
        let mut salvaged =
            Salvaged { source, records: 0, pages: 0, lost_records: None, lost_pages: 0, is_exact: false };
        match source {
            Source::Log => {
                let Some(Built { records, contents }) = self.build(&wal)? else { return Ok(None) };
                (salvaged.records, salvaged.pages) = (records as u64, contents.len() as u64);
                (salvaged.lost_records, salvaged.lost_pages, salvaged.is_exact) = self.lost(records);
            }
            Source::Image => {
                copy(&self.copied("-oneflush-wal"), &wal)?;
                let pages = image_pages(&wal, self.page_bytes)?;
                (salvaged.records, salvaged.pages) =
                    (self.found.records.len() as u64, pages.map_or(0, |pages| pages.len() as u64));
                salvaged.lost_records = (salvaged.records > 0).then_some(0);
            }
            Source::Database if self.is_plain => {
                if self.copied("-wal").exists() {
                    copy(&self.copied("-wal"), &wal)?;
                }
                return Ok(Some(salvaged));
            }
            Source::Database => (salvaged.lost_records, salvaged.lost_pages, _) = self.lost(0),
        }
        self.take_guard_away(&made)?;
        Ok(Some(salvaged))
    }

    fn take_guard_away(&self, made: &Path) -> Result<(), SalvageError> {
        let file = OpenOptions::new().read(true).write(true).open(made).map_err(failed(made))?;
        let mut page = vec![0; self.page_bytes.max(guard::HEADER_BYTES)];
        file.read_exact_at(&mut page, 0).map_err(failed(made))?;
        if !guard::is_database(&page) {
            // A crash has garbled the page while it was written: the log has it.
            let records = self
                .found
                .records
                .iter()
                .filter_map(|record| Some((record.kind, record.lsn, record.payload.as_deref()?)));
            let from_log = page_one_of(records, self.page_bytes).ok().flatten();
            page = from_log.ok_or_else(|| SalvageError::NoHeader(self.database.clone()))?;
        }
        guard::hide(&mut page);
        file.write_all_at(&page, 0).and_then(|()| file.sync_all()).map_err(failed(made))
    }
}
