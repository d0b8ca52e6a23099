//! Runs a paper's experiments, one after the other, each as an ordinary run of the benchmark.

use std::fmt;
use std::path::{Path, PathBuf};

use super::guests::{self, Guests};
use super::inputs::{self, Inputs};
use super::measured::{Measured, MeasuredExperiment, MeasuredMode, Missing};
use super::pattern::PatternSheet;
use super::{Column, Experiment, How, On, Paper, Sheet, Work, stores};
use crate::commits::{self, Commits, CommitsError};
use crate::guest::GuestError;
use crate::kv::{self, KvError};
use crate::report::{Figures, Report};
use crate::transactions::{self, Transactions};
use oneflush_measure::environment::Environment;
use oneflush_measure::interrupt;
use oneflush_measure::mode::{Mode, ModeError};
use oneflush_measure::place::{FlashKind, FsKind, PlaceError, Storage};
use oneflush_measure::run::{
    self, FLOOR_WRITES, PlaceChoice, Plan, Progress, Rounds, RunError, Workers,
};
use oneflush_measure::workload::{Access, Mobibench, Reads, Workload};

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
