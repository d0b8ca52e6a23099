//! Who has a database open, and what each process holds: ours, and those with SQLite alone.
//!
//! ```text
//! files ── processes (/proc/PID/fd) ── fdinfo (locks of open files) ──┐
//!                                                                     held ── rows ── sightings
//!          lock_lines (/proc/locks: locks of processes) ── index ─────┘
//! ```
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. No lock is taken, and nothing is written.
//! 2. A process that uses the database with SQLite opens none of its files here. POSIX takes all
//!    locks of a process on a file away when it closes any descriptor of that file.
//! 3. What cannot be seen is said.
//!
//! A descriptor tells all locks that were taken by it, at once. `/proc/locks` has the locks of
//! processes that may not be looked into, and who waits for a lock. The kernel gives that list in
//! pieces of 4 KiB, and a line is lost if another lock ends between two of them. So what a
//! descriptor tells counts as well. For the lock of an open file the list has no process, and for a
//! `flock` the one that has taken it, which a child may share. These are read from descriptors
//! alone.
//!
//! It takes some 4 µs for each descriptor of the system.

mod fdinfo;
mod files;
mod held;
mod index;
mod lock_lines;
mod processes;
mod rows;
mod sightings;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

pub use held::Hold;
pub use rows::{Row, to_json};
pub use sightings::Sightings;

pub(crate) use files::FileId;
pub(crate) use lock_lines::lock_lines;

use files::{DatabaseFile, Kind};
use held::Locked;
use index::Index;
use lock_lines::{Class, LockLine};
use processes::{Open, Process};

/// Why nobody could be found.
#[derive(Debug, thiserror::Error)]
pub enum WhoError {
    #[error("{}: {source}; name a database file that is there [OF-338]",
        crate::path::shown(.database))]
    Database { database: PathBuf, source: io::Error },
    #[error(
        "{name}: {source}; processes and locks are read there, so mount it: mount -t proc \
        proc /proc [OF-339]"
    )]
    Proc { name: &'static str, source: io::Error },
}

/// What the asking process is to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// It has none of the files open, and may open them to read.
    Outside,
    /// It uses the database with SQLite, and opens none of its files.
    User,
}

/// Every process that has the database open or locked, by its number.
pub fn who(database: &Path, asker: Asker) -> Result<Vec<Row>, WhoError> {
    let of_database = |source| WhoError::Database { database: database.to_owned(), source };
    // SQLite follows links, and its other files lie beside what they lead to.
    let database = database.canonicalize().map_err(of_database)?;
    let files = files::files_of(&database).map_err(of_database)?;
    let mut look = Look { files, holders: BTreeMap::new() };
    let by_stat: Vec<FileId> = look.files.iter().map(|file| file.by_stat).collect();
    let scan =
        processes::scan(&by_stat).map_err(|source| WhoError::Proc { name: "/proc", source })?;
    for (pid, open) in scan.users {
        look.add_open(pid, open);
    }
    if asker == Asker::Outside {
        look.learn_from_paths(&database);
    }
    let list = fs::read_to_string("/proc/locks")
        .map_err(|source| WhoError::Proc { name: "/proc/locks", source })?;
    look.add_locks(&lock_lines(&list), &by_stat);
    let index = look.index(&database, asker);
    let mut rows: Vec<Row> = look
        .holders
        .iter()
        .filter_map(|(pid, holder)| holder.row(*pid, &look.files, index.as_ref()))
        .collect();
    rows.extend((scan.unseen > 0).then(|| Row::of_unseen(scan.unseen)));
    Ok(rows)
}

/// Frames of the WAL that no checkpoint has copied into the database file yet, as the WAL index has
/// it. None: there is no index, or it has no content.
///
/// Only for a process that does not use the database with SQLite.
pub fn frames_not_copied(database: &Path) -> Option<u32> {
    let index = index::read(&crate::path::beside(database, crate::names::index_path))?;
    Some(index.not_copied())
}

struct Look {
    files: Vec<DatabaseFile>,
    holders: BTreeMap<u32, Holder>,
}

