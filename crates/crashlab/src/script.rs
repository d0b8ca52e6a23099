//! What is done to a database while the disk records: a short script, drawn by seed around the
//! subject of its workload.

use fastrand::Rng;
use oneflush_vfs::StrategyKind;
use serde::{Deserialize, Serialize};

use crate::changes::Amount;
use crate::setting::{SQLITE_ALONE, Synchronous};
use crate::workload::Workload;

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
        /// The new page size, where it changes.
        #[serde(default)]
        page_bytes: Option<u32>,
    },
    /// A commit during which its process dies, before the process's call number `at` to the disk.
    /// If the commit makes fewer, the process dies after it. The connection belongs to another
    /// process from then on.
    Killed {
        connection: usize,
        amount: Amount,
        seed: u64,
        at: u32,
    },
    Checkpoint {
        connection: usize,
        kind: Checkpoint,
    },
    /// Begins a transaction that reads and keeps its snapshot, or ends it. A checkpoint meanwhile
    /// copies only a part.
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
    /// Closes all connections. Those opened from then on have this strategy, or again that of the
    /// run.
    Switch {
        strategy: Option<String>,
    },
    /// So many threads with one connection each commit so many times each, all at once.
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
    const ALL: [Checkpoint; 4] =
        [Checkpoint::Passive, Checkpoint::Full, Checkpoint::Restart, Checkpoint::Truncate];

    pub fn name(self) -> &'static str {
        match self {
            Checkpoint::Passive => "PASSIVE",
            Checkpoint::Full => "FULL",
            Checkpoint::Restart => "RESTART",
            Checkpoint::Truncate => "TRUNCATE",
        }
    }
}

/// Steps on a disk that then loses power, at a moment and in a way drawn by seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Life {
    pub steps: Vec<Step>,
    pub crash_seed: u64,
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
    /// SQLite alone makes the database, with so many reserved bytes a page. `None`: the strategy
    /// makes it.
    #[serde(default)]
    pub made_by_sqlite: Option<u8>,
    /// Each row has so many bytes more.
    #[serde(default)]
    pub row_bytes_more: usize,
    /// `PRAGMA locking_mode=EXCLUSIVE`.
    #[serde(default)]
    pub is_exclusive: bool,
    /// `PRAGMA synchronous` of connections with the strategy of the run. `None`: the least that
    /// promises.
    #[serde(default)]
    pub level: Option<Synchronous>,
    /// Transactions before the recording begins.
    pub rows_before: u32,
    /// Earlier lives of the database. Each begins with what the crash of the one before has left,
    /// as the recording does.
    #[serde(default)]
    pub lives: Vec<Life>,
    pub steps: Vec<Step>,
}

