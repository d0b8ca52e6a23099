//! Mounting a directory by FUSE, with its log beside it.
//!
//! ```text
//! programs ─▶ kernel: names, attributes and pages are cached; locks stay there
//!                │ requests
//!                ▼
//!         threads that answer ──▶ Tree ──▶ Directory, at once
//!                │                  └────▶ log, at a sync
//!                ├ fetching: has the kernel hand over pages, then renames
//!                ├ syncing:  oneflush sync
//!                └ keeper:   pending operations, epochs, what was forgotten
//! ```
//!
//! What the kernel does with a sync (tried on Linux 6.18): it sends the file's pages (`WRITE`), its
//! time (`SETATTR`), then `FSYNC`. It does the same after each write to a file that was opened with
//! `O_SYNC` or `O_DSYNC`, also with `O_DIRECT`. `sync(2)` and `syncfs(2)` only send pages, and they
//! succeed whatever happens: [`sync`] is there for that.
//!
//! Pages that only the kernel has die with the daemon. They come to it at every close and sync, and
//! some seconds after they were written.

mod acl;
mod answer;
mod aside;
mod control;
mod error;
mod file_system;
mod keeper;
mod mounts;
mod nodes;
mod place;
mod recover;
mod session;
mod unmount;
mod users;

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, getxattr, open, syncfs};
use rustix::io::Errno;

pub use self::error::MountError;
pub use self::mounts::at as seen_at;
pub use self::place::is_dead;
pub use self::recover::Before;
pub use self::session::{Mounted, mount, recover};
pub use self::unmount::unmount;
use crate::tree::Isets;

/// What is mounted, where and how.
#[derive(Clone, Debug)]
pub struct Options {
    pub lower: PathBuf,
    pub mountpoint: PathBuf,
    /// `None`: `NAME-oneflush/log` beside the lower.
    pub log: Option<PathBuf>,
    /// What the log may grow to.
    pub log_bytes: u64,
    pub threshold_bytes: u64,
    pub isets: Isets,
    /// Also users other than who mounts.
    pub allow_other: bool,
    /// The mount point may have something in it, which is hidden then.
    pub may_hide: bool,
    /// Set-user-ID and set-group-ID have no effect. What the lower's mount forbids stays forbidden
    /// in any case, and who is not root has neither these nor devices.
    pub nosuid: bool,
    pub nodev: bool,
    pub noexec: bool,
    /// How many requests are answered at a time. Each sync takes one until it is durable.
    pub threads: usize,
}

impl Options {
    pub fn new(lower: impl Into<PathBuf>, mountpoint: impl Into<PathBuf>) -> Options {
        Options {
            lower: lower.into(),
            mountpoint: mountpoint.into(),
            log: None,
            log_bytes: 256 << 20,
            threshold_bytes: 400 << 10,
            isets: Isets::All,
            allow_other: false,
            may_hide: false,
            nosuid: false,
            nodev: false,
            noexec: false,
            threads: 24,
        }
    }
}

/// The longest answer to a question.
const ANSWER_BYTES_MAX: usize = 16 << 10;

fn ask(mountpoint: &Path, question: &str) -> Result<Vec<u8>, Errno> {
    let mut answer = vec![0; ANSWER_BYTES_MAX];
    let length = getxattr(mountpoint, question, &mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

/// Everything that was written through the mount is durable on return, without the log.
pub fn sync(mountpoint: &Path) -> Result<(), MountError> {
    // The kernel sends its pages together then, and not each on its own. Who may not open the root
    // does without.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(root) = open(mountpoint, flags, Mode::empty()) {
        // The daemon fetches what is left, and its errors count.
        let _ = syncfs(&root);
    }
    match ask(mountpoint, control::SYNC) {
        Ok(_) => Ok(()),
        Err(error) if is_no_answer(error) => Err(MountError::NotOurs(mountpoint.to_owned())),
        Err(Errno::NOTCONN) => Err(MountError::dead(mountpoint)),
        Err(error) => {
            Err(MountError::Sync { mountpoint: mountpoint.to_owned(), source: error.into() })
        }
    }
}

/// What the daemon counts: names and values.
pub fn stats(mountpoint: &Path) -> Result<Vec<(String, String)>, MountError> {
    let answer = ask(mountpoint, control::STATS).map_err(|error| match error {
        error if is_no_answer(error) => MountError::NotOurs(mountpoint.to_owned()),
        Errno::NOTCONN => MountError::dead(mountpoint),
        error => error::failed("ask", &mountpoint)(error.into()),
    })?;
    let text = String::from_utf8_lossy(&answer);
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn is_no_answer(error: Errno) -> bool {
    [Errno::NODATA, Errno::OPNOTSUPP, Errno::INVAL].contains(&error)
}