/// A process with one of the files.
#[derive(Default)]
struct Holder {
    /// Descriptors of each file. None: they cannot be seen.
    open: Option<BTreeMap<Kind, usize>>,
    locks: BTreeMap<Kind, Vec<LockLine>>,
}

impl Look {
    /// Adds a process with its descriptors, and the locks of these.
    fn add_open(&mut self, pid: u32, open: Vec<Open>) {
        let holder = self.holders.entry(pid).or_default();
        let counts = holder.open.get_or_insert_default();
        for Open { descriptor, file } in open {
            let file = &mut self.files[file];
            *counts.entry(file.kind).or_default() += 1;
            let Some(info) = fdinfo::of_descriptor(pid, &descriptor) else { continue };
            if file.in_lists.is_none() {
                file.in_lists = fdinfo::listed_as(pid, &info, file.by_stat);
            }
            holder.locks.entry(file.kind).or_default().extend(info.locks);
        }
    }

    /// Adds the locks of processes, and what waits for a lock.
    fn add_locks(&mut self, lines: &[LockLine], by_stat: &[FileId]) {
        for line in lines.iter().filter(|line| line.class == Class::Posix || line.waits) {
            let file = self.files.iter().find(|file| file.listed_as() == line.file);
            let (Some(kind), Some(pid)) = (file.map(|file| file.kind), line.pid) else { continue };
            // It may not be looked at, or it came after the others were looked at.
            if !self.holders.contains_key(&pid)
                && let Some(open) = processes::descriptors(pid, by_stat)
            {
                self.add_open(pid, open);
            }
            let holder = self.holders.entry(pid).or_default();
            holder.locks.entry(kind).or_default().push(*line);
        }
    }

    /// Learns by which numbers the lists have a file that no process with it may be asked for.
    ///
    /// Such a descriptor (`O_PATH`) opens nothing, and its close takes no lock away.
    fn learn_from_paths(&mut self, database: &Path) {
        let own = std::process::id();
        let folder = database.parent().unwrap_or(Path::new("/"));
        for file in self.files.iter_mut().filter(|file| file.in_lists.is_none()) {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let Ok(path) = open(folder.join(&file.name), flags, Mode::empty()) else { continue };
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&path).to_string();
            file.in_lists = fdinfo::of_descriptor(own, &descriptor)
                .and_then(|info| fdinfo::listed_as(own, &info, file.by_stat));
        }
    }

    fn index(&self, database: &Path, asker: Asker) -> Option<Index> {
        let file = self.files.iter().find(|file| file.kind == Kind::Index)?;
        match asker {
            Asker::Outside => index::read(&crate::path::beside(database, crate::names::index_path)),
            Asker::User => index::read_mapped([file.listed_as(), file.by_stat]),
        }
    }
}

impl Holder {
    /// None: the process has ended meanwhile.
    fn row(&self, pid: u32, files: &[DatabaseFile], index: Option<&Index>) -> Option<Row> {
        let process = Process::of(pid);
        if process.is_none() && !processes::is_alive(pid) {
            return None;
        }
        let in_wal_mode = self.locks.get(&Kind::Index).is_some_and(|locks| !locks.is_empty());
        let mut strategy = None;
        let mut holds = Vec::new();
        for file in files {
            let Some(locks) = self.locks.get(&file.kind) else { continue };
            let name = &file.name;
            let locked = Locked { kind: file.kind, name, locks, in_wal_mode, index };
            holds.extend(locked.holds());
            strategy = strategy.or(held::strategy_by(file.kind, locks));
        }
        // Without the process's own folder in `/proc` nothing is known (`hidepid`).
        let open = self.open.as_ref().filter(|_| process.is_some());
        let connections = open.map(|open| open.get(&Kind::Database).copied().unwrap_or_default());
        Some(Row {
            pid: Some(pid),
            program: process.as_ref().map(|process| process.program.clone()),
            stopped: process.as_ref().map(|process| process.stopped),
            connections,
            strategy,
            holds,
            since_ms: None,
            note: connections.is_none().then(|| rows::unseen().to_owned()),
            start_ticks: process.map_or(0, |process| process.start_ticks),
        })
    }
}
