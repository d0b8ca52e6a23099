//! A slice: one mode, once, on a fresh database.
//!
//! ```text
//! set up ─ workers open ─ syncfs ─▶ observe ─ go … transactions … join ─ syncfs ─▶ stop ─ verify ─ remove
//!                                   └────── bytes, writes, flushes; processor time ─────┘
//!                                             └─ transactions/s, latencies ─┘
//! ```
//!
//! The second `syncfs` is inside the counts, so that what the kernel would write back later is not
//! missing from them, and outside the time.
//!
//! A holder connection stays open on every database from the set-up to the end: the last close of a
//! WAL database checkpoints and deletes the WAL, and the workers' next open would not find the steady
//! state that the set-up made.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use rusqlite::Connection;

use super::database::{self, DatabaseError, Failure};
use super::error::At;
use super::latency::Latencies;
use super::process::WorkerProcess;
use super::vfs::Io;
use super::worker::{Arrival, Gate, WorkerResult, run_worker};
use super::{Plan, RunError, Workers};
use crate::mode::{Mode, Strategy};
use crate::observe::{Class, Counts, Observer, Source};
use crate::place::Place;
use crate::run::clock;
use crate::workload::{self, WorkerSpec, Workload, dump};

pub struct Slice<'a> {
    pub plan: &'a Plan,
    pub place: &'a Place,
    pub observer: Option<&'a mut Observer>,
    pub mode: Mode,
    pub round: u32,
}

/// What one slice measured.
#[derive(Debug)]
pub struct SliceResult {
    /// Committed transactions that changed something.
    pub transactions: u64,
    pub elapsed_ns: u64,
    pub latencies: Latencies,
    pub cpu_ns: u64,
    /// None where nobody could count: no device of our own, and SQLite without our VFS.
    pub counts: Option<Counts>,
    /// Failed statements of a replay, by message.
    pub failures: BTreeMap<String, u64>,
    /// Of the final contents; replays only.
    pub fingerprint: Option<u64>,
}

/// The connections that keep the databases as the set-up left them, each with its worker's index.
type Holders = Vec<Connection>;

