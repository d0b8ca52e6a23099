//! What state a database file and its log are in, without opening the database.

mod aside;
mod maw;

pub use self::aside::{AsideLog, Said, settle_aside};

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oneflush_blocklog::group::{Begin, Group};
use oneflush_blocklog::{DirectFile, Error as LogError, Log, Storage, Uuid};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;

use crate::config::StrategyKind;
use crate::error::Code;
use crate::file_below::FileBelow;
use crate::names::{board_path, image_path, log_path, maw_path, waldio_path};
use crate::own_file::{lock_alone, open_to_lock};
use crate::path::{beside, shown, with_suffix};
use crate::strategy::{
    AttachError, EagerOpenLog, LogFile, MawOpenLog, RecoverError, SlotFile, WITH_A_LOG,
    WaldioOpenLog, check, guard, path_of_log, strategy_of_log, why_kept,
};

#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error("{}: {source} [OF-331]", shown(.path))]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: this is not a SQLite database [OF-301]", shown(.0))]
    NotADatabase(PathBuf),
    #[error(
        "{}: the database is, or was, in use with eager, waldio or maw, and its log is missing: \
            {}, {} or {}. Put it back; without it commits are lost [OF-302]",
        shown(.0), shown(&beside(.0, log_path)), shown(&beside(.0, waldio_path)),
        shown(&beside(.0, maw_path))
    )]
    LogMissing(PathBuf),
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
    #[error("{}: a program has the database open with strategy {strategy}; it needs no recovery \
        while that runs [OF-305]", shown(.database))]
    InUse { database: PathBuf, strategy: StrategyKind },
    #[error("{}: the log is for pages of {in_log} bytes, and the database has {in_database}. \
        Restore both together from a backup [OF-335]", shown(.log))]
    PageSize { log: PathBuf, in_log: u32, in_database: u32 },
    #[error("{}: {source}", shown(.database))]
    LinkedLog { database: PathBuf, source: AttachError },
    #[error("{}: {source}", shown(.log))]
    Log { log: PathBuf, source: LogError },
    #[error("{}: {source}. Restore the database and its files together from a \
        backup [OF-306]", shown(.database))]
    Recover { database: PathBuf, source: RecoverError },
}

/// What the log of a database holds. A figure that a strategy's log does not have is `None`.
#[derive(Clone, Debug, Serialize)]
pub struct LogContents {
    #[serde(serialize_with = "serialize_name")]
    pub strategy: StrategyKind,
    pub uuid: String,
    /// Of `eager`, and of `maw` those that hold commits.
    pub records: Option<u64>,
    /// Of `waldio`: the frames that a recovery finds.
    pub frames: Option<u32>,
    /// Of `waldio`: slots behind those with a frame of the same life of the WAL. It was rolled
    /// back, or cut off by a crash, or it or a frame before it was damaged.
    pub frames_behind: Option<u32>,
    /// Of `waldio`: how many frames the log has room for.
    pub slots: Option<u32>,
    /// Of `waldio`: how frames are aligned.
    pub layout: Option<&'static str>,
    /// The number of different pages in the records or frames.
    pub pages: u64,
    pub log_bytes: u64,
    /// Of `eager`: the log stands on this many frames of the WAL image.
    pub image_frames: Option<u32>,
}

fn serialize_name<S: serde::Serializer>(
    kind: &StrategyKind,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

/// The log of a strategy beside a database. The strategy has a log.
pub(crate) fn log_beside(database: &Path, kind: StrategyKind) -> PathBuf {
    with_suffix(database, path_of_log(kind, "").unwrap_or_default())
}

/// The strategy whose log the guard names. A log that nobody can look for counts as one that is
/// there.
pub(crate) fn strategy_beside(database: &Path, wanted: Option<Uuid>) -> Option<StrategyKind> {
    strategy_of_log::<std::convert::Infallible>(
        wanted,
        |kind| Ok(log_beside(database, kind).try_exists().unwrap_or(true)),
        |kind| open_to_read(&log_beside(database, kind)).ok(),
    )
    .unwrap_or_default()
}

/// The strategy that guards a database: only with it the database can be read before a recovery.
/// None: there is no guard, or its log is missing.
pub fn guarding_strategy(database: &Path) -> io::Result<Option<StrategyKind>> {
    let mut header = Vec::new();
    open_database(database)?.take(guard::HEADER_BYTES as u64).read_to_end(&mut header)?;
    let wanted = guard::of(&header);
    Ok(wanted.and_then(|_| strategy_beside(database, wanted)))
}

/// Opens a database file to read it. To open a pipe would wait for somebody who writes to it.
pub fn open_database(path: &Path) -> io::Result<File> {
    let kind = path.metadata()?.file_type();
    // To read a folder fails at once, and that error says more.
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::other("it is no regular file, so no database"));
    }
    File::open(path)
}

