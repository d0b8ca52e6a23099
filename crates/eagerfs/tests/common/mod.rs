//! A directory that is mounted by a process of its own, which can be killed.

#![allow(dead_code, reason = "each test needs another part")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use oneflush_eagerfs::mount::{self, Options};
use oneflush_testing::{Running, in_own_mounts, skip, wait_until};

const LOWER: &str = "ONEFLUSH_TEST_LOWER";
const MOUNTPOINT: &str = "ONEFLUSH_TEST_MOUNTPOINT";
const THRESHOLD: &str = "ONEFLUSH_TEST_THRESHOLD";
const LOG_BYTES: &str = "ONEFLUSH_TEST_LOG_BYTES";
/// Where the daemon writes what it has found.
const SAID: &str = "ONEFLUSH_TEST_SAID";
/// The test that serves in a process of its own.
const SERVES: &str = "serves_what_another_test_has_mounted";
const AT_MOST: Duration = Duration::from_secs(120);

/// True: this process may mount, in a namespace of its own. False: that process has passed, or the
/// test skips.
pub fn may_mount(test: &str) -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        skip("only root may mount without a helper");
        return false;
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        skip(format_args!("/dev/fuse: {error}"));
        return false;
    }
    in_own_mounts(test, AT_MOST)
}

/// The body of the test that serves. Each test program has one of this name.
pub fn serve() {
    let (Some(lower), Some(mountpoint)) = (std::env::var_os(LOWER), std::env::var_os(MOUNTPOINT))
    else {
        return;
    };
    let mut options = Options::new(lower, mountpoint);
    options.allow_other = true;
    if let Ok(threshold) = std::env::var(THRESHOLD) {
        options.threshold_bytes = threshold.parse().unwrap();
    }
    if let Ok(log_bytes) = std::env::var(LOG_BYTES) {
        options.log_bytes = log_bytes.parse().unwrap();
    }
    let mounted = mount::mount(&options).unwrap_or_else(|error| panic!("{error}"));
    if let Some(said) = std::env::var_os(SAID) {
        fs::write(said, format!("{:?}", mounted.before)).unwrap();
    }
    mounted.wait().unwrap_or_else(|error| panic!("{error}"));
}

#[derive(Clone, Copy, Default)]
pub struct Sizes {
    pub threshold_bytes: Option<u64>,
    pub log_bytes: Option<u64>,
}

pub struct Mount {
    pub lower: PathBuf,
    pub at: PathBuf,
    sizes: Sizes,
    daemon: Option<Running>,
    _folder: tempfile::TempDir,
}

impl Mount {
    pub fn new() -> Mount {
        Mount::with(Sizes::default())
    }

    pub fn with(sizes: Sizes) -> Mount {
        Mount::in_folder(tempfile::tempdir().unwrap(), sizes)
    }

    pub fn in_folder(folder: tempfile::TempDir, sizes: Sizes) -> Mount {
        // Other users come to the mount, too.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (lower, at) = (folder.path().join("lower"), folder.path().join("at"));
        fs::create_dir(&lower).unwrap();
        fs::create_dir(&at).unwrap();
        let mut mount = Mount { lower, at, sizes, daemon: None, _folder: folder };
        mount.start();
        mount
    }

    pub fn start(&mut self) {
        let _ = fs::remove_file(self.said());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([SERVES, "--exact", "--nocapture"]);
        command.env(LOWER, &self.lower).env(MOUNTPOINT, &self.at);
        command.env(SAID, self.said());
        if let Some(threshold_bytes) = self.sizes.threshold_bytes {
            command.env(THRESHOLD, threshold_bytes.to_string());
        }
        if let Some(log_bytes) = self.sizes.log_bytes {
            command.env(LOG_BYTES, log_bytes.to_string());
        }
        let mut daemon = Running::start(&mut command);
        wait_until("the mount", || {
            assert!(daemon.try_wait().unwrap().is_none(), "the daemon has ended");
            mount::stats(&self.at).is_ok() && !self.before().is_empty()
        });
        self.daemon = Some(daemon);
    }

    fn said(&self) -> PathBuf {
        self.lower.parent().unwrap().join("said")
    }

    /// What the daemon found when it began.
    pub fn before(&self) -> String {
        fs::read_to_string(self.said()).unwrap_or_default()
    }

    pub fn log(&self) -> PathBuf {
        self.lower.parent().unwrap().join("lower-oneflush/log")
    }

    pub fn stat(&self, name: &str) -> u64 {
        let stats = mount::stats(&self.at).unwrap();
        let value = stats.iter().find(|(one, _)| one == name).map(|(_, value)| value);
        value.unwrap_or_else(|| panic!("{name}: {stats:?}")).parse().unwrap()
    }

    pub fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    pub fn unmount(&mut self) {
        mount::unmount(&self.at).unwrap();
        let mut daemon = self.daemon.take().unwrap();
        assert!(daemon.wait().unwrap().success());
    }

    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    pub fn wait_for_end(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        assert!(daemon.wait().unwrap().success());
    }
}
