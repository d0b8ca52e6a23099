//! Logs of `maw` that were set aside because a database needs them that was not found.

use std::path::{Path, PathBuf};

use oneflush_blocklog::Log;
use serde::Serialize;

use super::maw::OnDisk;
use super::{InspectError, open_to_read};
use crate::names::maw_path;
use crate::path::{beside, serialize_shown};
use crate::strategy::{Coordinator, Look, Named, Need, guard};

/// A log that was set aside, and stays.
#[derive(Debug, Serialize)]
pub struct AsideLog {
    #[serde(serialize_with = "serialize_shown")]
    pub path: PathBuf,
    pub needed_by: Vec<NeededBy>,
}

/// A database whose commits a log has.
#[derive(Debug, Serialize)]
pub struct NeededBy {
    /// Where it was when the log was written.
    pub database: String,
    /// It is there, and its own log says that its commits are here, or may be.
    pub found: bool,
}

/// What the user says of databases that a log names.
#[derive(Clone, Copy, Default)]
pub struct Said<'a> {
    /// One of them, under another name.
    pub with: Option<&'a Path>,
    /// One of them, which is gone for good.
    pub forget: Option<&'a Path>,
}

/// Removes the logs that were set aside beside a database and that no other one needs. Answers
/// those that stay, and whether a log names the database to forget. `dry_run`: nothing is removed.
///
/// No process may have the database open in which this is called.
pub fn settle_aside(
    database: &Path,
    said: Said<'_>,
    dry_run: bool,
) -> Result<(Vec<AsideLog>, bool), InspectError> {
    let (mut stays, mut is_known) = (Vec::new(), false);
    for path in asides_of(database)? {
        let Ok(log) = open_to_read(&path).and_then(Log::open) else { continue };
        let name = database.to_string_lossy();
        let coordinator = Coordinator { database: &name, log: &log };
        let names = coordinator
            .names()
            .map_err(|source| InspectError::Log { log: path.clone(), source })?;
        if names.others.is_empty() {
            // It is in the way of nobody, and of another database perhaps.
            continue;
        }
        let mut needed_by = Vec::new();
        for named in &names.others {
            if said.forget.is_some_and(|file| is_named(file, named)) {
                is_known = true;
                continue;
            }
            let need = coordinator.need(&names.own, named, &OnDisk);
            let is_settled = match need {
                Ok(Need::Settled(None)) => true,
                Ok(Need::Unknown) => said.with.is_some_and(is_plain),
                _ => false,
            };
            if !is_settled {
                let found = !matches!(need, Ok(Need::Unknown));
                needed_by.push(NeededBy { database: named.path.clone(), found });
            }
        }
        if !needed_by.is_empty() {
            stays.push(AsideLog { path, needed_by });
        } else if !dry_run {
            let read = |source| InspectError::Read { path: path.clone(), source };
            std::fs::remove_file(&path).map_err(read)?;
        }
    }
    Ok((stays, is_known))
}

fn asides_of(database: &Path) -> Result<Vec<PathBuf>, InspectError> {
    let read = |source| InspectError::Read { path: database.to_owned(), source };
    let Some(directory) = database.parent() else { return Ok(Vec::new()) };
    let begin = beside(database, maw_path);
    let begin = begin.file_name().unwrap_or_default().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.strip_prefix(begin).is_some_and(|rest| rest.starts_with(b"-")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A name without a folder is enough.
fn is_named(file: &Path, named: &Named) -> bool {
    let path = Path::new(&named.path);
    path == file
        || path.file_name() == Some(file.as_os_str())
        || std::path::absolute(file).is_ok_and(|file| file == path)
}

/// The database has its own commits, and no log.
fn is_plain(database: &Path) -> bool {
    let header = database.to_str().and_then(|name| OnDisk.header(name).ok()?);
    header.is_some_and(|header| guard::is_database(&header) && guard::of(&header).is_none())
        && !beside(database, maw_path).exists()
}
