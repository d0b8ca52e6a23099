//! What goes wrong while a workload works.

use super::ReplayError;
use super::files::FileError;
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
}

impl From<rusqlite::Error> for WorkloadError {
    fn from(error: rusqlite::Error) -> WorkloadError {
        WorkloadError::Database(error.into())
    }
}
