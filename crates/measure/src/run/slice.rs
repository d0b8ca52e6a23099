//! A slice: one mode, once, on a fresh database.
//!
//! ```text
//! set up ─ workers open ─ syncfs ─▶ observe ─ go … transactions … join ─ syncfs ─▶ stop ─ verify
//!                                   └────── bytes, writes, flushes; processor time ─────┘
//!                                             └─ transactions/s, latencies ─┘
//! ```
//!
//! Then the databases are removed. The second `syncfs` is inside the counts and outside the time.
//! So the counts do not miss what the kernel would write back later.
//!
//! A holder connection stays open on every database from the set-up to the end. Without it the last
//! close of a WAL database would checkpoint and delete the WAL. The workers' next open would not
//! find the steady state that the set-up made.
//!
//! Some slices measure what a new WAL costs: `wal-growing`, and a workload that opens and closes.
//! There the set-up is closed and its side files are removed. The observer begins before anybody
//! opens the database again. What a strategy writes ahead, at opening or at the first commit, is
//! then in the counts.
//!
//! In a mode that is mounted, what the daemon still has to do is done before each `syncfs`. Its
//! processor time counts as the workers'.
//!
//! A companion (one more connection that is not measured itself) begins and ends with the workers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use super::companion::{self, CompanionResult};
use super::error::At;
use super::latency::Latencies;
use super::outcome::{Outcomes, SliceResult, collect, lengths};
use super::process::WorkerProcess;
use super::timeline::Timeline;
use super::vfs::{Calls, RawStats, Seen, Snapshot};
use super::worker::{Arrival, Gate, WorkerResult, run_worker};
use super::{Plan, RunError, Workers};
use crate::clock;
use crate::database::{self, DatabaseError};
use crate::mode::{Journal, Mode, Strategy};
use crate::observe::{Class, Counts, Observer, Source};
use crate::place::{Mounted, Place};
use crate::workload::{self, FileError, Files, WorkerSpec, Workload, WorkloadError, dump};
use crate::written::Written;

pub struct Slice<'a> {
    pub plan: &'a Plan,
    pub place: &'a Place,
    /// Where `directory` is in it: then the mode is a mounted one.
    pub mounted: Option<&'a Mounted>,
    /// Where the databases are, or what files there are without SQLite.
    pub directory: &'a Path,
    pub observer: Option<&'a mut Observer>,
    pub mode: &'a Mode,
    pub connections: u32,
    pub round: u32,
}

/// The connections that keep the databases as the set-up left them, each with its worker's index.
pub(super) type Holders = Vec<Connection>;

