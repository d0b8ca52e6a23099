//! `oneflush crash --engine mvbt`: the engine alone on the disk.

use std::path::Path;

use oneflush_crashlab::mvbt::{self, Case, Plan, Report, Workload};
use serde_json::json;

use super::conclude::{Told, check_out, conclude, retell};
use super::options::{MVBT, Options, refuse_those_of_sqlite, workloads};
use super::text;
use super::watcher::watched;
use crate::failure::Failure;

pub fn simulate(options: &Options) -> Result<(), Failure> {
    let own: &[&str] = match options.faults {
        // The engine has no faults, and none are asked for.
        Some(0) => &["--workload", "--faults"],
        _ => &["--workload"],
    };
    refuse_those_of_sqlite(options, MVBT, own, "workloads, states, a seed and jobs")?;
    check_out(&options.out).map_err(Failure::usage)?;
    let plan = Plan {
        workloads: workloads(&options.workload, &Workload::ALL)?,
        states: options.states,
        seed: options.seed,
        jobs: options.jobs.into(),
    };
    let report = watched(plan.states, |watch| mvbt::run(&plan, watch))?;
    let told = |case: &Case| Told {
        message: case.message.clone(),
        file: format!("crash-{MVBT}-{}-{:x}.json", case.script.workload, case.script.seed),
        words: described(case),
    };
    let table = text::table(&MVBT, plan.seed, &report);
    let json = |saved: Option<&Path>| as_json(&plan, &report, saved);
    conclude(options, &report, table, told, json, || command(&plan, &options.workload))
}

pub fn replay(case: &Case, as_json: bool) -> Result<(), Failure> {
    let words = format!("{MVBT}; {}", described(case));
    retell(case.replay(), &case.message, &case.crashes, words, as_json)
}

fn described(case: &Case) -> String {
    let mut out = format!("workload {}, seed {}\n", case.script.workload, case.script.seed);
    text::losses(&mut out, &case.crashes, &|depth| case.describe(depth));
    out + &format!("  {}\n", case.message)
}

/// The command line that repeats a run.
fn command(plan: &Plan, named: &[String]) -> String {
    let line =
        format!("oneflush crash --engine {MVBT} --states {} --seed {}", plan.states, plan.seed);
    named.iter().fold(line, |line, workload| line + &format!(" --workload {workload}"))
}

fn as_json(plan: &Plan, report: &Report, saved: Option<&Path>) -> serde_json::Value {
    json!({
        "engine": MVBT,
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
            "crashes": case.crashes,
            "replay": saved.map(Path::to_string_lossy),
        })),
    })
}
