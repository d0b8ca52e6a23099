//! Names of files that belong to another one.

use std::path::{Path, PathBuf};

/// Follows the database's name. Whoever makes one may replace such a file.
pub const COPY_SUFFIX: &str = "-oneflush-converting";

pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
