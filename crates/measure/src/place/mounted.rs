//! A directory of a place, mounted by `oneflush mount`: modes that are mounted work in it.
//!
//! ```text
//! PLACE/lower         what is mounted
//! PLACE/mounted.log   its log
//! TMP/oneflush-…      where it is mounted: beside the place, for neither may lie in the other
//! ```
//!
//! The daemon is a process of its own, so that its processor time can be told. It is in a process
//! group of its own, so that Ctrl-C reaches this process alone.
//!
//! The mount must be gone before the place is. `close` and `Drop` see to that. If this process is
//! killed, the mount point's guard unmounts. A daemon that nobody's mount needs ends by itself.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use oneflush_eagerfs::mount;
use oneflush_trace::kernel::Guard;
use rustix::mount::{UnmountFlags, unmount};

use super::{Place, PlaceError, fresh_directory};

#[derive(Debug)]
pub struct Mounted {
    lower: PathBuf,
    log: PathBuf,
    mountpoint: PathBuf,
    /// Of the daemon's processor time.
    clock: Option<ClockId>,
    /// `None`: the mount is taken away.
    guard: Option<Guard>,
}

impl Mounted {
    /// `program` is the program `oneflush`, which serves the mount.
    pub fn begin(program: &Path, place: &Place) -> Result<Mounted, PlaceError> {
        let at = |dir: &Path| {
            let dir = dir.to_owned();
            move |reason| PlaceError::Directory { dir, reason }
        };
        let lower = place.path().join("lower");
        fs::create_dir(&lower).map_err(at(&lower))?;
        let (mountpoint, guard) = fresh_directory(&std::env::temp_dir())?;
        // From here on it is taken away, also on an early return.
        let mut mounted = Mounted {
            log: place.path().join("mounted.log"),
            lower,
            mountpoint,
            clock: None,
            guard: Some(guard),
        };
        mounted.mount(program)?;
        mounted.clock = Some(mounted.clock_of_daemon()?);
        Ok(mounted)
    }

    /// Returns when the daemon serves.
    fn mount(&self, program: &Path) -> Result<(), PlaceError> {
        let failed = |message: String| PlaceError::OneflushMount { message };
        let mut command = Command::new(program);
        command.arg("mount").args([&self.lower, &self.mountpoint]).arg("--log").arg(&self.log);
        command.process_group(0).stdin(Stdio::null());
        let output = command.output().map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(failed(if said.is_empty() { output.status.to_string() } else { said }))
    }

    fn clock_of_daemon(&self) -> Result<ClockId, PlaceError> {
        let failed = |message: String| PlaceError::OneflushMount { message };
        let stats = mount::stats(&self.mountpoint).map_err(|error| failed(error.to_string()))?;
        let pid = stats.iter().find(|(name, _)| name == "pid").map(|(_, value)| value);
        let pid = pid.and_then(|pid| pid.parse().ok());
        let pid = pid.ok_or_else(|| failed("its daemon does not say its number".to_owned()))?;
        clock_getcpuclockid(Pid::from_raw(pid)).map_err(|errno| failed(errno.to_string()))
    }

    /// Where programs work.
    pub fn path(&self) -> &Path {
        &self.mountpoint
    }

    /// Where their files lie.
    pub fn lower(&self) -> &Path {
        &self.lower
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// All that was written is in its place then, and the log is not needed.
    pub fn sync(&self) -> io::Result<()> {
        mount::sync(&self.mountpoint).map_err(io::Error::other)
    }

    /// User and system time of the daemon so far, its background work included.
    pub fn cpu_ns(&self) -> io::Result<u64> {
        let Some(clock) = self.clock else { return Ok(0) };
        let time = clock.now().map_err(|errno| {
            io::Error::other(format!("the daemon of oneflush mount has ended ({errno})"))
        })?;
        Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }

    /// Unmounts, waits until the daemon is done, and says if that failed. `Drop` does the same in
    /// silence.
    pub fn close(mut self) -> Result<(), PlaceError> {
        self.take_away()
    }

    fn take_away(&mut self) -> Result<(), PlaceError> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let mut result = Ok(());
        if let Err(error) = mount::unmount(&self.mountpoint)
            // Where nothing was mounted, there is nothing to unmount.
            && !matches!(error, mount::MountError::NotOurs(_))
        {
            result = Err(PlaceError::OneflushMount { message: error.to_string() });
            // Who still uses it keeps it, and the daemon ends with the last of them.
            let _ = unmount(&self.mountpoint, UnmountFlags::DETACH);
        }
        if let Err(reason) = fs::remove_dir(&self.mountpoint) {
            let path = self.mountpoint.clone();
            result = result.and(Err(PlaceError::TakeAway { path, reason }));
        }
        // It tries once more where the mount point is still there.
        guard.dismiss();
        result
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.take_away();
    }
}
