//! What goes wrong while a workload works.

use std::io;
use std::path::PathBuf;

use crate::database::DatabaseError;

#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(
        "wrong contents: {0}; this is a bug of Oneflush or of the device, and the run reports \
            nothing"
    )]
    Contents(String),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    FileTrace(#[from] FileTraceError),
}

impl From<rusqlite::Error> for WorkloadError {
    fn from(error: rusqlite::Error) -> WorkloadError {
        WorkloadError::Database(error.into())
    }
}

/// What cannot be done with a worker's file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct FileError {
    pub path: PathBuf,
    pub reason: io::Error,
}

impl FileError {
    pub fn is_disk_full(&self) -> bool {
        self.reason.kind() == io::ErrorKind::StorageFull
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("{path}: {source}; --sql takes a directory with loading.sql and 0.sql, 1.sql, …")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not SQL: line {line} is not UTF-8 text; record one SQL statement a line")]
    NotText { path: PathBuf, line: usize },
    #[error(
        "{path} is not SQL: not one of its {lines} lines is a statement ({first}); record one SQL \
            statement a line"
    )]
    NotSql { path: PathBuf, lines: usize, first: String },
    #[error("{path} is empty; record one SQL statement a line")]
    Empty { path: PathBuf },
    #[error("checking the recording in an in-memory database: {0}")]
    Check(#[from] rusqlite::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum FileTraceError {
    #[error(
        "{}: {reason}; --replay takes a file with lines of file operations, such as \
            `24 6542073 write 199 698`", path.display()
    )]
    Read { path: PathBuf, reason: io::Error },
    #[error(
        "{}, line {number}: {reason}; a line is `thread microseconds operation arguments`, such as \
            `24 6542073 write 199 698`", path.display()
    )]
    NotALine { path: PathBuf, number: usize, reason: &'static str },
    #[error(
        "{}: nothing in it can be replayed; it needs lines such as `24 6542073 write 199 698` and \
            `24 6542100 fsync 199 0`, and the opening of descriptor 199 before", path.display()
    )]
    Nothing { path: PathBuf },
}
