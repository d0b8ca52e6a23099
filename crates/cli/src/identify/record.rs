//! One transaction as a JSON object or a line of CSV. Both come from the same [`Record`]; in CSV the classes and phases are columns.
//!
//! Times are seconds of the trace's own clock, so two traces' times say nothing of each other.

use oneflush_trace::identify::{Amount, Outcome, Phases, Traffic, Transaction};
use oneflush_trace::model::Names;
use serde::Serialize;

#[derive(Serialize)]
struct Record<'a> {
    trace: &'a str,
    begin_s: f64,
    end_s: f64,
    /// Null where only the kernel's write-back was seen to write, or the trace has no names.
    process: Option<&'a str>,
    /// Null where the trace has only threads.
    pid: Option<u32>,
    tid: Option<u32>,
    database: String,
    /// The other databases of a transaction over several.
    others: Vec<String>,
    journal_mode: String,
    synchronous: String,
    outcome: &'static str,
    latency_ms: f64,
    phases: PhasesMs,
    silent_ms: f64,
    segments: u32,
    flushes: u64,
    requests: Classes,
    bytes: Classes,
    confidence: f64,
    reason: String,
}

#[derive(Clone, Copy, Serialize)]
struct Classes {
    db: u64,
    journal: u64,
    fs_journal: u64,
    metadata: u64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum PhasesMs {
    Rollback { log_ms: f64, db_ms: f64, reset_ms: f64 },
    Append { append_ms: f64, checkpoint_ms: f64, checkpoint_bytes: Classes },
}

impl Classes {
    fn of(traffic: &Traffic, part: fn(&Amount) -> u64) -> Classes {
        let Traffic { db, journal, fs_journal, metadata } = traffic;
        Classes { db: part(db), journal: part(journal), fs_journal: part(fs_journal), metadata: part(metadata) }
    }

    fn requests(traffic: &Traffic) -> Classes {
        Classes::of(traffic, |amount| amount.requests)
    }

    fn bytes(traffic: &Traffic) -> Classes {
        Classes::of(traffic, |amount| amount.bytes)
    }

    fn columns(self) -> [String; 4] {
        [self.db, self.journal, self.fs_journal, self.metadata].map(|number| number.to_string())
    }
}

impl<'a> Record<'a> {
    fn new(trace: &'a str, transaction: &Transaction, names: &'a Names) -> Record<'a> {
        let known = |id: u32| (id != 0).then_some(id);
        Record {
            trace,
            begin_s: transaction.begin_ns as f64 / 1e9,
            end_s: transaction.end_ns as f64 / 1e9,
            process: transaction.process.name.map(|name| names.text(name)),
            pid: known(transaction.process.process),
            tid: known(transaction.process.thread),
            database: transaction.database.to_string(),
            others: transaction.others.iter().map(ToString::to_string).collect(),
            journal_mode: transaction.journal_mode.to_string(),
            synchronous: transaction.synchronous.to_string(),
            outcome: match transaction.outcome {
                Outcome::Committed => "committed",
                Outcome::RolledBack => "rolled back",
            },
            latency_ms: ms(transaction.latency_ns()),
            phases: match transaction.phases {
                Phases::Rollback { log_ns, db_ns, reset_ns } => {
                    PhasesMs::Rollback { log_ms: ms(log_ns), db_ms: ms(db_ns), reset_ms: ms(reset_ns) }
                }
                Phases::Append { append_ns, checkpoint_ns, checkpoint } => PhasesMs::Append {
                    append_ms: ms(append_ns),
                    checkpoint_ms: ms(checkpoint_ns),
                    checkpoint_bytes: Classes::bytes(&checkpoint),
                },
            },
            silent_ms: ms(transaction.silent_ns),
            segments: transaction.segments,
            flushes: transaction.flushes,
            requests: Classes::requests(&transaction.traffic),
            bytes: Classes::bytes(&transaction.traffic),
            confidence: transaction.confidence.value,
            reason: transaction.confidence.reason.to_string(),
        }
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

pub fn json_line(trace: &str, transaction: &Transaction, names: &Names) -> String {
    serde_json::to_string(&Record::new(trace, transaction, names)).expect("numbers and texts are JSON")
}

const COLUMNS: [&str; 34] = [
    "trace",
    "begin_s",
    "end_s",
    "process",
    "pid",
    "tid",
    "database",
    "others",
    "journal_mode",
    "synchronous",
    "outcome",
    "latency_ms",
    "log_ms",
    "db_ms",
    "reset_ms",
    "append_ms",
    "checkpoint_ms",
    "checkpoint_bytes_db",
    "checkpoint_bytes_journal",
    "checkpoint_bytes_fs_journal",
    "checkpoint_bytes_metadata",
    "silent_ms",
    "segments",
    "flushes",
    "requests_db",
    "requests_journal",
    "requests_fs_journal",
    "requests_metadata",
    "bytes_db",
    "bytes_journal",
    "bytes_fs_journal",
    "bytes_metadata",
    "confidence",
    "reason",
];

pub fn csv_head() -> String {
    COLUMNS.join(",")
}

/// A phase that the journal mode does not have is an empty field; other databases are separated by semicolons.
pub fn csv_line(trace: &str, transaction: &Transaction, names: &Names) -> String {
    let record = Record::new(trace, transaction, names);
    let phases: [Vec<String>; 2] = match record.phases {
        PhasesMs::Rollback { log_ms, db_ms, reset_ms } => {
            [[log_ms, db_ms, reset_ms].map(|ms| ms.to_string()).into(), vec![String::new(); 6]]
        }
        PhasesMs::Append { append_ms, checkpoint_ms, checkpoint_bytes } => {
            let mut append = vec![append_ms.to_string(), checkpoint_ms.to_string()];
            append.extend(checkpoint_bytes.columns());
            [vec![String::new(); 3], append]
        }
    };
    let number = |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
    let mut fields = vec![
        text(record.trace),
        record.begin_s.to_string(),
        record.end_s.to_string(),
        text(record.process.unwrap_or_default()),
        number(record.pid),
        number(record.tid),
        text(&record.database),
        text(&record.others.join(";")),
        record.journal_mode,
        record.synchronous,
        record.outcome.to_owned(),
        record.latency_ms.to_string(),
    ];
    fields.extend(phases.into_iter().flatten());
    fields.extend([record.silent_ms.to_string(), record.segments.to_string(), record.flushes.to_string()]);
    fields.extend(record.requests.columns());
    fields.extend(record.bytes.columns());
    fields.extend([record.confidence.to_string(), text(&record.reason)]);
    debug_assert_eq!(fields.len(), COLUMNS.len());
    fields.join(",")
}

/// In quotes where CSV (RFC 4180) needs them.
fn text(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn what_would_end_a_csv_field_is_quoted() {
        assert_eq!(text("/a/b.db"), "/a/b.db");
        assert_eq!(text("/a, \"b\".db"), "\"/a, \"\"b\"\".db\"");
        assert_eq!(text("a\nb"), "\"a\nb\"");
    }
}
