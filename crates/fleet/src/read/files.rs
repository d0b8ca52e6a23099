//! The files of `transactions`, and what holds for all rows of one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::traces::{self, OfTrace};
use crate::dataset::{self, Dataset};
use crate::error::FleetError;

pub(super) struct OfFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// Name of the file without its end: the ID, where a program of ours wrote it.
    pub(super) id: String,
    /// `NAME=VALUE` of its folders.
    folders: BTreeMap<String, Option<String>>,
}

/// In the order of their paths. What the table of traces names and nobody finds is a line in
/// `problems`.
pub(super) fn all(
    dataset: &Dataset,
    known: &BTreeMap<String, OfTrace>,
    problems: &mut Vec<String>,
) -> Result<Vec<OfFile>, FleetError> {
    let mut files = Vec::new();
    let mut found = BTreeSet::new();
    for path in traces::below(&dataset.transactions())? {
        let Some(relative) = traces::relative(dataset, &path) else { continue };
        let folders = relative
            .split('/')
            .filter_map(dataset::folder)
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        found.insert(relative);
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = path.metadata().map_or(0, |file| file.len());
        files.push(OfFile { path, bytes, id, folders });
    }
    let mut missing =
        known.values().flat_map(|trace| &trace.files).filter(|file| !found.contains(*file));
    if let Some(first) = missing.next() {
        let more = match missing.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        problems.push(format!(
            "{}: is missing{more}; its transactions are in no figure: identify the trace again",
            dataset.dir.join(first).display()
        ));
    }
    Ok(files)
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
        trace?.texts.get(column).map(|value| Some(value.as_str()))
    }

    pub(super) fn folder_names(&self) -> impl Iterator<Item = &str> {
        self.folders.keys().map(String::as_str)
    }
}
