//! What is done to a database while the disk records: short scripts, each drawn by seed around one subject.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::model::Change;
use crate::setting::Synchronous;

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
}

impl Workload {
    pub const ALL: [Workload; 12] = [
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
        }
    }

    /// The databases of the workload.
    pub fn files(self) -> Vec<String> {
        match self {
            Workload::Attach => vec!["/a.db".to_owned(), "/b.db".to_owned()],
            _ => vec!["/a.db".to_owned()],
        }
    }

    /// Threads interleave as they like, so only the log of such a run can be repeated, not the run.
    pub fn is_threaded(self) -> bool {
        self == Workload::Writers
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
        Workload::ALL.into_iter().find(|workload| workload.name() == word).ok_or_else(|| {
            let names: Vec<_> = Workload::ALL.iter().map(|workload| workload.name()).collect();
            format!("workload \"{word}\" is not known; there are {}", names.join(", "))
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    Small,
    Several,
    Large,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Commit {
        connection: usize,
        amount: Amount,
        seed: u64,
    },
    /// A commit of what nested savepoints left over.
    Savepoints {
        connection: usize,
        seed: u64,
    },
    RolledBack {
        connection: usize,
        amount: Amount,
        seed: u64,
    },
    Schema {
        connection: usize,
        seed: u64,
    },
    /// Deletes most rows, so that there is something to vacuum.
    Thin {
        connection: usize,
        seed: u64,
    },
    Vacuum {
        connection: usize,
    },
    Checkpoint {
        connection: usize,
        kind: Checkpoint,
    },
    /// Begins a transaction that reads and keeps its snapshot, or ends it: a checkpoint meanwhile copies only a part.
    Snapshot {
        connection: usize,
        held: bool,
    },
    Synchronous {
        connection: usize,
        level: Synchronous,
    },
    Close {
        connection: usize,
    },
    /// One connection each, so many commits each, all at once.
    Threads {
        threads: usize,
        commits: usize,
        seed: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpoint {
    Passive,
    Full,
    Restart,
    Truncate,
}

impl Checkpoint {
    const ALL: [Checkpoint; 4] = [Checkpoint::Passive, Checkpoint::Full, Checkpoint::Restart, Checkpoint::Truncate];

    pub fn name(self) -> &'static str {
        match self {
            Checkpoint::Passive => "PASSIVE",
            Checkpoint::Full => "FULL",
            Checkpoint::Restart => "RESTART",
            Checkpoint::Truncate => "TRUNCATE",
        }
    }
}

/// A whole run: how the database is made, and the steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Script {
    pub workload: Workload,
    pub seed: u64,
    pub page_bytes: u32,
    /// Frames after which SQLite checkpoints by itself; 0: never.
    pub checkpoint_frames: u32,
    pub auto_vacuum: bool,
    /// Transactions before the recording begins.
    pub rows_before: u32,
    pub steps: Vec<Step>,
}

impl Script {
    pub fn draw(workload: Workload, seed: u64) -> Script {
        let mut rng = Rng::with_seed(seed);
        let steps = match workload {
            Workload::Large => 3,
            Workload::Vacuum | Workload::Attach | Workload::Schema => 4,
            _ => 7,
        };
        let vacuum = workload == Workload::Vacuum;
        Script {
            workload,
            seed,
            page_bytes: [4096, 4096, 1024, 512][rng.usize(..4)],
            checkpoint_frames: [0, 6, 16, 1000][rng.usize(..4)],
            auto_vacuum: vacuum && rng.bool(),
            rows_before: if workload == Workload::Fresh { 0 } else { rng.u32(2..6) },
            steps: (0..steps).flat_map(|number| step(workload, number, &mut rng)).collect(),
        }
    }
}

fn step(workload: Workload, number: usize, rng: &mut Rng) -> Vec<Step> {
    let amount = if rng.u8(..4) == 0 { Amount::Several } else { Amount::Small };
    let seed = rng.u64(..);
    let commit = |connection, amount| Step::Commit { connection, amount, seed };
    let usual = commit(0, amount);
    match workload {
        Workload::Fresh | Workload::One => vec![usual],
        Workload::Writers if number == 0 => vec![Step::Threads { threads: 3, commits: 4, seed }],
        Workload::Writers => vec![],
        Workload::Large => vec![commit(0, Amount::Large), usual],
        Workload::Savepoints => match rng.u8(..3) {
            0 => vec![Step::RolledBack { connection: 0, amount, seed }, usual],
            1 => vec![Step::RolledBack { connection: 0, amount: Amount::Large, seed }, usual],
            _ => vec![Step::Savepoints { connection: 0, seed }],
        },
        Workload::Vacuum if number == 0 => vec![commit(0, Amount::Large), Step::Thin { connection: 0, seed }],
        Workload::Vacuum => match rng.u8(..2) {
            0 => vec![Step::Vacuum { connection: 0 }, usual],
            _ => vec![usual, Step::Thin { connection: 0, seed }],
        },
        Workload::Schema => vec![Step::Schema { connection: 0, seed }, usual],
        Workload::Attach => vec![usual],
        Workload::Checkpoints => {
            let kind = Checkpoint::ALL[(number + seed as usize) % 4];
            let checkpoint = |kind| Step::Checkpoint { connection: 0, kind };
            if number % 3 != 1 {
                return vec![usual, checkpoint(kind)];
            }
            let more = Step::Commit { connection: 0, amount, seed: rng.u64(..) };
            vec![
                usual,
                Step::Snapshot { connection: 1, held: true },
                more,
                checkpoint(Checkpoint::Passive),
                Step::Snapshot { connection: 1, held: false },
                checkpoint(kind),
            ]
        }
        Workload::Synchronous => {
            let level = Synchronous::ALL[rng.usize(..3)];
            vec![Step::Synchronous { connection: 0, level }, usual]
        }
        Workload::Mixed if number == 0 => {
            vec![Step::Synchronous { connection: 1, level: Synchronous::Normal }, commit(1, amount)]
        }
        Workload::Mixed => vec![commit(rng.usize(..2), amount)],
        Workload::Reopen => match rng.u8(..3) {
            0 => vec![usual, Step::Close { connection: 0 }],
            1 => vec![commit(1, amount), Step::Close { connection: rng.usize(..2) }],
            _ => vec![usual],
        },
    }
}

/// The changes of one transaction.
pub fn changes(amount: Amount, seed: u64) -> Vec<Change> {
    let mut rng = Rng::with_seed(seed);
    let (count, bytes) = match amount {
        Amount::Small => (rng.usize(1..3), 20..300),
        Amount::Several => (rng.usize(3..7), 20..900),
        Amount::Large => (rng.usize(20..30), 900..2500),
    };
    (0..count)
        .map(|_| {
            let k = rng.i64(0..40);
            if rng.u8(..6) == 0 {
                return Change::Delete { k };
            }
            let mut v = vec![0; rng.usize(bytes.clone())];
            rng.fill(&mut v);
            Change::Put { k, a: rng.i64(0..9), v }
        })
        .collect()
}

pub fn thinning(seed: u64) -> Vec<Change> {
    (0..40).filter(|k| (seed >> k) & 3 != 0).map(|k| Change::Delete { k }).collect()
}

pub fn schema_changes(seed: u64) -> Vec<Change> {
    let mut changes = changes(Amount::Small, seed);
    let n = (seed >> 8 & 1) as u8;
    changes.push(if seed & 1 == 0 { Change::ToggleTable { n } } else { Change::ToggleIndex { n } });
    changes
}
