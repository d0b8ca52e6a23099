//! The files of `transactions`, and what holds for all rows of one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::traces::{self, OfTrace};
use crate::dataset::{self, Dataset};
use crate::schema::{Column, TRACES, TRANSACTIONS};

pub(super) struct OfFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// Name of the file without its end: the ID, where a program of ours wrote it.
    pub(super) id: String,
    /// `NAME=VALUE` of its folders.
    folders: BTreeMap<String, Option<String>>,
}

/// In the order of their paths. `problems` tells two things: files that the table of traces names
/// and nobody finds, and files of its traces that it does not name. There a writer was ended
/// between its steps, and the rows may be there twice.
pub(super) fn all(
    dataset: &Dataset,
    known: &BTreeMap<String, OfTrace>,
    problems: &mut Vec<String>,
) -> Vec<OfFile> {
    let mut files = Vec::new();
    let mut found = BTreeSet::new();
    let mut left = Vec::new();
    for path in traces::below(&dataset.transactions(), problems) {
        let Some(relative) = traces::relative(dataset, &path) else { continue };
        let folders = relative
            .split('/')
            .filter_map(dataset::folder)
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if known.get(&id).is_some_and(|trace| !trace.files.contains(&relative)) {
            left.push(path);
            continue;
        }
        found.insert(relative);
        let bytes = path.metadata().map_or(0, |file| file.len());
        files.push(OfFile { path, bytes, id, folders });
    }
    let mut missing =
        known.values().flat_map(|trace| &trace.files).filter(|file| !found.contains(*file));
    if let Some(first) = missing.next() {
        problems.push(format!(
            "{}: is missing{}; its transactions are in no figure: identify the trace again",
            dataset.dir.join(first).display(),
            more(missing.count())
        ));
    }
    if let Some(first) = left.first() {
        problems.push(format!(
            "{}: is of an earlier run of its trace{}; it is left out: identify the trace again, or \
             remove it",
            first.display(),
            more(left.len() - 1)
        ));
    }
    files
}

fn more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(", and {count} more") }
}

impl OfFile {
    /// A value that all rows have. Outer `None`: rows may differ, or nobody knows the column.
    pub(super) fn shared<'a>(
        &'a self,
        column: &str,
        trace: Option<&'a OfTrace>,
    ) -> Option<Option<&'a str>> {
        if let Some(value) = self.folders.get(column) {
            return Some(value.as_deref());
        }
        let value = trace?.texts.get(column).map(|value| Some(value.as_str()));
        let has = |columns: &[Column]| columns.iter().any(|known| known.name == column);
        let is_of_traces = has(&TRACES) && !has(&TRANSACTIONS);
        value.or(is_of_traces.then_some(None))
    }

    pub(super) fn folder_names(&self) -> impl Iterator<Item = &str> {
        self.folders.keys().map(String::as_str)
    }
}
