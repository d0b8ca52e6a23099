//! What a database's files say of it to one who only looks. Nothing is opened with SQLite, and
//! nothing is changed.
//!
//! Counters of commits live in the processes that have the database open (`PRAGMA oneflush_stats`).
//! From outside there are the files and the locks that the kernel lists. With a
//! strategy that has a log there is also the board that the processes share.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::StrategyKind;
use crate::file_below::FileBelow;
use crate::inspect::{InspectError, LogContents, inspect, open_database, strategy_beside};
use crate::message_codes::without_codes;
use crate::names::{board_path, wal_path};
use crate::path::{beside, serialize_shown, with_suffix};
use crate::strategy::{BoardLook, guard, look_at_board, read_board};
use crate::wal_file::{ChangeCounters, frames_to_recover};
use crate::who::{FileId, lock_lines};

/// The database header of "Database File Format", section 1.3.
const RESERVED_BYTES_AT: usize = 20;
const PAGES_AT: usize = 28;
const FREE_PAGES_AT: usize = 36;

#[derive(Debug, Serialize)]
pub struct Survey {
    #[serde(serialize_with = "serialize_shown")]
    pub database: PathBuf,
    pub bytes: u64,
    /// `wal`, `rollback` (one of SQLite's other modes) or `none` (no page yet).
    pub journal_mode: &'static str,
    /// The database is in use with a strategy that guards it, or was at a crash.
    pub guarded: bool,
    /// That strategy, by the log. None: there is no guard, or no log.
    pub strategy: Option<&'static str>,
    pub page_bytes: u32,
    /// The bytes at the end of each page that SQLite leaves alone. None: no page was written yet.
    pub reserved_bytes: Option<u8>,
    pub pages: u32,
    pub free_pages: u32,
    /// The files beside the database that begin with its name.
    pub side_files: Vec<SideFile>,
    /// Frames of `-wal` that a recovery would look at.
    pub wal_frames: Option<u32>,
    /// As the header of `-wal` has it.
    pub wal_page_bytes: Option<u32>,
    /// The database file cannot be the one that `-wal` was written for, by its change counter. In a
    /// database that somebody uses it may seem so for a moment.
    pub wal_is_of_another_time: bool,
    pub log: Option<LogContents>,
    /// Why the log is not read.
    pub log_unread: Option<String>,
    pub users: Vec<User>,
    /// What the processes that use the log tell each other.
    pub live: Option<BoardLook>,
}

#[derive(Debug, Serialize)]
pub struct SideFile {
    /// What follows the database's name.
    #[serde(serialize_with = "serialize_shown")]
    pub suffix: OsString,
    pub bytes: u64,
}

/// A process that has a lock on one of the files.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct User {
    pub pid: u32,
    pub command: String,
}

