//! Kinds of file systems.

use std::fmt;

use serde::{Deserialize, Serialize};

/// File systems that a scratch place can be made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsKind {
    Ext4,
    Xfs,
    Btrfs,
    /// ext4 whose journal has an area for small commits: its feature `fast_commit`.
    #[serde(rename = "ext4-fast-commit")]
    Ext4FastCommit,
}

impl FsKind {
    pub const ALL: [FsKind; 4] = [FsKind::Ext4, FsKind::Xfs, FsKind::Btrfs, FsKind::Ext4FastCommit];

    /// The name that users know.
    pub fn name(self) -> &'static str {
        match self {
            FsKind::Ext4FastCommit => "ext4-fast-commit",
            other => other.kernel_name(),
        }
    }

    /// The name that mount(2) knows.
    pub(super) fn kernel_name(self) -> &'static str {
        match self {
            FsKind::Ext4 | FsKind::Ext4FastCommit => "ext4",
            FsKind::Xfs => "xfs",
            FsKind::Btrfs => "btrfs",
        }
    }
}

impl fmt::Display for FsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
