//! What a connection measured and has not added to the histograms yet.
//!
//! After a flush the processor's caches hold little of this code and its data. A sample is
//! therefore only noted, on one cache line. A batch of samples goes to the histograms at once: when
//! it is full, when somebody asks, and when the connection closes.

use super::commit::Commit;
use crate::role::Role;
use crate::sync::{Mutex, lock};

const BATCH_COUNT: usize = 64;

#[derive(Clone, Copy, Debug)]
pub enum Sample {
    Sync { role: Role, latency_ns: u64 },
    Commit(Commit),
}

#[derive(Default)]
pub struct Samples(Mutex<Vec<Sample>>);

impl Samples {
    /// Notes a sample. If that fills the batch, the answer is the whole batch.
    pub fn note(&self, sample: Sample) -> Option<Vec<Sample>> {
        let mut batch = lock(&self.0);
        if batch.capacity() == 0 {
            batch.reserve_exact(BATCH_COUNT);
        }
        batch.push(sample);
        (batch.len() == BATCH_COUNT).then(|| std::mem::take(&mut *batch))
    }

    pub fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut *lock(&self.0))
    }
}
