//! What a strategy writes for all commits of a load.

use std::ops::{AddAssign, Mul, Sub};

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

impl Sub for Cost {
    type Output = Cost;
    fn sub(mut self, other: Cost) -> Cost {
        self += other * -1.0;
        self
    }
}

impl Mul<f64> for Cost {
    type Output = Cost;
    fn mul(self, factor: f64) -> Cost {
        Cost {
            commit_bytes: self.commit_bytes * factor,
            checkpoint_bytes: self.checkpoint_bytes * factor,
            image_bytes: self.image_bytes * factor,
            fs_bytes: self.fs_bytes * factor,
            flushes: self.flushes * factor,
            once_bytes: self.once_bytes * factor,
            once_flushes: self.once_flushes * factor,
            pending_bytes: self.pending_bytes * factor,
        }
    }
}

/// The checkpoints of a load, and how many commits they are of.
///
/// A load ends somewhere between two checkpoints. Where it stands for a workload that goes on, the
/// commits behind the last checkpoint cost their part of the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checkpoints {
    commits: u64,
    /// Commits that a checkpoint has copied.
    copied: u64,
    cost: Cost,
}

impl Checkpoints {
    pub fn add_commits(&mut self, count: usize) {
        self.commits += count as u64;
    }

    /// A checkpoint was made. `cost`: what it alone has cost.
    pub fn add(&mut self, cost: Cost) {
        self.copied = self.commits;
        // A log grows once, and not with each checkpoint.
        self.cost += Cost { once_bytes: 0.0, once_flushes: 0.0, pending_bytes: 0.0, ..cost };
    }

    /// The part of the next checkpoint that the last commits cost.
    pub fn rest(&self) -> Cost {
        match self.copied {
            0 => Cost::default(),
            copied => self.cost * ((self.commits - copied) as f64 / copied as f64),
        }
    }
}

/// `bytes` in whole blocks.
pub(super) fn blocks(bytes: f64) -> f64 {
    (bytes / BLOCK_BYTES as f64).ceil() * BLOCK_BYTES as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_behind_the_last_checkpoint_cost_their_part_of_the_next() {
        let checkpoint =
            Cost { checkpoint_bytes: 1000.0, flushes: 3.0, once_bytes: 7.0, ..Cost::default() };
        let mut checkpoints = Checkpoints::default();
        checkpoints.add_commits(90);
        assert_eq!(checkpoints.rest(), Cost::default());
        checkpoints.add_commits(10);
        checkpoints.add(checkpoint);
        assert_eq!(checkpoints.rest(), Cost::default());
        checkpoints.add_commits(100);
        checkpoints.add(checkpoint);
        checkpoints.add_commits(50);
        let half = Cost { checkpoint_bytes: 500.0, flushes: 1.5, ..Cost::default() };
        assert_eq!(checkpoints.rest(), half);
    }
}
