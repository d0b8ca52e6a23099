//! The result in words.

use std::collections::BTreeMap;

use super::format::{millis, significant};
use super::{ModeReport, Report};
use crate::mode::Journal;
use crate::observe::Source;
use crate::run::Kept;
use crate::workload::Unit;

/// Of two frames each, as in the plain workload.
const TRANSACTIONS_PER_CHECKPOINT: u64 = 500;

/// "WAL commits in 0.16 ms, 6.4 times faster than DELETE and 1.3 times the floor." One sentence for a single connection, one
/// for the largest number of several.
pub fn conclusion(report: &Report) -> String {
    let measured: Vec<&ModeReport> = report.modes.iter().filter(|mode| mode.median.transactions > 0).collect();
    if measured.is_empty() {
        return match report.unit {
            Unit::Transaction => "No transaction was committed.".to_owned(),
            unit => format!("No {} was done.", unit.singular()),
        };
    }
    let fewest = measured.iter().map(|mode| mode.connections).min().unwrap_or(1);
    let most = measured.iter().map(|mode| mode.connections).max().unwrap_or(1);
    let with = |connections| measured.iter().copied().filter(|mode| mode.connections == connections).collect();
    let mut text = match report.unit {
        Unit::Read => reads(with(fewest)),
        // Of several, most may commit fast because the others starve.
        _ if fewest == 1 => latency(report, with(fewest)),
        _ => String::new(),
    };
    if most > 1 && report.unit != Unit::Read {
        let rates = rates(report.unit, with(most), most);
        text = if text.is_empty() { rates } else { format!("{text} {rates}") };
    }
    text
}

/// The subject is the fastest of the modes whose commits survive a power cut; it is compared with SQLite's default where that is
/// among them, else with the slowest.
fn latency(report: &Report, modes: Vec<&ModeReport>) -> String {
    let p50 = |mode: &&ModeReport| mode.median.latency_ns.p50;
    let durable = || modes.iter().copied().filter(|mode| mode.mode.is_durable());
    let Some(best) = durable().min_by_key(p50).or_else(|| modes.iter().copied().min_by_key(p50)) else {
        return String::new();
    };
    let default = |mode: &&ModeReport| mode.mode.journal == Journal::Delete;
    let other = durable().filter(default).max_by_key(p50).or_else(|| durable().max_by_key(p50));

    let floors = p50(&best) as f64 / report.floor.p50_ns.max(1) as f64;
    let floor = format!("{} times the floor", significant(floors));
    let does = if report.unit == Unit::Cycle { "opens, commits three times and closes" } else { "commits" };
    let mut text = format!("{} {does} in {} ms", name(best), millis(p50(&best)));
    match other.filter(|other| other.mode != best.mode) {
        Some(other) => {
            let times = p50(&other) as f64 / p50(&best).max(1) as f64;
            text.push_str(&format!(", {} times faster than {} and {floor}", significant(times), name(other)));
        }
        None => text.push_str(&format!(", {floor}")),
    }
    if !best.mode.is_durable() {
        text.push_str("; a power cut may take commits back in every mode of this run");
    }
    text.push('.');
    text
}

/// "16 connections: WAL (plain) 15100 commits/s, 4.1 times WAL; the longest took 14 ms, there 2300."
fn rates(unit: Unit, modes: Vec<&ModeReport>, connections: u32) -> String {
    let by_rate =
        |a: &&ModeReport, b: &&ModeReport| f64::total_cmp(&a.median.transactions_per_s, &b.median.transactions_per_s);
    let durable = || modes.iter().copied().filter(|mode| mode.mode.is_durable());
    let Some(best) = durable().max_by(by_rate).or_else(|| modes.iter().copied().max_by(by_rate)) else {
        return String::new();
    };
    let rate = best.median.transactions_per_s;
    let longest = |mode: &ModeReport| millis(mode.median.latency_ns.max);
    let mut text = format!("{connections} connections: {} {rate:.0} {}/s", name(best), unit.timed());
    match durable().min_by(by_rate).filter(|other| other.mode != best.mode) {
        Some(other) => {
            let times = significant(rate / other.median.transactions_per_s.max(f64::MIN_POSITIVE));
            let (own, there) = (longest(best), longest(other));
            text.push_str(&format!(", {times} times {}; the longest took {own} ms, there {there}.", name(other)));
        }
        None => text.push_str(&format!("; the longest took {} ms.", longest(best))),
    }
    text
}

/// "A read takes 1.52 µs in WAL (sqlite), 1.004 times as long in WAL."
fn reads(modes: Vec<&ModeReport>) -> String {
    let is_control = |mode: &&&ModeReport| mode.to_control.is_none();
    let Some(control) = modes.iter().find(is_control).or(modes.first()) else { return String::new() };
    let mean = significant(control.median.latency_ns.mean as f64 / 1e3);
    let mut text = format!("A read takes {mean} µs in {}", name(control));
    for mode in &modes {
        if let Some(to_control) = &mode.to_control {
            text.push_str(&format!(", {:.3} times as long in {}", to_control.mean.median, name(mode)));
        }
    }
    text.push('.');
    text
}

