//! What a connection measured and did not add to the histograms yet.
//!
//! After a flush the processor's caches hold little of ours. A sample is therefore only noted, on one cache line, and a
//! batch of them goes to the histograms at once: when it is full, when somebody asks, and when the connection closes.

use std::sync::{Mutex, PoisonError};

use super::commit::Commit;
use crate::role::Role;

const BATCH_COUNT: usize = 64;

#[derive(Clone, Copy, Debug)]
pub enum Sample {
    Sync { role: Role, latency_ns: u64 },
    Commit(Commit),
}

#[derive(Default)]
pub struct Samples(Mutex<Vec<Sample>>);

impl Samples {
    /// Notes a sample; `Some`, with all that are noted, if that filled the batch.
    pub fn note(&self, sample: Sample) -> Option<Vec<Sample>> {
        let mut batch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if batch.capacity() == 0 {
            batch.reserve_exact(BATCH_COUNT);
        }
        batch.push(sample);
        (batch.len() == BATCH_COUNT).then(|| std::mem::take(&mut *batch))
    }

    pub fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
