//! Places that do not keep what a database relies on.
//!
//! Each is a FUSE file system that passes all through to a folder. Only what it is told to ignore,
//! to refuse or to fail is different.
//!
//! | flaw | what the kernel makes of it | as |
//! |---|---|---|
//! | [`Sync::Ignored`]: `ENOSYS` | later syncs succeed, reach nobody | FUSE without `fsync` |
//! | [`Sync::Fails`] | the sync fails | a device that is lost |
//! | [`Locks`] of one kind: refused, or granted to all | the same | 9p, NFS without lock manager |
//! | [`Answer::WriterOnly`] | a lock for writing wants a descriptor for writing | NFS |
//! | [`Flaws::refuses_direct`] | `EINVAL`, though `fcntl` took the flag | FUSE, ZFS, old overlays |
//! | [`Cache::No`]: `FOPEN_DIRECT_IO` | `RWF_DSYNC` is ignored | 9p, FUSE programs over networks |
//! | [`Cache::NoMaps`] | the same; `MAP_SHARED` is `ENODEV` | uncached 9p, FUSE before Linux 6.6 |
//!
//! The file system knows which files have been written since their last sync
//! ([`Flawed::unsynced`]). An acknowledged commit must not be among them. It can also keep what it
//! was asked to do, and tell what a loss of power may leave ([`History`]).

mod file_system;
mod history;
mod names;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{BackgroundSession, Config, MountOption, spawn_mount};
use tempfile::TempDir;

use self::file_system::FileSystem;
use self::history::Step;
pub use self::history::{History, Loss};
use self::names::Names;

/// What a sync of a file or a directory does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    #[default]
    Kept,
    /// For as long as it is mounted: the kernel does not ask again.
    Ignored,
    Fails,
}

/// What somebody is told who asks for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This error number.
    Refused(i32),
    /// "You have it", to everybody.
    Granted,
    /// As NFS does, for `flock`: an exclusive lock by a descriptor for reading only is `EBADF`. All
    /// others are kept.
    WriterOnly,
}

/// Who keeps locks. Of the other kind the kernel does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locks {
    #[default]
    Kept,
    Flock(Answer),
    /// Record locks: `F_SETLK` and `F_OFD_SETLK`.
    Posix(Answer),
}

/// Whether the kernel caches what files have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    #[default]
    Yes,
    /// Each read and write is a request.
    No,
    /// The same, and files cannot be memory that processes share.
    NoMaps,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Flaws {
    pub sync: Sync,
    pub locks: Locks,
    /// Writes and reads with `O_DIRECT`.
    pub refuses_direct: bool,
    pub cache: Cache,
}

/// Such a place, as long as this lives.
pub struct Flawed {
    state: Arc<State>,
    /// Unmounts when it is dropped, and so before the folders go.
    _session: BackgroundSession,
    lower: TempDir,
    at: TempDir,
}

#[derive(Debug)]
struct State {
    flaws: Flaws,
    /// That of `flaws` at first.
    sync: Mutex<Sync>,
    /// Paths below the root, written and not synced.
    unsynced: Mutex<BTreeSet<PathBuf>>,
    names: Mutex<Names>,
    /// Between its begin and its end.
    history: Mutex<Option<History>>,
}

impl State {
    fn note(&self, step: impl FnOnce() -> Step) {
        if let Some(history) = &mut *lock(&self.history) {
            history.steps.push(step());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why no such place can be made here; the test skips.
pub fn why_not() -> Option<String> {
    // Without root, fusermount would do it, but not in a mount namespace of the test's own.
    let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    match opened {
        Err(error) => Some(format!("/dev/fuse: {error}")),
        Ok(_) => (!is_root).then(|| "only root may mount".to_owned()),
    }
}

impl Flawed {
    /// Mounts one, of the type `fuse.SUBTYPE`. So that nothing stays, the test should be in a mount
    /// namespace of its own ([`crate::in_own_mounts`]).
    pub fn mount(subtype: &str, flaws: Flaws) -> io::Result<Flawed> {
        let (lower, at) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let state = Arc::new(State {
            flaws,
            sync: Mutex::new(flaws.sync),
            unsynced: Mutex::default(),
            names: Mutex::new(Names::new()),
            history: Mutex::default(),
        });
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("flawed".to_owned()),
            // The kernel's own option; `Subtype` goes to fusermount only.
            MountOption::CUSTOM(format!("subtype={subtype}")),
            MountOption::DefaultPermissions,
        ];
        let file_system = FileSystem::over(lower.path(), Arc::clone(&state));
        let session = spawn_mount(file_system, at.path(), &config)?;
        Ok(Flawed { state, _session: session, lower, at })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.at.path()
    }

    /// The folder where the files are, without any flaw.
    pub fn lower(&self) -> &Path {
        self.lower.path()
    }

    /// From now on. ([`Sync::Ignored`] cannot be taken back.)
    pub fn set_sync(&self, sync: Sync) {
        *lock(&self.state.sync) = sync;
    }

    /// The files of this folder that have been written since the last sync that was kept.
    pub fn unsynced(&self) -> Vec<PathBuf> {
        lock(&self.state.unsynced).iter().cloned().collect()
    }

    /// What is there now counts as durable. Nobody else may use the place at this moment.
    pub fn begin_history(&self) -> io::Result<()> {
        let history = History::begin(self.lower(), &mut lock(&self.state.names))?;
        *lock(&self.state.history) = Some(history);
        Ok(())
    }

    /// None: it was not begun.
    pub fn end_history(&self) -> Option<History> {
        lock(&self.state.history).take()
    }
}
