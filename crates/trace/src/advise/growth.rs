//! What a database that grows costs a log: the rows that are added, and a longer log.

use super::calibration::Calibration;
use super::collect::{Commit, Load};
use super::cost::{BLOCK_BYTES, Cost};

/// The bytes that commits add to a database, as its new pages show them.
///
/// A commit that adds a row makes a new page seldom, and then for a row alone. So the pages that
/// commits add one at a time are shared among all, by their frames. What a commit adds beyond one
/// page is its own.
pub(super) struct Growth {
    share: f64,
    frame_bytes: f64,
    page_blocks: u32,
}

impl Growth {
    pub fn of(load: &Load, share: f64) -> Growth {
        let page_blocks = (load.page_bytes / BLOCK_BYTES).max(1) as u32;
        let known = || load.commits.iter().filter_map(|commit| Some((commit, commit.new_blocks?)));
        let frames: u64 = known().map(|(commit, _)| u64::from(commit.frames)).sum();
        let single: u64 = known().map(|(_, new)| u64::from(new.min(page_blocks))).sum();
        let frame_bytes = (single * BLOCK_BYTES) as f64 / frames.max(1) as f64;
        Growth { share, frame_bytes, page_blocks }
    }

    pub fn bytes(&self, commit: &Commit) -> f64 {
        let own = u64::from(commit.new_blocks.unwrap_or(0).saturating_sub(self.page_blocks))
            * BLOCK_BYTES;
        self.share * (own as f64 + self.frame_bytes * f64::from(commit.frames))
    }
}

/// The first chunk of a lane, and the largest. A chunk is as long as the lane before it.
const CHUNK_BYTES_MIN: f64 = (32 << 10) as f64;
const CHUNK_BYTES_MAX: f64 = (256 << 10) as f64;

/// One of the two lanes of a log (`docs/log-format.md`), which grow together.
pub(super) struct Lane {
    bytes: f64,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane { bytes: CHUNK_BYTES_MIN }
    }
}

impl Lane {
    /// Grows, if it has no room for so much.
    pub fn hold(&mut self, bytes: f64, calibration: &Calibration, cost: &mut Cost) {
        while self.bytes < bytes {
            let chunk = self.bytes.min(CHUNK_BYTES_MAX);
            self.bytes += chunk;
            cost.once_bytes += 2.0 * chunk + calibration.log_growth_fs_bytes;
            cost.once_flushes += calibration.log_growth_flushes;
        }
    }
}
