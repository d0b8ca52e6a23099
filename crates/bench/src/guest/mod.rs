//! The benchmark in a guest: another kernel, Debian's own, with a file system that this kernel may
//! not have.
//!
//! ```text
//! Spec ── JSON ──▶ guest/run (QEMU) ─▶ `oneflush __guest` in the guest ── JSON ──▶ Found
//!  host                                 inside: an ordinary run             report, commits
//! ```
//!
//! The guest's disk carries nothing but the benchmark, so what is written and flushed is counted
//! there, as at a device of our own. Its processor is emulated, so its times mean nothing.

mod checkout;
mod host;
mod inside;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use checkout::Checkout;
pub use inside::serve;

use crate::commits::{Commits, CommitsError};
use crate::report::{Report, SavedError};
use oneflush_measure::mode::Mode;
use oneflush_measure::run::RunError;
use oneflush_measure::workload::Workload;

/// The name of the hidden subcommand.
pub const SUBCOMMAND: &str = "__guest";

/// File systems that `guest/run` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuestFs {
    F2fs,
    Ext4,
    Xfs,
    Btrfs,
}

impl GuestFs {
    pub const ALL: [GuestFs; 4] = [GuestFs::F2fs, GuestFs::Ext4, GuestFs::Xfs, GuestFs::Btrfs];

    pub fn name(self) -> &'static str {
        match self {
            GuestFs::F2fs => "f2fs",
            GuestFs::Ext4 => "ext4",
            GuestFs::Xfs => "xfs",
            GuestFs::Btrfs => "btrfs",
        }
    }
}

/// The guest's processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuestArch {
    #[default]
    X86_64,
    /// With the program that `packages/cross aarch64-linux-gnu` makes.
    Aarch64,
}

impl GuestArch {
    const ALL: [GuestArch; 2] = [GuestArch::X86_64, GuestArch::Aarch64];

    pub fn name(self) -> &'static str {
        match self {
            GuestArch::X86_64 => "x86_64",
            GuestArch::Aarch64 => "aarch64",
        }
    }
}

impl FromStr for GuestArch {
    type Err = String;

    fn from_str(word: &str) -> Result<GuestArch, String> {
        let found = GuestArch::ALL.into_iter().find(|arch| arch.name() == word);
        found.ok_or_else(|| format!("{word:?}: a guest is x86_64 or aarch64"))
    }
}

impl fmt::Display for GuestFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for GuestFs {
    type Err = String;

    fn from_str(word: &str) -> Result<GuestFs, String> {
        let found = GuestFs::ALL.into_iter().find(|fs| fs.name() == word);
        found.ok_or_else(|| format!("{word:?}: a guest has f2fs, ext4, xfs or btrfs"))
    }
}

/// A run of the benchmark, as it goes into a guest. Its numbers mean what those of
/// [`oneflush_measure::run::Plan`] do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    pub modes: Vec<Mode>,
    pub workload: Workload,
    pub transactions: Option<u64>,
    pub rounds: u32,
    pub connections: Vec<u32>,
    /// Each connection is a process.
    pub processes: bool,
    pub rate: Option<f64>,
    pub busy_loops: u32,
    pub in_turns: bool,
    pub floor_writes: u32,
    /// Find every commit in a recording: for one mode only.
    pub recorded: bool,
}

/// What came out of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Found {
    pub report: Report,
    /// None where nothing was recorded, or where the recording does not show all commits.
    pub commits: Option<Commits>,
}

#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    #[error(
        "--guest: there is no guest/run above {} or the current directory: a guest needs a \
            checkout of Oneflush; run this in one, after `make build-all`",
        program.display()
    )]
    NoCheckout { program: PathBuf },
    #[error("--guest: {}: {source}; make it writable", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "--guest {fs}: {said}; QEMU and a kernel come from Debian's packages, as root: try \
            `{} --fs {fs} SCRIPT` alone",
        run.display()
    )]
    Start { fs: GuestFs, said: String, run: PathBuf },
    #[error("--guest {fs}: in the guest: {said}; its console is {}", console.display())]
    Inside { fs: GuestFs, said: String, console: PathBuf },
    #[error("--guest {fs}: {source}")]
    Output { fs: GuestFs, source: SavedError },
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the recording cannot be read: {0}")]
    Commits(#[from] CommitsError),
    #[error("what is to run in the guest cannot be read: {0}; it is for `bench --guest` only")]
    Specs(#[from] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_read_what_they_print() {
        for fs in GuestFs::ALL {
            assert_eq!(fs.to_string().parse(), Ok(fs));
        }
        assert!("zfs".parse::<GuestFs>().unwrap_err().contains("f2fs, ext4"));
    }
}
