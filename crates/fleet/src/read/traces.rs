//! The table of traces.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::guard::guarded;
use crate::dataset::Dataset;
use crate::error::FleetError;

/// A row of the table, as far as a report needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct OfTrace {
    /// All columns of words, numbers and flags, as text: labels, device, kernel, events, …; null
    /// ones are left out.
    pub(super) texts: BTreeMap<String, String>,
    pub(super) duration_ns: u64,
    pub(super) events: u64,
    pub(super) transactions_cut: u64,
    pub(super) events_lost: u64,
    pub(super) lines_not_understood: u64,
    pub(super) has_device: bool,
    pub(super) files: Vec<String>,
}

/// By their IDs. A row that cannot be read is a line in `problems`.
pub(super) fn all(dataset: &Dataset, problems: &mut Vec<String>) -> BTreeMap<String, OfTrace> {
    let mut traces = BTreeMap::new();
    for path in below(&dataset.traces(), problems) {
        match batches(&path) {
            Ok(batches) => {
                for batch in batches {
                    traces.extend((0..batch.num_rows()).filter_map(|row| of_row(&batch, row)));
                }
            }
            Err(error) => problems.push(format!("{error}; this trace's own figures are missing")),
        }
    }
    traces
}

fn of_row(batch: &RecordBatch, row: usize) -> Option<(String, OfTrace)> {
    let mut texts = BTreeMap::new();
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        if column.is_null(row) {
            continue;
        }
        let words = column.as_string_opt::<i32>().map(|words| words.value(row).to_owned());
        let number =
            || column.as_primitive_opt::<Int64Type>().map(|one| one.value(row).to_string());
        let flag = || column.as_boolean_opt().map(|flags| flags.value(row).to_string());
        if let Some(text) = words.or_else(number).or_else(flag) {
            texts.insert(field.name().clone(), text);
        }
    }
    let number = |name: &str| {
        let column = batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
        column.is_valid(row).then(|| column.value(row).unsigned_abs())
    };
    let flag = |name: &str| Some(batch.column_by_name(name)?.as_boolean_opt()?.value(row));
    let id = texts.get("trace")?.clone();
    let of_trace = OfTrace {
        duration_ns: number("duration_ns").unwrap_or(0),
        events: number("events").unwrap_or(0),
        transactions_cut: number("transactions_cut").unwrap_or(0),
        events_lost: number("events_lost").unwrap_or(0),
        lines_not_understood: number("lines_not_understood").unwrap_or(0),
        has_device: flag("has_device").unwrap_or(true),
        files: list(batch, "files", row),
        texts,
    };
    Some((id, of_trace))
}

/// Where the rows of this trace are by now, below the data set's folder.
pub(crate) fn files_of_trace(dataset: &Dataset, id: &str) -> Result<Vec<String>, FleetError> {
    let name = format!("{id}.parquet");
    let path = dataset.traces().join(&name);
    if !path.exists() {
        return Ok(Vec::new());
    }
    if let Ok(batches) = batches(&path) {
        return Ok(batches.iter().flat_map(|batch| list(batch, "files", 0)).collect());
    }
    // The row is damaged, and does not say it.
    let mut found = below(&dataset.transactions(), &mut Vec::new());
    found.retain(|path| path.file_name() == Some(name.as_ref()));
    Ok(found.iter().filter_map(|path| relative(dataset, path)).collect())
}

/// As the table of traces names a file.
pub(super) fn relative(dataset: &Dataset, path: &Path) -> Option<String> {
    path.strip_prefix(&dataset.dir).ok().map(|path| path.display().to_string())
}

fn batches(path: &Path) -> Result<Vec<RecordBatch>, FleetError> {
    let file = File::open(path).map_err(FleetError::io(path, "opening"))?;
    let read = || {
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.build()?;
        reader.collect::<Result<Vec<_>, _>>().map_err(Into::into)
    };
    guarded(read).map_err(FleetError::parquet(path))
}

/// The texts of a list.
fn list(batch: &RecordBatch, column: &str, row: usize) -> Vec<String> {
    let lists = batch.column_by_name(column).and_then(|column| column.as_list_opt::<i32>());
    let Some(lists) = lists.filter(|lists| row < lists.len()) else { return Vec::new() };
    let list = lists.value(row);
    let Some(texts) = list.as_string_opt::<i32>() else { return Vec::new() };
    texts.iter().flatten().map(ToOwned::to_owned).collect()
}

/// All Parquet files whose names show that they are whole, in the order of their paths. A folder
/// that cannot be read is a line in `problems`.
pub(super) fn below(folder: &Path, problems: &mut Vec<String>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                problems.push(FleetError::io(folder, "reading")(error).to_string());
                continue;
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_hidden =
                name.as_encoded_bytes().first().is_some_and(|first| b"._".contains(first));
            if is_hidden {
                continue;
            }
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "parquet") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
