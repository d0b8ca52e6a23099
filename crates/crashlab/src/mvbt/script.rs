//! What is done to a database while the disk records: a short script, drawn by seed around the
//! subject of its workload.

use fastrand::Rng;
use oneflush_mvbt::Options;
use serde::{Deserialize, Serialize};

use crate::mvbt::clock;
use crate::mvbt::workload::Workload;

/// What a transaction is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One row at the end of a tree.
    Append,
    /// One row anywhere.
    Scatter,
    Update,
    /// Deletes a few rows.
    Thin,
    /// Deletes all rows of a tree, or half of them.
    Empty,
    Bulk,
    Long,
    Records,
    Trees,
    /// A tree goes, and nothing else is changed.
    Drop,
    Savepoints,
    Huge,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Commit {
        kind: Kind,
        seed: u64,
    },
    RolledBack {
        kind: Kind,
        seed: u64,
    },
    /// Rolled back after the first step of its commit.
    Unmade {
        kind: Kind,
        seed: u64,
    },
    /// The process dies before its write or flush behind so many. Another opens the file.
    Killed {
        kind: Kind,
        seed: u64,
        after: u32,
    },
    /// The code panics at its read, write or flush behind so many. The process goes on, and nobody
    /// writes any more until the file is opened anew.
    Panics {
        kind: Kind,
        seed: u64,
        after: u32,
    },
    /// A reader begins, and stays.
    Read,
    /// All readers look. The oldest goes.
    Look,
    /// Lost pages are used again.
    Reclaim,
    /// The free pages at the end are cut off.
    Shrink,
    Close,
    /// The process dies between two transactions.
    Die,
}

/// Steps on a disk that then loses power, at a moment and in a way drawn by seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    pub steps: Vec<Step>,
    pub crash_seed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    pub workload: Workload,
    pub seed: u64,
    pub page_bytes: usize,
    pub spill_bytes: usize,
    pub cache_bytes: usize,
    pub lazy_split: bool,
    pub reserved_cells: usize,
    pub metadata_embedding: bool,
    /// Before the recording begins.
    pub before: Vec<Step>,
    /// Each begins with what the crash of the one before has left, as the recording does.
    pub lives: Vec<Life>,
    pub steps: Vec<Step>,
    pub redistribution: bool,
    pub lazy_collection: bool,
    /// So many versions stay readable. 0: none is promised.
    pub retained: u64,
}

const NEVER: usize = 1 << 30;

impl Script {
    pub fn draw(workload: Workload, seed: u64) -> Script {
        let mut rng = Rng::with_seed(seed);
        let rng = &mut rng;
        let page_bytes = match workload {
            Workload::Huge | Workload::Scrubbed => 512,
            _ => [512, 512, 512, 1024, 4096][rng.usize(..5)],
        };
        let spill_bytes = match workload {
            Workload::Early => [0, 0, 2000][rng.usize(..3)],
            Workload::Savepoints
            | Workload::Mixed
            | Workload::Crashed
            | Workload::Killed
            | Workload::Panics
            | Workload::Prepared
            | Workload::History
            | Workload::Scrubbed => [0, 3000, NEVER][rng.usize(..3)],
            Workload::Huge => [NEVER, NEVER, 40_000][rng.usize(..3)],
            _ => NEVER,
        };
        let count = match workload {
            Workload::Huge => 2,
            Workload::Splits | Workload::Early | Workload::Crashed | Workload::Scrubbed => 4,
            Workload::Trees | Workload::Savepoints | Workload::Long | Workload::Shrunk => 5,
            _ => 8,
        };
        Script {
            workload,
            seed,
            page_bytes,
            spill_bytes,
            cache_bytes: [0, 1 << 20][rng.usize(..2)],
            lazy_split: rng.u8(..4) > 0,
            reserved_cells: rng.usize(..3),
            metadata_embedding: rng.u8(..8) > 0,
            before: before(workload, rng),
            lives: match workload {
                Workload::Crashed => (0..rng.usize(1..4)).map(|_| life(rng)).collect(),
                Workload::History => (0..rng.usize(..3)).map(|_| life(rng)).collect(),
                _ => Vec::new(),
            },
            steps: (0..count).flat_map(|number| steps(workload, number, rng)).collect(),
            redistribution: rng.u8(..4) == 0,
            lazy_collection: rng.u8(..4) > 0,
            retained: match workload {
                Workload::History => [2, 5, 100][rng.usize(..3)],
                Workload::Shrunk => [0, 0, 3][rng.usize(..3)],
                _ => 0,
            },
        }
    }

