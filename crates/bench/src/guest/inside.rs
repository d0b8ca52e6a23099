//! In the guest: the hidden subcommand `__guest` reads the runs as one line of JSON and writes what
//! they found.

use std::fs;
use std::io;
use std::path::Path;

use super::{Found, GuestError, Spec};
use crate::commits;
use crate::report::Report;
use oneflush_measure::run::busy::Busy;
use oneflush_measure::run::{self, PlaceChoice, Plan, Progress, Rounds, Workers};

/// Databases are made in `place`, whose disk carries nothing else; `out` gets what was found.
pub fn serve(place: &Path, out: &Path) -> Result<(), GuestError> {
    let file = |source| GuestError::File { path: out.to_owned(), source };
    let specs: Vec<Spec> = serde_json::from_reader(io::stdin().lock())?;
    let found = specs.into_iter().map(|spec| one(place, spec)).collect::<Result<Vec<_>, _>>()?;
    fs::write(out, serde_json::to_vec(&found)?).map_err(file)
}

fn one(place: &Path, spec: Spec) -> Result<Found, GuestError> {
    let failed = |source| GuestError::File { path: std::env::temp_dir(), source };
    let folder = tempfile::tempdir().map_err(failed)?;
    let recording = folder.path().join("commits.zst");
    let program = std::env::current_exe().map_err(failed)?;
    let recorded = spec.recorded;
    let mut plan = spec.plan(place, &program);
    plan.keep_trace = recorded.then(|| recording.clone());
    let results = run::run(&plan, &mut Silent)?;
    let commits = match plan.transactions {
        Some(count) if recorded => {
            commits::read(&recording, &format!("/{}", plan.workload.databases(0)[0]), count)?
        }
        _ => None,
    };
    Ok(Found { report: Report::new(&plan, results), commits })
}

impl Spec {
    fn plan(self, place: &Path, program: &Path) -> Plan {
        let program = || program.to_owned();
        Plan {
            place: PlaceChoice::Alone(place.to_owned()),
            modes: self.modes,
            workload: self.workload,
            transactions: self.transactions,
            rounds: Rounds { max: self.rounds, within: None },
            connections: self.connections,
            workers: match self.processes {
                true => Workers::Processes { program: program() },
                false => Workers::Threads,
            },
            rate: self.rate,
            busy: (self.busy_loops > 0)
                .then(|| Busy { loops: self.busy_loops, program: program() }),
            in_turns: self.in_turns,
            floor_writes: self.floor_writes,
            keep_trace: None,
            program: program(),
        }
    }
}

/// Nobody sees a guest's terminal.
struct Silent;

impl Progress for Silent {
    fn slice(&mut self, _number: u32, _count: u32, _round: u32, _mode: &dyn std::fmt::Display) {}
    fn round_done(&mut self, _round: u32, _rounds: u32) {}
    fn part(&mut self, _number: u32, _count: u32, _what: &str) {}
    fn done(&mut self) {}
}
