//! Tries what a directory does with the calls that strategies rely on, for `oneflush probe`.
//!
//! Each call is tried by itself, whatever the file system's type.
//!
//! An open asks nothing of all this; there the first real use decides. A board is made with the
//! locks and the memory. A log is opened with direct I/O. A commit needs a sync.

use std::fs::File;
use std::io;
use std::path::Path;

use oneflush_blocklog::DirectFile;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use crate::config::Atomic;
use crate::ffi::{
    Unfit, flock_excludes, record_locks_exclude, try_atomic_write, try_exchange, try_map,
};
use crate::message_codes::without_codes;
use crate::own_file::open_to_lock;

const SYNC_OF_FILE: &str = "sync of file";
const SYNC_OF_FOLDER: &str = "sync of folder";

/// One call that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    pub what: &'static str,
    /// Why the call does not work, and what is done instead. None: it works.
    pub fails: Option<String>,
    /// True if `eager` cannot do without the call.
    pub needed: bool,
}

impl Tried {
    /// Why `eager` cannot be used. None: this call is no reason.
    pub fn fails_eager(&self) -> Option<&str> {
        self.fails.as_deref().filter(|_| self.needed)
    }

    /// True if a sync fails, so that no commit can be made.
    pub fn fails_sync(&self) -> bool {
        self.fails.is_some() && [SYNC_OF_FILE, SYNC_OF_FOLDER].contains(&self.what)
    }
}

/// Tries the calls in a folder of the caller's own. What is made in the folder stays.
pub fn tried(folder: &Path) -> io::Result<Vec<Tried>> {
    let path = folder.join("tried");
    let file = File::create_new(&path)?;
    let other = open_to_lock(&path)?;
    file.set_len(1)?;
    let needed = |what, result: io::Result<()>| {
        let fails = result.err().map(|error| without_codes(&error.to_string()));
        Tried { what, fails, needed: true }
    };
    let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(Unfit::Flock);
    Ok(vec![
        needed(SYNC_OF_FILE, file.sync_all()),
        needed(SYNC_OF_FOLDER, File::open(folder).and_then(|folder| folder.sync_all())),
        needed("record locks", record_locks_exclude(&file, &other).map_err(io::Error::from)),
        needed("flock", locked.and_then(|()| flock_excludes(&other)).map_err(io::Error::from)),
        // Mapped by the second descriptor: the first cannot be read.
        needed("shared mmap", try_map(&other)),
        direct_io(&folder.join("tried-direct")),
    ])
}

/// What can make commits of `maw` atomic in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AtomicProvider {
    /// As the option `atomic` names it.
    pub name: &'static str,
    /// Why it is not there. None: it was tried, and works.
    pub fails: Option<String>,
}

/// Tries the providers of `maw` in a folder of the caller's own. `tried` is the answer of
/// [`tried()`] for it.
pub fn atomic_providers(folder: &Path, tried: &[Tried]) -> Vec<AtomicProvider> {
    let log = tried.iter().find_map(Tried::fails_eager).map(ToOwned::to_owned);
    vec![
        AtomicProvider { name: Atomic::F2fs.name(), fails: try_atomic_write(folder).err() },
        AtomicProvider { name: Atomic::Xfs.name(), fails: try_exchange(folder).err() },
        AtomicProvider { name: Atomic::Log.name(), fails: log },
    ]
}

/// Direct I/O, which the log can do without.
fn direct_io(path: &Path) -> Tried {
    let fails = match DirectFile::open(path, true) {
        Ok(file) => {
            (!file.is_direct()).then(|| "refused, or done through the page cache".to_owned())
        }
        Err(error) => Some(without_codes(&error.to_string())),
    };
    Tried { what: "direct I/O", fails, needed: false }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_needed_works_on_a_file_system_of_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        let tried = tried(dir.path()).unwrap();
        assert_eq!(tried.iter().find_map(Tried::fails_eager), None);
        assert_eq!(tried.len(), 6);
        let providers = atomic_providers(dir.path(), &tried);
        assert_eq!(
            providers.iter().map(|one| one.name).collect::<Vec<_>>(),
            ["f2fs", "xfs", "log"]
        );
        assert_eq!(providers[2].fails, None);
        let both = providers.iter().filter(|one| one.fails.is_none()).count();
        assert!(both <= 2, "no file system is F2FS and XFS: {providers:?}");
    }
}