impl Script {
    pub fn draw(workload: Workload, seed: u64) -> Script {
        let mut rng = Rng::with_seed(seed);
        let steps = match workload {
            Workload::Large => 3,
            Workload::Vacuum | Workload::Attach | Workload::Schema => 4,
            Workload::Growing | Workload::Full => 9,
            Workload::Huge => 3,
            Workload::Crashed | Workload::Deaths => 4,
            _ => 7,
        };
        let vacuum = workload == Workload::Vacuum;
        let page_bytes = [4096, 4096, 1024, 512][rng.usize(..4)];
        let frames = [0, 6, 16, 1000][rng.usize(..4)];
        let fills_a_log = workload.fills_a_log();
        Script {
            workload,
            seed,
            // Thousands of writes in flight take minutes and show nothing that hundreds do not.
            page_bytes: if fills_a_log { page_bytes.max(1024) } else { page_bytes },
            // A checkpoint would let the log begin anew before it is full.
            checkpoint_frames: if fills_a_log { 0 } else { frames },
            auto_vacuum: vacuum && rng.bool(),
            made_by_sqlite: None,
            row_bytes_more: 0,
            is_exclusive: false,
            level: None,
            rows_before: match workload {
                Workload::Fresh => 0,
                Workload::Crashed => rng.u32(0..3),
                _ => rng.u32(2..6),
            },
            lives: if workload == Workload::Crashed { lives(&mut rng) } else { Vec::new() },
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
        Workload::Writers | Workload::ProcessWriters if number == 0 => {
            vec![Step::Threads { threads: 3, commits: 4, seed }]
        }
        Workload::Writers | Workload::ProcessWriters => vec![],
        Workload::Large => vec![commit(0, Amount::Large), usual],
        Workload::Savepoints => match rng.u8(..3) {
            0 => vec![Step::RolledBack { connection: 0, amount, seed }, usual],
            1 => vec![Step::RolledBack { connection: 0, amount: Amount::Large, seed }, usual],
            _ => vec![Step::Savepoints { connection: 0, seed }],
        },
        Workload::Vacuum if number == 0 => {
            vec![commit(0, Amount::Large), Step::Thin { connection: 0, seed }]
        }
        Workload::Vacuum => match rng.u8(..2) {
            0 => vec![Step::Vacuum { connection: 0, page_bytes: None }, usual],
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
        Workload::Growing | Workload::Full if number < 7 => vec![commit(0, Amount::Bulk)],
        Workload::Growing | Workload::Full => {
            vec![checkpoint(0, rng), commit(0, Amount::Bulk), usual]
        }
        Workload::Huge if number == 1 => match rng.u8(..2) {
            0 => vec![checkpoint(0, rng), usual],
            _ => vec![Step::RolledBack { connection: 0, amount: Amount::Huge, seed }, usual],
        },
        Workload::Huge => vec![usual, commit(0, Amount::Huge)],
        Workload::Cycles => cycle(amount, rng),
        Workload::Processes => processes(amount, rng),
        Workload::Crashed => crashed(amount, rng),
        Workload::Deaths => deaths(amount, rng),
        Workload::Switched => switched(number, amount, rng),
    }
}

fn checkpoint(connection: usize, rng: &mut Rng) -> Step {
    Step::Checkpoint { connection, kind: Checkpoint::ALL[rng.usize(..4)] }
}

fn commit(connection: usize, amount: Amount, rng: &mut Rng) -> Step {
    Step::Commit { connection, amount, seed: rng.u64(..) }
}

/// Begins without a connection, and ends without one.
fn cycle(amount: Amount, rng: &mut Rng) -> Vec<Step> {
    let mut commit = |connection| commit(connection, amount, rng);
    let snapshot = |connection, held| Step::Snapshot { connection, held };
    let close = |connection| Step::Close { connection };
    let (first, second, third) = (commit(0), commit(1), commit(1));
    match rng.u8(..5) {
        0 => vec![first, close(0)],
        1 => vec![snapshot(0, true), snapshot(0, false), close(0)],
        2 => vec![first, checkpoint(0, rng), close(0)],
        3 => vec![first, second, close(0), third, close(1)],
        // The reader holds the checkpoint up, and is the last to leave.
        _ => vec![
            snapshot(1, true),
            first,
            Step::Checkpoint { connection: 0, kind: Checkpoint::Passive },
            close(0),
            snapshot(1, false),
            close(1),
        ],
    }
}

/// What one of three processes does beside the others.
fn processes(amount: Amount, rng: &mut Rng) -> Vec<Step> {
    let (one, other) = (rng.usize(..3), rng.usize(..3));
    let (first, second) = (commit(one, amount, rng), commit(other, amount, rng));
    match rng.u8(..6) {
        0 => vec![first, Step::Close { connection: other }],
        1 => vec![first, checkpoint(other, rng)],
        2 if one != other => vec![
            Step::Snapshot { connection: other, held: true },
            first,
            Step::Checkpoint { connection: one, kind: Checkpoint::Passive },
            Step::Snapshot { connection: other, held: false },
        ],
        _ => vec![first, second],
    }
}

fn lives(rng: &mut Rng) -> Vec<Life> {
    let life = |rng: &mut Rng| Life {
        steps: (0..rng.usize(1..5)).flat_map(|_| crashed(Amount::Small, rng)).collect(),
        crash_seed: rng.u64(..),
    };
    (0..rng.usize(1..4)).map(|_| life(rng)).collect()
}

fn crashed(amount: Amount, rng: &mut Rng) -> Vec<Step> {
    match rng.u8(..6) {
        0 => vec![commit(0, amount, rng), Step::Close { connection: 0 }],
        1 => vec![commit(0, Amount::Large, rng), checkpoint(0, rng)],
        2 => vec![
            Step::RolledBack { connection: 1, amount, seed: rng.u64(..) },
            commit(1, amount, rng),
        ],
        _ => processes(amount, rng),
    }
}

/// What three processes do, one of which dies.
fn deaths(amount: Amount, rng: &mut Rng) -> Vec<Step> {
    let before = commit(rng.usize(..3), amount, rng);
    let after = match rng.u8(..4) {
        0 => Step::Close { connection: rng.usize(..3) },
        1 => checkpoint(rng.usize(..3), rng),
        _ => commit(rng.usize(..3), amount, rng),
    };
    vec![before, killed(rng), after]
}

/// A killed process dies before one of its first calls to the disk.
const CALLS_MAX: u32 = 40;

pub fn killed(rng: &mut Rng) -> Step {
    let amount = if rng.u8(..4) == 0 { Amount::Large } else { Amount::Several };
    Step::Killed { connection: rng.usize(..3), amount, seed: rng.u64(..), at: rng.u32(..CALLS_MAX) }
}

/// Every second time it is the strategy of the run. So each of the others comes before and after
/// it.
fn switched(number: usize, amount: Amount, rng: &mut Rng) -> Vec<Step> {
    let others = [SQLITE_ALONE, StrategyKind::Stock.name(), StrategyKind::Plain.name()];
    let other = others[rng.usize(..others.len())].to_owned();
    let mut steps = vec![
        Step::Switch { strategy: (!number.is_multiple_of(2)).then_some(other) },
        commit(0, amount, rng),
    ];
    match rng.u8(..4) {
        0 => steps.push(checkpoint(0, rng)),
        1 => steps.extend([commit(1, amount, rng), Step::Close { connection: 0 }]),
        _ => steps.push(commit(0, amount, rng)),
    }
    steps
}