/// Reads the header of a database and its log. Nothing is changed.
///
/// None: a plain database file. A log beside it, if there is one, is not needed any more.
pub fn inspect(database: &Path) -> Result<Option<LogContents>, InspectError> {
    let read = |source| InspectError::Read { path: database.to_owned(), source };
    let mut header = Vec::new();
    open_database(database)
        .and_then(|file| file.take(guard::HEADER_BYTES as u64).read_to_end(&mut header))
        .map_err(read)?;
    let wanted = guard::of(&header);
    // The header is of no database, with or without guard. Either a crash has garbled it, which the
    // log mends, or it was never a database. An empty file is a database without content.
    if wanted.is_none() && (header.is_empty() || guard::is_database(&header)) {
        for kind in WITH_A_LOG {
            is_of_another(database, kind)?.map_or(Ok(()), Err)?;
        }
        return Ok(None);
    }
    let missing = || match wanted {
        None => InspectError::NotADatabase(database.to_owned()),
        Some(_) => InspectError::LogMissing(database.to_owned()),
    };
    let kind = strategy_beside(database, wanted).ok_or_else(missing)?;
    let _alone = alone_with(database, kind)?.ok_or_else(missing)?;
    let log = log_beside(database, kind);
    let found = match kind {
        StrategyKind::Waldio => contents_of_waldio(&log, wanted, &header)?,
        StrategyKind::Maw => maw::contents(database, &log, wanted, &header)?,
        _ => contents_of_eager(database, &log, wanted)?,
    };
    Ok(Some(found))
}

fn is_the_wanted(log: &Path, wanted: Option<Uuid>, found: Uuid) -> Result<(), InspectError> {
    match wanted {
        Some(wanted) if wanted != found => {
            Err(InspectError::OtherLog { log: log.to_owned(), wanted, found })
        }
        _ => Ok(()),
    }
}

fn contents_of_eager(
    database: &Path,
    log: &Path,
    wanted: Option<Uuid>,
) -> Result<LogContents, InspectError> {
    let read = |source| InspectError::Read { path: database.to_owned(), source };
    let of_log = |source| InspectError::Log { log: log.to_owned(), source };
    let opened = open_to_read(log).and_then(Log::open).map_err(of_log)?;
    is_the_wanted(log, wanted, opened.uuid())?;
    let (mut records, mut image_frames, mut pages) = (0, 0, HashSet::new());
    opened
        .scan(|kind, _, payload| {
            let group = Group::decode(kind, payload)?;
            records += 1;
            if let Some(Begin::Image { frames, .. }) = group.begin {
                image_frames = frames;
            }
            pages.extend(group.pages().map(|entry| entry.page_no));
            Ok::<(), LogError>(())
        })
        .map_err(of_log)?;
    let main = FileBelow(Some(open_database(database).map_err(read)?));
    let image = FileBelow(File::open(beside(database, image_path)).ok());
    check(&opened, &main, &image)
        .map_err(|source| InspectError::Recover { database: database.to_owned(), source })?;
    Ok(LogContents {
        strategy: StrategyKind::Eager,
        uuid: opened.uuid().to_string(),
        records: Some(records),
        frames: None,
        frames_behind: None,
        slots: None,
        layout: None,
        pages: pages.len() as u64,
        log_bytes: opened.storage().size_bytes().unwrap_or_default(),
        image_frames: Some(image_frames),
    })
}