    pub fn options(&self) -> Options {
        let mut options = Options::default();
        options.page_bytes = self.page_bytes;
        options.spill_bytes = self.spill_bytes;
        options.cache_bytes = self.cache_bytes;
        options.lazy_split = self.lazy_split;
        options.reserved_cells = self.reserved_cells;
        options.metadata_embedding = self.metadata_embedding;
        options.redistribution = self.redistribution;
        options.lazy_collection = self.lazy_collection;
        options.clock = clock::now;
        options
    }

    /// A transaction that has written and was rolled back has taken what an old reader needs.
    pub fn may_lose_snapshots(&self) -> bool {
        let is_unmade = |step: &Step| matches!(step, Step::Unmade { .. });
        let lives = self.lives.iter().map(|life| &life.steps);
        let mut all = [&self.before, &self.steps].into_iter().chain(lives).flatten();
        self.spill_bytes < NEVER || all.any(is_unmade)
    }
}

fn commit(kind: Kind, rng: &mut Rng) -> Step {
    Step::Commit { kind, seed: rng.u64(..) }
}

fn unmade(rng: &mut Rng) -> Step {
    Step::Unmade { kind: any(rng), seed: rng.u64(..) }
}

fn rolled_back(kind: Kind, rng: &mut Rng) -> Step {
    Step::RolledBack { kind, seed: rng.u64(..) }
}

/// Each death makes an interval of versions void. With more than half as many as an anchor holds,
/// the next opening rids the pages of void directories.
const DEATHS_BEFORE: usize = 63;

fn killed(rng: &mut Rng) -> Step {
    Step::Killed { kind: any(rng), seed: rng.u64(..), after: rng.u32(..8) }
}

fn panics(rng: &mut Rng) -> Step {
    Step::Panics { kind: any(rng), seed: rng.u64(..), after: rng.u32(..40) }
}

fn any(rng: &mut Rng) -> Kind {
    KINDS[rng.usize(..KINDS.len())]
}

fn before(workload: Workload, rng: &mut Rng) -> Vec<Step> {
    if workload == Workload::Scrubbed {
        let life = |rng: &mut Rng| [commit(Kind::Bulk, rng), commit(Kind::Empty, rng), killed(rng)];
        return (0..DEATHS_BEFORE).flat_map(|_| life(rng)).collect();
    }
    let kinds: &[Kind] = match workload {
        Workload::Deletes | Workload::Splits | Workload::Shrunk => {
            &[Kind::Bulk, Kind::Bulk, Kind::Bulk]
        }
        Workload::Records => &[Kind::Records, Kind::Records, Kind::Records],
        Workload::Trees | Workload::Mixed => &[Kind::Trees, Kind::Bulk, Kind::Records],
        _ => &[Kind::Bulk, Kind::Long],
    };
    let kinds = &kinds[..rng.usize(..=kinds.len())];
    let mut steps: Vec<Step> = kinds.iter().map(|&kind| commit(kind, rng)).collect();
    match rng.u8(..3) {
        0 => steps.push(Step::Close),
        1 => steps.push(Step::Die),
        _ => {}
    }
    steps
}

fn life(rng: &mut Rng) -> Life {
    let count = rng.usize(2..6);
    let steps = (0..count).flat_map(|number| steps(Workload::Mixed, number, rng)).collect();
    Life { steps, crash_seed: rng.u64(..) }
}

const KINDS: [Kind; 11] = [
    Kind::Append,
    Kind::Scatter,
    Kind::Update,
    Kind::Thin,
    Kind::Empty,
    Kind::Bulk,
    Kind::Long,
    Kind::Records,
    Kind::Trees,
    Kind::Savepoints,
    Kind::Any,
];

