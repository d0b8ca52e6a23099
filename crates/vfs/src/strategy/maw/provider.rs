//! What makes a batch of changes atomic.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::outcome::Outcome;
use super::overlay::Batch;
use crate::config::Atomic;
use crate::error::{Code, Error};
use crate::port::Below;

/// A provider of atomicity. It commits the changes of one transaction to one database file.
///
/// The caller has the database locked exclusively.
pub trait Provider: Send + Sync {
    /// Makes the changes durable, all or none. After an error the file is as before.
    fn commit(&self, main: &dyn Below, batch: &Batch<'_>) -> Result<Outcome, Error>;
    /// The connection begins to read. It has a shared lock, so nobody is in a commit.
    fn before_reading(&self, main: &dyn Below);
    /// True if what happened to names in the file system before a commit is durable with it.
    fn keeps_order(&self) -> bool;
    fn kind(&self) -> Atomic;
}

/// Whether a provider may go on after an error.
///
/// A commit whose outcome nobody knows may be in the file's memory and not on the device. What is
/// committed on top of it would be lost with it. So its connection commits nothing more, until the
/// database is opened anew.
#[derive(Default)]
pub struct Poison(AtomicBool);

impl Poison {
    pub fn check(&self) -> Result<(), Code> {
        if self.0.load(Relaxed) { Err(Code::IOERR_FSYNC) } else { Ok(()) }
    }

    /// The commit of this batch has failed. True: the file is not known to be as before, and the
    /// provider is poisoned.
    ///
    /// The batch is in the file whole or not at all. So one unit that the file lacks shows that
    /// nothing of it is there.
    pub fn after_error(&self, main: &dyn Below, batch: &Batch<'_>) -> bool {
        let lacks = |(offset, unit): (u64, &[u8])| {
            let unit = batch.inside(offset, unit);
            let mut found = vec![0; unit.len()];
            match main.read(&mut found, offset) {
                Ok(()) | Err(Code::SHORT_READ) => found != unit,
                Err(_) => false,
            }
        };
        let is_as_before = batch.units.is_empty() || batch.writes().any(lacks);
        self.0.fetch_or(!is_as_before, Relaxed);
        !is_as_before
    }
}
