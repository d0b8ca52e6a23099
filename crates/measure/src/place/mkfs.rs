//! Makes the scratch file system, so that afterwards nothing but the workload writes to it.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{FsKind, PlaceError};

struct Recipe {
    tool: &'static str,
    package: &'static str,
    /// ext4: tables and journal are zeroed now, and not in the background later. All: no discard,
    /// which would punch holes into the backing file. The block size is 4096, whatever the tool
    /// takes for small sizes.
    arguments: &'static [&'static str],
    /// More of them, for what is no default of the file system.
    features: &'static [&'static str],
    least_bytes: u64,
    least: &'static str,
}

fn recipe(fs: FsKind) -> Recipe {
    match fs {
        FsKind::Ext4 => Recipe {
            tool: "mkfs.ext4",
            package: "e2fsprogs",
            arguments: &[
                "-q",
                "-F",
                "-b",
                "4096",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
            ],
            features: &[],
            least_bytes: 64 << 20,
            least: "64M",
        },
        FsKind::Ext4FastCommit => {
            Recipe { features: &["-O", "fast_commit"], ..recipe(FsKind::Ext4) }
        }
        FsKind::Xfs => Recipe {
            tool: "mkfs.xfs",
            package: "xfsprogs",
            arguments: &["-q", "-f", "-K"],
            features: &[],
            least_bytes: 300 << 20,
            least: "300M",
        },
        FsKind::Btrfs => Recipe {
            tool: "mkfs.btrfs",
            package: "btrfs-progs",
            arguments: &["-q", "-f", "-K"],
            features: &[],
            least_bytes: 256 << 20,
            least: "256M",
        },
    }
}

/// Refuses a size that the file system cannot have, and a missing tool, before anything is made.
pub(super) fn check(fs: FsKind, size_bytes: u64) -> Result<(), PlaceError> {
    let Recipe { tool, package, least_bytes, least, .. } = recipe(fs);
    if size_bytes < least_bytes {
        return Err(PlaceError::TooSmall { fs, size_bytes, least });
    }
    match system_tool(tool).arg("-V").stdin(Stdio::null()).output() {
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => {
            Err(PlaceError::NoTool { tool, package })
        }
        _ => Ok(()),
    }
}

pub(super) fn run(fs: FsKind, device: &Path) -> Result<(), PlaceError> {
    let Recipe { tool, arguments, features, .. } = recipe(fs);
    let mut command = system_tool(tool);
    command.args(arguments).args(features).arg(device).stdin(Stdio::null());
    let output = command.output();
    match output {
        Err(reason) => Err(PlaceError::Mkfs { tool, message: reason.to_string() }),
        Ok(output) if !output.status.success() => Err(PlaceError::Mkfs {
            tool,
            message: String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "),
        }),
        Ok(_) => Ok(()),
    }
}

/// Searches the `sbin` directories, too, which a user's PATH often lacks.
fn system_tool(name: &str) -> Command {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    let mut command = Command::new(name);
    command.env("PATH", path).env("LC_ALL", "C");
    command
}
