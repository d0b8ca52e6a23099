//! What can be recovered of a database whose log is lost or damaged. The caller accepts the loss of
//! the rest.
//!
//! Everything is first copied into a folder beside the database. The copies are durable before
//! anything else is done. Then a database is made from the copies, in the same folder, from one
//! [`Source`]. The caller checks that database, and only then puts it in the place of the original.
//!
//! | step | function | what survives a crash after it |
//! |---|---|---|
//! | 1 the copies are made | [`Aside::copy`] | the original, and a folder that may be incomplete |
//! | 2 a database is made of them | [`Aside::make`] | the original |
//! | 3 it gets the original's name | [`Aside::put_in_place`] | one of the two, whole |
//! | 4 log, image and board go | [`Aside::remove_beside`] | the new one |
//!
//! After step 3 the log belongs to no database. The next opener sets it aside.
//!
//! The records of a log before its damage are a consistent database under one condition: no later
//! checkpoint has written newer pages to the database file. A checkpoint first logs its pages, as a
//! record of a kind of its own. The result is exactly an earlier state of the database
//! ([`Salvaged::is_exact`]) if every lost record can still be identified and none is of that kind.
//! Otherwise only a check of the structure speaks for the result.
//!
//! With `maw` each commit is in the database file, too. So a damaged record of its log leaves a
//! consistent database only by luck, and the file alone may be the better source.

mod aside;
mod image;
mod in_place;
mod records;
mod slots;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use oneflush_blocklog::{Error as LogError, Salvage, Uuid};
use serde::Serialize;

use self::aside::copy;
use self::image::image_pages;
use self::records::Built;
use self::slots::Slots;
use crate::InspectError;
use crate::config::StrategyKind;
use crate::error::Code;
use crate::names::{image_path, index_path, wal_path};
use crate::path::{beside, shown, with_suffix};
use crate::strategy::{guard, page_one_of};

#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    #[error("{}: {source} [OF-332]", shown(.path))]
    File { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Inspect(#[from] InspectError),
    #[error("{}: a program has the database open; end it first [OF-322]", shown(.0))]
    InUse(PathBuf),
    #[error("{}: a WAL of SQLite's own is beside the database, and may hold commits too; move it \
        away first [OF-323]", shown(.0))]
    WalBeside(PathBuf),
    #[error("{}: its header is damaged, and no log says what it was [OF-324]", shown(.0))]
    NoHeader(PathBuf),
    #[error("reading or writing the copies failed: code {} [OF-325]", .0.0)]
    Below(Code),
    #[error("{0}")]
    Log(#[from] LogError),
}

impl From<Code> for SalvageError {
    fn from(code: Code) -> SalvageError {
        SalvageError::Below(code)
    }
}

/// The source of the pages that the database file lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The records or frames of the log up to the damage.
    Log,
    /// The WAL image. It has at least the pages of the log's readable records.
    Image,
    /// No source: the database file alone.
    Database,
}

/// What is known of the database that was made.
#[derive(Clone, Debug, Serialize)]
pub struct Salvaged {
    pub source: Source,
    /// Records of the log that the database has, of `maw` those that hold commits. None: the log
    /// has none, it is that of `waldio`.
    pub records: Option<u64>,
    /// Frames of the log of `waldio` that the database has.
    pub frames: Option<u64>,
    /// Pages of the log that the database has.
    pub pages: u64,
    /// Records of the log that the database lacks, as far as they can be counted. None: nothing of
    /// the log tells.
    pub lost_records: Option<u64>,
    /// Different pages in those lost records that can be read.
    pub lost_pages: u64,
    /// Frames of the log of `waldio` that the database lacks. Some may never have been committed.
    pub lost_frames: Option<u64>,
    /// No checkpoint came after what the database has. It is what the original was at that time.
    pub is_exact: bool,
}

/// A database and the copies of its files.
pub struct Aside {
    database: PathBuf,
    pub folder: PathBuf,
    /// The names of the copies in the folder.
    pub files: Vec<OsString>,
    /// When the originals were changed, by what follows the database's name.
    changed: Vec<(&'static str, SystemTime)>,
    /// The log that the guard names. If the database's header is damaged: the log beside it.
    uuid: Option<Uuid>,
    /// The database has no guard, so a log beside it belongs to another database.
    pub is_plain: bool,
    page_bytes: usize,
    /// Why the log cannot be read to its end.
    pub damage: String,
    /// The strategy of the log.
    pub strategy: Option<StrategyKind>,
    found: Salvage,
    /// With `maw`: the log is damaged, or the database file has a later commit.
    lacks_records: bool,
    /// With `maw`: the database file has all that can be read of the log.
    has_all_in_place: bool,
    slots: Option<Slots>,
    /// While these locks are held, nobody opens a log.
    _alone: Vec<File>,
}

const RECOVERED: &str = "recovered.db";

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SalvageError + '_ {
    move |source| SalvageError::File { path: path.to_owned(), source }
}

/// Removes a file that need not exist.
fn remove(path: &Path) -> Result<(), SalvageError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path)(error)),
        _ => Ok(()),
    }
}

