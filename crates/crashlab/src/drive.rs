//! What a whole run is, whoever runs on the disk: cases of every workload until enough states were
//! examined, on several threads.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::case::Case;
use crate::explore::{Counts, Seen};
use crate::fault::Fault;
use crate::lock::locked;
use crate::mix::mix2;

/// No case may take more than this part of its workload's states, nor more than
/// [`STATES_A_CASE_MAX`]. What only some histories show needs many of them.
const CASES_MIN: u64 = 3;
const STATES_A_CASE_MAX: u64 = 5000;

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
    pub(crate) fn shrunk(self, shrink: impl FnOnce(C) -> C) -> Report<C> {
        Report { violation: self.violation.map(|case| Box::new(shrink(*case))), ..self }
    }

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

/// Where a run is, for its watcher.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub states: u64,
    pub fault_runs: u64,
}

/// Called now and then from the threads of a run. It may end the run.
pub type Watch<'a> = dyn Fn(Progress) -> ControlFlow<()> + Sync + 'a;

/// `C`: a failing case.
pub(crate) struct Drive<'a, C> {
    pub seen: Seen,
    began: Instant,
    next: AtomicU64,
    stop: AtomicBool,
    states: AtomicU64,
    fault_runs: AtomicU64,
    reports: Mutex<BTreeMap<&'static str, WorkloadReport>>,
    violation: Mutex<Option<C>>,
    watch: &'a Watch<'a>,
}

impl<'a, C: Send> Drive<'a, C> {
    pub fn new(workloads: impl Iterator<Item = &'static str>, watch: &'a Watch<'a>) -> Self {
        Drive {
            seen: Seen::default(),
            began: Instant::now(),
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            states: AtomicU64::new(0),
            fault_runs: AtomicU64::new(0),
            reports: Mutex::new(workloads.map(|name| (name, Default::default())).collect()),
            violation: Mutex::new(None),
            watch,
        }
    }

    pub fn with_jobs(&self, jobs: usize, job: impl Fn() + Sync) {
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(&job);
            }
        });
    }

    /// Has each workload explored until it has its part of the states. `explore` is called with a
    /// seed, and with the number of states that is enough of one case.
    pub fn each<W: Copy>(
        &self,
        workloads: &[W],
        name: impl Fn(W) -> &'static str,
        states: u64,
        seed: u64,
        explore: impl Fn(W, u64, u64),
    ) {
        let quota = states.div_ceil(workloads.len().max(1) as u64);
        while !self.is_stopped() {
            let number = self.next.fetch_add(1, Relaxed);
            let workload = workloads[number as usize % workloads.len()];
            let done = self.report(name(workload), |report| report.counts.states);
            if done < quota {
                let enough = quota.div_ceil(CASES_MIN).min(STATES_A_CASE_MAX);
                explore(workload, mix2(seed, number), enough);
            } else if self.all_have(quota) {
                return;
            }
        }
    }

    fn all_have(&self, quota: u64) -> bool {
        locked(&self.reports).values().all(|report| report.counts.states >= quota)
    }

    pub fn report<T>(
        &self,
        workload: &'static str,
        note: impl FnOnce(&mut WorkloadReport) -> T,
    ) -> T {
        note(locked(&self.reports).entry(workload).or_default())
    }

    pub fn add_case(&self, workload: &'static str, counts: &Counts) {
        self.report(workload, |report| {
            report.cases += 1;
            report.counts.add(counts);
        });
    }

    pub fn add_fault_run(&self) {
        let fault_runs = self.fault_runs.fetch_add(1, Relaxed) + 1;
        self.tell(Progress { states: self.states.load(Relaxed), fault_runs });
    }

    fn tell(&self, progress: Progress) {
        if (self.watch)(progress).is_break() {
            self.stop.store(true, Relaxed);
        }
    }

    pub fn fail(&self, case: C) {
        self.stop.store(true, Relaxed);
        locked(&self.violation).get_or_insert(case);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    pub fn budget(&self) -> Budget<'_, C> {
        Budget { drive: self, told: AtomicU64::new(0) }
    }

    pub fn end(self) -> Report<C> {
        let violation = self.violation.into_inner().unwrap_or_else(PoisonError::into_inner);
        Report {
            workloads: self.reports.into_inner().unwrap_or_else(PoisonError::into_inner),
            elapsed: self.began.elapsed(),
            // Nothing else ends a run early.
            interrupted: self.stop.into_inner() && violation.is_none(),
            violation: violation.map(Box::new),
        }
    }
}

/// The link of a case to its run between two states: it tells how far it is, and asks whether to go
/// on.
pub(crate) struct Budget<'a, C> {
    drive: &'a Drive<'a, C>,
    told: AtomicU64,
}

impl<C: Send> Budget<'_, C> {
    pub fn go_on(&self, counts: &Counts) -> bool {
        let new = counts.states - self.told.swap(counts.states, Relaxed);
        let states = self.drive.states.fetch_add(new, Relaxed) + new;
        if counts.states.is_multiple_of(64) {
            let fault_runs = self.drive.fault_runs.load(Relaxed);
            self.drive.tell(Progress { states, fault_runs });
        }
        !self.drive.is_stopped()
    }
}
