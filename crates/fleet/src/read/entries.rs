//! Entries of a report out of arrays.

use std::cell::RefCell;

use arrow_array::RecordBatch;
use oneflush_trace::identify::{Confidence, JournalMode, Outcome, Reason, Synchronous};
use oneflush_trace::report::{Entry, OTHER_DATABASES};
use rustc_hash::FxHashMap;

use super::rows::{Texts, Wholes, reals};

/// Always read.
pub(super) const COLUMNS: [&str; 20] = [
    "offset_us",
    "begin",
    "database",
    "journal_mode",
    "synchronous",
    "outcome",
    "latency_ns",
    "silent_ns",
    "flushes",
    "bytes_db",
    "bytes_journal",
    "bytes_fs_journal",
    "bytes_metadata",
    "checkpoint_bytes_db",
    "checkpoint_bytes_journal",
    "checkpoint_bytes_fs_journal",
    "checkpoint_bytes_metadata",
    "confidence",
    "reason",
    "trace",
];

/// Only a page shows them.
pub(super) const SHOWN: [&str; 6] = [
    "process",
    "pid",
    "requests_db",
    "requests_journal",
    "requests_fs_journal",
    "requests_metadata",
];

/// Names that are told apart; later ones are one. A database whose numbers are in a sketch takes
/// some 4 KB.
const NAMES_COUNT_MAX: usize = 50_000;

/// Names, each with a number.
pub(super) struct Numbers {
    pub(super) names: Vec<String>,
    known: FxHashMap<String, u32>,
    others: &'static str,
}

impl Numbers {
    pub(super) fn new(others: &'static str) -> Numbers {
        Numbers { names: Vec::new(), known: FxHashMap::default(), others }
    }

    pub(super) fn of(&mut self, name: &str) -> u32 {
        if let Some(number) = self.known.get(name) {
            return *number;
        }
        let name = if self.names.len() < NAMES_COUNT_MAX { name } else { self.others };
        if let Some(number) = self.known.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.known.insert(name.to_owned(), number);
        number
    }
}

pub(super) struct Names {
    pub(super) databases: Numbers,
    pub(super) processes: Numbers,
}

impl Names {
    pub(super) fn new() -> Names {
        Names {
            databases: Numbers::new(OTHER_DATABASES),
            processes: Numbers::new("(other processes)"),
        }
    }
}

/// The columns of one batch.
pub(super) struct Entries<'a> {
    begin: Wholes<'a>,
    offset: Wholes<'a>,
    latency: Wholes<'a>,
    silent: Wholes<'a>,
    flushes: Wholes<'a>,
    bytes: [Wholes<'a>; 4],
    checkpoint_bytes: [Wholes<'a>; 4],
    requests: [Wholes<'a>; 4],
    pid: Wholes<'a>,
    confidence: Option<&'a [f64]>,
    /// Only names of rows that are asked for get a number.
    database: Option<Texts<'a>>,
    numbers: RefCell<Vec<Option<u32>>>,
    journal_mode: Keyed<'a, JournalMode>,
    synchronous: Keyed<'a, Synchronous>,
    outcome: Keyed<'a, Outcome>,
    reason: Keyed<'a, Reason>,
    process: Option<(Texts<'a>, Vec<&'a str>)>,
    is_utc: bool,
}

/// A column of text whose texts mean something.
struct Keyed<'a, T> {
    texts: Option<Texts<'a>>,
    meanings: Vec<T>,
    other: T,
}

impl<'a, T: Copy> Keyed<'a, T> {
    fn of(
        batch: &'a RecordBatch,
        name: &str,
        other: T,
        mut meaning: impl FnMut(&str) -> Option<T>,
    ) -> Keyed<'a, T> {
        let texts = Texts::of(batch, name);
        let meanings = texts
            .as_ref()
            .map_or(Vec::new(), |texts| texts.each(|text| meaning(text).unwrap_or(other)));
        Keyed { texts, meanings, other }
    }

    fn get(&self, row: usize) -> T {
        let key = self.texts.as_ref().and_then(|texts| texts.key(row));
        key.map_or(self.other, |key| self.meanings[key])
    }
}

