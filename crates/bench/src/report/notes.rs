//! What a reader must know to judge the figures.

use std::collections::BTreeMap;

use super::{ModeReport, Report, laid_out};
use oneflush_measure::mode::{Journal, Strategy};
use oneflush_measure::observe::Source;
use oneflush_measure::run::Kept;
use oneflush_measure::workload::Unit;

/// Of two frames each, as in the plain workload.
const TRANSACTIONS_PER_CHECKPOINT: u64 = 500;

pub fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    match report.counted_at {
        // What is written beside reads is not theirs, and in turns nobody can tell.
        _ if report.unit == Unit::Read || report.in_turns => {}
        Some(Source::BlockDevice) => {}
        Some(Source::BlockDeviceTotals) => notes.push(
            "KB, writes and flushes were counted at the block device; this kernel has no tracefs, \
                so they are not split."
                .to_owned(),
        ),
        Some(Source::Strategies) => notes.push(
            "KB, writes and syncs are the strategies' own counters, of what each wrote to its \
                files and synced: the file system's own journal and what the kernel merges are \
                not in them. Run as root with --fs to count at a block device."
                .to_owned(),
        ),
        None if matches!(report.unit, Unit::Sync | Unit::Write | Unit::Piece) => notes.push(
            "Nothing could count KB, writes and flushes: this is not a device of our own. Run as \
                root with --fs."
                .to_owned(),
        ),
        None => notes.push(
            "Nothing could count KB, writes and flushes: SQLite ran without our VFS and not on a \
                device of our own. Run as \
             root with --fs, or use strategy stock."
                .to_owned(),
        ),
    }
    if report.unit != Unit::Read && report.counted_at.is_some() {
        notes.extend(dashes(report));
        notes.extend(laid_out::sentences(report));
    }
    let without_checkpoint = |mode: &ModeReport| {
        mode.mode.journal == Journal::Wal && mode.median.transactions < TRANSACTIONS_PER_CHECKPOINT
    };
    if report.unit == Unit::Transaction && report.modes.iter().any(without_checkpoint) {
        notes.push(format!(
            "wal: with fewer than {TRANSACTIONS_PER_CHECKPOINT} transactions a round there may be \
                no checkpoint in the figures."
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
                "{}: the kernel lost {} trace events; totals are exact, their bytes are \
                    in \"other\".",
                report.label(mode),
                mode.median.trace_events_lost
            ));
        }
    }
    if report.modes.iter().any(|mode| mode.mode.is_mounted) {
        notes.push(
            "mounted: in a mount of oneflush mount; CPU µs has its daemon's time in it.".to_owned(),
        );
    }
    notes.extend(failed_statements(report));
    notes.extend(contents(report));
    notes.extend(report.recording.as_ref().map(recording));
    notes
}

/// Why there is no figure where others have one.
fn dashes(report: &Report) -> Vec<String> {
    let any = |is: fn(&ModeReport) -> bool| report.modes.iter().any(is);
    let mut notes = Vec::new();
    if any(|mode| mode.median.counted_at.is_none() && mode.mode.strategy == Strategy::Sqlite) {
        notes.push("A dash: strategy sqlite has no VFS of ours that could count.".to_owned());
    }
    if any(|mode| mode.median.counted_at.is_none() && mode.mode.strategy != Strategy::Sqlite) {
        notes.push(
            "A dash: the strategy does not count all that it wrote there, as of a transaction of \
                more than 4 MiB with eager."
                .to_owned(),
        );
    }
    let writes = |mode: &ModeReport| {
        mode.median.bytes_per_transaction.is_some() && mode.median.writes_per_transaction.is_none()
    };
    if any(writes) {
        notes.push("A dash for writes: plain and waldio count bytes only.".to_owned());
    }
    notes
}

fn recording(kept: &Kept) -> String {
    let lost = if kept.lost > 0 {
        format!(", and {} that the kernel had no room for", kept.lost)
    } else {
        String::new()
    };
    format!(
        "Recorded beside it, which makes commits a few percent slower: {} ({} events{lost}); see \
            it with oneflush report.",
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
        let modes = if modes.len() == report.modes.len() {
            "every mode".to_owned()
        } else {
            modes.join(", ")
        };
        format!("{count} statements failed in {modes} (all rounds): {message}")
    };
    let mut notes: Vec<String> = by_message.iter().map(note).take(MESSAGES_MAX).collect();
    if by_message.len() > MESSAGES_MAX {
        notes.push(format!(
            "{} more messages of failed statements: see --json",
            by_message.len() - MESSAGES_MAX
        ));
    }
    notes
}

/// Of a replay: whether the modes and rounds left the same behind.
fn contents(report: &Report) -> Option<String> {
    let stable = report.modes.iter().map(|mode| mode.same_contents_in_all_rounds);
    let stable: Vec<bool> = stable.collect::<Option<_>>()?;
    let first = &report.modes.first()?.contents_fingerprint;
    Some(
        if stable.iter().all(|same| *same)
            && report.modes.iter().all(|mode| &mode.contents_fingerprint == first)
        {
            "Final contents: the same in all modes and rounds.".to_owned()
        } else {
            "Final contents differ between rounds or modes, as they may where connections race; \
                --serial runs them in a \
         fixed order."
                .to_owned()
        },
    )
}