impl Aside {
    /// The sources that exist, the best first.
    pub fn sources(&self) -> Result<Vec<Source>, SalvageError> {
        let mut sources = vec![Source::Database];
        if self.is_plain {
            return Ok(sources);
        }
        if self.strategy == Some(StrategyKind::Maw) {
            match (self.found.records.is_empty(), self.lacks_records) {
                (true, _) => {}
                (false, true) if self.has_all_in_place => sources.push(Source::Log),
                (false, _) => sources.insert(0, Source::Log),
            }
            return Ok(sources);
        }
        let has_image = image_pages(&self.copied(&image_path("")), self.page_bytes)?
            .is_some_and(|pages| !pages.is_empty());
        if !self.found.records.is_empty() || self.slots.is_some() {
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

    /// Makes the database from a source. None: the source has nothing. The database is in WAL mode,
    /// and the caller copies its WAL into it.
    pub fn make(&self, source: Source) -> Result<Option<Salvaged>, SalvageError> {
        let (made, wal) = (self.recovered(), beside(&self.recovered(), wal_path));
        for path in [&made, &wal, &beside(&made, index_path)] {
            remove(path)?;
        }
        copy(&self.copied(""), &made)?;
        let mut salvaged = Salvaged {
            source,
            records: (self.strategy != Some(StrategyKind::Waldio)).then_some(0),
            frames: None,
            pages: 0,
            lost_records: None,
            lost_pages: 0,
            lost_frames: None,
            is_exact: false,
        };
        match source {
            Source::Log if self.slots.is_some() => {
                let Some(slots) = self.write_slots(&wal)? else { return Ok(None) };
                (salvaged.frames, salvaged.pages) = (Some(u64::from(slots.frames)), slots.pages);
                salvaged.lost_frames = Some(u64::from(slots.behind));
            }
            Source::Log if self.strategy == Some(StrategyKind::Maw) => {
                let replayed = self.replay(&made)?;
                if replayed.commits == 0 && replayed.records == 0 {
                    return Ok(None);
                }
                (salvaged.records, salvaged.pages) =
                    (Some(replayed.commits), replayed.versions.len() as u64);
                let is_whole;
                (salvaged.lost_records, salvaged.lost_pages, is_whole) =
                    self.lost(replayed.records);
                salvaged.is_exact =
                    is_whole && salvaged.lost_records.is_none() && !self.lacks_records;
            }
            Source::Log => {
                let Some(Built { records, contents }) = self.build(&wal)? else { return Ok(None) };
                (salvaged.records, salvaged.pages) = (Some(records as u64), contents.len() as u64);
                (salvaged.lost_records, salvaged.lost_pages, salvaged.is_exact) =
                    self.lost(records);
            }
            Source::Image => {
                copy(&self.copied(&image_path("")), &wal)?;
                let pages = image_pages(&wal, self.page_bytes)?;
                let records = self.found.records.len() as u64;
                (salvaged.records, salvaged.pages) =
                    (Some(records), pages.map_or(0, |pages| pages.len() as u64));
                salvaged.lost_records = (records > 0).then_some(0);
            }
            Source::Database if self.is_plain => {
                if self.copied(&wal_path("")).exists() {
                    copy(&self.copied(&wal_path("")), &wal)?;
                }
                return Ok(Some(salvaged));
            }
            Source::Database if self.has_all_in_place => {
                salvaged.records = Some(self.commits_read());
                salvaged.lost_records = Some(0);
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
            // A crash has garbled the page while it was written. The log has it.
            let records =
                self.found.records.iter().filter_map(|record| {
                    Some((record.kind, record.lsn, record.payload.as_deref()?))
                });
            let from_log =
                page_one_of(records, self.page_bytes, self.decode_group()).ok().flatten();
            let from_log = from_log.or_else(|| self.page_one_of_slots());
            page = from_log.ok_or_else(|| SalvageError::NoHeader(self.database.clone()))?;
        }
        guard::hide(&mut page);
        file.write_all_at(&page, 0).and_then(|()| file.sync_all()).map_err(failed(made))
    }
}
