//! What the user named: a database, or a directory. It is only looked at.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use oneflush_vfs::{InspectError, survey};

use super::TrialError;
use crate::mode::Journal;

#[derive(Debug)]
pub enum Original {
    Database(Database),
    /// A small database of our own is made there.
    Directory(PathBuf),
}

/// A database file that SQLite alone may open.
#[derive(Debug)]
pub struct Database {
    /// As the user named it.
    pub named: PathBuf,
    /// Without links.
    pub path: PathBuf,
    pub directory: PathBuf,
    pub bytes: u64,
    pub page_bytes: u32,
    pub journal: Journal,
}

impl Original {
    pub fn look(named: &Path) -> Result<Original, TrialError> {
        let read = |source| TrialError::Read { path: named.to_owned(), source };
        let path = named.canonicalize().map_err(read)?;
        let metadata = fs::metadata(&path).map_err(read)?;
        if metadata.is_dir() {
            return Ok(Original::Directory(path));
        }
        if !metadata.is_file() {
            return Err(TrialError::NotAFile(named.to_owned()));
        }
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        let survey = survey(&path).map_err(|error| match error {
            InspectError::NotADatabase(_) => {
                TrialError::NotADatabase { path: named.to_owned(), directory: directory.clone() }
            }
            InspectError::Read { source, .. } => read(source),
            error => error.into(),
        })?;
        if survey.guarded {
            return Err(match survey.users.is_empty() {
                true => TrialError::Interrupted(named.to_owned()),
                false => TrialError::Guarded {
                    path: named.to_owned(),
                    strategy: survey.strategy.unwrap_or("a strategy with a log"),
                    users: survey.users,
                    directory,
                },
            });
        }
        let journal = match survey.journal_mode {
            "wal" => Journal::Wal,
            _ => rollback_journal(&journal_of(&path)),
        };
        Ok(Original::Database(Database {
            named: named.to_owned(),
            directory,
            bytes: survey.bytes,
            page_bytes: survey.page_bytes,
            journal,
            path,
        }))
    }

    /// As the user named it.
    pub fn named(&self) -> &Path {
        match self {
            Original::Database(database) => &database.named,
            Original::Directory(directory) => directory,
        }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        match self {
            Original::Database(database) => &database.directory,
            Original::Directory(directory) => directory,
        }
    }

    /// How it commits now. A new database begins in DELETE mode.
    pub fn journal(&self) -> Journal {
        match self {
            Original::Database(database) => database.journal,
            Original::Directory(_) => Journal::Delete,
        }
    }
}

pub fn journal_of(database: &Path) -> PathBuf {
    beside(database, "-journal")
}

pub fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The file says "rollback". What the last transaction has left of its journal says which mode.
fn rollback_journal(journal: &Path) -> Journal {
    let mut header = [0; 8];
    match File::open(journal).and_then(|mut file| file.read(&mut header)) {
        Ok(0) => Journal::Truncate,
        Ok(_) if header == [0; 8] => Journal::Persist,
        _ => Journal::Delete,
    }
}
