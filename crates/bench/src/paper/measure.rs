//! Runs a paper's experiments, one after the other, each as an ordinary run of the benchmark.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::guests::{self, Guests};
use super::inputs::{self, Inputs};
use super::pattern::PatternSheet;
use super::{At, Cell, Column, Experiment, Figure, How, On, Paper, Quantity, Sheet, Work, stores};
use crate::commits::{self, Commits, CommitsError};
use crate::environment::Environment;
use crate::guest::{GuestError, GuestFs};
use crate::interrupt;
use crate::kv::{self, KvError};
use crate::mode::{Mode, ModeError};
use crate::observe::{Class, Source};
use crate::place::{FlashKind, FsKind, PlaceError, Storage};
use crate::report::{Figures, FloorFigures, Report};
use crate::run::{self, FLOOR_WRITES, PlaceChoice, Plan, Progress, Rounds, RunError, Workers};
use crate::transactions::{self, Spread, Transactions, Writes};
use crate::workload::{Access, Mobibench, Reads, Workload};

/// Operations that the figures of volume are told for, as in the papers.
const THOUSAND: f64 = 1000.0;

pub struct PaperPlan {
    pub paper: &'static Paper,
    pub place: PlaceChoice,
    /// Of every experiment but the recorded ones, which need one.
    pub rounds: u32,
    /// In place of each experiment's number.
    pub operations: Option<u64>,
    /// Of the workers that are processes.
    pub program: PathBuf,
    /// Only the sheets whose source has this.
    pub only: Option<String>,
    /// For rows that need another kernel's file system.
    pub guests: Option<Guests>,
    /// Recordings of others.
    pub inputs: Option<Inputs>,
    /// Without experiments that take long.
    pub is_short: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    #[error("{what}: {source}")]
    Run { what: &'static str, source: RunError },
    #[error("{what}: {source}")]
    Stores { what: &'static str, source: KvError },
    #[error("{what}: the recording cannot be read: {source}")]
    Commits { what: &'static str, source: CommitsError },
    #[error("--inputs: {}: {source}", path.display())]
    Trace { path: PathBuf, source: CommitsError },
    #[error("a folder for recordings cannot be made: {0}; name another with TMPDIR")]
    Folder(std::io::Error),
    #[error(transparent)]
    Guest(#[from] GuestError),
}

/// What was found.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// None where nothing was run.
    pub environment: Option<Environment>,
    /// Of experiments that need another place.
    pub elsewhere: Vec<Environment>,
    /// Of the guests.
    pub guests: Vec<Environment>,
    pub experiments: Vec<MeasuredExperiment>,
    /// Experiments that ended with an error. Their modes are missing.
    pub failures: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct MeasuredExperiment {
    pub name: &'static str,
    pub workload: String,
    pub connections: u32,
    pub operations: u64,
    /// That an operation reads or writes, without SQLite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_operation: Option<f64>,
    /// None where nothing was run.
    pub floor: Option<FloorFigures>,
    pub modes: Vec<MeasuredMode>,
    /// Modes that were not measured, and why.
    pub missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
pub struct MeasuredMode {
    /// As the description names it.
    #[serde(skip)]
    pub word: &'static str,
    /// It ran in a guest with this file system, emulated: its times mean nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestFs>,
    /// In full.
    pub mode: String,
    pub median: Figures,
    pub rounds: Vec<Figures>,
    /// That a transaction of a store wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_per_transaction: Option<f64>,
    /// From a recording.
    pub commits: Option<Commits>,
    /// From the same, or from a trace of others, which has nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Transactions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<Writes>,
}

#[derive(Debug, Serialize)]
pub struct Missing {
    pub mode: &'static str,
    pub why: String,
}

/// A mode of an experiment that can run.
struct Runnable {
    word: &'static str,
    mode: Mode,
}

/// What of an experiment is to be run here.
enum Part {
    Modes(Vec<Runnable>),
    Stores(kv::Work, Vec<&'static str>),
    Traces(Vec<(&'static str, PathBuf)>),
}

impl Part {
    fn modes_count(&self) -> u32 {
        match self {
            Part::Modes(modes) => modes.len() as u32,
            Part::Stores(_, words) => words.len() as u32,
            Part::Traces(traces) => traces.len() as u32,
        }
    }
}

pub fn measure(plan: &PaperPlan, progress: &mut dyn Progress) -> Result<Measured, PaperError> {
    let parts: Vec<_> =
        plan.experiments().map(|experiment| (experiment, split(plan, experiment))).collect();
    let slices = |(experiment, (part, _)): &(&Experiment, (Part, _))| {
        part.modes_count() * if experiment.how == How::Recorded { 1 } else { plan.rounds }
    };
    let mut whole = Whole { inner: progress, done: 0, count: parts.iter().map(slices).sum() };
    let mut measured = Measured {
        environment: None,
        elsewhere: Vec::new(),
        guests: Vec::new(),
        experiments: Vec::new(),
        failures: Vec::new(),
    };
    let count = parts.len() as u32;
    for (at, part) in parts.into_iter().enumerate() {
        whole.inner.part(at as u32 + 1, count, part.0.what);
        let slices = slices(&part);
        let done = whole.done;
        let (experiment, (part, missing)) = part;
        let found = empty(plan, experiment, missing);
        let outcome = match part {
            Part::Modes(modes) => one(plan, experiment, modes, found, &mut whole),
            Part::Traces(traces) => {
                of_traces(&traces, found, &mut whole).map(|found| (None, found))
            }
            Part::Stores(work, words) => {
                stores::measure(plan, experiment, work, &words, found, &mut whole)
            }
        };
        let (environment, found) = match outcome {
            Ok(found) => found,
            Err(error) if error.is_interrupt() => return Err(error),
            // One that cannot run takes no other with it.
            Err(error) => {
                let why = error.to_string();
                let words = plan.paper.modes(experiment).into_iter();
                let words = words.filter(|word| guests::file_system(word).is_none());
                let missing = words.map(|mode| Missing { mode, why: why.clone() }).collect();
                measured.failures.push(why);
                (None, empty(plan, experiment, missing))
            }
        };
        if let Some(environment) = environment {
            measured.is_in(environment);
        }
        measured.experiments.push(found);
        whole.done = done + slices;
    }
    measured.guests = guests::measure(plan, &mut measured.experiments, whole.inner)?;
    whole.inner.done();
    Ok(measured)
}

const NO_DEVICE: &str = "it needs a device of its own: run it as root, without --dir";

impl PaperPlan {
    /// Or why it cannot.
    fn can_run(&self, experiment: &Experiment) -> Result<(), String> {
        if self.is_short && experiment.is_long {
            return Err("the short form is without it (--short)".to_owned());
        }
        experiment.workload(self.inputs.as_ref())?;
        self.place_of(experiment).map(|_| ())
    }

    /// Where an experiment runs, or why it cannot.
    pub(super) fn place_of(&self, experiment: &Experiment) -> Result<PlaceChoice, String> {
        match (experiment.on, &self.place) {
            (On::Asked, place) => Ok(place.clone()),
            (On::FastCommit, PlaceChoice::Scratch { size_bytes, storage, .. }) => {
                Ok(PlaceChoice::Scratch {
                    fs: FsKind::Ext4FastCommit,
                    size_bytes: *size_bytes,
                    storage: storage.clone(),
                })
            }
            (On::Emmc, PlaceChoice::Scratch { size_bytes, .. }) => {
                let kind = FlashKind::emmc();
                Ok(PlaceChoice::Scratch {
                    fs: FsKind::Ext4,
                    size_bytes: (*size_bytes).max(kind.bytes_least()),
                    storage: Storage::Flash { kind, program: self.program.clone() },
                })
            }
            (On::FastCommit | On::Emmc, _) => Err(NO_DEVICE.to_owned()),
        }
    }

    /// Those that the sheets need.
    pub(super) fn experiments(&self) -> impl Iterator<Item = &'static Experiment> {
        let columns: Vec<&Column> = self.sheets().flat_map(|sheet: &Sheet| sheet.columns).collect();
        self.paper.experiments.iter().filter(move |experiment| {
            let needs = |column: &&Column| {
                column.experiment == experiment.name || column.ratio_to == Some(experiment.name)
            };
            columns.iter().any(needs)
                || self.patterns().any(|sheet| sheet.experiment == experiment.name)
        })
    }

    pub fn sheets(&self) -> impl Iterator<Item = &'static Sheet> {
        self.paper.sheets.iter().filter(|sheet| self.is_asked_for(sheet.source))
    }

    pub fn patterns(&self) -> impl Iterator<Item = &'static PatternSheet> {
        self.paper.patterns.iter().filter(|sheet| self.is_asked_for(sheet.source))
    }

    fn is_asked_for(&self, source: &str) -> bool {
        self.only.as_ref().is_none_or(|only| source.to_lowercase().contains(only))
    }
}

/// The modes that this version has, and the others.
fn split(plan: &PaperPlan, experiment: &Experiment) -> (Part, Vec<Missing>) {
    let paper = plan.paper;
    if let Err(why) = plan.can_run(experiment) {
        let words = paper.modes(experiment);
        let missing = words.into_iter().map(|mode| Missing { mode, why: why.clone() });
        return (Part::Modes(Vec::new()), missing.collect());
    }
    if experiment.work == Work::Traces {
        let (mut traces, mut missing) = (Vec::new(), Vec::new());
        for mode in paper.modes(experiment) {
            match inputs::trace(plan.inputs.as_ref(), mode) {
                Ok(path) => traces.push((mode, path)),
                Err(why) => missing.push(Missing { mode, why }),
            }
        }
        return (Part::Traces(traces), missing);
    }
    if let Work::Stores(work) = experiment.work {
        let (words, missing) = stores::split(paper.modes(experiment));
        return (Part::Stores(work, words), missing);
    }
    let (mut modes, mut missing) = (Vec::new(), Vec::new());
    for word in paper.modes(experiment) {
        match guests::mode_of(word, experiment.fresh) {
            // Later, all of a file system in one guest.
            Ok(_) if guests::file_system(word).is_some() => {}
            Ok(mode) => modes.push(Runnable { word, mode }),
            Err(ModeError::UnknownWord { word: unknown, .. }) => {
                let why = format!("this version has no strategy {unknown}");
                missing.push(Missing { mode: word, why });
            }
            Err(ModeError::Parameters { reason, .. }) => {
                missing.push(Missing { mode: word, why: reason });
            }
            Err(error) => missing.push(Missing { mode: word, why: error.to_string() }),
        }
    }
    (Part::Modes(modes), missing)
}

/// Nothing of an experiment yet.
fn empty(plan: &PaperPlan, experiment: &Experiment, missing: Vec<Missing>) -> MeasuredExperiment {
    let workload = experiment.workload(plan.inputs.as_ref()).ok().flatten();
    MeasuredExperiment {
        name: experiment.name,
        workload: match experiment.work {
            Work::Stores(work) => work.describe(),
            Work::Traces => "traces of others".to_owned(),
            _ => workload.as_ref().map_or(String::new(), Workload::describe),
        },
        connections: experiment.connections,
        operations: plan.operations.unwrap_or(experiment.operations),
        bytes_per_operation: workload.as_ref().and_then(Workload::bytes_per_unit),
        floor: None,
        modes: Vec::new(),
        missing,
    }
}

fn one(
    plan: &PaperPlan,
    experiment: &'static Experiment,
    modes: Vec<Runnable>,
    mut found: MeasuredExperiment,
    progress: &mut Whole<'_>,
) -> Result<(Option<Environment>, MeasuredExperiment), PaperError> {
    let can_record = matches!(plan.place, PlaceChoice::Scratch { .. });
    if experiment.how == How::Recorded && !can_record {
        let why = "a recording needs a device of its own: run it as root, without --dir";
        let all = modes.iter().map(|one| Missing { mode: one.word, why: why.to_owned() });
        found.missing.extend(all);
        return Ok((None, found));
    }
    let groups: Vec<Vec<Runnable>> = match experiment.how {
        // A recording tells no modes apart, so each has its own.
        How::Recorded => modes.into_iter().map(|one| vec![one]).collect(),
        How::Rounds | How::Turns => vec![modes],
    };
    let mut environment = None;
    for mut group in groups.into_iter().filter(|group| !group.is_empty()) {
        let folder = tempfile::tempdir().map_err(PaperError::Folder)?;
        let recording = folder.path().join("commits.zst");
        let records = experiment.how == How::Recorded;
        let recording = recording.as_path();
        let of_group =
            |group: &[Runnable]| experiment.plan(plan, group, records.then_some(recording));
        let Some(mut plan) = of_group(&group) else { break };
        let failed = |source| PaperError::Run { what: experiment.what, source };
        let results = match run::run(&plan, progress) {
            // Who may not mount measures the others.
            Err(RunError::Place(error @ PlaceError::OneflushMount { .. })) => {
                let (mounted, others): (Vec<_>, Vec<_>) =
                    group.into_iter().partition(|one| one.mode.is_mounted);
                let why = error.to_string();
                let missing =
                    mounted.iter().map(|one| Missing { mode: one.word, why: why.clone() });
                found.missing.extend(missing);
                group = others;
                if group.is_empty() {
                    continue;
                }
                let Some(rest) = of_group(&group) else { break };
                plan = rest;
                run::run(&plan, progress)
            }
            other => other,
        }
        .map_err(failed)?;
        let report = Report::new(&plan, results);
        let failed = |source| PaperError::Commits { what: experiment.what, source };
        let (mut commits, mut transactions, mut writes) = (None, None, None);
        if records {
            let database = &plan.workload.databases(0)[0];
            let identified = transactions::identify(recording).map_err(failed)?;
            let of_worker = commits::of_worker(identified.transactions, &format!("/{database}"));
            commits = Commits::of(&of_worker, found.operations);
            transactions = Transactions::of(&of_worker);
            writes = Some(identified.writes);
        }
        for (one, mode) in group.into_iter().zip(report.modes) {
            found.modes.push(MeasuredMode {
                word: one.word,
                guest: None,
                mode: mode.mode.to_string(),
                median: mode.median,
                rounds: mode.rounds,
                pages_per_transaction: None,
                commits: commits.clone(),
                transactions: transactions.clone(),
                writes,
            });
        }
        found.floor = Some(report.floor);
        environment = Some(report.environment);
        progress.done += u32::from(records);
    }
    if experiment.how == How::Recorded {
        // They were counted one by one; the caller counts them all.
        progress.done -= found.modes.len() as u32;
    }
    Ok((environment, found))
}

/// What the transactions of traces have. Nothing is run for it.
fn of_traces(
    traces: &[(&'static str, PathBuf)],
    mut found: MeasuredExperiment,
    progress: &mut Whole<'_>,
) -> Result<MeasuredExperiment, PaperError> {
    for (at, (word, path)) in traces.iter().enumerate() {
        progress.slice(at as u32 + 1, 0, 1, word);
        let identified = transactions::identify(path)
            .map_err(|source| PaperError::Trace { path: path.clone(), source })?;
        found.modes.push(MeasuredMode {
            word,
            guest: None,
            mode: (*word).to_owned(),
            median: Figures::none(),
            rounds: Vec::new(),
            pages_per_transaction: None,
            commits: None,
            transactions: Transactions::of(&identified.transactions),
            writes: Some(identified.writes),
        });
    }
    Ok(found)
}

impl Experiment {
    /// None where the benchmark's workloads take no part. Or what is missing.
    pub(super) fn workload(&self, inputs: Option<&Inputs>) -> Result<Option<Workload>, String> {
        Ok(Some(match self.work {
            Work::Table(operation) => Workload::Table(operation),
            Work::ReadsInWal => {
                Workload::Reads(Reads { access: Access::PointInWal, beside_writer: None })
            }
            Work::Mobibench(operation) => {
                Workload::Mobibench(Mobibench { operation, ..Mobibench::of_databases(1) })
            }
            Work::MobibenchRandom => {
                Workload::Mobibench(Mobibench { random_insert: true, ..Mobibench::of_databases(1) })
            }
            Work::Attached(databases) => Workload::Mobibench(Mobibench::of_databases(databases)),
            Work::Files(files) => Workload::Files(files),
            Work::FileTrace(name) => Workload::FileTrace(inputs::file_trace(inputs, name)?),
            Work::Sql(name) => Workload::Replay(inputs::sql(inputs, name)?),
            Work::Stores(_) | Work::Traces => return Ok(None),
        }))
    }

    fn plan(&self, plan: &PaperPlan, modes: &[Runnable], recording: Option<&Path>) -> Option<Plan> {
        Some(Plan {
            place: plan.place_of(self).ok()?,
            modes: modes.iter().map(|one| one.mode.clone()).collect(),
            workload: self.workload(plan.inputs.as_ref()).ok()??,
            transactions: Some(plan.operations.unwrap_or(self.operations)),
            rounds: Rounds { max: if recording.is_some() { 1 } else { plan.rounds }, within: None },
            connections: vec![self.connections],
            workers: if self.processes {
                Workers::Processes { program: plan.program.clone() }
            } else {
                Workers::Threads
            },
            rate: None,
            busy: None,
            in_turns: self.how == How::Turns,
            floor_writes: FLOOR_WRITES,
            keep_trace: recording.map(Path::to_owned),
            program: plan.program.clone(),
        })
    }
}

impl PaperError {
    fn is_interrupt(&self) -> bool {
        interrupt::requested()
            || matches!(self, PaperError::Run { source: RunError::Interrupted, .. })
    }
}

impl Measured {
    /// Each place once, in the order of the experiments.
    fn is_in(&mut self, environment: Environment) {
        match &self.environment {
            None => self.environment = Some(environment),
            Some(first) if first.place == environment.place => {}
            Some(_) if self.elsewhere.iter().any(|one| one.place == environment.place) => {}
            Some(_) => self.elsewhere.push(environment),
        }
    }

    /// Of all places but the guests.
    pub fn environments(&self) -> Vec<&Environment> {
        self.environment.iter().chain(&self.elsewhere).collect()
    }

    /// The figure, or why it is missing.
    pub fn value(&self, cell: &Cell) -> Result<f64, String> {
        let Cell { experiment, mode: word, figure } = *cell;
        let found = self
            .experiments
            .iter()
            .find(|found| found.name == experiment)
            .ok_or_else(|| format!("experiment {experiment} was not run"))?;
        if let Some(missing) = found.missing.iter().find(|missing| missing.mode == word) {
            return Err(missing.why.clone());
        }
        let mode = found
            .modes
            .iter()
            .find(|mode| mode.word == word)
            .ok_or_else(|| format!("{word} was not run in experiment {experiment}"))?;
        mode.value(figure, found).ok_or_else(|| match figure {
            _ if mode.guest.is_some() && figure.is_time() => {
                "in a guest, emulated, times and rates mean nothing".to_owned()
            }
            Figure::CommitRequests
            | Figure::CommitKilobytes
            | Figure::OneRequestPercent
            | Figure::FsJournalPercent => {
                format!("the recording of {word} does not show all commits")
            }
            Figure::Pages => format!("{word} does not say what it writes"),
            Figure::ProgrammedKilobytes
            | Figure::WriteAmplification
            | Figure::Erases
            | Figure::LifeDays => "it is not on an emulated flash device".to_owned(),
            Figure::WriteCalls | Figure::SyncCalls | Figure::CallKilobytes => {
                format!("{word} has no VFS of ours that could count calls")
            }
            _ => "bytes and writes are counted at a device of our own: run it as root, without \
                --dir"
                .to_owned(),
        })
    }
}

impl Measured {
    /// The writes of most commits.
    pub fn pattern(&self, experiment: &str, word: &str) -> Option<&str> {
        let found = self.experiments.iter().find(|found| found.name == experiment)?;
        let mode = found.modes.iter().find(|mode| mode.word == word)?;
        mode.commits.as_ref()?.pattern.as_deref()
    }
}

impl MeasuredMode {
    /// None: it is another kind of figure.
    fn of_transactions(&self, figure: Figure) -> Option<Option<f64>> {
        let all = self.transactions.as_ref();
        Some(match figure {
            Figure::Each(quantity, at) => all.map(|all| quantity.of(all, at)),
            Figure::SharePercent(quantity) => {
                all.map(|all| quantity.spread(all).sum / all.bytes.sum * 100.0)
            }
            Figure::FoundPercent(mode) => all.map(|all| all.mode_percent(mode)),
            Figure::WithFsJournalPercent => all.map(|all| all.percent(all.with_fs_journal_count)),
            Figure::OneSegmentPercent => all.map(|all| all.percent(all.one_segment_count)),
            Figure::SyncWritePercent => self
                .writes
                .filter(|writes| writes.count > 0)
                .map(|writes| writes.sync_count as f64 / writes.count as f64 * 100.0),
            _ => return None,
        })
    }

    fn value(&self, figure: Figure, found: &MeasuredExperiment) -> Option<f64> {
        let floor = found.floor.as_ref();
        if self.guest.is_some() && figure.is_time() {
            return None;
        }
        if let Some(value) = self.of_transactions(figure) {
            return value;
        }
        // A trace has nothing else.
        if self.rounds.is_empty() {
            return None;
        }
        let median = &self.median;
        let counts = (median.counted_at != Some(Source::Vfs)).then_some(median);
        let bytes = counts.and_then(|median| median.bytes_per_transaction);
        let of_class = |class| {
            let split = &counts?.bytes_per_transaction_by_class;
            // A class that was never written is nothing; where there is no split, it is unknown.
            let known = (!split.is_empty()).then_some(0.0);
            split.get(&class).copied().or(known)
        };
        let fs_journal = || of_class(Class::FsJournal);
        let kilobytes = |bytes: f64| bytes / 1024.0;
        let latency = &median.latency_ns;
        let flash = median.flash.as_ref();
        let commits = self.commits.as_ref();
        match figure {
            Figure::PerSecond => Some(median.transactions_per_s),
            Figure::MegabytesPerSecond => {
                Some(median.transactions_per_s * found.bytes_per_operation? / 1e6)
            }
            Figure::Megabytes => bytes.map(|bytes| bytes * THOUSAND / 1e6),
            Figure::TotalMegabytes => Some(bytes? * median.transactions as f64 / 1e6),
            Figure::DataMegabytes => Some((bytes? - fs_journal()?) * THOUSAND / 1e6),
            Figure::Kilobytes => bytes.map(kilobytes),
            Figure::DataKilobytes => Some(kilobytes(bytes? - fs_journal()?)),
            Figure::FsJournalKilobytes => fs_journal().map(kilobytes),
            Figure::SqliteKilobytes => {
                Some(kilobytes(of_class(Class::Db)? + of_class(Class::Journal)?))
            }
            Figure::FsKilobytes => Some(kilobytes(fs_journal()? + of_class(Class::Other)?)),
            Figure::DbKilobytes => of_class(Class::Db).map(kilobytes),
            Figure::Writes => counts.and_then(|median| median.writes_per_transaction),
            Figure::Flushes => counts.and_then(|median| median.flushes_per_transaction),
            Figure::WriteCalls => median.calls_per_transaction.as_ref().map(|calls| calls.writes),
            Figure::SyncCalls => median.calls_per_transaction.as_ref().map(|calls| calls.syncs),
            Figure::CallKilobytes => {
                median.calls_per_transaction.as_ref().map(|calls| kilobytes(calls.bytes))
            }
            Figure::RequestSectors => median.request_sectors_mean,
            Figure::SequentialPercent => median.sequential_ratio.map(|ratio| ratio * 100.0),
            Figure::ProgrammedKilobytes => {
                flash.map(|flash| kilobytes(flash.programmed_bytes_per_transaction))
            }
            Figure::WriteAmplification => flash.map(|flash| flash.write_amplification),
            Figure::Erases => flash.map(|flash| flash.erases_per_1000_transactions),
            Figure::LifeDays => flash.map(|flash| flash.life_days),
            Figure::WalMegabytes => median.wal_bytes_at_end.map(|bytes| bytes as f64 / 1e6),
            Figure::CpuMicros => Some(median.cpu_us_per_transaction),
            Figure::Pages => self.pages_per_transaction,
            Figure::MeanMillis => Some(latency.mean as f64 / 1e6),
            Figure::MedianMillis => Some(latency.p50 as f64 / 1e6),
            Figure::MedianToFloor => {
                let floor = floor.filter(|floor| floor.p50_ns > 0)?;
                Some(latency.p50 as f64 / floor.p50_ns as f64)
            }
            Figure::FloorLongestMillis => {
                floor.filter(|floor| floor.writes > 0).map(|floor| floor.max_ns as f64 / 1e6)
            }
            Figure::TailMillis => Some(latency.p999 as f64 / 1e6),
            Figure::LongestMillis => Some(latency.max as f64 / 1e6),
            Figure::CommitRequests => commits.map(|commits| commits.requests_median),
            Figure::CommitKilobytes => commits.map(|commits| commits.bytes_median / 1024.0),
            Figure::OneRequestPercent => {
                commits.map(|commits| commits.percent(commits.one_request_count))
            }
            Figure::FsJournalPercent => {
                commits.map(|commits| commits.percent(commits.fs_journal_count))
            }
            Figure::Each(..)
            | Figure::SharePercent(_)
            | Figure::FoundPercent(_)
            | Figure::WithFsJournalPercent
            | Figure::OneSegmentPercent
            | Figure::SyncWritePercent => None,
        }
    }
}

impl Quantity {
    fn spread(self, all: &Transactions) -> &Spread {
        match self {
            Quantity::Bytes => &all.bytes,
            Quantity::DbBytes => &all.db_bytes,
            Quantity::JournalBytes => &all.journal_bytes,
            Quantity::FsJournalBytes => &all.fs_journal_bytes,
            Quantity::Latency => &all.latency_ns,
            Quantity::Requests => &all.requests,
            Quantity::Flushes => &all.flushes,
            Quantity::Syncs => &all.syncs,
            Quantity::Segments => &all.segments,
        }
    }

    /// In the unit of the figure.
    fn of(self, all: &Transactions, at: At) -> f64 {
        let spread = self.spread(all);
        let value = match at {
            At::Least => spread.least,
            At::Median => spread.median,
            At::Mean => spread.mean,
            At::P75 => spread.p75,
            At::P99 => spread.p99,
            At::P999 => spread.p999,
            At::Most => spread.most,
        };
        match self {
            Quantity::Bytes
            | Quantity::DbBytes
            | Quantity::JournalBytes
            | Quantity::FsJournalBytes => value / 1024.0,
            Quantity::Latency => value / 1e6,
            Quantity::Requests | Quantity::Flushes | Quantity::Syncs | Quantity::Segments => value,
        }
    }
}

/// The progress of all experiments as one.
pub(super) struct Whole<'a> {
    inner: &'a mut dyn Progress,
    /// Slices of the experiments before this one.
    done: u32,
    count: u32,
}

impl Progress for Whole<'_> {
    fn slice(&mut self, number: u32, _count: u32, round: u32, mode: &dyn fmt::Display) {
        self.inner.slice(self.done + number, self.count, round, mode);
    }

    fn round_done(&mut self, _round: u32, _rounds: u32) {}

    fn part(&mut self, _number: u32, _count: u32, _what: &str) {}

    /// More experiments may follow.
    fn done(&mut self) {}
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::sample;

    /// Experiments whose modes have a rate each, and nothing was counted.
    pub fn measured(rates: &[(&'static str, &'static str, f64)]) -> Measured {
        let mut experiments: Vec<MeasuredExperiment> = Vec::new();
        for (name, word, rate) in rates {
            if experiments.last().is_none_or(|last| last.name != *name) {
                experiments.push(MeasuredExperiment {
                    name,
                    workload: "insert".to_owned(),
                    connections: 1,
                    operations: 1000,
                    bytes_per_operation: None,
                    floor: None,
                    modes: Vec::new(),
                    missing: Vec::new(),
                });
            }
            let figures = sample::round(*rate, sample::latency(200_000, 300_000));
            experiments.last_mut().unwrap().modes.push(MeasuredMode {
                word,
                guest: guests::file_system(word),
                mode: (*word).to_owned(),
                median: figures.clone(),
                rounds: vec![figures],
                pages_per_transaction: None,
                commits: None,
                transactions: None,
                writes: None,
            });
        }
        Measured {
            environment: None,
            elsewhere: Vec::new(),
            guests: Vec::new(),
            experiments,
            failures: Vec::new(),
        }
    }

    fn of(figure: Figure) -> Cell {
        Cell { experiment: "x", mode: "wal:sqlite", figure }
    }

    #[test]
    fn what_nobody_counted_is_missing_and_says_the_way_out() {
        let found = measured(&[("x", "wal:sqlite", 100.0)]);
        assert_eq!(found.value(&of(Figure::PerSecond)), Ok(100.0));
        assert_eq!(found.value(&of(Figure::MedianMillis)), Ok(0.2));
        for figure in [Figure::Megabytes, Figure::DataMegabytes, Figure::Writes, Figure::Flushes] {
            assert!(found.value(&of(figure)).unwrap_err().contains("without --dir"));
        }
        assert!(found.value(&of(Figure::FsJournalPercent)).unwrap_err().contains("recording"));
        assert!(found.value(&of(Figure::MedianToFloor)).is_err());
    }

    #[test]
    fn of_a_guest_bytes_are_told_and_no_times() {
        let mut found = measured(&[("x", "f2fs wal:sqlite", 100.0)]);
        let figures = &mut found.experiments[0].modes[0].median;
        figures.counted_at = Some(Source::BlockDevice);
        figures.bytes_per_transaction = Some(16_384.0);
        figures.bytes_per_transaction_by_class =
            [(Class::Journal, 8192.0), (Class::FsJournal, 4096.0), (Class::Other, 4096.0)].into();
        let of = |figure| Cell { mode: "f2fs wal:sqlite", ..of(figure) };
        assert_eq!(found.value(&of(Figure::Kilobytes)), Ok(16.0));
        assert_eq!(found.value(&of(Figure::SqliteKilobytes)), Ok(8.0));
        assert_eq!(found.value(&of(Figure::FsKilobytes)), Ok(8.0));
        for figure in [Figure::PerSecond, Figure::MedianMillis, Figure::LongestMillis] {
            assert!(found.value(&of(figure)).unwrap_err().contains("emulated"));
        }
    }

    #[test]
    fn volumes_are_told_for_a_thousand_operations_and_split_off_the_fs_journal() {
        let mut found = measured(&[("x", "wal:sqlite", 100.0)]);
        let figures = &mut found.experiments[0].modes[0].median;
        figures.counted_at = Some(Source::BlockDevice);
        figures.bytes_per_transaction = Some(28_000.0);
        assert_eq!(found.value(&of(Figure::Megabytes)), Ok(28.0));
        assert!(found.value(&of(Figure::DataMegabytes)).is_err(), "no split is not no journal");
        let figures = &mut found.experiments[0].modes[0].median;
        figures.bytes_per_transaction_by_class =
            [(Class::Journal, 8_000.0), (Class::FsJournal, 20_000.0)].into();
        assert_eq!(found.value(&of(Figure::DataMegabytes)), Ok(8.0));
        // What the VFS handed on is not what reached the device.
        let figures = &mut found.experiments[0].modes[0].median;
        figures.counted_at = Some(Source::Vfs);
        assert!(found.value(&of(Figure::Megabytes)).is_err());
    }
}
