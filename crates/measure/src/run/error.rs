//! What stops a run. Every message says where the run was and how to go on.

use std::io;
use std::path::PathBuf;

use oneflush_trace::record::RecordError;

use super::failure::{Failure, FailureKind};
use crate::floor::FloorError;
use crate::mode::Mode;
use crate::observe::ObserveError;
use crate::place::PlaceError;
use crate::workload::WorkloadError;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Observe(#[from] ObserveError),
    #[error(transparent)]
    Floor(#[from] FloorError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("{}: the recording cannot be kept: {reason}", path.display())]
    Recording { path: PathBuf, reason: String },
    #[error(
        "disk full in mode {mode}, round {round}, on {place}: {way_out}, or measure less with a \
            smaller --txns"
    )]
    DiskFull { mode: Mode, round: u32, place: String, way_out: &'static str },
    #[error("mode {mode}, round {round}: {message}")]
    Slice { mode: Mode, round: u32, message: String },
    #[error("a busy loop of --busy cannot be started: {0}")]
    Busy(io::Error),
    #[error("interrupted; nothing was left behind")]
    Interrupted,
}

/// Adds to an error where the run was.
pub struct At<'a> {
    pub mode: Mode,
    pub round: u32,
    pub place: &'a str,
    /// The file system is ours, made with `--size`.
    pub scratch: bool,
}

impl At<'_> {
    pub fn database(&self, error: impl Into<WorkloadError>) -> RunError {
        self.failure(error.into().into())
    }

    pub fn io(&self, error: io::Error) -> RunError {
        match error.kind() {
            io::ErrorKind::StorageFull => self.disk_full(),
            io::ErrorKind::Interrupted => RunError::Interrupted,
            _ => RunError::Slice {
                mode: self.mode.clone(),
                round: self.round,
                message: error.to_string(),
            },
        }
    }

    pub fn failure(&self, failure: Failure) -> RunError {
        match failure.kind {
            FailureKind::DiskFull => self.disk_full(),
            FailureKind::Interrupted => RunError::Interrupted,
            FailureKind::Other => RunError::Slice {
                mode: self.mode.clone(),
                round: self.round,
                message: failure.message,
            },
        }
    }

    fn disk_full(&self) -> RunError {
        RunError::DiskFull {
            mode: self.mode.clone(),
            round: self.round,
            place: self.place.to_owned(),
            way_out: if self.scratch {
                "give it more room with --size, for example --size 2G"
            } else {
                "free some space or choose another directory with --dir"
            },
        }
    }
}
