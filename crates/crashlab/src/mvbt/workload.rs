//! What a run of the engine is about.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::workload::named;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// One row at the end, and one anywhere.
    Inserts,
    /// Payloads get longer and shorter.
    Updates,
    /// Down to empty trees, and up again.
    Deletes,
    /// Of leaves, inner pages and roots.
    Splits,
    /// Payloads in overflow pages.
    Long,
    Records,
    /// Several trees in a transaction; trees made, emptied and dropped.
    Trees,
    Savepoints,
    /// Pages are written before the commit.
    Early,
    /// Old versions are held and read.
    Readers,
    /// Transactions of more pages than a commit block lists.
    Huge,
    /// Closed and opened again and again.
    Reopen,
    /// Commits in two steps, many of them rolled back between both.
    Prepared,
    /// Processes that die in their transactions, with what they wrote in the page cache.
    Killed,
    /// Code that panics in its transactions, in a process that goes on.
    Panics,
    /// Begins with the crashes of earlier lives.
    Crashed,
    /// So many processes die that void directories are taken out of their pages.
    Scrubbed,
    /// Rows go, and the file is cut.
    Shrunk,
    /// The file retains its last versions.
    History,
    /// Anything of all these.
    Mixed,
}

impl Workload {
    pub const ALL: [Workload; 20] = [
        Workload::Inserts,
        Workload::Updates,
        Workload::Deletes,
        Workload::Splits,
        Workload::Long,
        Workload::Records,
        Workload::Trees,
        Workload::Savepoints,
        Workload::Early,
        Workload::Readers,
        Workload::Huge,
        Workload::Reopen,
        Workload::Prepared,
        Workload::Killed,
        Workload::Panics,
        Workload::Crashed,
        Workload::Scrubbed,
        Workload::Shrunk,
        Workload::History,
        Workload::Mixed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Workload::Inserts => "inserts",
            Workload::Updates => "updates",
            Workload::Deletes => "deletes",
            Workload::Splits => "splits",
            Workload::Long => "long",
            Workload::Records => "records",
            Workload::Trees => "trees",
            Workload::Savepoints => "savepoints",
            Workload::Early => "early",
            Workload::Readers => "readers",
            Workload::Huge => "huge",
            Workload::Reopen => "reopen",
            Workload::Prepared => "prepared",
            Workload::Killed => "killed",
            Workload::Panics => "panics",
            Workload::Crashed => "crashed",
            Workload::Scrubbed => "scrubbed",
            Workload::Shrunk => "shrunk",
            Workload::History => "history",
            Workload::Mixed => "mixed",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(word: &str) -> Result<Workload, String> {
        named(&Workload::ALL, Workload::name, word, " of mvbt")
    }
}
