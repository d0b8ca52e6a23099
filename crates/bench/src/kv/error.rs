//! What can go wrong while a store is measured.

use std::io;

use super::Engine;
use oneflush_measure::floor::FloorError;
use oneflush_measure::observe::ObserveError;
use oneflush_measure::place::PlaceError;

/// What an engine says.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum KvError {
    #[error("{subject}: {source}")]
    Store { subject: String, source: StoreError },
    #[error("{subject}: {what}")]
    Wrong { subject: String, what: String },
    #[error("{subject}: its files: {source}")]
    Files { subject: String, source: io::Error },
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Observe(#[from] ObserveError),
    #[error(transparent)]
    Floor(#[from] FloorError),
    #[error("interrupted; nothing was left behind")]
    Interrupted,
}

impl KvError {
    pub fn store(engine: &dyn Engine, source: StoreError) -> KvError {
        KvError::Store { subject: engine.name(), source }
    }

    pub fn files(engine: &dyn Engine, source: io::Error) -> KvError {
        KvError::Files { subject: engine.name(), source }
    }
}
