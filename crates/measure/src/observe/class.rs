//! Classes of what is written.

use serde::{Deserialize, Serialize};

/// Whose bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    Db,
    /// Rollback journal, WAL or log.
    Journal,
    /// jbd2 journal, xfs log; at btrfs all metadata that a sync writes: its tree log.
    FsJournal,
    /// File-system metadata in place, `-shm`, and what no rule explains.
    Other,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Db, Class::Journal, Class::FsJournal, Class::Other];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCounts {
    pub bytes: u64,
    pub writes: u64,
}
