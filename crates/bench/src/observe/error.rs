//! What can go wrong while observing.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error("cannot read {}: {reason}", path.display())]
    Read { path: PathBuf, reason: io::Error },

    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: io::Error },

    #[error("{} is not as expected: {what}", path.display())]
    Format { path: PathBuf, what: String },

    #[error("no tracefs: {reason}; only totals of the device are known (mount -t tracefs none /sys/kernel/tracing)")]
    NoTracefs { reason: io::Error },

    #[error("stop without start: a slice begins with start()")]
    NotStarted,
}