impl Slice<'_> {
    pub fn measure(mut self) -> Result<SliceResult, RunError> {
        let place = self.place.describe();
        let at = self.at(&place);
        let workload = &self.plan.workload;
        let transactions =
            workload.transactions(self.mode, self.connections, self.plan.transactions);
        let (mut holders, mut failures) =
            self.set_up(transactions).map_err(|error| at.database(error))?;
        let mut begun = None;
        if self.begins_fresh() {
            drop(std::mem::take(&mut holders));
            self.remove_side_files().map_err(|error| at.io(error))?;
            begun = Some(self.begin(&holders, &at)?);
            if !workload.reopens() {
                holders = self.open_holders().map_err(|error| at.database(error))?;
            }
        }
        let specs: Vec<WorkerSpec> =
            (0..self.connections).map(|index| self.spec(index, transactions)).collect();
        let ran = self.run(&specs, &holders, begun, &at)?;

        let mut latencies = Latencies::new();
        let mut timeline = Timeline::new();
        let mut phases = vec![Latencies::new(); workload.phase_ends().len()];
        for worker in &ran.results {
            latencies.merge(&worker.latencies);
            timeline.merge(&worker.timeline);
            phases.iter_mut().zip(&worker.phases).for_each(|(all, of_worker)| all.merge(of_worker));
            for (message, count) in &worker.failures {
                *failures.entry(message.clone()).or_default() += count;
            }
        }
        let begin_ns = ran.results.iter().map(|worker| worker.begin_ns).min().unwrap_or_default();
        let end_ns = ran.results.iter().map(|worker| worker.end_ns).max().unwrap_or_default();
        let elapsed = Duration::from_nanos(end_ns - begin_ns);
        if workload.reopens() {
            holders = self.open_holders().map_err(|error| at.database(error))?;
        }
        let fingerprint =
            self.verify(&holders, &specs, latencies.count()).map_err(|error| at.database(error))?;
        drop(holders);
        self.remove_files().map_err(|error| at.io(error))?;
        Ok(SliceResult {
            transactions: latencies.count(),
            elapsed_ns: elapsed.as_nanos() as u64,
            phases: lengths(&workload.phase_ends(), elapsed).into_iter().zip(phases).collect(),
            latencies,
            timeline,
            companion: ran.companion,
            wal_bytes_at_end: ran.wal_bytes,
            vfs_stats: ran.vfs_stats,
            cpu_ns: ran.cpu_ns,
            counts: ran.counts,
            laid_out_bytes: ran.laid_out_bytes,
            calls: ran.calls,
            failures,
            fingerprint,
        })
    }

    pub(super) fn spec(&self, index: u32, transactions: u64) -> WorkerSpec {
        WorkerSpec {
            workload: self.plan.workload.clone(),
            mode: self.mode.clone(),
            directory: self.directory.to_owned(),
            index,
            connections: self.connections,
            transactions,
            rate: self.plan.rate,
        }
    }

    /// For errors; `place` describes it.
    pub(super) fn at<'p>(&self, place: &'p str) -> At<'p> {
        At {
            mode: self.mode.clone(),
            round: self.round,
            place,
            scratch: self.place.device().is_some(),
        }
    }

    pub(super) fn set_up(
        &self,
        transactions: u64,
    ) -> Result<(Holders, BTreeMap<String, u64>), WorkloadError> {
        let workload = &self.plan.workload;
        let mut failures = BTreeMap::new();
        for (files, path, share) in self.files(transactions) {
            files.set_up(&path, share)?;
            // Now, and not where the worker has read it: a sync of a mount takes pages that it
            // fetches out of the kernel's cache.
            self.sync().map_err(|reason| FileError { path, reason })?;
        }
        if let Workload::FileTrace(trace) = workload {
            let folder = self.databases(self.directory).swap_remove(0);
            trace.set_up(&folder)?;
            self.sync().map_err(|reason| FileError { path: folder, reason })?;
        }
        let holders = self.open_holders()?;
        for (index, holder) in holders.iter().enumerate() {
            let schemas = workload.schemas();
            for schema in &schemas {
                // The set-up need not be durable before the syncfs that follows. Everything else is
                // as in the mode.
                holder.execute_batch(&format!("PRAGMA {schema}.synchronous=OFF"))?;
            }
            let of_holder = if workload.shares_database() {
                transactions
            } else {
                workload::share(transactions, self.connections, index as u32)
            };
            failures.extend(workload.set_up(holder, self.connections, of_holder)?);
            database::prepare_wal(holder, &schemas, self.mode, self.begins_fresh())?;
            workload.fill_wal(holder)?;
        }
        Ok((holders, failures))
    }

    /// Whether no WAL is there when the measurement begins.
    fn begins_fresh(&self) -> bool {
        self.mode.journal == Journal::WalGrowing || self.plan.workload.reopens()
    }

    fn open_holders(&self) -> Result<Holders, DatabaseError> {
        let workload = &self.plan.workload;
        let count = match workload {
            workload if workload.is_without_sqlite() => 0,
            workload if workload.shares_database() => 1,
            _ => self.connections,
        };
        (0..count)
            .map(|index| workload::open_databases(workload, self.directory, self.mode, index))
            .collect()
    }

    /// Where SQLite takes no part: each worker's file, and how many units it does.
    fn files(&self, transactions: u64) -> Vec<(Files, PathBuf, u64)> {
        let Workload::Files(files) = self.plan.workload else { return Vec::new() };
        let share = |index: usize| workload::share(transactions, self.connections, index as u32);
        let paths = self.databases(self.directory).into_iter().enumerate();
        paths.map(|(index, path)| (files, path, share(index))).collect()
    }

    /// The fingerprint of the contents after a replay. Any other workload is checked to have left
    /// what it says, after `done` of its units in all.
    pub(super) fn verify(
        &self,
        holders: &[Connection],
        specs: &[WorkerSpec],
        done: u64,
    ) -> Result<Option<u64>, WorkloadError> {
        let workload = &self.plan.workload;
        if matches!(workload, Workload::Replay(_)) {
            return Ok(Some(dump::fingerprint(&holders[0])?));
        }
        for (files, path, share) in self.files(done) {
            files.verify(&path, share)?;
        }
        if let Workload::FileTrace(trace) = workload {
            trace.verify(&self.databases(self.directory).swap_remove(0))?;
        }
        for (index, holder) in holders.iter().enumerate() {
            let of_holder = if workload.shares_database() { done } else { specs[index].share() };
            workload.verify(holder, self.connections, of_holder)?;
        }
        Ok(None)
    }

    /// From the workers' opening to the end of the counting. `begun`: the counting has begun
    /// already.
    fn run(
        &mut self,
        specs: &[WorkerSpec],
        holders: &[Connection],
        begun: Option<Before>,
        at: &At<'_>,
    ) -> Result<Ran, RunError> {
        let (gate, stop) = (Gate::default(), AtomicBool::new(false));
        let plan = self.plan;
        let mode = self.mode;
        let path = self.databases(self.directory).swap_remove(0);
        let (outcome, companion) = thread::scope(|scope| {
            let task = plan.workload.companion();
            let companion = task.map(|task| {
                let (path, gate, stop) = (&path, &gate, &stop);
                scope.spawn(move || {
                    companion::run(task, path, mode, &Arrival::new(gate), stop, None)
                })
            });
            let others = u32::from(companion.is_some());
            let outcome = match &plan.workers {
                Workers::Threads => self.run_threads(specs, &gate, others, holders, begun, at),
                Workers::Processes { program } => {
                    self.run_processes(program, specs, &gate, others, begun, at)
                }
            };
            stop.store(true, Ordering::Relaxed);
            // Where the workers failed before they could begin, the companion still waits.
            gate.open(false);
            (outcome, companion.map(join))
        });
        let mut failures = Vec::new();
        let companion =
            companion.and_then(|result| result.map_err(|failure| failures.push(failure)).ok());
        let (before, results) = outcome?;
        let results = collect(results, failures, at)?;
        self.end(before, results, companion, holders, at)
    }

    fn run_threads(
        &mut self,
        specs: &[WorkerSpec],
        gate: &Gate,
        others: u32,
        holders: &[Connection],
        begun: Option<Before>,
        at: &At<'_>,
    ) -> Result<(Before, Outcomes), RunError> {
        thread::scope(|scope| {
            let threads: Vec<_> = specs
                .iter()
                .map(|spec| scope.spawn(|| run_worker(spec, &Arrival::new(gate))))
                .collect();
            let ready = gate.wait_for(specs.len() as u32 + others);
            let before =
                if ready { self.begin_now(begun, holders, at) } else { Ok(Before::default()) };
            gate.open(ready && before.is_ok());
            let results = threads.into_iter().map(join).collect();
            Ok((before?, results))
        })
    }

    fn run_processes(
        &mut self,
        program: &std::path::Path,
        specs: &[WorkerSpec],
        gate: &Gate,
        others: u32,
        begun: Option<Before>,
        at: &At<'_>,
    ) -> Result<(Before, Outcomes), RunError> {
        let mut processes = Vec::new();
        for spec in specs {
            processes.push(WorkerProcess::spawn(program, spec).map_err(|error| at.io(error))?);
        }
        let mut ready = true;
        for process in &mut processes {
            ready &= process.wait_ready().map_err(|error| at.io(error))?;
        }
        ready &= gate.wait_for(others);
        let mut before = Before::default();
        if ready {
            before = self.begin_now(begun, &[], at)?;
            for process in &mut processes {
                process.go().map_err(|error| at.io(error))?;
            }
            gate.open(true);
        }
        let results: io::Result<Outcomes> =
            processes.into_iter().map(WorkerProcess::result).collect();
        Ok((before, results.map_err(|error| at.io(error))?))
    }

    /// Called at the workers' begin. The processor time counts from here, even where all else
    /// counts already.
    fn begin_now(
        &mut self,
        begun: Option<Before>,
        holders: &[Connection],
        at: &At<'_>,
    ) -> Result<Before, RunError> {
        match begun {
            Some(before) => Ok(Before { cpu: self.cpu().map_err(|error| at.io(error))?, ..before }),
            None => self.begin(holders, at),
        }
    }

    fn begin(&mut self, holders: &[Connection], at: &At<'_>) -> Result<Before, RunError> {
        self.sync().map_err(|error| at.io(error))?;
        let vfs = self.vfs_of(holders).map_err(|error| at.database(error))?;
        if let Some(observer) = &mut self.observer {
            observer.start()?;
        }
        Ok(Before { vfs, cpu: self.cpu().map_err(|error| at.io(error))? })
    }

    fn cpu(&self) -> io::Result<Cpu> {
        Ok(Cpu {
            other_threads_ns: clock::other_threads_cpu_ns(),
            daemon_ns: self.daemon_cpu_ns()?,
        })
    }

    /// Of the daemon that serves the mode's mount, so far.
    pub(super) fn daemon_cpu_ns(&self) -> io::Result<u64> {
        self.mounted.map_or(Ok(0), Mounted::cpu_ns)
    }

    fn end(
        &mut self,
        before: Before,
        results: Vec<WorkerResult>,
        companion: Option<CompanionResult>,
        holders: &[Connection],
        at: &At<'_>,
    ) -> Result<Ran, RunError> {
        let companion_cpu_ns = companion.as_ref().map_or(0, |companion| companion.cpu_ns);
        let cpu = self.cpu().map_err(|error| at.io(error))?;
        let of_workers_ns = match self.plan.workers {
            // This thread, which waited, and the companion do not count. What is left is the
            // workers, the background work of their strategies, and the observer's reading thread.
            // That thread wakes when a trace buffer fills: 0.1 µs a transaction, in all modes
            // alike.
            Workers::Threads => {
                cpu.other_threads_ns.saturating_sub(before.cpu.other_threads_ns + companion_cpu_ns)
            }
            Workers::Processes { .. } => results.iter().map(|worker| worker.cpu_ns).sum(),
        };
        let cpu_ns = of_workers_ns + (cpu.daemon_ns - before.cpu.daemon_ns);
        self.sync().map_err(|error| at.io(error))?;
        let files = self.classified_files();
        let wal_bytes = self.mode.journal.is_wal().then(|| self.wal_bytes());
        let mut seen = Seen::default();
        match self.plan.workers {
            Workers::Threads => {
                let mut earlier = before.vfs.into_iter();
                for snapshot in self.vfs_of(holders).map_err(|error| at.database(error))? {
                    seen.add(snapshot.since(earlier.next().unwrap_or_default()));
                }
            }
            Workers::Processes { .. } => {
                results
                    .iter()
                    .filter_map(|worker| worker.seen.clone())
                    .for_each(|more| seen.add(more));
            }
        }
        let counts = match &mut self.observer {
            Some(observer) => {
                Some(observer.stop(&files)?).filter(|counts| counts.source != Source::Strategies)
            }
            None => None,
        };
        let calls = (!seen.stats.is_empty()).then_some(seen.calls);
        let written = seen.written();
        Ok(Ran {
            results,
            companion,
            cpu_ns,
            wal_bytes,
            counts: counts.or_else(|| written.map(Written::into_counts)),
            laid_out_bytes: written.map(|written| written.laid_out_bytes),
            calls,
            vfs_stats: seen.stats,
        })
    }

    /// What our VFS saw in this process so far, one entry a holder; none where SQLite works alone.
    pub(super) fn vfs_of(&self, holders: &[Connection]) -> Result<Vec<Snapshot>, rusqlite::Error> {
        if self.mode.strategy == Strategy::Sqlite {
            return Ok(Vec::new());
        }
        holders.iter().map(|holder| Snapshot::of(holder, &self.plan.workload.schemas())).collect()
    }

    pub(super) fn wal_bytes(&self) -> u64 {
        let wals =
            self.databases(self.directory).into_iter().flat_map(|path| database::wals_of(&path));
        // A WAL that nobody wrote yet, or whose last user is gone, may be missing.
        wals.filter_map(|wal| std::fs::metadata(wal).ok()).map(|metadata| metadata.len()).sum()
    }

    fn sync(&self) -> io::Result<()> {
        if let Some(mounted) = self.mounted {
            // So that the end of an epoch, and what it lets go, is inside the counts.
            mounted.sync()?;
        }
        Ok(rustix::fs::syncfs(File::open(self.place.path())?)?)
    }

    /// As they are named in this directory.
    pub(super) fn databases(&self, directory: &Path) -> Vec<PathBuf> {
        let workload = &self.plan.workload;
        let workers = if workload.shares_database() { 1 } else { self.connections };
        let names = (0..workers).flat_map(|index| workload.databases(index));
        names.map(|name| directory.join(name)).collect()
    }

    fn classified_files(&self) -> Vec<(PathBuf, Class)> {
        let classes = [Class::Db, Class::Journal, Class::Journal, Class::Other, Class::Journal];
        // The device's file system knows nothing of a mount.
        let mut files: Vec<_> = self
            .databases(self.mounted.map_or(self.directory, Mounted::lower))
            .iter()
            .flat_map(|path| database::files_of(path).into_iter().zip(classes))
            .collect();
        if let Workload::FileTrace(trace) = &self.plan.workload
            && let Some(folder) = files.first().map(|(folder, _)| folder.clone())
        {
            // The recording was read before.
            let replayed = trace.files(&folder).unwrap_or_default();
            files.extend(replayed.into_iter().map(|file| (file, Class::Db)));
        }
        files.extend(self.mounted.map(|mounted| (mounted.log().to_owned(), Class::Journal)));
        files
    }

    pub(super) fn remove_files(&self) -> io::Result<()> {
        if matches!(self.plan.workload, Workload::FileTrace(_)) {
            return std::fs::remove_dir_all(self.databases(self.directory).swap_remove(0));
        }
        self.databases(self.directory)
            .iter()
            .flat_map(|path| database::files_of(path))
            .try_for_each(remove)
    }

    /// All that a clean close may have left beside the databases.
    fn remove_side_files(&self) -> io::Result<()> {
        self.databases(self.directory)
            .iter()
            .flat_map(|path| database::files_of(path).into_iter().skip(1))
            .try_for_each(remove)
    }
}

fn remove(file: PathBuf) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[derive(Default)]
struct Before {
    vfs: Vec<Snapshot>,
    cpu: Cpu,
}

/// Processor time so far.
#[derive(Default)]
struct Cpu {
    other_threads_ns: u64,
    daemon_ns: u64,
}

/// What the measured time left behind.
struct Ran {
    results: Vec<WorkerResult>,
    companion: Option<CompanionResult>,
    cpu_ns: u64,
    wal_bytes: Option<u64>,
    counts: Option<Counts>,
    laid_out_bytes: Option<u64>,
    calls: Option<Calls>,
    vfs_stats: Vec<RawStats>,
}

pub(super) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
