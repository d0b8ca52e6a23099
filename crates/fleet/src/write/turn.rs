//! The turn of a trace's writer. Two writers of one trace put their files into place one behind the
//! other: so the later one knows what the earlier one has written, and removes what is too much.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::dataset::LOCK_END;
use crate::error::FleetError;

/// As long as this lives. Traces whose IDs begin alike have the same turn.
pub(super) fn wait(writing: &Path, id: &str) -> Result<File, FleetError> {
    let path = writing.join(&id[..1]).with_extension(LOCK_END);
    let lock = || -> io::Result<File> {
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        while let Err(error) = rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            // A turn is short, also for one who was asked to end.
            if error != Errno::INTR {
                return Err(error.into());
            }
        }
        Ok(file)
    };
    lock().map_err(FleetError::io(&path, "locking"))
}
