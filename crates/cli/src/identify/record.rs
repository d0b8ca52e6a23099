//! One transaction as a JSON object, or as cells, of which CSV and Parquet are made. All come from
//! the same [`Record`]. In cells the classes and phases are columns.
//!
//! Times are seconds of the trace's own clock. The times of two traces cannot be compared.

use oneflush_trace::identify::{Amount, Phases, Scope, Traffic, Transaction};
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
    outcome: String,
    /// Null where the trace does not say how long anything took.
    latency_ms: Option<f64>,
    phases: PhasesMs,
    silent_ms: f64,
    segments: u32,
    /// Null where no device was observed.
    flushes: Option<u64>,
    /// Null where no sync calls were observed.
    syncs: Option<u64>,
    requests: Classes,
    bytes: Classes,
    confidence: f64,
    reason: String,
}

#[derive(Clone, Copy, Serialize)]
struct Classes {
    db: u64,
    journal: u64,
    /// Null where no device was observed.
    fs_journal: Option<u64>,
    metadata: Option<u64>,
}

/// Times are null where the trace does not say how long anything took.
#[derive(Serialize)]
#[serde(untagged)]
enum PhasesMs {
    Rollback { log_ms: Option<f64>, db_ms: Option<f64>, reset_ms: Option<f64> },
    Append { append_ms: Option<f64>, checkpoint_ms: Option<f64>, checkpoint_bytes: Classes },
}

impl Classes {
    fn of(traffic: &Traffic, known: Scope, part: fn(&Amount) -> u64) -> Classes {
        let Traffic { db, journal, fs_journal, metadata } = traffic;
        let observed = |amount| known.observed.device.then(|| part(amount));
        Classes {
            db: part(db),
            journal: part(journal),
            fs_journal: observed(fs_journal),
            metadata: observed(metadata),
        }
    }

    fn requests(traffic: &Traffic, known: Scope) -> Classes {
        Classes::of(traffic, known, |amount| amount.requests)
    }

    fn bytes(traffic: &Traffic, known: Scope) -> Classes {
        Classes::of(traffic, known, |amount| amount.bytes)
    }

    fn cells(self) -> [Cell; 4] {
        let [db, journal] = [self.db, self.journal].map(Cell::Whole);
        let [fs_journal, metadata] = [self.fs_journal, self.metadata].map(whole);
        [db, journal, fs_journal, metadata]
    }
}

impl<'a> Record<'a> {
    fn new(
        trace: &'a str,
        transaction: &Transaction,
        known: Scope,
        names: &'a Names,
    ) -> Record<'a> {
        let number = |id: u32| (id != 0).then_some(id);
        let ms = |ns: u64| known.has_times.then(|| ns as f64 / 1e6);
        Record {
            trace,
            begin_s: transaction.begin_ns as f64 / 1e9,
            end_s: transaction.end_ns as f64 / 1e9,
            process: transaction.process.name.map(|name| names.text(name)),
            pid: number(transaction.process.process),
            tid: number(transaction.process.thread),
            database: transaction.database.to_string(),
            others: transaction.others.iter().map(ToString::to_string).collect(),
            journal_mode: transaction.journal_mode.to_string(),
            synchronous: transaction.synchronous.to_string(),
            outcome: transaction.outcome.to_string(),
            latency_ms: ms(transaction.latency_ns()),
            phases: match transaction.phases {
                Phases::Rollback { log_ns, db_ns, reset_ns } => PhasesMs::Rollback {
                    log_ms: ms(log_ns),
                    db_ms: ms(db_ns),
                    reset_ms: ms(reset_ns),
                },
                Phases::Append { append_ns, checkpoint_ns, checkpoint } => PhasesMs::Append {
                    append_ms: ms(append_ns),
                    checkpoint_ms: ms(checkpoint_ns),
                    checkpoint_bytes: Classes::bytes(&checkpoint, known),
                },
            },
            silent_ms: transaction.silent_ns as f64 / 1e6,
            segments: transaction.segments,
            flushes: known.observed.device.then_some(transaction.flushes),
            syncs: known.observed.syncs.then_some(transaction.syncs),
            requests: Classes::requests(&transaction.traffic, known),
            bytes: Classes::bytes(&transaction.traffic, known),
            confidence: transaction.confidence.value,
            reason: transaction.confidence.reason.to_string(),
        }
    }
}

fn real(number: Option<f64>) -> Cell {
    number.map_or(Cell::Nothing, Cell::Real)
}

fn whole(number: Option<u64>) -> Cell {
    number.map_or(Cell::Nothing, Cell::Whole)
}

