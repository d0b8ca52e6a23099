//! What state a database file and its log are in, without opening the database.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use oneflush_blocklog::group::{Begin, Group};
use oneflush_blocklog::{DirectFile, Error as LogError, Log, Storage, Uuid};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;

use crate::file_below::FileBelow;
use crate::names::{board_path, image_path, log_path};
use crate::own_file::open_to_lock;
use crate::path::{beside, shown};
use crate::salvage::lock_alone;
use crate::strategy::{EagerOpenLog, LogFile, RecoverError, check, guard, why_kept};

#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error("{}: {source} [OF-331]", shown(.path))]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: this is not a SQLite database [OF-301]", shown(.0))]
    NotADatabase(PathBuf),
    #[error(
        "{}: the database is, or was, in use with strategy eager, and its log is missing: {}. Put \
            it back; without it commits are lost [OF-302]",
        shown(.database), shown(.log)
    )]
    LogMissing { database: PathBuf, log: PathBuf },
    #[error("{}: this is the log {found}, and the database wants {wanted}: it belongs to \
        another [OF-303]", shown(.log))]
    OtherLog { log: PathBuf, wanted: Uuid, found: Uuid },
    #[error(
        "{}: a plain database file, and beside it a log that may hold commits of another, or of \
            the one that was here before: {}. Put that database back to recover it, or move the \
            log away [OF-304]",
        shown(.database), shown(.log)
    )]
    LogOfAnother { database: PathBuf, log: PathBuf },
    #[error("{}: a program has the database open with strategy eager; it needs no recovery while \
        that runs [OF-305]", shown(.0))]
    InUse(PathBuf),
    #[error("{}: {source}", shown(.log))]
    Log { log: PathBuf, source: LogError },
    #[error("{}: {source}. Restore the database and its files together from a \
        backup [OF-306]", shown(.database))]
    Recover { database: PathBuf, source: RecoverError },
}

/// What the log of a database holds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogContents {
    pub uuid: String,
    pub records: u64,
    /// The number of different pages in the records.
    pub pages: u64,
    pub log_bytes: u64,
    /// The log stands on this many frames of the WAL image.
    pub image_frames: u32,
}

/// Reads the header of a database and its log. Nothing is changed.
///
/// None: a plain database file. A log beside it, if there is one, is not needed any more.
pub fn inspect(database: &Path) -> Result<Option<LogContents>, InspectError> {
    let read = |source| InspectError::Read { path: database.to_owned(), source };
    let mut header = Vec::new();
    File::open(database)
        .and_then(|file| file.take(guard::HEADER_BYTES as u64).read_to_end(&mut header))
        .map_err(read)?;
    let log = beside(database, log_path);
    let wanted = guard::of(&header);
    // The header is of no database, with or without guard. Either a crash has garbled it, which the
    // log mends, or it was never a database. An empty file is a database without content.
    if wanted.is_none() && (header.is_empty() || guard::is_database(&header)) {
        return is_of_another(database, &log)?.map_or(Ok(None), Err);
    }
    if wanted.is_none() && !log.exists() {
        return Err(InspectError::NotADatabase(database.to_owned()));
    }
    let of_log = |source| InspectError::Log { log: log.clone(), source };
    let Some(_alone) = alone_with(database, &log)? else {
        return Err(InspectError::LogMissing { database: database.to_owned(), log });
    };
    let opened = open_to_read(&log).and_then(Log::open).map_err(of_log)?;
    let found = opened.uuid();
    if let Some(wanted) = wanted.filter(|&wanted| wanted != found) {
        return Err(InspectError::OtherLog { log, wanted, found });
    }
    let mut contents = LogContents { uuid: found.to_string(), ..LogContents::default() };
    let mut pages = HashSet::new();
    opened
        .scan(|kind, _, payload| {
            let group = Group::decode(kind, payload)?;
            contents.records += 1;
            if let Some(Begin::Image { frames, .. }) = group.begin {
                contents.image_frames = frames;
            }
            pages.extend(group.pages().map(|entry| entry.page_no));
            Ok::<(), LogError>(())
        })
        .map_err(of_log)?;
    let main = FileBelow(Some(File::open(database).map_err(read)?));
    let image = FileBelow(File::open(beside(database, image_path)).ok());
    check(&opened, &main, &image)
        .map_err(|source| InspectError::Recover { database: database.to_owned(), source })?;
    contents.pages = pages.len() as u64;
    contents.log_bytes = opened.storage().size_bytes().unwrap_or_default();
    Ok(Some(contents))
}

/// The log, if it is there and nobody uses it while the answer is open.
pub(crate) fn alone_with(database: &Path, log: &Path) -> Result<Option<File>, InspectError> {
    let file = match open_to_lock(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(InspectError::Read { path: log.to_owned(), source }),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Err(InspectError::InUse(database.to_owned())),
        Err(errno) => Err(InspectError::Read { path: log.to_owned(), source: errno.into() }),
    }
}

fn open_to_read(log: &Path) -> Result<LogFile, LogError> {
    Ok(LogFile(Box::new(DirectFile::open_to_read(log)?)))
}

/// Why a log beside a database that needs none is not to be removed.
fn is_of_another(database: &Path, log: &Path) -> Result<Option<InspectError>, InspectError> {
    let of_log = |source| InspectError::Log { log: log.to_owned(), source };
    let Some(_alone) = alone_with(database, log)? else { return Ok(None) };
    let why = why_kept::<EagerOpenLog, _>(|| open_to_read(log)).map_err(of_log)?;
    Ok(why
        .map(|_| InspectError::LogOfAnother { database: database.to_owned(), log: log.to_owned() }))
}

/// Removes what a recovery, or a close that was killed at its end, has left.
///
/// [`inspect`] has said that the database needs no log. False: there was nothing.
pub fn remove_leftovers(database: &Path) -> Result<bool, InspectError> {
    let log = beside(database, log_path);
    let alone = alone_with(database, &log)?;
    // A close removes the log before the image. Without a log nobody uses the other files. A
    // process that is about to make a log has the database open.
    let is_left = [image_path, board_path].iter().any(|&path| beside(database, path).exists());
    let database_alone = match &alone {
        None if is_left => lock_alone(database)
            .map_err(|source| InspectError::Read { path: database.to_owned(), source })?,
        _ => None,
    };
    if alone.is_none() && database_alone.is_none() {
        return Ok(false);
    }
    // In the order of a close.
    for path in [image_path, board_path, log_path].map(|path| beside(database, path)) {
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(InspectError::Read { path, source });
            }
            _ => {}
        }
    }
    Ok(true)
}
