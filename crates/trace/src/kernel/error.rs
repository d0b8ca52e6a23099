//! Faults between us and the kernel's files.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error("cannot read {}: {reason}", path.display())]
    Read { path: PathBuf, reason: io::Error },

    /// The node of a block device cannot be opened.
    #[error("cannot read {}: {reason}{missing}", path.display())]
    Device { path: PathBuf, reason: io::Error, missing: String },

    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: io::Error },

    #[error("{} is not as expected: {what}", path.display())]
    Format { path: PathBuf, what: String },

    #[error("no tracefs: {reason} (as root: mount -t tracefs none /sys/kernel/tracing)")]
    NoTracefs { reason: io::Error },
}
