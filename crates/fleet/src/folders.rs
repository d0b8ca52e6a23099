//! Folders whose names are durable, as far as this process knows.
//!
//! A writer that was killed, or that writes beside this one, may have made a folder and not synced
//! its name. So this process syncs each name once, also that of a folder which was there.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::FleetError;

/// Of making a folder, or a file in it, that other writers remove meanwhile while it is empty.
pub(crate) const TRIES: u32 = 100;

#[derive(Debug, Default)]
pub(crate) struct Folders(RefCell<HashSet<PathBuf>>);

impl Folders {
    /// Makes a folder below `top`, which is there, and those between.
    pub(crate) fn make(&self, top: &Path, folder: &Path) -> Result<(), FleetError> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match self.try_make(top, folder) {
                Err(FleetError::Io { source, .. })
                    if source.kind() == ErrorKind::NotFound && tries > 0 => {}
                done => return done,
            }
        }
    }

    fn try_make(&self, top: &Path, folder: &Path) -> Result<(), FleetError> {
        let names = || folder.ancestors().take_while(|name| *name != top);
        // One that somebody has removed gets a new name.
        names().filter(|name| !name.is_dir()).for_each(|gone| self.removed(gone));
        fs::create_dir_all(folder).map_err(FleetError::io(folder, "making"))?;
        for name in names() {
            if !self.0.borrow().contains(name) {
                sync(name.parent().unwrap_or(top))?;
                self.0.borrow_mut().insert(name.to_owned());
            }
        }
        Ok(())
    }

    /// It is gone. One that is made anew has a new name.
    pub(crate) fn removed(&self, folder: &Path) {
        self.0.borrow_mut().remove(folder);
    }
}

/// Makes a folder and those that it is in, each with a name that is durable.
pub(crate) fn make(folder: &Path) -> Result<(), FleetError> {
    let is_new = |folder: &&Path| *folder != Path::new("") && !folder.is_dir();
    let new: Vec<&Path> = folder.ancestors().take_while(is_new).collect();
    fs::create_dir_all(folder).map_err(FleetError::io(folder, "making"))?;
    new.iter().filter_map(|folder| folder.parent()).try_for_each(sync)
}

/// Names that it has, and has no more, are durable.
pub(crate) fn sync(folder: &Path) -> Result<(), FleetError> {
    // The parent of a relative path.
    let folder = if folder == Path::new("") { Path::new(".") } else { folder };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(FleetError::io(folder, "syncing"))
}