fn steps(workload: Workload, number: usize, rng: &mut Rng) -> Vec<Step> {
    let of = |kinds: &[Kind], rng: &mut Rng| kinds[rng.usize(..kinds.len())];
    match workload {
        Workload::Inserts => vec![commit(of(&[Kind::Append, Kind::Scatter], rng), rng)],
        Workload::Updates => vec![commit(Kind::Update, rng)],
        Workload::Deletes => {
            vec![commit(of(&[Kind::Thin, Kind::Empty, Kind::Thin, Kind::Append], rng), rng)]
        }
        Workload::Splits => vec![commit(Kind::Bulk, rng)],
        Workload::Long => vec![commit(of(&[Kind::Long, Kind::Long, Kind::Update], rng), rng)],
        Workload::Records => vec![commit(Kind::Records, rng)],
        Workload::Trees => vec![commit(Kind::Trees, rng)],
        Workload::Savepoints => match rng.u8(..4) {
            0 => vec![rolled_back(Kind::Savepoints, rng), commit(Kind::Any, rng)],
            1 => vec![rolled_back(Kind::Bulk, rng), commit(Kind::Update, rng)],
            _ => vec![commit(Kind::Savepoints, rng)],
        },
        Workload::Early => match rng.u8(..4) {
            0 => vec![rolled_back(any(rng), rng), commit(Kind::Any, rng)],
            _ => vec![commit(any(rng), rng)],
        },
        Workload::Readers => {
            let step = [Step::Read, Step::Read, Step::Look][rng.usize(..3)];
            let kind = of(&[Kind::Update, Kind::Thin, Kind::Append, Kind::Any, Kind::Empty], rng);
            vec![step, commit(kind, rng)]
        }
        Workload::Huge if number == 0 => vec![commit(Kind::Huge, rng)],
        Workload::Huge => {
            let kind = of(&[Kind::Huge, Kind::Update, Kind::Empty], rng);
            vec![commit(kind, rng), commit(Kind::Append, rng)]
        }
        Workload::Reopen => {
            let step = [Step::Close, Step::Close, Step::Die, Step::Reclaim][rng.usize(..4)];
            vec![commit(any(rng), rng), step]
        }
        Workload::Scrubbed => vec![commit(Kind::Bulk, rng), killed(rng)],
        Workload::Shrunk => {
            let before = match rng.u8(..8) {
                0 => Step::Read,
                1 => Step::Look,
                2 => killed(rng),
                3 => Step::Die,
                4 => rolled_back(any(rng), rng),
                _ => commit(of(&[Kind::Bulk, Kind::Append, Kind::Any, Kind::Trees], rng), rng),
            };
            let kind = of(&[Kind::Drop, Kind::Empty, Kind::Thin, Kind::Trees], rng);
            vec![before, commit(kind, rng), Step::Shrink]
        }
        Workload::History => match rng.u8(..8) {
            0 => vec![commit(any(rng), rng), Step::Close],
            1 => vec![killed(rng)],
            2 => vec![Step::Reclaim, commit(any(rng), rng)],
            3 => vec![rolled_back(any(rng), rng)],
            4 => vec![unmade(rng), commit(any(rng), rng)],
            _ => vec![commit(of(&[Kind::Update, Kind::Thin, Kind::Any, Kind::Bulk], rng), rng)],
        },
        Workload::Killed => vec![killed(rng), commit(any(rng), rng)],
        Workload::Panics => match rng.u8(..3) {
            0 => vec![Step::Read, panics(rng)],
            _ => vec![panics(rng), commit(any(rng), rng)],
        },
        Workload::Crashed => vec![commit(any(rng), rng)],
        Workload::Prepared => match rng.u8(..3) {
            0 => vec![commit(any(rng), rng)],
            1 => vec![unmade(rng), commit(of(&[Kind::Update, Kind::Any], rng), rng)],
            _ => vec![Step::Read, unmade(rng), Step::Look],
        },
        Workload::Mixed => match rng.u8(..16) {
            0 => vec![Step::Read],
            1 => vec![Step::Look],
            2 => vec![Step::Close],
            3 => vec![Step::Die],
            4 => vec![rolled_back(any(rng), rng)],
            5 => vec![Step::Reclaim],
            6 => vec![killed(rng)],
            7 => vec![unmade(rng)],
            8 => vec![panics(rng)],
            _ => vec![commit(any(rng), rng)],
        },
    }
}
