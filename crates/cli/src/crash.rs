//! `oneflush crash`: SQLite on a simulated disk that loses power, through a strategy. Or an engine
//! of Oneflush alone.

mod conclude;
mod of_eagerfs;
mod of_mvbt;
mod options;
mod text;
mod watcher;

use std::cell::RefCell;
use std::path::Path;

use oneflush_crashlab::{
    Case, Journal, LSMVBT, Plan, Report, SQLITE_ALONE, Sabotage, Setting, Synchronous, Workload,
    mvbt,
};
use serde_json::json;

use crate::failure::Failure;
use conclude::{Told, check_out, conclude, retell};
pub use options::Options;
use options::{EAGERFS, MVBT, SQLITE, foreign, workloads};
use watcher::watched;

pub fn main(options: &Options) -> Result<(), Failure> {
    oneflush_crashlab::register().map_err(Failure::failed)?;
    match &options.replay {
        Some(file) => replay(file, options.json),
        None if options.engine == MVBT => of_mvbt::simulate(options),
        None if options.engine == EAGERFS => of_eagerfs::simulate(options),
        None => simulate(options),
    }
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
