//! `oneflush crash`: SQLite on a simulated disk that loses power, through a strategy. Or an engine
//! of Oneflush alone.

mod of_eagerfs;
mod of_mvbt;
mod text;

use std::cell::RefCell;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Args, builder::PossibleValuesParser};
use indicatif::{ProgressBar, ProgressStyle};
use oneflush_crashlab::{
    Case, Crash, Journal, LSMVBT, Plan, Progress, Report, SQLITE_ALONE, Sabotage, Setting,
    Synchronous, Watch, Workload, mvbt,
};
use oneflush_measure::interrupt;
use oneflush_vfs::StrategyKind;
use serde::Serialize;
use serde_json::json;

use crate::{Failure, output};

const EXAMPLES: &str = "Examples:
  oneflush crash --strategy stock                 100,000 states, all workloads
  oneflush crash --strategy stock --workload large --states 1000000 --jobs 2
  oneflush crash --strategy sqlite --journal delete --synchronous full
                                                  SQLite alone: it loses commits
  oneflush crash --strategy stock --sabotage no-flush
                                                  a lie that must be caught
  oneflush crash --engine lsmvbt                  SQLite on its second B-tree
  oneflush crash --engine mvbt --states 1000000   that B-tree without SQLite
  oneflush crash --engine eagerfs                 oneflush mount, over a model of
                                                  a directory
  oneflush crash --replay crash-one-12ab.json     one failing case alone

A violation is said with the way to repeat it. Ctrl-C ends the run and says what
it has examined.";

const SQLITE: &str = "sqlite";
const MVBT: &str = "mvbt";
const EAGERFS: &str = "eagerfs";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// A strategy of Oneflush, or `sqlite` for SQLite alone
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = strategy)]
    strategy: String,

    /// What runs on the disk: SQLite, SQLite on its second B-tree, that one alone, or a directory
    /// that is mounted
    #[arg(long, value_name = "NAME", default_value = SQLITE,
          value_parser = PossibleValuesParser::new([SQLITE, LSMVBT, MVBT, EAGERFS]))]
    engine: String,

    /// Only this workload; may be given several times
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,

    /// Crash states to examine, in equal parts for the workloads
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    states: u64,

    /// Runs of the fault matrix for each workload [default: one for 250 states; 0: none]
    #[arg(long, value_name = "N")]
    faults: Option<u64>,

    /// What everything is drawn from
    #[arg(long, value_name = "K", default_value_t = 1)]
    seed: u64,

    /// Threads
    #[arg(
        long,
        value_name = "J",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    jobs: u16,

    /// SQLite's journal mode; `rollback`: one of the rollback modes by seed [default: rollback for
    /// maw, wal for the others]
    #[arg(
        long,
        value_name = "MODE",
        value_parser = PossibleValuesParser::new(Journal::ALL.map(Journal::name))
    )]
    journal: Option<String>,

    /// PRAGMA synchronous; its commits must survive [default: full for wal, normal for maw, extra
    /// for the other rollback modes]
    #[arg(
        long,
        value_name = "LEVEL",
        value_parser = PossibleValuesParser::new(Synchronous::ALL.map(Synchronous::name))
    )]
    synchronous: Option<String>,

    /// More URI parameters for the strategy, as in `group_commit=off`
    #[arg(long, value_name = "NAME=VALUE")]
    uri: Vec<String>,

    /// Lie between strategy and disk; the simulator must notice
    #[arg(long, value_name = "LIE", default_value = "none",
          value_parser = PossibleValuesParser::new(Sabotage::ALL.map(Sabotage::name)))]
    sabotage: String,

    /// The directory, which must exist, for the file of a failing case
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,

    /// Run the failing case in this file alone
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workload", "states", "seed", "strategy", "engine"]
    )]
    replay: Option<PathBuf>,

    /// The result as one JSON object
    #[arg(long)]
    json: bool,
}

fn strategy(word: &str) -> Result<String, String> {
    if word == SQLITE_ALONE {
        return Ok(word.to_owned());
    }
    let known = word
        .parse::<StrategyKind>()
        .map_err(|error| format!("{error}; or {SQLITE_ALONE}, for SQLite alone"));
    known.map(|_| word.to_ascii_lowercase())
}