pub fn json_line(trace: &str, transaction: &Transaction, known: Scope, names: &Names) -> String {
    serde_json::to_string(&Record::new(trace, transaction, known, names))
        .expect("numbers and texts are JSON")
}

/// What the cells of a column are.
#[derive(Clone, Copy)]
pub enum Kind {
    Text,
    Real,
    Whole,
}

pub enum Cell {
    Text(String),
    Real(f64),
    Whole(u64),
    /// The trace does not have it, or the journal mode has no such phase.
    Nothing,
}

pub const COLUMNS: [(&str, Kind); 35] = [
    ("trace", Kind::Text),
    ("begin_s", Kind::Real),
    ("end_s", Kind::Real),
    ("process", Kind::Text),
    ("pid", Kind::Whole),
    ("tid", Kind::Whole),
    ("database", Kind::Text),
    ("others", Kind::Text),
    ("journal_mode", Kind::Text),
    ("synchronous", Kind::Text),
    ("outcome", Kind::Text),
    ("latency_ms", Kind::Real),
    ("log_ms", Kind::Real),
    ("db_ms", Kind::Real),
    ("reset_ms", Kind::Real),
    ("append_ms", Kind::Real),
    ("checkpoint_ms", Kind::Real),
    ("checkpoint_bytes_db", Kind::Whole),
    ("checkpoint_bytes_journal", Kind::Whole),
    ("checkpoint_bytes_fs_journal", Kind::Whole),
    ("checkpoint_bytes_metadata", Kind::Whole),
    ("silent_ms", Kind::Real),
    ("segments", Kind::Whole),
    ("flushes", Kind::Whole),
    ("syncs", Kind::Whole),
    ("requests_db", Kind::Whole),
    ("requests_journal", Kind::Whole),
    ("requests_fs_journal", Kind::Whole),
    ("requests_metadata", Kind::Whole),
    ("bytes_db", Kind::Whole),
    ("bytes_journal", Kind::Whole),
    ("bytes_fs_journal", Kind::Whole),
    ("bytes_metadata", Kind::Whole),
    ("confidence", Kind::Real),
    ("reason", Kind::Text),
];

/// One for each of [`COLUMNS`]; other databases are separated by semicolons.
pub fn cells(trace: &str, transaction: &Transaction, known: Scope, names: &Names) -> Vec<Cell> {
    let record = Record::new(trace, transaction, known, names);
    let text = |text: &str| Cell::Text(text.to_owned());
    let number =
        |number: Option<u32>| number.map_or(Cell::Nothing, |number| Cell::Whole(number.into()));
    let nothing = |count: usize| (0..count).map(|_| Cell::Nothing);
    let mut cells = vec![
        text(record.trace),
        Cell::Real(record.begin_s),
        Cell::Real(record.end_s),
        record.process.map_or(Cell::Nothing, text),
        number(record.pid),
        number(record.tid),
        Cell::Text(record.database),
        Cell::Text(record.others.join(";")),
        Cell::Text(record.journal_mode),
        Cell::Text(record.synchronous),
        Cell::Text(record.outcome),
        real(record.latency_ms),
    ];
    match record.phases {
        PhasesMs::Rollback { log_ms, db_ms, reset_ms } => {
            cells.extend([log_ms, db_ms, reset_ms].map(real));
            cells.extend(nothing(6));
        }
        PhasesMs::Append { append_ms, checkpoint_ms, checkpoint_bytes } => {
            cells.extend(nothing(3));
            cells.extend([append_ms, checkpoint_ms].map(real));
            cells.extend(checkpoint_bytes.cells());
        }
    }
    cells.extend([
        Cell::Real(record.silent_ms),
        Cell::Whole(record.segments.into()),
        whole(record.flushes),
        whole(record.syncs),
    ]);
    cells.extend(record.requests.cells());
    cells.extend(record.bytes.cells());
    cells.extend([Cell::Real(record.confidence), Cell::Text(record.reason)]);
    debug_assert_eq!(cells.len(), COLUMNS.len());
    cells
}

pub fn csv_head() -> String {
    COLUMNS.map(|column| column.0).join(",")
}

/// What is not there is an empty field.
pub fn csv_line(trace: &str, transaction: &Transaction, known: Scope, names: &Names) -> String {
    let field = |cell: Cell| match cell {
        Cell::Text(field) => text(&field),
        Cell::Real(number) => number.to_string(),
        Cell::Whole(number) => number.to_string(),
        Cell::Nothing => String::new(),
    };
    cells(trace, transaction, known, names).into_iter().map(field).collect::<Vec<_>>().join(",")
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
