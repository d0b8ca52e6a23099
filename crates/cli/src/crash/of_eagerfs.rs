//! `oneflush crash --engine eagerfs`: a mounted directory, over a model of one that loses power.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use oneflush_crashlab::Sabotage;
use oneflush_crashlab::eagerfs::{Report, campaign};
use oneflush_measure::interrupt;
use serde_json::json;

use super::options::{EAGERFS, Options, refuse_those_of_sqlite};
use crate::failure::Failure;
use crate::output;

pub fn simulate(options: &Options) -> Result<(), Failure> {
    let has = "states, a seed, jobs and a sabotage";
    refuse_those_of_sqlite(options, EAGERFS, &["--sabotage"], has)?;
    let sabotage = Sabotage::ALL.into_iter().find(|lie| lie.name() == options.sabotage);
    let bar = ProgressBar::new(options.states);
    let style = "{msg} {wide_bar} {pos}/{len} states, {eta} left";
    bar.set_style(ProgressStyle::with_template(style).map_err(Failure::failed)?);
    bar.set_message(EAGERFS);
    interrupt::install().map_err(Failure::failed)?;
    let began = Instant::now();
    let jobs = options.jobs.into();
    let report =
        campaign(options.states, options.seed, jobs, sabotage.unwrap_or_default(), &|states| {
            if std::io::stderr().is_terminal() {
                bar.set_position(states);
            }
            if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    bar.finish_and_clear();
    let elapsed_s = began.elapsed().as_secs_f64();
    output::print(&match options.json {
        true => format!("{}\n", as_json(options, &report, elapsed_s)),
        false => text(options, &report, elapsed_s),
    })?;
    if let Some(failure) = &report.failure {
        return Err(Failure::failed(format!(
            "{}\n  again: oneflush crash --engine {EAGERFS} --states {} --seed {} --sabotage {}",
            failure.message, options.states, options.seed, options.sabotage
        )));
    }
    if report.interrupted {
        return Err(Failure::failed("interrupted before all states were examined"));
    }
    Ok(())
}

fn text(options: &Options, report: &Report, elapsed_s: f64) -> String {
    let [first, second, third] = report.by_depth;
    let found = match &report.failure {
        None => "nothing that was synced is lost, and nothing is half\n".to_owned(),
        Some(failure) => format!("violation\n{failure}\n"),
    };
    format!(
        "{EAGERFS}, seed {}: {} states of {} runs in {elapsed_s:.0} s\n\
        {first} after a loss of power, {second} after one in a recovery, {third} after two\n\
        {} more were met before\n{found}",
        options.seed, report.states, report.scripts, report.duplicates
    )
}

fn as_json(options: &Options, report: &Report, elapsed_s: f64) -> serde_json::Value {
    json!({
        "engine": EAGERFS,
        "seed": options.seed,
        "jobs": options.jobs,
        "elapsed_s": elapsed_s,
        "interrupted": report.interrupted,
        "scripts": report.scripts,
        "states": report.states,
        "duplicates": report.duplicates,
        "by_depth": report.by_depth,
        "violation": report.failure.as_ref().map(ToString::to_string),
    })
}
