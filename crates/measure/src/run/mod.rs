//! A run: every mode in every round, interleaved, so that a noisy minute hits all modes alike.
//!
//! ```text
//! round 1:  floor delete  floor wal  floor memory
//! round 2:  floor wal  floor memory  floor delete         (each on a fresh database)
//! ```
//!
//! Where several numbers of connections are asked for, every mode runs with each of them in every
//! round.
//!
//! The report quotes the median of the rounds for every figure, except for the maximum, which is
//! the longest commit of all rounds.

pub mod busy;
pub mod companion;
mod error;
mod failure;
pub mod latency;
mod outcome;
pub mod process;
mod recording;
mod slice;
pub mod timeline;
pub mod turns;
pub mod vfs;
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use busy::{Busy, Loops};
pub use error::RunError;
pub use outcome::SliceResult;
pub use recording::Kept;
use recording::Recording;
use serde::{Deserialize, Serialize};
use slice::Slice;

use crate::environment::{self, Environment};
use crate::floor::{self, Floor};
use crate::interrupt;
use crate::mode::Mode;
use crate::observe::Observer;
use crate::place::{FsKind, Mounted, Place, PlaceError, Storage, enter_private_namespace};
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
    /// the same time and work in turns ([`turns`]).
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
    fn has_time_for_another(&self, done: u32, elapsed: Duration) -> bool {
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

/// What a run tells while it runs.
pub trait Progress {
    /// Slice `number` of `count` begins; both from 1. `mode` is what is measured.
    fn slice(&mut self, number: u32, count: u32, round: u32, mode: &dyn fmt::Display);
    fn round_done(&mut self, round: u32, rounds: u32);
    /// Of several runs, number `number` of `count` begins; from 1.
    fn part(&mut self, number: u32, count: u32, what: &str);
    fn done(&mut self);
}

/// All slices of one mode with one number of connections.
#[derive(Debug)]
pub struct ModeResults {
    pub mode: Mode,
    pub connections: u32,
    pub rounds: Vec<SliceResult>,
}

/// What a run found.
#[derive(Debug)]
pub struct RunResults {
    pub environment: Environment,
    /// Of all rounds together.
    pub floor: Floor,
    /// One entry a mode and number of connections.
    pub modes: Vec<ModeResults>,
    /// Of all that reached the device, if it was to be kept.
    pub recording: Option<Kept>,
}

/// Measures a slice. A recording says where it begins and ends.
fn recorded(
    slice: Slice<'_>,
    mut recording: Option<&mut Recording>,
) -> Result<SliceResult, RunError> {
    let Slice { mode, connections, round, .. } = slice;
    let mut note = |what: &str| match &mut recording {
        Some(recording) => {
            recording.note(&format!("oneflush bench: {what} {mode} x{connections}, round {round}"))
        }
        None => Ok(()),
    };
    note("begin")?;
    let result = slice.measure()?;
    note("end")?;
    Ok(result)
}

pub fn run(plan: &Plan, progress: &mut dyn Progress) -> Result<RunResults, RunError> {
    let place = plan.place.make()?;
    let environment = environment::collect(&place);
    // Behind the place, so that it is dropped before.
    let is_mounted = plan.modes.iter().any(|mode| mode.is_mounted);
    let mounted = is_mounted.then(|| Mounted::begin(&plan.program, &place)).transpose()?;
    let mut observer = place.is_alone().then(|| Observer::new(&place)).transpose()?;
    let _loops = plan.busy.as_ref().map(Loops::begin).transpose().map_err(RunError::Busy)?;
    let mut recording =
        plan.keep_trace.as_ref().map(|path| Recording::start(path, &place)).transpose()?;

    let mut floor = Floor::default();
    let of_connections = |connections| {
        plan.modes.iter().map(move |mode| ModeResults {
            mode: mode.clone(),
            connections,
            rounds: Vec::new(),
        })
    };
    let mut results: Vec<ModeResults> =
        plan.connections.iter().copied().flat_map(of_connections).collect();
    let slices_count = results.len() as u32;
    let began = Instant::now();
    for round in 1.. {
        if plan.in_turns {
            let (of_round, slices) =
                turns::measure(plan, &place, mounted.as_ref(), round, progress)?;
            floor.merge(&of_round);
            results.iter_mut().zip(slices).for_each(|(of_mode, slice)| of_mode.rounds.push(slice));
        } else {
            for turn in 0..slices_count {
                if interrupt::requested() {
                    return Err(RunError::Interrupted);
                }
                let of_mode = &mut results[((turn + round - 1) % slices_count) as usize];
                let (mode, connections) = (&of_mode.mode, of_mode.connections);
                progress.slice(
                    (round - 1) * slices_count + turn + 1,
                    plan.rounds.max * slices_count,
                    round,
                    mode,
                );
                floor.merge(&floor::measure(place.path(), plan.floor_writes)?);
                let mounted = mounted.as_ref().filter(|_| mode.is_mounted);
                let slice = Slice {
                    plan,
                    place: &place,
                    mounted,
                    directory: mounted.map_or(place.path(), Mounted::path),
                    observer: observer.as_mut(),
                    mode,
                    connections,
                    round,
                };
                let measured = recorded(slice, recording.as_mut())?;
                of_mode.rounds.push(measured);
            }
        }
        progress.round_done(round, plan.rounds.max);
        if !plan.rounds.has_time_for_another(round, began.elapsed()) {
            break;
        }
    }
    progress.done();
    // Unmounts: neither must hold anything of the place any more.
    drop(observer);
    let recording = recording.map(Recording::finish).transpose()?;
    mounted.map(Mounted::close).transpose()?;
    place.close()?;
    Ok(RunResults { environment, floor, modes: results, recording })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_would_end_too_late_does_not_begin() {
        let rounds = Rounds { max: 5, within: Some(Duration::from_secs(60)) };
        assert!(rounds.has_time_for_another(2, Duration::from_secs(40)));
        assert!(!rounds.has_time_for_another(2, Duration::from_secs(41)));
        assert!(!rounds.has_time_for_another(1, Duration::from_secs(100)));
        assert!(!rounds.has_time_for_another(5, Duration::from_secs(1)));
        let unlimited = Rounds { max: 2, within: None };
        assert!(unlimited.has_time_for_another(1, Duration::from_secs(1000)));
    }
}