pub fn main(options: &Options) -> Result<(), Failure> {
    oneflush_crashlab::register().map_err(Failure::failed)?;
    match &options.replay {
        Some(file) => replay(file, options.json),
        None if options.engine == MVBT => of_mvbt::simulate(options),
        None if options.engine == EAGERFS => of_eagerfs::simulate(options),
        None => simulate(options),
    }
}

/// The workloads of an engine: those that are named, or all.
fn workloads<W: FromStr<Err = String> + Copy>(
    named: &[String],
    all: &[W],
) -> Result<Vec<W>, Failure> {
    if named.is_empty() {
        return Ok(all.to_vec());
    }
    let of = |word: &String| {
        word.parse().map_err(|error| Failure::usage(format!("--workload: {error}")))
    };
    named.iter().map(of).collect()
}

fn replay(file: &Path, as_json: bool) -> Result<(), Failure> {
    let bad = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("--replay {}: {error}", file.display()))
    };
    let recorded = std::fs::read(file).map_err(|error| bad(&error))?;
    if let Ok(case) = serde_json::from_slice::<mvbt::Case>(&recorded) {
        return of_mvbt::replay(&case, as_json);
    }
    let case: Case = serde_json::from_slice(&recorded).map_err(|error| bad(&error))?;
    let Case { setting, script, .. } = &case;
    let words = format!("{setting}; workload {}\n{}", script.workload, text::crashes(&case));
    retell(case.replay(), &case.message, &case.crashes, words, as_json)
}

/// A case that has run again. `verdict`: what is still wrong. `words` says what the case is.
fn retell(
    verdict: Option<String>,
    recorded: &str,
    crashes: &[Crash],
    words: String,
    as_json: bool,
) -> Result<(), Failure> {
    let printed = output::print(&match &verdict {
        _ if as_json => format!(
            "{}\n",
            json!({ "violation": verdict, "recorded": recorded, "crashes": crashes })
        ),
        None => format!("{words}nothing is wrong any more (it was: {recorded})\n"),
        Some(_) => words,
    });
    verdict.map_or(printed, |message| Err(Failure::failed(message)))
}

/// Checks that the strategy takes each parameter. The strategy's own reader of options asks for all
/// that exist.
fn check_uri(strategy: &str, given: &str) -> Result<(), String> {
    if strategy == SQLITE_ALONE {
        return Err(format!(
            "is for a strategy of Oneflush; --strategy {SQLITE_ALONE} has no parameters"
        ));
    }
    let mut parameters = Vec::new();
    for parameter in given.split('&') {
        parameters.push(
            parameter
                .split_once('=')
                .ok_or(format!("\"{parameter}\": give NAME=VALUE, as in group_commit=off"))?,
        );
    }
    let known = RefCell::new(Vec::new());
    let value = |asked: &str| {
        if asked == "strategy" {
            return Some(strategy.to_owned());
        }
        known.borrow_mut().push(asked.to_owned());
        parameters.iter().find(|(name, _)| *name == asked).map(|(_, value)| (*value).to_owned())
    };
    oneflush_vfs::Options::default().with_uri(value).map_err(|error| error.to_string())?;
    let known = known.into_inner();
    match parameters.iter().find(|(name, _)| known.iter().all(|known| known != name)) {
        Some((name, _)) => {
            Err(format!("\"{name}\" is no parameter of a strategy; allowed: {}", known.join(", ")))
        }
        None => Ok(()),
    }
}

/// What a run would only meet at its end.
fn check_out(directory: &Path) -> Result<(), String> {
    let wrong = |error| {
        format!("--out {}: {error}; give an existing, writable directory", directory.display())
    };
    tempfile::tempfile_in(directory).map(drop).map_err(wrong)
}

