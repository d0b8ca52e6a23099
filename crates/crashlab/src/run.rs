//! A whole run: cases of every workload until enough states were examined, then the fault matrix,
//! on several threads.
//!
//! Every case follows from the seed, but for the interleaving of a workload's threads. A recording
//! has SQLite's random numbers for itself. What is examined of it depends on no other case. Several
//! jobs may begin a few more cases than one job.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::absorbed;
use crate::case::Case;
use crate::examine::RANDOMNESS;
use crate::explore::{Counts, Explorer, Seen};
use crate::fault::Fault;
use crate::matrix::{cells, run_cell};
use crate::mix::{mix, mix2};
use crate::record::record;
use crate::script::Script;
use crate::setting::{DURABILITY_FULL, Setting};
use crate::slots;
use crate::vfs::{locked, seed_sqlite};
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

#[derive(Clone, Debug, Default, Serialize)]
pub struct WorkloadReport {
    pub cases: u64,
    #[serde(flatten)]
    pub counts: Counts,
    pub faults: Faults,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Faults {
    /// Cells of the matrix, and how many of them were run, by kind of fault.
    pub cells: u64,
    pub runs: [u64; Fault::ALL.len()],
    /// Crash states after an error.
    pub states: u64,
}

/// `C`: a failing case.
pub struct Report<C = Case> {
    pub workloads: BTreeMap<&'static str, WorkloadReport>,
    pub elapsed: Duration,
    /// The watcher has ended the run before its time.
    pub interrupted: bool,
    /// The first violation; it ends the run.
    pub violation: Option<Box<C>>,
}

impl<C> Report<C> {
    pub fn total(&self) -> WorkloadReport {
        let mut total = WorkloadReport::default();
        for report in self.workloads.values() {
            total.cases += report.cases;
            total.counts.add(&report.counts);
            total.faults.cells += report.faults.cells;
            total.faults.states += report.faults.states;
            total
                .faults
                .runs
                .iter_mut()
                .zip(report.faults.runs)
                .for_each(|(sum, runs)| *sum += runs);
        }
        total
    }
}

/// No case may take more than this part of its workload's states, nor more than
/// [`STATES_A_CASE_MAX`]. What only some histories show needs many of them.
pub(crate) const CASES_MIN: u64 = 3;
pub(crate) const STATES_A_CASE_MAX: u64 = 5000;

/// The runs with faults are of at least this many histories of each workload.
const FAULT_HISTORIES_MIN: u64 = 8;

/// Where a run is, for its watcher.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub states: u64,
    pub fault_runs: u64,
}

struct Shared<'a> {
    plan: &'a Plan,
    seen: Seen,
    next: AtomicU64,
    next_matrix: AtomicUsize,
    stop: AtomicBool,
    states: AtomicU64,
    fault_runs: AtomicU64,
    reports: Mutex<BTreeMap<&'static str, WorkloadReport>>,
    violation: Mutex<Option<Case>>,
    watch: &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync),
}

/// Runs the plan and shrinks what it found. `watch` is called now and then from the threads of the
/// run, and may end it.
pub fn run(plan: &Plan, watch: &(dyn Fn(Progress) -> ControlFlow<()> + Sync)) -> Report {
    let report = run_unshrunk(plan, watch);
    Report { violation: report.violation.map(|case| Box::new(case.shrunk())), ..report }
}

/// Like [`run`], without shrinking, where it is enough to know that something was found.
pub fn run_unshrunk(plan: &Plan, watch: &(dyn Fn(Progress) -> ControlFlow<()> + Sync)) -> Report {
    let began = Instant::now();
    let shared = Shared {
        plan,
        seen: Seen::default(),
        next: AtomicU64::new(0),
        next_matrix: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        states: AtomicU64::new(0),
        fault_runs: AtomicU64::new(0),
        reports: Mutex::new(
            plan.workloads.iter().map(|workload| (workload.name(), Default::default())).collect(),
        ),
        violation: Mutex::default(),
        watch,
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| {
                shared.explore_all();
                shared.run_matrices();
            });
        }
    });
    let violation = shared.violation.into_inner().unwrap_or_else(PoisonError::into_inner);
    Report {
        workloads: shared.reports.into_inner().unwrap_or_else(PoisonError::into_inner),
        elapsed: began.elapsed(),
        // Nothing else ends a run early.
        interrupted: shared.stop.into_inner() && violation.is_none(),
        violation: violation.map(Box::new),
    }
}

/// The link of a case to its run between two states: it tells how far it is, and asks whether to go
/// on.
struct Budget<'a> {
    shared: &'a Shared<'a>,
    told: AtomicU64,
}

