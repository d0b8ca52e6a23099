//! What the connection does that is there beside the workers.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Updates one row after the other, of rows 1 to `rows`, and commits each, `interval` after the
    /// one before or later.
    Write { rows: u64, interval: Duration },
    /// Begins to read at `from`, and keeps this snapshot until `to`, both since the workers' begin.
    KeepSnapshot { from: Duration, to: Duration },
}
