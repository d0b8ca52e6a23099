//! What the file system writes every 5 s where files were written: their times, in a commit of its
//! journal. It belongs to no transaction, so a recording does not say it of one.
//!
//! In a rollback mode each commit pays for a commit of the file system's journal itself, and
//! nothing is left for this.

use super::calibration::Calibration;
use super::collect::Commit;
use super::cost::Cost;

/// ext4's `commit=`, and about what XFS does.
const PERIOD_NS: u64 = 5_000_000_000;

pub(super) fn ticks(commits: &[Commit], calibration: &Calibration) -> Cost {
    let mut last = None;
    let mut count = 0.0;
    for commit in commits {
        let period = commit.begin_ns / PERIOD_NS;
        if last != Some(period) {
            count += 1.0;
            last = Some(period);
        }
    }
    Cost {
        fs_bytes: count * calibration.tick_fs_bytes,
        flushes: count * calibration.tick_flushes,
        ..Cost::default()
    }
}
