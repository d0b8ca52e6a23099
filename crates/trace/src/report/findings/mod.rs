//! What stands out, in sentences. Each sentence is computed, has its numbers, says what it rests
//! on, and ends with what to do about it. Where data are thin, nothing is said.

mod compare;
mod doubt;
mod latency;
mod pinned;
mod volume;
mod wal;

use serde::Serialize;

use super::collect::{Entry, Trace};
use super::tables::Tables;
use super::tally::Tally;
use crate::identify::JournalMode;

/// No finding rests on fewer transactions.
pub(super) const TRANSACTIONS_COUNT_MIN: u64 = 30;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// A word for programs.
    pub kind: &'static str,
    /// Label of the trace.
    pub trace: String,
    pub text: String,
    pub basis: String,
    /// What to do: a command, a PRAGMA or an option by name.
    pub action: String,
}

/// Traces beside the first one.
pub(super) fn compare(tables: &[Tables]) -> Vec<Finding> {
    compare::findings(tables)
}

/// What stands out in each trace by itself.
pub(super) fn each(traces: &[Trace], tables: &[Tables]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (trace, tables) in traces.iter().zip(tables) {
        if tables.transactions < TRANSACTIONS_COUNT_MIN {
            continue;
        }
        findings.extend(volume::findings(trace, tables));
        findings.extend(pinned::findings(trace, tables));
        findings.extend(wal::findings(trace, tables));
        findings.extend(latency::findings(trace, tables));
        findings.extend(doubt::findings(trace, tables));
    }
    findings
}

fn finding(
    kind: &'static str,
    tables: &Tables,
    text: String,
    basis: String,
    action: impl Into<String>,
) -> Finding {
    Finding { kind, trace: tables.trace.clone(), text, basis, action: action.into() }
}

/// What `eager` asks of others, wherever it is advised.
const GUARD: &str = "its guard keeps stock SQLite from opening the file meanwhile";

/// The strategy of ours that most of the transactions had.
fn strategy(trace: &Trace) -> Option<&'static str> {
    match trace.tally.mode()? {
        JournalMode::Eager => Some("eager"),
        JournalMode::Waldio => Some("waldio"),
        JournalMode::Maw => Some("maw"),
        JournalMode::Wal if !trace.plain_databases.is_empty() => Some("plain"),
        _ => None,
    }
}

/// Whether most of the transactions keep old pages in a rollback journal.
fn mostly_rollback(tally: &Tally) -> bool {
    tally.undo_count * 2 > tally.count
}

/// "1,234 transactions, 56.1 MB"
fn whole(tables: &Tables) -> String {
    format!("{}, {}", transactions(tables), amount(tables.bytes.total() as f64))
}

/// "1,234 transactions"
fn transactions(tables: &Tables) -> String {
    format!("{} transactions", count(tables.transactions))
}

/// 1,234,567
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn amount(bytes: f64) -> String {
    const KB: f64 = 1024.0;
    match bytes {
        bytes if bytes < KB * KB => format!("{:.1} KB", bytes / KB),
        bytes if bytes < KB * KB * KB => format!("{:.1} MB", bytes / KB / KB),
        bytes => format!("{:.1} GB", bytes / KB / KB / KB),
    }
}

fn duration(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.1} ms"),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

/// Two digits where one would say nothing: 0.16 %, 3.4 %, 76 %.
fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent == 0.0 || percent >= 10.0 => format!("{percent:.0} %"),
        percent if percent >= 1.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.2} %"),
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The name of an entry's database.
fn database<'a>(trace: &'a Trace, entry: &Entry) -> &'a str {
    &trace.databases[entry.database as usize]
}