fn contents_of_waldio(
    log: &Path,
    wanted: Option<Uuid>,
    header: &[u8],
) -> Result<LogContents, InspectError> {
    let of_log = |source| InspectError::Log { log: log.to_owned(), source };
    let log_bytes = log.metadata().map_or(0, |log| log.len());
    let opened = open_to_read(log).and_then(SlotFile::open).map_err(of_log)?;
    let opened = WaldioOpenLog(Arc::new(opened));
    let slots = &opened.0;
    is_the_wanted(log, wanted, slots.uuid())?;
    let in_log = slots.geometry().page_bytes as u32;
    let in_database = guard::page_bytes(header);
    if wanted.is_some() && in_log != in_database {
        return Err(InspectError::PageSize { log: log.to_owned(), in_log, in_database });
    }
    let failed = |code: Code| InspectError::Read {
        path: log.to_owned(),
        source: io::Error::other(format!("code {}", code.0)),
    };
    let committed = opened.committed().map_err(failed)?;
    Ok(LogContents {
        strategy: StrategyKind::Waldio,
        uuid: slots.uuid().to_string(),
        records: None,
        frames: Some(committed.frames),
        frames_behind: Some(opened.frames_behind(committed.frames).map_err(failed)?),
        slots: Some(slots.slots_there().map_err(failed)?),
        layout: Some(slots.geometry().layout.name()),
        pages: committed.pages().len() as u64,
        log_bytes,
        image_frames: None,
    })
}

/// The log, if it is there and nobody uses it while the answer is open.
pub(crate) fn alone_with(
    database: &Path,
    kind: StrategyKind,
) -> Result<Option<File>, InspectError> {
    let log = log_beside(database, kind);
    let file = match open_to_lock(&log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(InspectError::Read { path: log, source }),
    };
    // An open refuses a link too.
    if log.is_symlink() {
        return Err(InspectError::Read { path: log, source: Errno::LOOP.into() });
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => {
            Err(InspectError::InUse { database: database.to_owned(), strategy: kind })
        }
        Err(errno) => Err(InspectError::Read { path: log, source: errno.into() }),
    }
}

pub(crate) fn open_to_read(log: &Path) -> Result<LogFile, LogError> {
    Ok(LogFile(Box::new(DirectFile::open_to_read(log)?)))
}

/// Why a log beside a database that needs none is not to be removed.
fn is_of_another(
    database: &Path,
    kind: StrategyKind,
) -> Result<Option<InspectError>, InspectError> {
    let log = log_beside(database, kind);
    let of_log = |source| InspectError::Log { log: log.clone(), source };
    let Some(_alone) = alone_with(database, kind)? else { return Ok(None) };
    let why = match kind {
        StrategyKind::Waldio => why_kept::<WaldioOpenLog, _>(|| open_to_read(&log)),
        StrategyKind::Maw => why_kept::<MawOpenLog, _>(|| open_to_read(&log)),
        _ => why_kept::<EagerOpenLog, _>(|| open_to_read(&log)),
    };
    Ok(why
        .map_err(of_log)?
        .map(|_| InspectError::LogOfAnother { database: database.to_owned(), log: log.clone() }))
}

/// Removes what a recovery, or a close that was killed at its end, has left.
///
/// [`inspect`] has said that the database needs no log. False: there was nothing.
pub fn remove_leftovers(database: &Path) -> Result<bool, InspectError> {
    let mut alone = Vec::new();
    for kind in WITH_A_LOG {
        alone.extend(alone_with(database, kind)?);
    }
    // A close removes the log before the image. Without a log nobody uses the other files. A
    // process that is about to make a log has the database open.
    let is_left = [image_path, board_path].iter().any(|&path| beside(database, path).exists());
    let database_alone = if alone.is_empty() && is_left {
        lock_alone(database)
            .map_err(|source| InspectError::Read { path: database.to_owned(), source })?
    } else {
        None
    };
    if alone.is_empty() && database_alone.is_none() {
        return Ok(false);
    }
    // In the order of a close.
    let sides = [image_path, board_path, log_path, waldio_path, maw_path];
    for path in sides.map(|path| beside(database, path)) {
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(InspectError::Read { path, source });
            }
            _ => {}
        }
    }
    Ok(true)
}