fn name(mode: &ModeReport) -> String {
    let journal = match mode.mode.journal {
        Journal::Wal => "WAL".to_owned(),
        Journal::WalGrowing => "WAL (growing)".to_owned(),
        other => other.pragma().to_uppercase(),
    };
    let rest = mode.mode.to_string().split_once(':').map(|(_, rest)| format!(" ({})", rest.replace(':', ", ")));
    format!("{journal}{}", rest.unwrap_or_default())
}

pub fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    match report.counted_at {
        // What is written beside reads is not theirs, and in turns nobody can tell.
        _ if report.unit == Unit::Read || report.in_turns => {}
        Some(Source::BlockDevice) => {}
        Some(Source::BlockDeviceTotals) => notes.push(
            "KB, writes and flushes were counted at the block device; this kernel has no tracefs, so they are not split."
                .to_owned(),
        ),
        Some(Source::Vfs) => notes.push(
            "KB, writes and syncs are what SQLite asked for, counted in the VFS: the file system's own journal and what \
             the kernel merges are not in them. Run as root with --fs to count at a block device."
                .to_owned(),
        ),
        None => notes.push(
            "Nothing could count KB, writes and flushes: SQLite ran without our VFS and not on a device of our own. Run as \
             root with --fs, or use strategy stock."
                .to_owned(),
        ),
    }
    let uncounted = |mode: &&ModeReport| mode.median.counted_at.is_none();
    if report.unit != Unit::Read && report.counted_at.is_some() && report.modes.iter().any(|mode| uncounted(&mode)) {
        notes.push("A dash: strategy sqlite has no VFS of ours that could count.".to_owned());
    }
    let without_checkpoint =
        |mode: &ModeReport| mode.mode.journal == Journal::Wal && mode.median.transactions < TRANSACTIONS_PER_CHECKPOINT;
    if report.unit == Unit::Transaction && report.modes.iter().any(without_checkpoint) {
        notes.push(format!(
            "wal: with fewer than {TRANSACTIONS_PER_CHECKPOINT} transactions a round there may be no checkpoint in the figures."
        ));
    }
    for mode in &report.modes {
        if mode.median.unattributed_ratio > 0.05 {
            notes.push(format!(
                "{}: {:.0} % of the bytes belong to no known file and are in \"other\".",
                report.label(mode),
                mode.median.unattributed_ratio * 100.0
            ));
        }
        if mode.median.trace_events_lost > 0 {
            notes.push(format!(
                "{}: the kernel lost {} trace events; totals are exact, their bytes are in \"other\".",
                report.label(mode),
                mode.median.trace_events_lost
            ));
        }
    }
    notes.extend(failed_statements(report));
    notes.extend(contents(report));
    notes.extend(report.recording.as_ref().map(recording));
    notes
}

fn recording(kept: &Kept) -> String {
    let lost =
        if kept.lost > 0 { format!(", and {} that the kernel had no room for", kept.lost) } else { String::new() };
    format!(
        "Recorded beside it, which makes commits a few percent slower: {} ({} events{lost}); see it with oneflush report.",
        kept.path.display(),
        kept.events
    )
}

/// Of a replay: one note a message, since most fail alike in all modes.
fn failed_statements(report: &Report) -> Vec<String> {
    const MESSAGES_MAX: usize = 10;
    let mut by_message: BTreeMap<(&str, u64), Vec<String>> = BTreeMap::new();
    for mode in &report.modes {
        for (message, count) in &mode.failed_statements {
            by_message.entry((message, *count)).or_default().push(report.label(mode));
        }
    }
    let note = |((message, count), modes): (&(&str, u64), &Vec<String>)| {
        let modes = if modes.len() == report.modes.len() { "every mode".to_owned() } else { modes.join(", ") };
        format!("{count} statements failed in {modes} (all rounds): {message}")
    };
    let mut notes: Vec<String> = by_message.iter().map(note).take(MESSAGES_MAX).collect();
    if by_message.len() > MESSAGES_MAX {
        notes.push(format!("{} more messages of failed statements: see --json", by_message.len() - MESSAGES_MAX));
    }
    notes
}

/// Of a replay: whether the modes and rounds left the same behind.
fn contents(report: &Report) -> Option<String> {
    let stable = report.modes.iter().map(|mode| mode.same_contents_in_all_rounds);
    let stable: Vec<bool> = stable.collect::<Option<_>>()?;
    let first = &report.modes.first()?.contents_fingerprint;
    Some(if stable.iter().all(|same| *same) && report.modes.iter().all(|mode| &mode.contents_fingerprint == first) {
        "Final contents: the same in all modes and rounds.".to_owned()
    } else {
        "Final contents differ between rounds or modes, as they may where connections race; --serial runs them in a \
         fixed order."
            .to_owned()
    })
}