fn simulate(options: &Options) -> Result<(), Failure> {
    check_out(&options.out).map_err(Failure::usage)?;
    let named = |name: &String, all: &[(&str, usize)]| {
        all.iter().find(|(word, _)| word == name).map(|(_, at)| *at)
    };
    let index = |names: Vec<&'static str>| names.into_iter().zip(0..).collect::<Vec<_>>();
    let named_journal = |name| named(name, &index(Journal::ALL.map(Journal::name).into()));
    let journal = options.journal.as_ref().and_then(named_journal);
    let journal = journal.map_or(Journal::of(&options.strategy), |at| Journal::ALL[at]);
    let mut setting = match options.engine == LSMVBT {
        true => of_lsmvbt(options)?,
        false => Setting::new(&options.strategy, journal),
    };
    if let Some(level) = &options.synchronous {
        let level = named(level, &index(Synchronous::ALL.map(Synchronous::name).into()));
        setting.synchronous = Synchronous::ALL[level.unwrap_or_default()];
    }
    setting.uri = options.uri.join("&");
    if !options.uri.is_empty() {
        check_uri(&options.strategy, &setting.uri)
            .map_err(|error| Failure::usage(format!("--uri: {error}")))?;
    }
    let sabotage = named(&options.sabotage, &index(Sabotage::ALL.map(Sabotage::name).into()));
    setting.sabotage = Sabotage::ALL[sabotage.unwrap_or_default()];
    let all = options.workload.is_empty();
    let plan = Plan {
        workloads: workloads(&options.workload, &setting.workloads())?,
        setting,
        states: options.states,
        fault_runs: options.faults.unwrap_or(options.states / 250),
        seed: options.seed,
        jobs: options.jobs.into(),
    };
    let report = watched(plan.states, |watch| oneflush_crashlab::run(&plan, watch))?;
    let told = |case: &Case| Told {
        message: case.message.clone(),
        file: format!("crash-{}-{:x}.json", case.script.workload, case.script.seed),
        words: format!(
            "workload {}, seed {}\n{}",
            case.script.workload,
            case.script.seed,
            text::crashes(case)
        ),
    };
    let table = text::table(&plan.setting, plan.seed, &report);
    let json = |saved: Option<&Path>| as_json(&plan, &report, saved);
    conclude(options, &report, table, told, json, || command(&plan, all))
}

/// The first option that is given and that an engine does not have. `own`: those that it has.
fn foreign(options: &Options, own: &[&str]) -> Option<&'static str> {
    let given = [
        ("--strategy", options.strategy != "auto"),
        ("--workload", !options.workload.is_empty()),
        ("--faults", options.faults.is_some()),
        ("--journal", options.journal.is_some()),
        ("--synchronous", options.synchronous.is_some()),
        ("--uri", !options.uri.is_empty()),
        ("--sabotage", options.sabotage != "none"),
    ];
    let is_foreign = |(name, is_given): &(&str, bool)| *is_given && !own.contains(name);
    given.into_iter().find(is_foreign).map(|(name, _)| name)
}

/// Refuses what means nothing without SQLite. `has` says in words what the engine has.
fn refuse_those_of_sqlite(
    options: &Options,
    engine: &str,
    own: &[&str],
    has: &str,
) -> Result<(), Failure> {
    match foreign(options, own) {
        None => Ok(()),
        Some(name) => {
            Err(Failure::usage(format!("{name} is for SQLite; --engine {engine} has {has}")))
        }
    }
}

/// The setting of SQLite on its second B-tree, which has no others.
fn of_lsmvbt(options: &Options) -> Result<Setting, Failure> {
    let switched = Workload::Switched.name();
    if options.workload.iter().any(|word| word == switched) {
        return Err(Failure::usage(format!(
            "--workload {switched} changes the strategy, and --engine {LSMVBT} has none"
        )));
    }
    match foreign(options, &["--workload", "--faults", "--sabotage"]) {
        None => Ok(Setting::of(LSMVBT)),
        Some(name) => Err(Failure::usage(format!(
            "{name} is for --engine {SQLITE}; a commit of {LSMVBT} has no strategy and no journal, \
                and is durable at every level"
        ))),
    }
}

