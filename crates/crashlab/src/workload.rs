//! What a run is about. Each workload has one subject of a database and its log.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// From no file at all to the first commits.
    Fresh,
    One,
    /// Several threads that commit at once.
    Writers,
    /// Transactions larger than SQLite's cache, so that pages are written before the commit.
    Large,
    Savepoints,
    Vacuum,
    Schema,
    Attach,
    Checkpoints,
    /// `PRAGMA synchronous` switched in between.
    Synchronous,
    /// A connection at NORMAL beside one at the level that promises.
    Mixed,
    Reopen,
    /// Transactions that together are more than a log holds at first: it grows.
    Growing,
    /// The same, with a log that may not grow.
    Full,
    /// Transactions larger than the log may be.
    Huge,
    /// Opened and closed again and again. In between it is read, written, checkpointed, or left
    /// with a reader.
    Cycles,
    /// Connections of three processes in turn.
    Processes,
    /// Connections of three processes at once.
    ProcessWriters,
    /// Closed, and opened with another strategy or by SQLite alone.
    Switched,
    /// Begins with the crash of an earlier run. Connections of three processes go on with what is
    /// left, and have recovered it themselves.
    Crashed,
    /// Connections of three processes in turn. Some of the processes die in a commit.
    Deaths,
}

impl Workload {
    pub const ALL: [Workload; 21] = [
        Workload::Fresh,
        Workload::One,
        Workload::Writers,
        Workload::Large,
        Workload::Savepoints,
        Workload::Vacuum,
        Workload::Schema,
        Workload::Attach,
        Workload::Checkpoints,
        Workload::Synchronous,
        Workload::Mixed,
        Workload::Reopen,
        Workload::Growing,
        Workload::Full,
        Workload::Huge,
        Workload::Cycles,
        Workload::Processes,
        Workload::ProcessWriters,
        Workload::Switched,
        Workload::Crashed,
        Workload::Deaths,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Workload::Fresh => "fresh",
            Workload::One => "one",
            Workload::Writers => "writers",
            Workload::Large => "large",
            Workload::Savepoints => "savepoints",
            Workload::Vacuum => "vacuum",
            Workload::Schema => "schema",
            Workload::Attach => "attach",
            Workload::Checkpoints => "checkpoints",
            Workload::Synchronous => "synchronous",
            Workload::Mixed => "mixed",
            Workload::Reopen => "reopen",
            Workload::Growing => "growing",
            Workload::Full => "full",
            Workload::Huge => "huge",
            Workload::Cycles => "cycles",
            Workload::Processes => "processes",
            Workload::ProcessWriters => "process-writers",
            Workload::Switched => "switched",
            Workload::Crashed => "crashed",
            Workload::Deaths => "deaths",
        }
    }

    /// What the workload asks of a strategy by the URI. A strategy without a use for a parameter
    /// ignores it. There are no background checkpoints: they come at any time, and the run would
    /// not follow from its seed.
    pub fn uri(self) -> &'static str {
        match self {
            Workload::Growing => "log_size=4194304&checkpoints=sqlite",
            Workload::Full | Workload::Huge => "log_size=1048576&checkpoints=sqlite",
            // A thread in the background would outlive its process.
            Workload::Deaths => "checkpoints=sqlite&group=0",
            _ => "",
        }
    }

    /// Its transactions are about as large as a log, or larger.
    pub fn fills_a_log(self) -> bool {
        matches!(self, Workload::Growing | Workload::Full | Workload::Huge)
    }

    /// The process that a connection belongs to.
    pub fn process_of(self, connection: usize) -> usize {
        match self {
            Workload::Processes
            | Workload::ProcessWriters
            | Workload::Crashed
            | Workload::Deaths => connection,
            _ => 0,
        }
    }

    pub fn switches_synchronous(self) -> bool {
        matches!(self, Workload::Synchronous | Workload::Mixed)
    }

    pub fn has_processes(self) -> bool {
        self.process_of(1) != self.process_of(0)
    }

    /// The databases of the workload.
    pub fn files(self) -> Vec<String> {
        match self {
            Workload::Attach => vec!["/a.db".to_owned(), "/b.db".to_owned()],
            _ => vec!["/a.db".to_owned()],
        }
    }

    /// Threads interleave as they like. So only the log of such a run can be repeated, not the run.
    pub fn is_threaded(self) -> bool {
        matches!(self, Workload::Writers | Workload::ProcessWriters)
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
        named(&Workload::ALL, Workload::name, word, "")
    }
}

/// The workload of this name. `of` says whose they are.
pub(crate) fn named<W: Copy>(
    all: &[W],
    name: fn(W) -> &'static str,
    word: &str,
    of: &str,
) -> Result<W, String> {
    all.iter().copied().find(|&workload| name(workload) == word).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|&workload| name(workload)).collect();
        format!("workload \"{word}\"{of} is not known; there are {}", names.join(", "))
    })
}
