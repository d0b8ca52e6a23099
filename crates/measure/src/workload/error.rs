//! What goes wrong while a workload works.

use super::files::FileError;
use super::{FileTraceError, ReplayError};
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
