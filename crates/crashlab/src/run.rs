//! A whole run: cases of every workload until enough states were examined, then the fault matrix,
//! on several threads.
//!
//! Every case follows from the seed, but for the interleaving of a workload's threads. A recording
//! has SQLite's random numbers for itself. What is examined of it depends on no other case. Several
//! jobs may begin a few more cases than one job.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::case::Case;
use crate::draw::drawn_setting;
use crate::drive::{Drive, Report, Watch};
use crate::examine::RANDOMNESS;
use crate::explore::{Counts, Explorer};
use crate::fault::Fault;
use crate::matrix::{cells, run_cell};
use crate::mix::{mix, mix2};
use crate::record::record;
use crate::script::Script;
use crate::setting::Setting;
use crate::vfs::seed_sqlite;
use crate::workload::Workload;

pub struct Plan {
    pub setting: Setting,
    pub workloads: Vec<Workload>,
    /// Crash states to examine, in equal parts for the workloads.
    pub states: u64,
    /// Runs of the fault matrix for each workload. They come from several histories: all cells of
    /// each, or this many by seed.
    pub fault_runs: u64,
    pub seed: u64,
    pub jobs: usize,
}

/// The runs with faults are of at least this many histories of each workload.
const FAULT_HISTORIES_MIN: u64 = 8;

struct Shared<'a> {
    plan: &'a Plan,
    drive: Drive<'a, Case>,
    next_matrix: AtomicUsize,
}

/// Runs the plan and shrinks what it found. `watch` is called now and then from the threads of the
/// run, and may end it.
pub fn run(plan: &Plan, watch: &Watch<'_>) -> Report {
    run_unshrunk(plan, watch).shrunk(Case::shrunk)
}

/// Like [`run`], without shrinking, where it is enough to know that something was found.
pub fn run_unshrunk(plan: &Plan, watch: &Watch<'_>) -> Report {
    let names = plan.workloads.iter().map(|workload| workload.name());
    let next_matrix = AtomicUsize::new(0);
    let shared = Shared { plan, drive: Drive::new(names, watch), next_matrix };
    shared.drive.with_jobs(plan.jobs, || {
        let explore = |workload, seed, enough| shared.explore(workload, seed, enough);
        shared.drive.each(&plan.workloads, Workload::name, plan.states, plan.seed, explore);
        shared.run_matrices();
    });
    shared.drive.end()
}

impl Shared<'_> {
    fn explore(&self, workload: Workload, seed: u64, enough: u64) {
        let setting = &drawn_setting(&self.plan.setting, workload, seed);
        let script = Script::draw_for(setting, workload, seed);
        let recorded = {
            let _alone = RANDOMNESS.write().unwrap_or_else(PoisonError::into_inner);
            seed_sqlite(seed);
            record(&script, setting)
        };
        let recording = match recorded {
            Ok(recording) => recording,
            Err(message) => return self.drive.fail(Case::of_run(message, setting, &script, None)),
        };
        // A case that was begun is finished, so that no part of its log is left out. So there may
        // be a few more states.
        let budget = self.drive.budget();
        let go_on = |counts: &Counts| budget.go_on(counts);
        let explorer = Explorer::new(setting, seed, enough, &self.drive.seen, &go_on);
        match explorer.explore(&recording) {
            Ok(counts) => self.drive.add_case(workload.name(), &counts),
            Err(violation) => {
                let case = Case::of_violation(*violation, &recording, setting, &script, None);
                self.drive.fail(case);
            }
        }
    }

    /// Each job takes the whole matrix of one workload after the other.
    fn run_matrices(&self) {
        while let Some(&workload) = self.plan.workloads.get(self.next_matrix.fetch_add(1, Relaxed))
        {
            if self.plan.fault_runs > 0 && !self.drive.is_stopped() {
                self.run_matrix(workload);
            }
        }
    }

    fn run_matrix(&self, workload: Workload) {
        if !self.plan.setting.stands_faults_in(workload) {
            return;
        }
        let quota = self.plan.fault_runs;
        let (mut done, mut history) = (0, 0);
        while done < quota && !self.drive.is_stopped() {
            let seed = mix2(mix2(self.plan.seed, workload as u64), history);
            let enough = quota.div_ceil(FAULT_HISTORIES_MIN).min(quota - done);
            match self.run_cells(workload, seed, enough) {
                Ok(0) => return,
                Ok(runs) => done += runs,
                Err(case) => return self.drive.fail(*case),
            }
            history += 1;
        }
    }

    /// Runs cells of the history of this seed: all, or `enough`. Answers how many.
    fn run_cells(&self, workload: Workload, seed: u64, enough: u64) -> Result<u64, Box<Case>> {
        let setting = &drawn_setting(&self.plan.setting, workload, seed);
        let script = Script::draw_for(setting, workload, seed);
        let failed = |message, cell| Box::new(Case::of_run(message, setting, &script, cell));
        let mut cells = cells(&script, setting).map_err(|message| failed(message, None))?;
        self.drive.report(workload.name(), |report| report.faults.cells += cells.len() as u64);
        fastrand::Rng::with_seed(seed).shuffle(&mut cells);
        // A history has far more reads and writes than syncs. So each kind of fault gets its turn.
        let mut runs_of = [0; Fault::ALL.len()];
        cells.sort_by_cached_key(|cell| {
            let runs = &mut runs_of[cell.plan.fault as usize];
            *runs += 1;
            *runs
        });
        cells.truncate(enough as usize);
        for cell in &cells {
            if self.drive.is_stopped() {
                break;
            }
            let go_on = |_: &Counts| true;
            let explorer = Explorer::new(setting, mix(cell.plan.seed), 1, &self.drive.seen, &go_on);
            let outcome = run_cell(&script, cell, &explorer)
                .map_err(|message| failed(message, Some(cell)))?;
            let counts = outcome.result.map_err(|violation| {
                Box::new(Case::of_violation(
                    *violation,
                    &outcome.recording,
                    setting,
                    &script,
                    Some(cell),
                ))
            })?;
            self.drive.report(workload.name(), |report| {
                report.faults.runs[cell.plan.fault as usize] += 1;
                report.faults.states += counts.states;
            });
            self.drive.add_fault_run();
        }
        Ok(cells.len() as u64)
    }
}
