//! A failure as a worker process sends it.

use std::io;

use serde::{Deserialize, Serialize};

use crate::database::DatabaseError;
use crate::workload::WorkloadError;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    DiskFull,
    Interrupted,
    Other,
}

impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Failure {
        let kind = match &error {
            WorkloadError::Database(error) if error.is_disk_full() => FailureKind::DiskFull,
            WorkloadError::File(error) if error.is_disk_full() => FailureKind::DiskFull,
            _ => FailureKind::Other,
        };
        Failure { kind, message: error.to_string() }
    }
}

impl From<DatabaseError> for Failure {
    fn from(error: DatabaseError) -> Failure {
        WorkloadError::from(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure { kind: FailureKind::Other, message: error.to_string() }
    }
}
