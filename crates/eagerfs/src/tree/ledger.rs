//! What the checks compare with: numbers that earlier steps have noted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oneflush_blocklog::Epoch;

use crate::entry::Seq;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Reached(AtomicU64);

impl Reached {
    fn reach(&self, value: u64) {
        self.0.fetch_max(value, Ordering::AcqRel);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Debug, Default)]
pub struct Ledger {
    has_failed: AtomicBool,
    ended: Reached,
    covered: Reached,
    released: Reached,
}

impl Ledger {
    /// I/O has failed that must not. The tree is poisoned already.
    pub fn note_failure(&self) {
        self.has_failed.store(true, Ordering::Release);
    }

    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// No record goes to this epoch any more.
    pub fn note_end(&self, epoch: Epoch) {
        self.ended.reach(epoch.0);
    }

    pub fn ended(&self) -> Epoch {
        Epoch(self.ended.get())
    }

    /// A `syncfs` has returned that began when this epoch had ended.
    pub fn note_covered(&self, epoch: Epoch) {
        self.covered.reach(epoch.0);
    }

    /// The newest of these epochs.
    pub fn covered(&self) -> Epoch {
        Epoch(self.covered.get())
    }

    /// The last bytes of an epoch that is released have this number.
    pub fn note_released(&self, bytes: Seq) {
        self.released.reach(bytes.0);
    }

    /// Bytes up to this number are in no live epoch.
    pub fn released(&self) -> Seq {
        Seq(self.released.get())
    }
}
