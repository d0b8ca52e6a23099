//! The columns of both tables, in their order. `docs/dataset.md` says what each means; a test
//! compares the two.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};

/// A later version only adds columns.
pub const VERSION: i64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A list of texts. Neither the list nor a text in it is null.
    Texts,
    Whole,
    Real,
    /// Microseconds since 1970, UTC.
    Time,
    Flag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub is_optional: bool,
    /// Values seldom repeat, so that a dictionary is of no use.
    pub is_delta: bool,
}

const fn must(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, is_optional: false, is_delta: false }
}

const fn may(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, is_optional: true, is_delta: false }
}

impl Column {
    const fn delta(self) -> Column {
        Column { is_delta: true, ..self }
    }
}

/// Behind them come the labels that are not in the folders' names.
pub const TRANSACTIONS: [Column; 38] = [
    must("trace", Kind::Text),
    may("begin", Kind::Time).delta(),
    may("end", Kind::Time).delta(),
    must("offset_us", Kind::Whole).delta(),
    may("process", Kind::Text),
    may("pid", Kind::Whole),
    may("tid", Kind::Whole),
    must("database", Kind::Text),
    must("others", Kind::Texts),
    must("journal_mode", Kind::Text),
    must("synchronous", Kind::Text),
    must("outcome", Kind::Text),
    may("latency_ns", Kind::Whole).delta(),
    may("log_ns", Kind::Whole).delta(),
    may("db_ns", Kind::Whole).delta(),
    may("reset_ns", Kind::Whole).delta(),
    may("append_ns", Kind::Whole).delta(),
    may("checkpoint_ns", Kind::Whole),
    may("checkpoint_bytes_db", Kind::Whole),
    may("checkpoint_bytes_journal", Kind::Whole),
    may("checkpoint_bytes_fs_journal", Kind::Whole),
    may("checkpoint_bytes_metadata", Kind::Whole),
    must("silent_ns", Kind::Whole),
    must("segments", Kind::Whole),
    may("flushes", Kind::Whole),
    may("syncs", Kind::Whole),
    must("requests_db", Kind::Whole),
    must("requests_journal", Kind::Whole),
    may("requests_fs_journal", Kind::Whole),
    may("requests_metadata", Kind::Whole),
    must("bytes_db", Kind::Whole),
    must("bytes_journal", Kind::Whole),
    may("bytes_fs_journal", Kind::Whole),
    may("bytes_metadata", Kind::Whole),
    must("confidence", Kind::Real),
    must("reason", Kind::Text),
    may(FILE_SYSTEM, Kind::Text),
    may(DEVICE, Kind::Text),
];

/// Behind them come the other labels.
pub const TRACES: [Column; 29] = [
    must("trace", Kind::Text),
    must("source", Kind::Text),
    must("sha256", Kind::Text),
    must("source_bytes", Kind::Whole),
    may("format", Kind::Text),
    may("recorder", Kind::Text),
    may(KERNEL, Kind::Text),
    may(FILE_SYSTEM, Kind::Text),
    may("clock", Kind::Text),
    may("begin", Kind::Time),
    may("end", Kind::Time),
    must("duration_ns", Kind::Whole),
    must("events", Kind::Whole),
    must("transactions", Kind::Whole),
    must("transactions_cut", Kind::Whole),
    must("lines_not_understood", Kind::Whole),
    must("events_ignored", Kind::Whole),
    must("events_disordered", Kind::Whole),
    must("events_lost", Kind::Whole),
    must("places_lost", Kind::Whole),
    may("recorder_bytes", Kind::Whole),
    must("has_device", Kind::Flag),
    may("cut_off", Kind::Text),
    must("notes", Kind::Texts),
    must("files", Kind::Texts),
    may("error", Kind::Text),
    must("made_by", Kind::Text),
    must("schema", Kind::Whole),
    may(DEVICE, Kind::Text),
];

/// The name in `--by` that is no label: the day, in UTC, of a transaction's beginning.
pub const DAY: &str = "day";
/// Hive's name of the folder of those that have no value.
pub(crate) const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Labels that fill a column which is always there.
pub const DEVICE: &str = "device";
pub const KERNEL: &str = "kernel";
pub const FILE_SYSTEM: &str = "file_system";

/// The columns of a table and of these labels, all text.
pub(crate) fn arrow<'a>(columns: &[Column], labels: impl Iterator<Item = &'a str>) -> Schema {
    let own = columns
        .iter()
        .map(|column| Field::new(column.name, data_type(column.kind), column.is_optional));
    let labels = labels.map(|label| Field::new(label, DataType::Utf8, true));
    Schema::new(own.chain(labels).collect::<Vec<_>>())
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Text => DataType::Utf8,
        Kind::Texts => DataType::List(item()),
        Kind::Whole => DataType::Int64,
        Kind::Real => DataType::Float64,
        Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some(utc())),
        Kind::Flag => DataType::Boolean,
    }
}

pub(crate) fn item() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::Utf8, false))
}

pub(crate) fn utc() -> Arc<str> {
    Arc::from("UTC")
}
