//! What is run.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::busy::Busy;
use crate::mode::Mode;
use crate::place::{FsKind, Place, PlaceError, Storage, enter_private_namespace};
use crate::workload::Workload;

/// The usual number for [`Plan::floor_writes`]: a twentieth of a second on a device that flushes in
/// 0.2 ms.
pub const FLOOR_WRITES: u32 = 200;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub place: PlaceChoice,
    pub modes: Vec<Mode>,
    pub workload: Workload,
    /// Of all connections together, in each slice; none: what suits the workload.
    pub transactions: Option<u64>,
    pub rounds: Rounds,
    /// How many work at the same time; every mode runs with each of these numbers.
    pub connections: Vec<u32>,
    pub workers: Workers,
    pub rate: Option<f64>,
    /// What takes processor time beside the workers, from before the first floor on.
    pub busy: Option<Busy>,
    /// For reads, and for commits to one table: all modes of a round have their databases open at
    /// the same time and work in turns ([`turns`](super::turns)).
    pub in_turns: bool,
    /// Overwrites of one block before each slice, so that the floor is of the same minutes.
    pub floor_writes: u32,
    /// Keep a recording of all that reaches the place's device in this file. Root only.
    pub keep_trace: Option<PathBuf>,
    /// The program `oneflush`, which serves the mount of modes that are mounted.
    pub program: PathBuf,
}

/// How often every mode runs.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    pub max: u32,
    /// No round after the first begins if it would end later than this, judged by the rounds before
    /// it.
    pub within: Option<Duration>,
}

impl Rounds {
    pub(super) fn has_time_for_another(&self, done: u32, elapsed: Duration) -> bool {
        done < self.max && self.within.is_none_or(|within| elapsed + elapsed / done <= within)
    }
}

#[derive(Clone, Debug)]
pub enum PlaceChoice {
    Scratch {
        fs: FsKind,
        size_bytes: u64,
        storage: Storage,
    },
    Directory(PathBuf),
    /// Nothing else uses its disk.
    Alone(PathBuf),
    Temporary,
}

impl PlaceChoice {
    /// What nobody chose: a scratch ext4 for root, who can make one.
    pub fn for_this_user(size_bytes: u64) -> PlaceChoice {
        if is_root() {
            PlaceChoice::Scratch { fs: FsKind::Ext4, size_bytes, storage: Storage::File }
        } else {
            PlaceChoice::Temporary
        }
    }

    pub fn make(&self) -> Result<Place, PlaceError> {
        match self {
            PlaceChoice::Scratch { fs, size_bytes, storage } => {
                Place::scratch_on(storage, *fs, *size_bytes)
            }
            PlaceChoice::Directory(dir) => Place::directory(dir),
            PlaceChoice::Alone(dir) => Place::alone(dir),
            PlaceChoice::Temporary => Place::temporary(),
        }
    }

    /// To be called while the process has one thread. Later threads inherit the mount namespace
    /// that is made here.
    pub fn prepare(&self) -> Result<(), PlaceError> {
        match self {
            // Who is not root hears that from `Place::scratch`, with the way out.
            PlaceChoice::Scratch { .. } if is_root() => enter_private_namespace(),
            _ => Ok(()),
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What a connection is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workers {
    Threads,
    /// Each is a process of this program.
    Processes {
        #[serde(skip)]
        program: PathBuf,
    },
}
