//! A whole run of the engine: cases of every workload until enough states were examined.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::explore::{Counts, Explorer, Seen};
use crate::mix::mix2;
use crate::mvbt::case::Case;
use crate::mvbt::examine::Engine;
use crate::mvbt::record::record;
use crate::mvbt::script::Script;
use crate::mvbt::workload::Workload;
use crate::run::{self, CASES_MIN, Progress, STATES_A_CASE_MAX, WorkloadReport};
use crate::vfs::locked;

pub struct Plan {
    pub workloads: Vec<Workload>,
    /// Crash states to examine, in equal parts for the workloads.
    pub states: u64,
    pub seed: u64,
    pub jobs: usize,
}

pub type Report = run::Report<Case>;

struct Shared<'a> {
    plan: &'a Plan,
    seen: Seen,
    next: AtomicU64,
    stop: AtomicBool,
    states: AtomicU64,
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
        stop: AtomicBool::new(false),
        states: AtomicU64::new(0),
        reports: Mutex::new(
            plan.workloads.iter().map(|workload| (workload.name(), Default::default())).collect(),
        ),
        violation: Mutex::default(),
        watch,
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| shared.explore_all());
        }
    });
    let violation = shared.violation.into_inner().unwrap_or_else(PoisonError::into_inner);
    Report {
        workloads: shared.reports.into_inner().unwrap_or_else(PoisonError::into_inner),
        elapsed: began.elapsed(),
        interrupted: shared.stop.into_inner() && violation.is_none(),
        violation: violation.map(Box::new),
    }
}

impl Shared<'_> {
    fn fail(&self, case: Case) {
        self.stop.store(true, Relaxed);
        locked(&self.violation).get_or_insert(case);
    }

    fn explore_all(&self) {
        let plan = self.plan;
        let quota = plan.states.div_ceil(plan.workloads.len().max(1) as u64);
        while !self.stop.load(Relaxed) {
            let number = self.next.fetch_add(1, Relaxed);
            let workload = plan.workloads[number as usize % plan.workloads.len()];
            let (done, all_done) = {
                let reports = locked(&self.reports);
                let states = |name| reports.get(name).map_or(0, |report| report.counts.states);
                let all = reports.values().all(|report| report.counts.states >= quota);
                (states(workload.name()) >= quota, all)
            };
            if all_done {
                return;
            }
            if !done {
                let enough = quota.div_ceil(CASES_MIN).min(STATES_A_CASE_MAX);
                self.explore(workload, mix2(plan.seed, number), enough);
            }
        }
    }

    fn explore(&self, workload: Workload, seed: u64, enough: u64) {
        let script = Script::draw(workload, seed);
        let recording = match record(&script) {
            Ok(recording) => recording,
            Err(message) => return self.fail(Case::of_run(message, &script)),
        };
        let told = AtomicU64::new(0);
        let go_on = |counts: &Counts| {
            let new = counts.states - told.swap(counts.states, Relaxed);
            let states = self.states.fetch_add(new, Relaxed) + new;
            let tells = counts.states.is_multiple_of(64);
            if tells && (self.watch)(Progress { states, fault_runs: 0 }).is_break() {
                self.stop.store(true, Relaxed);
            }
            !self.stop.load(Relaxed)
        };
        let engine = Engine::new(&script, &recording.beginning, &recording.log);
        match Explorer::new(&engine, seed, enough, &self.seen, &go_on).explore(&recording) {
            Ok(counts) => {
                let mut reports = locked(&self.reports);
                let report = reports.entry(workload.name()).or_default();
                report.cases += 1;
                report.counts.add(&counts);
            }
            Err(violation) => self.fail(Case::of_violation(*violation, &recording, &script)),
        }
    }
}
