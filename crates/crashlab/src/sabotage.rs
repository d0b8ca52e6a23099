//! Lies between a strategy and the disk. Each makes any strategy break one promise, so each must be
//! caught.
//!
//! They are controls of the simulator, not of a strategy. A lie says "done" where nothing was done,
//! or not yet.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sabotage {
    #[default]
    None,
    /// No flush at commit: syncs of journals and logs do nothing.
    NoFlush,
    /// Acknowledgement before the flush: journals and logs are synced after the next
    /// acknowledgement.
    LateFlush,
    /// Syncs of directories do nothing.
    NoDirectorySync,
    /// A failed sync is reported as done.
    HiddenSyncFailure,
    /// Syncs of the database do nothing. So a log is reused before the database is durable.
    NoDatabaseSync,
    /// Syncs of the database happen after the next acknowledgement. The log may have begun anew by
    /// then.
    LateDatabaseSync,
    /// The flush comes before the write: a sync of a journal or log leaves out the last write
    /// before it.
    FlushBeforeWrite,
    /// A write behind something in a journal or log writes the block before it again, in the same
    /// write.
    RewrittenTail,
}

impl Sabotage {
    pub const ALL: [Sabotage; 9] = [
        Sabotage::None,
        Sabotage::NoFlush,
        Sabotage::LateFlush,
        Sabotage::NoDirectorySync,
        Sabotage::HiddenSyncFailure,
        Sabotage::NoDatabaseSync,
        Sabotage::LateDatabaseSync,
        Sabotage::FlushBeforeWrite,
        Sabotage::RewrittenTail,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Sabotage::None => "none",
            Sabotage::NoFlush => "no-flush",
            Sabotage::LateFlush => "late-flush",
            Sabotage::NoDirectorySync => "no-directory-sync",
            Sabotage::HiddenSyncFailure => "hidden-sync-failure",
            Sabotage::NoDatabaseSync => "no-database-sync",
            Sabotage::LateDatabaseSync => "late-database-sync",
            Sabotage::FlushBeforeWrite => "flush-before-write",
            Sabotage::RewrittenTail => "rewritten-tail",
        }
    }
}

/// What a file is to a lie: the database, or a file beside it that makes commits durable (journal,
/// WAL, log).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Database,
    Log,
}

impl Kind {
    /// The databases of the workloads end in `.db`. The side files of every strategy append to that
    /// name.
    pub(crate) fn of(name: &str) -> Kind {
        // The second B-tree makes a database under another name.
        let is_database = name.ends_with(".db") || name.ends_with(".db-oneflush-new");
        if is_database { Kind::Database } else { Kind::Log }
    }
}