impl Slice<'_> {
    pub fn measure(mut self) -> Result<SliceResult, RunError> {
        let place = self.place.describe();
        let at = At { mode: self.mode, round: self.round, place: &place, scratch: self.place.device().is_some() };
        let transactions = self.plan.workload.transactions(self.mode, self.plan.transactions);
        let (holders, mut failures) = self.set_up(transactions).map_err(|error| at.database(error))?;
        let specs: Vec<WorkerSpec> = (0..self.plan.connections)
            .map(|index| WorkerSpec {
                workload: self.plan.workload.clone(),
                mode: self.mode,
                directory: self.place.path().to_owned(),
                index,
                connections: self.plan.connections,
                transactions,
                rate: self.plan.rate,
            })
            .collect();

        let (workers, counts) = match &self.plan.workers {
            Workers::Threads => self.run_threads(&specs, &holders, &at)?,
            Workers::Processes { program } => self.run_processes(program.clone(), &specs, &at)?,
        };

        let fingerprint = match &self.plan.workload {
            Workload::Replay(_) => Some(dump::fingerprint(&holders[0]).map_err(|error| at.database(error.into()))?),
            workload => {
                for (index, holder) in holders.iter().enumerate() {
                    let of_holder = if workload.shares_database() { transactions } else { specs[index].share() };
                    workload.verify(holder, self.plan.connections, of_holder).map_err(|e| at.database(e))?;
                }
                None
            }
        };
        drop(holders);
        self.remove_files().map_err(|error| at.io(error))?;

        let mut latencies = Latencies::new();
        for worker in &workers.results {
            latencies.merge(&worker.latencies);
            for (message, count) in &worker.failures {
                *failures.entry(message.clone()).or_default() += count;
            }
        }
        let begin_ns = workers.results.iter().map(|worker| worker.begin_ns).min().unwrap_or_default();
        let end_ns = workers.results.iter().map(|worker| worker.end_ns).max().unwrap_or_default();
        Ok(SliceResult {
            transactions: latencies.count(),
            elapsed_ns: end_ns - begin_ns,
            latencies,
            cpu_ns: workers.cpu_ns,
            counts,
            failures,
            fingerprint,
        })
    }

    fn set_up(&self, transactions: u64) -> Result<(Holders, BTreeMap<String, u64>), DatabaseError> {
        let workload = &self.plan.workload;
        let connections = self.plan.connections;
        let mut failures = BTreeMap::new();
        let mut holders = Vec::new();
        for index in 0..if workload.shares_database() { 1 } else { connections } {
            // What is set up need not be durable before the syncfs that follows; all else is as in the mode.
            let holder = workload::open_databases(workload, self.place.path(), self.mode, index)?;
            let schemas = workload.schemas();
            for schema in &schemas {
                holder.execute_batch(&format!("PRAGMA {schema}.synchronous=OFF"))?;
            }
            let of_holder = if workload.shares_database() {
                transactions
            } else {
                workload::share(transactions, connections, index)
            };
            failures.extend(workload.set_up(&holder, connections, of_holder)?);
            database::prepare_wal(&holder, &schemas, self.mode)?;
            holders.push(holder);
        }
        Ok((holders, failures))
    }

    fn run_threads(
        &mut self,
        specs: &[WorkerSpec],
        holders: &[Connection],
        at: &At<'_>,
    ) -> Result<(Measured, Option<Counts>), RunError> {
        let gate = Gate::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                specs.iter().map(|spec| scope.spawn(|| run_worker(spec, &Arrival::new(&gate)))).collect();
            let ready = gate.wait_for(specs.len() as u32);
            let begun = if ready { self.begin(holders, at) } else { Ok(Before::default()) };
            gate.open(ready && begun.is_ok());
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            let results: Vec<Result<WorkerResult, Failure>> = threads.into_iter().map(join).collect();
            let before = begun?;
            let results = collect(results, at)?;
            self.end(before, results, holders, at)
        })
    }

    fn run_processes(
        &mut self,
        program: PathBuf,
        specs: &[WorkerSpec],
        at: &At<'_>,
    ) -> Result<(Measured, Option<Counts>), RunError> {
        let mut processes = Vec::new();
        for spec in specs {
            processes.push(WorkerProcess::spawn(&program, spec).map_err(|error| at.io(error))?);
        }
        let mut ready = true;
        for process in &mut processes {
            ready &= process.wait_ready().map_err(|error| at.io(error))?;
        }
        let before = if ready { self.begin(&[], at)? } else { Before::default() };
        if ready {
            for process in &mut processes {
                process.go().map_err(|error| at.io(error))?;
            }
        }
        let results: io::Result<Vec<_>> = processes.into_iter().map(WorkerProcess::result).collect();
        let results = collect(results.map_err(|error| at.io(error))?, at)?;
        self.end(before, results, &[], at)
    }

    fn begin(&mut self, holders: &[Connection], at: &At<'_>) -> Result<Before, RunError> {
        self.sync().map_err(|error| at.io(error))?;
        let io = self.io_of(holders).map_err(|error| at.database(error.into()))?;
        if let Some(observer) = &mut self.observer {
            observer.start()?;
        }
        Ok(Before { io, cpu_ns: clock::other_threads_cpu_ns() })
    }

    fn end(
        &mut self,
        before: Before,
        results: Vec<WorkerResult>,
        holders: &[Connection],
        at: &At<'_>,
    ) -> Result<(Measured, Option<Counts>), RunError> {
        let cpu_ns = match self.plan.workers {
            // Not this thread, which waited. What is left is the workers, what their strategies run in the background, and the
            // observer's reading thread, which wakes when a trace buffer fills: 0.1 µs a transaction, in all modes alike.
            Workers::Threads => clock::other_threads_cpu_ns().saturating_sub(before.cpu_ns),
            Workers::Processes { .. } => results.iter().map(|worker| worker.cpu_ns).sum(),
        };
        self.sync().map_err(|error| at.io(error))?;
        let files = self.classified_files();
        let seen_by_vfs = match (self.mode.strategy, &self.plan.workers) {
            (Strategy::Sqlite, _) => None,
            (_, Workers::Threads) => {
                let io = self.io_of(holders).map_err(|error| at.database(error.into()))?;
                Some(io.since(&before.io))
            }
            (_, Workers::Processes { .. }) => {
                let mut io = Io::default();
                results.iter().filter_map(|worker| worker.io.as_ref()).for_each(|more| io.add(more));
                Some(io)
            }
        };
        let counts = match &mut self.observer {
            Some(observer) => Some(observer.stop(&files)?).filter(|counts| counts.source != Source::Vfs),
            None => None,
        };
        Ok((Measured { results, cpu_ns }, counts.or(seen_by_vfs.map(Io::into_counts))))
    }

    /// What our VFS saw in this process so far.
    fn io_of(&self, holders: &[Connection]) -> Result<Io, rusqlite::Error> {
        let mut io = Io::default();
        if self.mode.strategy != Strategy::Sqlite {
            for holder in holders {
                io.add(&Io::of(holder, &self.plan.workload.schemas())?);
            }
        }
        Ok(io)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(self.place.path())?)?)
    }

    fn databases(&self) -> Vec<PathBuf> {
        let workload = &self.plan.workload;
        let workers = if workload.shares_database() { 1 } else { self.plan.connections };
        let names = (0..workers).flat_map(|index| workload.databases(index));
        names.map(|name| self.place.path().join(name)).collect()
    }

    fn classified_files(&self) -> Vec<(PathBuf, Class)> {
        let classes = [Class::Db, Class::Journal, Class::Journal, Class::Other];
        self.databases().iter().flat_map(|path| database::files_of(path).into_iter().zip(classes)).collect()
    }

    fn remove_files(&self) -> io::Result<()> {
        for file in self.databases().iter().flat_map(|path| database::files_of(path)) {
            match std::fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Before {
    io: Io,
    cpu_ns: u64,
}

struct Measured {
    results: Vec<WorkerResult>,
    cpu_ns: u64,
}

/// All results, or the failure that says most: a full disk in one worker makes the others fail for other reasons.
fn collect(results: Vec<Result<WorkerResult, Failure>>, at: &At<'_>) -> Result<Vec<WorkerResult>, RunError> {
    use super::database::FailureKind;
    let mut good = Vec::new();
    let mut failures = Vec::new();
    for result in results {
        match result {
            Ok(worker) => good.push(worker),
            Err(failure) => failures.push(failure),
        }
    }
    let rank = |failure: &Failure| match failure.kind {
        FailureKind::DiskFull => 0,
        FailureKind::Other => 1,
        FailureKind::Interrupted => 2,
    };
    match failures.into_iter().min_by_key(rank) {
        Some(failure) => Err(at.failure(failure)),
        None => Ok(good),
    }
}
