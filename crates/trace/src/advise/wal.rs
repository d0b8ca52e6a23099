//! What `plain` and `waldio` write: whole pages to a log that does not grow, one flush a group, and
//! at 1,000 frames each changed page once to the database file.

use std::collections::HashSet;

use super::calibration::Calibration;
use super::collect::{Commit, Load};
use super::cost::{BLOCK_BYTES, Checkpoints, Cost, blocks};
use super::crowd::{CROWD_MIN, Groups};
use super::tick::ticks;

/// SQLite's `wal_autocheckpoint`.
const CHECKPOINT_FRAMES: u64 = 1000;
const FRAME_HEADER_BYTES: u64 = 24;
const WAL_HEADER_BYTES: u64 = 32;

/// How frames stand in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// SQLite's own WAL, by the page cache. A block that two commits share is written by both.
    Wal,
    /// Aligned slots, by direct I/O.
    Slots,
}

/// `merged`: how many flushes of different processes the block layer makes one of. `goes_on`: more
/// commits like these come behind the load.
pub(super) fn cost(
    load: &Load,
    crowds: &[f64],
    merged: f64,
    form: Form,
    goes_on: bool,
    calibration: &Calibration,
) -> Cost {
    let mut log = Log {
        form,
        page_bytes: load.page_bytes,
        flushes: 1.0 / merged,
        calibration,
        end_bytes: 0,
        durable_bytes: 0,
        frames: 0,
        changed: HashSet::new(),
        goes_on,
        checkpoints: Checkpoints::default(),
        cost: Cost::default(),
    };
    log.begin();
    log.cost += ticks(&load.commits, calibration);
    for (group, crowd) in Groups::new(&load.commits, crowds) {
        log.commit(group, crowd);
    }
    log.end()
}

struct Log<'a> {
    form: Form,
    page_bytes: u64,
    /// For each group.
    flushes: f64,
    calibration: &'a Calibration,
    /// Where the log ends, and which part of it is durable.
    end_bytes: u64,
    durable_bytes: u64,
    frames: u64,
    changed: HashSet<u64>,
    goes_on: bool,
    checkpoints: Checkpoints,
    cost: Cost,
}

impl Log<'_> {
    fn begin(&mut self) {
        self.end_bytes = match self.form {
            Form::Wal => WAL_HEADER_BYTES,
            // The header has a block of its own.
            Form::Slots => 0,
        };
        (self.durable_bytes, self.frames) = (0, 0);
    }

    /// Commits that share a flush.
    fn commit(&mut self, group: &[Commit], crowd: f64) {
        for commit in group {
            let frames = u64::from(commit.frames);
            self.end_bytes += match self.form {
                Form::Wal => frames * (self.page_bytes + FRAME_HEADER_BYTES),
                Form::Slots => frames * self.page_bytes.max(BLOCK_BYTES),
            };
            self.frames += frames;
            self.changed.extend(&commit.blocks);
        }
        self.checkpoints.add_commits(group.len());
        if group.iter().any(|commit| commit.is_durable) {
            self.flush();
            self.cost.flushes += self.flushes;
        }
        // Where many write, they go on while the checkpoint is made.
        let lag = if crowd >= CROWD_MIN { self.calibration.checkpoint_lag } else { 1.0 };
        if self.frames as f64 >= CHECKPOINT_FRAMES as f64 * lag {
            self.checkpoint();
        }
    }

    /// Blocks that were begun before are written again.
    fn flush(&mut self) {
        let begin = self.durable_bytes / BLOCK_BYTES * BLOCK_BYTES;
        self.cost.commit_bytes += blocks((self.end_bytes - begin) as f64);
        self.durable_bytes = self.end_bytes;
    }

    fn checkpoint(&mut self) {
        if self.durable_bytes < self.end_bytes {
            self.flush();
        }
        let cost_before = self.cost;
        self.cost.checkpoint_bytes += (self.changed.len() as u64 * BLOCK_BYTES) as f64;
        self.cost.fs_bytes += self.calibration.checkpoint_fs_bytes;
        self.cost.flushes += self.calibration.checkpoint_flushes;
        self.checkpoints.add(self.cost - cost_before);
        self.changed.clear();
        self.begin();
    }

    fn end(mut self) -> Cost {
        if self.goes_on {
            self.cost += self.checkpoints.rest();
        }
        if self.durable_bytes < self.end_bytes && self.frames > 0 {
            self.cost.pending_bytes += (self.end_bytes - self.durable_bytes) as f64;
        }
        self.cost
    }
}
