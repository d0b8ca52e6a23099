//! The files of a database that processes open and lock, and by which numbers the kernel knows
//! them.
//!
//! `stat` does not always tell the numbers that stand in a lock's line. Btrfs has a device for each
//! subvolume and overlayfs one for each layer, and the kernel's lists of locks have that of the
//! mount. So a file has two identities here.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::names::{
    board_path, image_path, index_path, journal_path, kept_path, log_path, maw_path, wal_path,
    waldio_path,
};
use crate::path::{beside, shown};

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    pub device: (u32, u32),
    pub inode: u64,
}

impl FileId {
    pub fn of(file: &Metadata) -> FileId {
        let device = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
        FileId { device, inode: file.ino() }
    }
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Database,
    Journal,
    Wal,
    /// SQLite's WAL index.
    Index,
    EagerLog,
    WaldioLog,
    MawLog,
    /// The board of those who use a log.
    Board,
    /// The WAL image of `eager`, and the WAL that `plain` keeps. Nobody locks them.
    Other,
}

#[derive(Debug)]
pub struct DatabaseFile {
    pub kind: Kind,
    /// Without its folder, for a reader.
    pub name: String,
    pub by_stat: FileId,
    /// As the kernel's lists have it. None: not known yet.
    pub in_lists: Option<FileId>,
}

impl DatabaseFile {
    /// The best that is known of the numbers in the kernel's lists.
    pub fn listed_as(&self) -> FileId {
        self.in_lists.unwrap_or(self.by_stat)
    }
}

type Name = fn(&str) -> String;

/// The database, and those of the files beside it that are there.
pub fn files_of(database: &Path) -> io::Result<Vec<DatabaseFile>> {
    let mut files = vec![file(Kind::Database, database)?];
    let names: [(Kind, Name); 9] = [
        (Kind::Journal, journal_path),
        (Kind::Wal, wal_path),
        (Kind::Index, index_path),
        (Kind::EagerLog, log_path),
        (Kind::WaldioLog, waldio_path),
        (Kind::MawLog, maw_path),
        (Kind::Board, board_path),
        (Kind::Other, image_path),
        (Kind::Other, kept_path),
    ];
    files.extend(names.iter().filter_map(|&(kind, name)| file(kind, &beside(database, name)).ok()));
    Ok(files)
}

fn file(kind: Kind, path: &Path) -> io::Result<DatabaseFile> {
    let found = path.metadata()?;
    Ok(DatabaseFile {
        kind,
        name: shown(path.file_name().unwrap_or_default()).into_owned(),
        by_stat: FileId::of(&found),
        in_lists: None,
    })
}
