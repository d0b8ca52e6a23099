//! What a picture says in one line: the fastest mode with the most connections, beside the mode
//! that it is compared with.

use super::name;
use crate::report::{ModeReport, Report};
use oneflush_measure::mode::Journal;
use oneflush_measure::workload::Unit;

use super::ticks::duration;

/// The line, and the number of the mode that it is about.
pub struct Title {
    pub text: String,
    pub subject: Option<usize>,
}

/// Commits a second; of a run with a fixed rate, where all modes make as many, the longest commit.
pub fn speed(report: &Report) -> Title {
    if report.rate.is_some() {
        return longest(report);
    }
    let slowness = |at: usize| {
        let figures = &report.modes[at].median;
        // Modes in turns are compared by their medians.
        if report.in_turns {
            figures.latency_ns.p50 as f64
        } else {
            1.0 / figures.transactions_per_s
        }
    };
    let Some((best, other)) = pair(report, slowness) else { return nothing(report) };
    let prefix =
        connections(report, best).map_or(String::new(), |connections| format!("{connections}: "));
    let best_name = name(report, &report.modes[best]);
    let text = match other {
        None if report.in_turns => {
            format!(
                "{prefix}{best_name}, median {}",
                duration(report.modes[best].median.latency_ns.p50)
            )
        }
        None => {
            let rate = report.modes[best].median.transactions_per_s * report.unit.in_rate();
            format!("{prefix}{best_name}, {} {}", super::count(rate), report.unit.rate())
        }
        Some(other) => {
            let times = slowness(other) / slowness(best);
            let times = if times < 1.05 { String::new() } else { format!("{times:.1}× ") };
            let does = match report.unit {
                Unit::Transaction => "commits",
                Unit::Cycle | Unit::Piece => "is",
                Unit::Sync => "syncs",
                Unit::Write => "writes",
                Unit::Read => "reads",
            };
            format!(
                "{prefix}{best_name} {does} {times}as fast as {}",
                name(report, &report.modes[other])
            )
        }
    };
    Title { text, subject: Some(best) }
}

pub fn longest(report: &Report) -> Title {
    let ns = |at: usize| report.modes[at].median.latency_ns.max;
    let Some((best, other)) = pair(report, |at| ns(at) as f64) else { return nothing(report) };
    let what = format!("longest {}", report.unit.one());
    let prefix =
        connections(report, best).map_or(String::new(), |connections| format!("{connections}, "));
    let one = |at: usize| format!("{} {}", name(report, &report.modes[at]), duration(ns(at)));
    let text = match other {
        Some(other) => format!("{prefix}{what}: {}, {}", one(other), one(best)),
        None => format!("{prefix}{what}: {}", one(best)),
    };
    let text = format!("{}{}", text[..1].to_uppercase(), &text[1..]);
    Title { text, subject: Some(best) }
}

fn nothing(report: &Report) -> Title {
    Title { text: format!("No {} was measured", report.unit.singular()), subject: None }
}

/// "16 writers", where a number is worth a word.
fn connections(report: &Report, at: usize) -> Option<String> {
    let most = report.modes[at].connections;
    (most > 1 || report.connections.len() > 1).then(|| super::connections(report, most))
}

/// The mode with the lowest value, and the one to compare it with. That is the control or, if the
/// control is the lowest itself, the highest. Modes that a power cut may take commits from are
/// compared only among themselves.
fn pair(report: &Report, value: impl Fn(usize) -> f64) -> Option<(usize, Option<usize>)> {
    let measured = |at: &usize| report.modes[*at].median.transactions > 0;
    let most = report
        .modes
        .iter()
        .filter(|mode| mode.median.transactions > 0)
        .map(|mode| mode.connections)
        .max()?;
    let mut modes: Vec<usize> = (0..report.modes.len())
        .filter(measured)
        .filter(|at| report.modes[*at].connections == most)
        .collect();
    if modes.iter().any(|at| report.modes[*at].mode.is_durable()) {
        modes.retain(|at| report.modes[*at].mode.is_durable());
    }
    let by_value = |a: &usize, b: &usize| value(*a).total_cmp(&value(*b));
    let best = modes.iter().copied().min_by(by_value)?;
    let is_control = |mode: &ModeReport| mode.to_control.is_none();
    let is_default = |mode: &ModeReport| mode.mode.journal == Journal::Delete;
    let find = |fits: &dyn Fn(&ModeReport) -> bool| {
        modes.iter().copied().find(|at| fits(&report.modes[*at]))
    };
    let highest = || modes.iter().copied().max_by(by_value);
    let other =
        find(&is_control).or_else(|| find(&is_default)).filter(|at| *at != best).or_else(highest);
    Some((best, other.filter(|at| *at != best)))
}
