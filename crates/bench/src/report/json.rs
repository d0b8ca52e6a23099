//! The whole report as one JSON object, written and read again. Units are in the names.

use std::io;
use std::path::{Path, PathBuf};

use super::Report;

/// A saved report that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: not what `oneflush bench --json` of this version prints ({source}); write it with \
        `oneflush bench --json > FILE.json`", path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
}

pub fn render(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(report)
        .unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    text.push('\n');
    text
}

pub fn read(path: &Path) -> Result<Report, SavedError> {
    let text =
        std::fs::read(path).map_err(|source| SavedError::Read { path: path.to_owned(), source })?;
    serde_json::from_slice(&text)
        .map_err(|source| SavedError::Parse { path: path.to_owned(), source })
}
