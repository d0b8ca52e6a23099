//! Unmounting, and waiting until the daemon has ended.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount as unmount_path};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::control::stats;
use super::error::{MountError, failed};
use super::users;

/// A daemon that has done its work ends in a moment. If it runs in another container, its number
/// may be another process's here.
const ENDS_WITHIN: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// True for a mount whose daemon was killed. Attributes the kernel may have kept, but it keeps no
/// answer to this.
pub fn is_dead(mountpoint: &Path) -> bool {
    statvfs(mountpoint).is_err_and(|error| error == Errno::NOTCONN)
}

/// Unmounts, and returns when the daemon is done: the directory is whole without a log then.
pub fn unmount(mountpoint: &Path) -> Result<(), MountError> {
    if is_dead(mountpoint) {
        return detach(mountpoint);
    }
    let stats = stats(mountpoint)?;
    let said = |asked| stats.iter().find(|(name, _)| name == asked).map(|(_, value)| value);
    let lower = said("lower");
    // A daemon in another container is not waited for to its very end, nor is this process.
    let daemon = said("pid").and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    let daemon = daemon.filter(|pid| *pid != getpid());
    let daemon = daemon.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    // Who may unmount but not read the directory does not wait.
    let lower = lower.and_then(|lower| File::open(lower).ok());
    let mountpoint_there = mountpoint.canonicalize().map_err(failed("find", &mountpoint))?;
    take_away(&mountpoint_there, UnmountFlags::NOFOLLOW)?;
    if let Some(lower) = lower {
        flock(&lower, FlockOperation::LockShared).map_err(|error| MountError::Unmount {
            mountpoint: mountpoint_there,
            source: error.into(),
            users: String::new(),
        })?;
    }
    if let Some(daemon) = daemon {
        // Until then it has descriptors in the lower, and that cannot be unmounted.
        let _ = poll(&mut [PollFd::new(&daemon, PollFlags::IN)], Some(&ENDS_WITHIN));
    }
    Ok(())
}

/// Takes the mount away from its place, also while it is used.
pub fn detach(mountpoint: &Path) -> Result<(), MountError> {
    take_away(mountpoint, UnmountFlags::DETACH)
}

pub fn take_away(mountpoint: &Path, flags: UnmountFlags) -> Result<(), MountError> {
    let source = match unmount_path(mountpoint, flags) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) => match by_helper(mountpoint, flags) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        },
        Err(error) => error.into(),
    };
    let users = users::said(mountpoint);
    Err(MountError::Unmount { mountpoint: mountpoint.to_owned(), source, users })
}

/// Who is not root has the mount taken away by the program that has made it.
fn by_helper(mountpoint: &Path, flags: UnmountFlags) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    command.arg("-u");
    if flags.contains(UnmountFlags::DETACH) {
        command.arg("-z");
    }
    let output = command.arg("--").arg(mountpoint).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(said))
}