/// Shows how far a run is, and ends it after Ctrl-C.
fn watched<C>(
    states: u64,
    run: impl FnOnce(&Watch<'_>) -> Report<C>,
) -> Result<Report<C>, Failure> {
    let watcher = Watcher::new(states);
    interrupt::install().map_err(Failure::failed)?;
    let report = run(&|progress| {
        watcher.tell(progress);
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    watcher.done();
    Ok(report)
}

/// What is said of a failing case.
struct Told {
    message: String,
    /// Its file's name.
    file: String,
    /// What the case is.
    words: String,
}

/// Saves a failing case, prints the result, and ends the command. `command` repeats the run.
fn conclude<C: Serialize>(
    options: &Options,
    report: &Report<C>,
    table: String,
    told: impl FnOnce(&C) -> Told,
    json: impl FnOnce(Option<&Path>) -> serde_json::Value,
    command: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let found = match report.violation.as_deref() {
        Some(case) => {
            let told = told(case);
            let saved = save(case, &told, &options.out)?;
            Some((told, saved))
        }
        None => None,
    };
    // What was found is said even where the result cannot be printed.
    let printed = output::print(&match &found {
        _ if options.json => {
            format!("{}\n", json(found.as_ref().map(|(_, saved)| saved.as_path())))
        }
        None => table,
        Some((told, _)) => format!("{table}\nviolation: {}", told.words),
    });
    match found {
        Some((told, saved)) => Err(Failure::failed(format!(
            "{}\n  this case alone: oneflush crash --replay {}\n  the whole run:   {}",
            told.message,
            saved.display(),
            command()
        ))),
        None if report.interrupted => {
            Err(Failure::failed("interrupted before all states were examined"))
        }
        None => printed,
    }
}

/// The command line that repeats a run.
fn command(plan: &Plan, all_workloads: bool) -> String {
    let Setting { strategy, journal, synchronous, uri, sabotage } = &plan.setting;
    let of_engine = match plan.setting.is_lsmvbt() {
        true => format!("--engine {LSMVBT}"),
        false => format!(
            "--strategy {strategy} --journal {} --synchronous {}",
            journal.name(),
            synchronous.name()
        ),
    };
    let mut line = format!(
        "oneflush crash {of_engine} --states {} --seed {} --faults {}",
        plan.states, plan.seed, plan.fault_runs
    );
    if !all_workloads {
        plan.workloads.iter().for_each(|workload| line += &format!(" --workload {workload}"));
    }
    if !uri.is_empty() {
        line += &format!(" --uri '{uri}'");
    }
    if *sabotage != Sabotage::None {
        line += &format!(" --sabotage {}", sabotage.name());
    }
    line
}

fn save(case: &impl Serialize, told: &Told, out: &Path) -> Result<PathBuf, Failure> {
    let path = out.join(&told.file);
    let write = || std::fs::write(&path, serde_json::to_vec(case)?);
    write().map_err(|error| {
        Failure::failed(format!(
            "{}\n  and it could not be saved: --out: {}: {error}",
            told.message,
            path.display()
        ))
    })?;
    Ok(path)
}

fn as_json(plan: &Plan, report: &Report, saved: Option<&Path>) -> serde_json::Value {
    json!({
        "setting": plan.setting,
        "seed": plan.seed,
        "jobs": plan.jobs,
        "elapsed_s": report.elapsed.as_secs_f64(),
        "interrupted": report.interrupted,
        "workloads": report.workloads,
        "total": report.total(),
        "violation": report.violation.as_deref().map(|case| json!({
            "message": case.message,
            "workload": case.script.workload,
            "seed": case.script.seed,
            "cell": case.cell,
            "crashes": case.crashes,
            "replay": saved.map(Path::to_string_lossy),
        })),
    })
}

/// Progress on stderr: a bar on a terminal, a line every ten seconds elsewhere.
struct Watcher {
    bar: Option<ProgressBar>,
    states: u64,
    began: Instant,
    told: Mutex<Instant>,
    most: AtomicU64,
}

impl Watcher {
    fn new(states: u64) -> Watcher {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(states);
            // The template is constant; were it wrong, the default bar would do.
            if let Ok(style) = ProgressStyle::with_template(
                "{bar:30} {pos}/{len} {msg}  {elapsed}, about {eta} left",
            ) {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Watcher { bar, states, began: now, told: Mutex::new(now), most: AtomicU64::new(0) }
    }

    fn tell(&self, progress: Progress) {
        let states = self.most.fetch_max(progress.states, Relaxed).max(progress.states);
        let faults = match progress.fault_runs {
            0 => String::new(),
            runs => format!(", {runs} runs with faults"),
        };
        if let Some(bar) = &self.bar {
            bar.set_position(states.min(self.states));
            bar.set_message(format!("states{faults}"));
            return;
        }
        let Ok(mut told) = self.told.try_lock() else { return };
        if told.elapsed() >= Duration::from_secs(10) {
            *told = Instant::now();
            eprintln!(
                "{states} of {} states{faults} in {} s",
                self.states,
                self.began.elapsed().as_secs()
            );
        }
    }

    fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
