//! Which strategy's log lies beside a database. Three strategies have a log, each under its own
//! name.
//!
//! Several names may be there: one log is in use or left by a crash, and the other belongs to a
//! database that a backup has replaced. The guard names the right one.

use oneflush_blocklog::{Error as LogError, Uuid};

use super::eager::log::OpenLog as EagerLog;
use super::log_files::LogFile;
use super::log_life::KeptLog;
use super::maw::OpenLog as MawLog;
use super::waldio::OpenLog as WaldioLog;
use crate::config::{Options, StrategyKind};
use crate::names::{log_path, maw_path, waldio_path};

/// The strategies that have a log.
pub const WITH_A_LOG: [StrategyKind; 3] =
    [StrategyKind::Eager, StrategyKind::Waldio, StrategyKind::Maw];

/// The log of a database with this strategy. Strategies without a log have none.
pub fn path_of_log(kind: StrategyKind, database: &str) -> Option<String> {
    match kind {
        StrategyKind::Eager => Some(log_path(database)),
        StrategyKind::Waldio => Some(waldio_path(database)),
        StrategyKind::Maw => Some(maw_path(database)),
        StrategyKind::Stock | StrategyKind::Plain => None,
    }
}

/// What a log says of itself.
struct Found {
    uuid: Uuid,
    holds_commits: bool,
}

fn look<L: KeptLog>(file: LogFile) -> Result<Found, LogError> {
    let log = L::open(file, &Options::default())?;
    // A log that cannot be read to its end may hold commits.
    Ok(Found { uuid: log.uuid(), holds_commits: log.holds_commits().unwrap_or(true) })
}

fn uuid<L: KeptLog>(file: LogFile) -> Result<Uuid, LogError> {
    Ok(L::open(file, &Options::default())?.uuid())
}

/// The UUID of the log in this file.
pub fn uuid_of(kind: StrategyKind, file: LogFile) -> Result<Uuid, LogError> {
    match kind {
        StrategyKind::Waldio => uuid::<WaldioLog>(file),
        StrategyKind::Maw => uuid::<MawLog>(file),
        _ => uuid::<EagerLog>(file),
    }
}

/// The strategy whose log the guard names. `wanted` is that name. `None`: a crash has garbled the
/// header of the database, and the log may mend it. `open` opens the log of a strategy to read it.
///
/// | there are | the answer |
/// |---|---|
/// | no log | `None` |
/// | one log | its strategy, whatever the log says: its own opener refuses a wrong one |
/// | several logs | the one that is named, or may be: it cannot be read, or it holds commits |
pub fn strategy_of_log<E>(
    wanted: Option<Uuid>,
    is_there: impl Fn(StrategyKind) -> Result<bool, E>,
    open: impl Fn(StrategyKind) -> Option<LogFile>,
) -> Result<Option<StrategyKind>, E> {
    let mut there = Vec::new();
    for kind in WITH_A_LOG {
        if is_there(kind)? {
            there.push(kind);
        }
    }
    if there.len() < 2 {
        return Ok(there.pop());
    }
    let found = |kind| match (open(kind)?, kind) {
        (file, StrategyKind::Waldio) => look::<WaldioLog>(file).ok(),
        (file, StrategyKind::Maw) => look::<MawLog>(file).ok(),
        (file, _) => look::<EagerLog>(file).ok(),
    };
    let found = there.iter().map(|&kind| (kind, found(kind)));
    let mut maybe = None;
    for (kind, found) in found {
        let may_be = match (&found, wanted) {
            (Some(found), Some(wanted)) if found.uuid == wanted => return Ok(Some(kind)),
            (Some(_), Some(_)) => false,
            (Some(found), None) => found.holds_commits,
            (None, _) => true,
        };
        if may_be && maybe.is_none() {
            maybe = Some(kind);
        }
    }
    Ok(maybe.or(there.first().copied()))
}
