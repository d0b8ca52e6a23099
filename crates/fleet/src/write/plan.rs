//! The plan of a writer: which files it is about to put into their places, and which to remove.
//!
//! A writer that is killed, or whose disk is full, leaves its plan. The next writer of the trace
//! knows by it what may lie in folders that no row names. A plan is made and read in the trace's
//! turn, so it is never that of a writer that only takes long.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::dataset::PLAN_END;
use crate::error::FleetError;

/// Until it is [`done`], it stays, also after an error.
pub(super) fn begin<'a>(
    writing: &Path,
    id: &str,
    files: impl Iterator<Item = &'a String>,
) -> Result<PathBuf, FleetError> {
    let prefix = format!("{id}.");
    let text = files.map(|file| format!("{file}\n")).collect::<String>();
    let write = || -> io::Result<PathBuf> {
        let mut plan = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(&format!(".{PLAN_END}"))
            .tempfile_in(writing)?;
        plan.write_all(text.as_bytes())?;
        plan.as_file().sync_all()?;
        File::open(writing)?.sync_all()?;
        Ok(plan.into_temp_path().keep()?)
    };
    write().map_err(FleetError::io(writing, "writing in it"))
}

/// Plans that writers of the trace have left. Their files come to `before`.
pub(super) fn left(
    writing: &Path,
    id: &str,
    before: &mut Vec<String>,
) -> Result<Vec<PathBuf>, FleetError> {
    let mut plans = Vec::new();
    let entries = fs::read_dir(writing).map_err(FleetError::io(writing, "reading"))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let is_of_trace = entry.file_name().to_string_lossy().starts_with(&format!("{id}."));
        if !is_of_trace || path.extension().is_none_or(|end| end != PLAN_END) {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(FleetError::io(&path, "reading"))?;
        before.extend(text.lines().map(ToOwned::to_owned));
        plans.push(path);
    }
    Ok(plans)
}

/// What they planned is mended.
pub(super) fn done(plans: Vec<PathBuf>) -> Result<(), FleetError> {
    for path in plans {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FleetError::io(path, "removing")(error));
            }
            _ => {}
        }
    }
    Ok(())
}