impl Budget<'_> {
    fn go_on(&self, counts: &Counts) -> bool {
        let new = counts.states - self.told.swap(counts.states, Relaxed);
        let states = self.shared.states.fetch_add(new, Relaxed) + new;
        if counts.states.is_multiple_of(64) {
            self.shared.tell(Progress { states, fault_runs: self.shared.fault_runs.load(Relaxed) });
        }
        !self.shared.stop.load(Relaxed)
    }
}

impl Shared<'_> {
    fn tell(&self, progress: Progress) {
        if (self.watch)(progress).is_break() {
            self.stop.store(true, Relaxed);
        }
    }

    fn fail(&self, case: Case) {
        self.stop.store(true, Relaxed);
        locked(&self.violation).get_or_insert(case);
    }

    fn report<T>(&self, workload: Workload, note: impl FnOnce(&mut WorkloadReport) -> T) -> T {
        note(locked(&self.reports).entry(workload.name()).or_default())
    }

    fn explore_all(&self) {
        let plan = self.plan;
        let quota = plan.states.div_ceil(plan.workloads.len().max(1) as u64);
        while !self.stop.load(Relaxed) {
            let number = self.next.fetch_add(1, Relaxed);
            let workload = plan.workloads[number as usize % plan.workloads.len()];
            let done = self.report(workload, |report| report.counts.states);
            if done < quota {
                self.explore(
                    workload,
                    mix2(plan.seed, number),
                    quota.div_ceil(CASES_MIN).min(STATES_A_CASE_MAX),
                );
            } else if self.all_have(quota) {
                return;
            }
        }
    }

    fn all_have(&self, quota: u64) -> bool {
        locked(&self.reports).values().all(|report| report.counts.states >= quota)
    }

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
            Err(message) => return self.fail(Case::of_run(message, setting, &script, None)),
        };
        // A case that was begun is finished, so that no part of its log is left out. So there may
        // be a few more states.
        let budget = Budget { shared: self, told: AtomicU64::new(0) };
        let go_on = |counts: &Counts| budget.go_on(counts);
        let explorer = Explorer::new(setting, seed, enough, &self.seen, &go_on);
        match explorer.explore(&recording) {
            Ok(counts) => self.report(workload, |report| {
                report.cases += 1;
                report.counts.add(&counts);
            }),
            Err(violation) => {
                self.fail(Case::of_violation(*violation, &recording, setting, &script, None))
            }
        }
    }

    /// Each job takes the whole matrix of one workload after the other.
    fn run_matrices(&self) {
        while let Some(&workload) = self.plan.workloads.get(self.next_matrix.fetch_add(1, Relaxed))
        {
            if self.plan.fault_runs > 0 && !self.stop.load(Relaxed) {
                self.run_matrix(workload);
            }
        }
    }

    fn run_matrix(&self, workload: Workload) {
        let quota = self.plan.fault_runs;
        let (mut done, mut history) = (0, 0);
        while done < quota && !self.stop.load(Relaxed) {
            let seed = mix2(mix2(self.plan.seed, workload as u64), history);
            let enough = quota.div_ceil(FAULT_HISTORIES_MIN).min(quota - done);
            match self.run_cells(workload, seed, enough) {
                Ok(0) => return,
                Ok(runs) => done += runs,
                Err(case) => return self.fail(*case),
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
        self.report(workload, |report| report.faults.cells += cells.len() as u64);
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
            if self.stop.load(Relaxed) {
                break;
            }
            let go_on = |_: &Counts| true;
            let explorer = Explorer::new(setting, mix(cell.plan.seed), 1, &self.seen, &go_on);
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
            self.report(workload, |report| {
                report.faults.runs[cell.plan.fault as usize] += 1;
                report.faults.states += counts.states;
            });
            let fault_runs = self.fault_runs.fetch_add(1, Relaxed) + 1;
            self.tell(Progress { states: self.states.load(Relaxed), fault_runs });
        }
        Ok(cells.len() as u64)
    }
}

/// The setting of one history. Every second history differs in two ways. SQLite checkpoints by
/// itself, in its commits, where the strategy would do it in a thread. And where `synchronous` is
/// switched, every commit is to be durable whatever it says. Some strategies have options by seed.
pub fn drawn_setting(asked: &Setting, workload: Workload, seed: u64) -> Setting {
    let mut setting = absorbed::drawn(asked.with_uri(workload.uri()), seed);
    let ours = setting.is_ours();
    let chosen = |number: u32| ours && mix(seed) >> number & 1 != 0;
    if chosen(0) {
        setting = setting.with_uri("checkpoints=sqlite");
    }
    setting = slots::drawn(setting, seed);
    if chosen(1) && workload.switches_synchronous() && !setting.acknowledges_early() {
        setting = setting.with_uri(DURABILITY_FULL);
    }
    setting
}
