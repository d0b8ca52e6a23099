//! F2FS's atomic write as a provider (rule 7 of `maw`).
//!
//! | step | what survives a crash after it |
//! |---|---|
//! | 1. start | nothing of the transaction |
//! | 2. each page is written | the same: F2FS keeps the writes apart |
//! | 3. commit | the transaction |
//! | 4. the file is made shorter, where the transaction has done so | the transaction |
//!
//! What cannot start is declined. Any other error aborts the write, and the file is as before.

use super::overlay::Batch;
use super::provider::{Outcome, Provider};
use crate::config::Atomic;
use crate::error::Error;
use crate::port::{AtomicWrite, Below};

pub struct F2fs(pub Box<dyn AtomicWrite>);

impl Provider for F2fs {
    fn commit(&self, main: &dyn Below, batch: &Batch<'_>) -> Result<Outcome, Error> {
        if self.0.start().is_err() {
            return Ok(Outcome::Declined);
        }
        let written = batch.writes().try_for_each(|(offset, unit)| self.0.write(unit, offset));
        if let Err(code) = written.and_then(|()| self.0.commit()) {
            self.0.abort();
            return Err(code.into());
        }
        if batch.size_bytes < batch.size_bytes_before {
            main.truncate(batch.size_bytes)?;
        }
        Ok(Outcome::Committed)
    }

    fn kind(&self) -> Atomic {
        Atomic::F2fs
    }
}