impl<'a> Entries<'a> {
    /// `is_utc`: begin is told by the world's clock, else since the begin of the trace.
    pub(super) fn of(batch: &'a RecordBatch, is_utc: bool) -> Entries<'a> {
        let wholes = |name: &str| Wholes::of(batch, name);
        let classes = |prefix: &str| {
            ["db", "journal", "fs_journal", "metadata"]
                .map(|class| wholes(&format!("{prefix}{class}")))
        };
        let database = Texts::of(batch, "database");
        let numbers = database.as_ref().map_or(0, Texts::count);
        Entries {
            begin: wholes("begin"),
            offset: wholes("offset_us"),
            latency: wholes("latency_ns"),
            silent: wholes("silent_ns"),
            flushes: wholes("flushes"),
            bytes: classes("bytes_"),
            checkpoint_bytes: classes("checkpoint_bytes_"),
            requests: classes("requests_"),
            pid: wholes("pid"),
            confidence: reals(batch, "confidence"),
            database,
            numbers: RefCell::new(vec![None; numbers]),
            journal_mode: Keyed::of(
                batch,
                "journal_mode",
                JournalMode::Unknown,
                JournalMode::named,
            ),
            synchronous: Keyed::of(batch, "synchronous", Synchronous::Unknown, Synchronous::named),
            outcome: Keyed::of(batch, "outcome", Outcome::Committed, Outcome::named),
            reason: Keyed::of(batch, "reason", Reason::Other, Reason::named),
            process: Texts::of(batch, "process").map(|texts| {
                let names = texts.each(|name| name);
                (texts, names)
            }),
            is_utc,
        }
    }

    /// As far as the trace shows them.
    pub(super) fn flushes(&self, row: usize) -> Option<u64> {
        self.flushes.get(row).map(|count| count.max(0) as u64)
    }

    fn database(&self, row: usize, names: &mut Names) -> u32 {
        let Some((texts, key)) = self.database.as_ref().and_then(|t| Some((t, t.key(row)?))) else {
            return names.databases.of("");
        };
        let number = &mut self.numbers.borrow_mut()[key];
        *number.get_or_insert_with(|| names.databases.of(texts.text(key)))
    }

    /// `is_shown`: a page shows the process.
    pub(super) fn get(&self, row: usize, names: &mut Names, is_shown: bool) -> Entry {
        let four =
            |columns: &[Wholes; 4]| [0, 1, 2, 3].map(|class: usize| columns[class].count(row));
        let begin = if self.is_utc { &self.begin } else { &self.offset };
        let value = self.confidence.map_or(0.0, |confidence| confidence[row]);
        Entry {
            begin_ns: begin.count(row) * 1000,
            latency_ns: self.latency.count(row),
            has_latency: self.latency.get(row).is_some(),
            silent_ns: self.silent.count(row),
            bytes: four(&self.bytes),
            checkpoint_bytes: four(&self.checkpoint_bytes).iter().sum(),
            requests: four(&self.requests).iter().sum(),
            flushes: self.flushes.count(row),
            database: self.database(row, names),
            process: if is_shown { self.process(row, names) } else { 0 },
            journal_mode: self.journal_mode.get(row),
            synchronous: self.synchronous.get(row),
            outcome: self.outcome.get(row),
            confidence: Confidence { value, reason: self.reason.get(row) },
        }
    }

    fn process(&self, row: usize, names: &mut Names) -> u32 {
        let name = self.process.as_ref().and_then(|(texts, names)| Some(names[texts.key(row)?]));
        let said = match (name, self.pid.get(row)) {
            (None, None) => "kernel write-back".to_owned(),
            (None, Some(pid)) => format!("process {pid}"),
            (Some(name), None) => name.to_owned(),
            (Some(name), Some(pid)) => format!("{name} {pid}"),
        };
        names.processes.of(&said)
    }
}