/// Looks at a database and what lies beside it.
pub fn survey(database: &Path) -> Result<Survey, InspectError> {
    let failed = |source| InspectError::Read { path: database.to_owned(), source };
    let mut header = Vec::new();
    let file = open_database(database).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    file.take(guard::HEADER_BYTES as u64).read_to_end(&mut header).map_err(failed)?;
    if !header.is_empty() && !guard::is_any_database(&header) {
        return Err(InspectError::NotADatabase(database.to_owned()));
    }
    let of_four = |at: usize| {
        header.get(at..at + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    };
    let wanted = guard::of(&header);
    let guarded = wanted.is_some();
    let side_files = side_files(database);
    let users = users(database, &side_files);
    let (log, log_unread) = match inspect(database) {
        _ if guarded && !users.is_empty() => {
            (None, Some("in use; its figures are the live ones".to_owned()))
        }
        Ok(log) => (log, None),
        Err(error) => (None, Some(without_codes(&error.to_string()))),
    };
    let strategy = wanted.and_then(|_| strategy_beside(database, wanted));
    let wal = FileBelow(File::open(beside(database, wal_path)).ok());
    let in_wal = frames_to_recover(&wal);
    Ok(Survey {
        database: database.to_owned(),
        bytes,
        journal_mode: match guard::mode(&header) {
            _ if header.is_empty() => "none",
            Some(guard::Mode::Rollback) => "rollback",
            Some(guard::Mode::Wal) => "wal",
            // A read version that is not the write version.
            None if header.get(guard::FIRST) == Some(&1) => "rollback",
            None => "wal",
        },
        guarded,
        strategy: strategy.map(StrategyKind::name),
        page_bytes: guard::page_bytes(&header),
        reserved_bytes: header.get(RESERVED_BYTES_AT).copied(),
        pages: of_four(PAGES_AT),
        free_pages: of_four(FREE_PAGES_AT),
        wal_frames: in_wal.map(|found| found.frames),
        wal_page_bytes: in_wal.map(|found| found.page_bytes),
        wal_is_of_another_time: in_wal.is_some_and(|found| {
            let file = FileBelow(open_database(database).ok());
            let counters = ChangeCounters::of(&file, &wal, found);
            counters.is_some_and(|counters| !counters.are_of_one_time())
        }),
        live: strategy.filter(|_| !users.is_empty()).and_then(|kind| live(database, kind)),
        side_files,
        log,
        log_unread,
        users,
    })
}

fn side_files(database: &Path) -> Vec<SideFile> {
    let (Some(directory), Some(name)) = (database.parent(), database.file_name()) else {
        return Vec::new();
    };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let mut found: Vec<SideFile> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let found = entry.file_name();
            let suffix = found
                .as_bytes()
                .strip_prefix(name.as_bytes())
                .filter(|suffix| suffix.starts_with(b"-"))?;
            Some(SideFile {
                suffix: OsStr::from_bytes(suffix).to_owned(),
                bytes: entry.metadata().ok()?.len(),
            })
        })
        .collect();
    found.sort_by(|one, other| one.suffix.cmp(&other.suffix));
    found
}

/// The processes that use the database, by the kernel's list of locks.
///
/// In WAL mode SQLite and the strategies with a log lock what they have open. In the other modes a
/// transaction locks.
fn users(database: &Path, side_files: &[SideFile]) -> Vec<User> {
    let paths = side_files
        .iter()
        .map(|file| with_suffix(database, &file.suffix))
        .chain([database.to_owned()]);
    let ours: Vec<FileId> =
        paths.filter_map(|path| path.metadata().ok().map(|file| FileId::of(&file))).collect();
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let pids = holders(&locks, &ours);
    let command = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
    };
    pids.iter().map(|pid| User { pid: *pid, command: command(pid) }).collect()
}

/// The processes in these lines on one of the files. A lock of an open file has no process.
fn holders(locks: &str, files: &[FileId]) -> BTreeSet<u32> {
    let lines = lock_lines(locks).into_iter().filter(|line| files.contains(&line.file));
    lines.filter_map(|line| line.pid).collect()
}

fn live(database: &Path, kind: StrategyKind) -> Option<BoardLook> {
    look_at_board(&read_board(&File::open(beside(database, board_path)).ok()?)?, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_a_holder_unless_it_belongs_to_an_open_file_or_to_another_file() {
        let ours = [FileId { device: (0xfe, 0), inode: 99 }];
        for (line, pid) in [
            ("1: POSIX  ADVISORY  WRITE 6508 fe:00:99 123 123", Some(6508)),
            ("4: FLOCK  ADVISORY  READ 7 fe:00:99 0 EOF", Some(7)),
            ("4: -> FLOCK  ADVISORY  WRITE 8 fe:00:99 0 EOF", Some(8)),
            ("4: OFDLCK ADVISORY  READ -1 fe:00:99 0 0", None),
            ("1: POSIX  ADVISORY  WRITE 6508 fe:01:99 123 123", None),
            ("", None),
        ] {
            assert_eq!(holders(line, &ours), BTreeSet::from_iter(pid), "{line}");
        }
    }
}
