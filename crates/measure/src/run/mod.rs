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
mod plan;
pub mod process;
mod progress;
mod recording;
mod slice;
pub mod timeline;
mod turn;
pub mod turns;
pub mod vfs;
mod worker;

use std::time::Instant;

use busy::Loops;
pub use error::RunError;
pub use outcome::SliceResult;
pub use plan::{FLOOR_WRITES, PlaceChoice, Plan, Rounds, Workers};
pub use progress::Progress;
pub use recording::Kept;
use recording::Recording;
use slice::Slice;

use crate::environment::{self, Environment};
use crate::floor::{self, Floor};
use crate::interrupt;
use crate::mode::Mode;
use crate::observe::Observer;
use crate::place::Mounted;

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
    use std::time::Duration;

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
