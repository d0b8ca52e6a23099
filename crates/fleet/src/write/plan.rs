//! The plan of a writer: which files it is about to put into their places.
//!
//! A writer that is killed leaves its plan. The next writer of the trace knows by it what may lie
//! in folders that no row names. A plan is locked as long as its writer lives, so that nobody takes
//! the files of one that only takes long.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use tempfile::NamedTempFile;

use crate::error::FleetError;

pub(crate) const END: &str = ".plan";

/// Is there until it is dropped.
pub(super) fn begin(
    writing: &Path,
    id: &str,
    files: &[String],
) -> Result<NamedTempFile, FleetError> {
    let write = || -> io::Result<NamedTempFile> {
        let (prefix, text) = (format!("{id}."), files.join("\n"));
        let mut plan = tempfile::Builder::new().prefix(&prefix).suffix(END).tempfile_in(writing)?;
        rustix::fs::flock(plan.as_file(), FlockOperation::NonBlockingLockExclusive)?;
        plan.write_all(text.as_bytes())?;
        plan.as_file().sync_all()?;
        File::open(writing)?.sync_all()?;
        Ok(plan)
    };
    write().map_err(FleetError::io(writing, "writing in it"))
}

/// Plans of killed writers of the trace. Their files come to `before`.
pub(super) fn left(
    writing: &Path,
    id: &str,
    before: &mut Vec<String>,
) -> Result<Vec<(PathBuf, File)>, FleetError> {
    let mut plans = Vec::new();
    let entries = fs::read_dir(writing).map_err(FleetError::io(writing, "reading"))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(&format!("{id}.")) || !name.ends_with(END) {
            continue;
        }
        // Its writer may have ended well meanwhile.
        let Ok(mut file) = File::open(entry.path()) else { continue };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(FleetError::io(entry.path(), "reading"))?;
        before.extend(text.lines().map(ToOwned::to_owned));
        plans.push((entry.path(), file));
    }
    Ok(plans)
}

/// What they planned is mended.
pub(super) fn done(plans: Vec<(PathBuf, File)>) -> Result<(), FleetError> {
    for (path, _lock) in plans {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FleetError::io(path, "removing")(error));
            }
            _ => {}
        }
    }
    Ok(())
}
