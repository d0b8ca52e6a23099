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

use std::path::PathBuf;

use crate::tree::Isets;
pub use control::{stats, sync};
pub use error::MountError;
pub use mounts::at as seen_at;
pub use recover::Before;
pub use session::{Mounted, mount, recover};
pub use unmount::{is_dead, unmount};

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
