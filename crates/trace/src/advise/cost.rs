//! What a strategy writes for all commits of a load.

use std::ops::AddAssign;

/// A block of the file system, and what a page cache writes back at least.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// Bytes and flushes of all commits together. They are fractions, since some are averages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// What makes commits durable: frames, records.
    pub commit_bytes: f64,
    /// Pages into the database file, and what is logged before that.
    pub checkpoint_bytes: f64,
    /// What the kernel writes back of files that are not durable.
    pub image_bytes: f64,
    /// The file system's journal and metadata.
    pub fs_bytes: f64,
    pub flushes: f64,
    /// Zeros for a log that grows: once for each time a program opens the database.
    pub once_bytes: f64,
    pub once_flushes: f64,
    /// What is in memory when the recording ends, and written later.
    pub pending_bytes: f64,
}

impl Cost {
    /// Without what is written once, or later.
    pub fn bytes(&self) -> f64 {
        self.commit_bytes + self.checkpoint_bytes + self.image_bytes + self.fs_bytes
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.commit_bytes += other.commit_bytes;
        self.checkpoint_bytes += other.checkpoint_bytes;
        self.image_bytes += other.image_bytes;
        self.fs_bytes += other.fs_bytes;
        self.flushes += other.flushes;
        self.once_bytes += other.once_bytes;
        self.once_flushes += other.once_flushes;
        self.pending_bytes += other.pending_bytes;
    }
}

/// `bytes` in whole blocks.
pub(super) fn blocks(bytes: f64) -> f64 {
    (bytes / BLOCK_BYTES as f64).ceil() * BLOCK_BYTES as f64
}
