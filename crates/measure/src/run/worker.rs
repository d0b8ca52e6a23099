//! A worker: one connection that runs its share of the transactions, as a thread or as a process.
//!
//! ```text
//! open, prepare ── arrive ──▶ (all are there: timing begins) ── go ──▶ transactions ──▶ result
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failure::{Failure, FailureKind};
use super::latency::Latencies;
use super::timeline::Timeline;
use super::vfs::{Seen, Snapshot};
use crate::clock;
use crate::database::DatabaseError;
use crate::interrupt;
use crate::mode::Strategy;
use crate::workload::{self, Step, Stream, WorkerSpec};

/// A sleep for the rate is cut into pieces, so that Ctrl-C is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerResult {
    /// `CLOCK_MONOTONIC`, comparable between the workers of a machine.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub latencies: Latencies,
    /// The same, one entry for each part of the run; empty where it has no parts.
    pub phases: Vec<Latencies>,
    pub timeline: Timeline,
    /// Of this worker's thread, or of its process where it has one.
    pub cpu_ns: u64,
    pub failures: BTreeMap<String, u64>,
    /// What the VFS of the worker's own process saw meanwhile. None for threads, and where SQLite
    /// works alone.
    pub seen: Option<Seen>,
}

/// Where workers wait for each other.
pub trait Start {
    /// Says that this worker is ready, or that it failed; true: begin, false: give up.
    fn arrive(&self, ready: bool) -> bool;

    /// Processor time that counts as this worker's.
    fn cpu_ns(&self) -> u64;

    /// True if this process is the worker's own. Otherwise its parent asks the VFS, outside the
    /// measured processor time.
    fn has_own_process(&self) -> bool;
}

pub fn run_worker(spec: &WorkerSpec, start: &dyn Start) -> Result<WorkerResult, Failure> {
    let opened = workload::open_stream(spec);
    let go = start.arrive(opened.is_ok());
    let mut stream = opened?;
    if !go {
        return Err(interrupted());
    }
    let rate_of_worker = spec.rate.map(|rate| rate / f64::from(spec.connections));
    let schemas = spec.workload.schemas();
    let vfs_now = |stream: &dyn Stream| match (spec.mode.strategy, stream.connection()) {
        (Strategy::Oneflush(_), Some(connection)) if start.has_own_process() => {
            Snapshot::of(connection, &schemas).map(Some).map_err(DatabaseError::from)
        }
        _ => Ok(None),
    };
    let vfs_before = vfs_now(&*stream)?;
    let mut latencies = Latencies::new();
    let mut timeline = Timeline::new();
    let phase_ends_ns: Vec<u64> =
        spec.workload.phase_ends().iter().map(|end| end.as_nanos() as u64).collect();
    let mut phases = vec![Latencies::new(); phase_ends_ns.len()];
    let cpu_before_ns = start.cpu_ns();
    let begin_ns = clock::now_ns();
    let mut steps = 0u64;
    loop {
        if interrupt::requested() {
            return Err(interrupted());
        }
        if let Some(rate) = rate_of_worker {
            sleep_until(begin_ns + (steps as f64 / rate * 1e9) as u64)?;
        }
        match stream.step()? {
            Step::Done { latency_ns } => {
                let at_ns = clock::now_ns() - begin_ns;
                latencies.record(latency_ns);
                timeline.record(at_ns, latency_ns);
                // A commit belongs to the part in which it ended. The last ones end a little after
                // the last part.
                let at = phase_ends_ns.iter().take_while(|end_ns| **end_ns <= at_ns).count();
                if let Some(last) = phases.len().checked_sub(1) {
                    phases[at.min(last)].record(latency_ns);
                }
            }
            Step::NothingWritten => {}
            Step::Finished => break,
        }
        steps += 1;
    }
    stream.finish()?;
    let end_ns = clock::now_ns();
    let failures = stream.failures();
    let seen = vfs_now(&*stream)?.zip(vfs_before).map(|(after, before)| after.since(before));
    // What closing does (a strategy may write then) belongs to the worker as well.
    drop(stream);
    let cpu_ns = start.cpu_ns() - cpu_before_ns;
    Ok(WorkerResult { begin_ns, end_ns, latencies, phases, timeline, cpu_ns, failures, seen })
}

fn sleep_until(due_ns: u64) -> Result<(), Failure> {
    loop {
        let now_ns = clock::now_ns();
        if now_ns >= due_ns {
            return Ok(());
        }
        if interrupt::requested() {
            return Err(interrupted());
        }
        std::thread::sleep(Duration::from_nanos(due_ns - now_ns).min(SLEEP_MAX));
    }
}

fn interrupted() -> Failure {
    Failure { kind: FailureKind::Interrupted, message: "interrupted".to_owned() }
}

/// The meeting point of worker threads.
#[derive(Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    arrived: u32,
    failed: bool,
    go: Option<bool>,
}

impl Gate {
    /// Waits until `workers` have arrived; false if one of them failed.
    pub fn wait_for(&self, workers: u32) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| state.arrived < workers);
        !state.unwrap_or_else(PoisonError::into_inner).failed
    }

    /// Lets all who wait go on; only the first call decides.
    pub fn open(&self, go: bool) {
        self.lock().go.get_or_insert(go);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One worker's way to the gate. A worker that panics before it gets there counts as failed, and
/// nobody waits for it.
pub struct Arrival<'a> {
    gate: &'a Gate,
    arrived: Cell<bool>,
}

impl<'a> Arrival<'a> {
    pub fn new(gate: &'a Gate) -> Arrival<'a> {
        Arrival { gate, arrived: Cell::new(false) }
    }

    fn note(&self, ready: bool) -> MutexGuard<'a, GateState> {
        self.arrived.set(true);
        let mut state = self.gate.lock();
        state.arrived += 1;
        state.failed |= !ready;
        self.gate.changed.notify_all();
        state
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if !self.arrived.get() {
            drop(self.note(false));
        }
    }
}

impl Start for Arrival<'_> {
    fn arrive(&self, ready: bool) -> bool {
        let state = self.gate.changed.wait_while(self.note(ready), |state| state.go.is_none());
        state.unwrap_or_else(PoisonError::into_inner).go == Some(true)
    }

    fn cpu_ns(&self) -> u64 {
        clock::thread_cpu_ns()
    }

    fn has_own_process(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_panics_on_its_way_does_not_keep_the_others_waiting() {
        let gate = Gate::default();
        std::thread::scope(|scope| {
            let good = scope.spawn(|| Arrival::new(&gate).arrive(true));
            let bad = scope.spawn(|| {
                let _arrival = Arrival::new(&gate);
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            assert!(!gate.wait_for(2));
            gate.open(false);
            assert!(!good.join().unwrap());
            assert!(bad.join().is_err());
        });
    }
}
