//! A whole run of the engine: cases of every workload until enough states were examined.

use crate::drive::{self, Drive, Watch};
use crate::explore::{Counts, Explorer};
use crate::mvbt::case::Case;
use crate::mvbt::examine::Engine;
use crate::mvbt::record::record;
use crate::mvbt::script::Script;
use crate::mvbt::workload::Workload;

pub struct Plan {
    pub workloads: Vec<Workload>,
    /// Crash states to examine, in equal parts for the workloads.
    pub states: u64,
    pub seed: u64,
    pub jobs: usize,
}

pub type Report = drive::Report<Case>;

/// Runs the plan and shrinks what it found. `watch` is called now and then from the threads of the
/// run, and may end it.
pub fn run(plan: &Plan, watch: &Watch<'_>) -> Report {
    run_unshrunk(plan, watch).shrunk(Case::shrunk)
}

/// Like [`run`], without shrinking, where it is enough to know that something was found.
pub fn run_unshrunk(plan: &Plan, watch: &Watch<'_>) -> Report {
    let drive = Drive::new(plan.workloads.iter().map(|workload| workload.name()), watch);
    let explore = |workload, seed, enough| explore(&drive, workload, seed, enough);
    drive.with_jobs(plan.jobs, || {
        drive.each(&plan.workloads, Workload::name, plan.states, plan.seed, explore);
    });
    drive.end()
}

fn explore(drive: &Drive<'_, Case>, workload: Workload, seed: u64, enough: u64) {
    let script = Script::draw(workload, seed);
    let recording = match record(&script) {
        Ok(recording) => recording,
        Err(message) => return drive.fail(Case::of_run(message, &script)),
    };
    let budget = drive.budget();
    let go_on = |counts: &Counts| budget.go_on(counts);
    let engine = Engine::new(&script, &recording.beginning, &recording.log);
    match Explorer::new(&engine, seed, enough, &drive.seen, &go_on).explore(&recording) {
        Ok(counts) => drive.add_case(workload.name(), &counts),
        Err(violation) => drive.fail(Case::of_violation(*violation, &recording, &script)),
    }
}
