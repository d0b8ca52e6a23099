//! A directory that is mounted by a process of its own, which can be killed.

pub mod hooked;
pub mod seen;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use oneflush_eagerfs::mount::{self, Options};
use oneflush_testing::{Running, has_programs, in_own_mounts, named, run, skip, wait_until};
use tempfile::{NamedTempFile, TempDir};

const LOWER: &str = "ONEFLUSH_TEST_LOWER";
const MOUNTPOINT: &str = "ONEFLUSH_TEST_MOUNTPOINT";
const THRESHOLD: &str = "ONEFLUSH_TEST_THRESHOLD";
const LOG_BYTES: &str = "ONEFLUSH_TEST_LOG_BYTES";
/// The variant that the daemon is.
#[cfg(feature = "mutants")]
pub const MUTANT: &str = "ONEFLUSH_TEST_MUTANT";
pub const THREADS: &str = "ONEFLUSH_TEST_THREADS";
/// Where the daemon writes what it has found.
const SAID: &str = "ONEFLUSH_TEST_SAID";
/// The test that serves in a process of its own.
const SERVES: &str = named!(serves_what_another_test_has_mounted);
const AT_MOST: Duration = Duration::from_secs(120);

/// True: this process may mount, in a namespace of its own. False: that process has passed, or the
/// test skips.
pub fn may_mount(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        skip("only root may mount without a helper");
        return false;
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        skip(format_args!("/dev/fuse: {error}"));
        return false;
    }
    in_own_mounts(test, AT_MOST)
}

/// Passes at once unless a [`Mount`] has started it.
#[test]
fn serves_what_another_test_has_mounted() {
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
    if let Ok(threads) = std::env::var(THREADS) {
        options.threads = threads.parse().unwrap();
    }
    #[cfg(feature = "mutants")]
    if let Ok(wanted) = std::env::var(MUTANT) {
        use oneflush_eagerfs::mutant::{ALL, choose_everywhere};
        let mutant = ALL.into_iter().find(|mutant| format!("{mutant:?}") == wanted);
        choose_everywhere(mutant.unwrap());
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
    _folder: TempDir,
    /// The folder's own disk.
    _disk: Option<NamedTempFile>,
}

impl Mount {
    /// A mount for the calling test, whose name this is. `None`: see [`may_mount`].
    pub fn new(test: &str) -> Option<Mount> {
        Mount::with(test, Sizes::default())
    }

    pub fn with(test: &str, sizes: Sizes) -> Option<Mount> {
        may_mount(test).then(|| Mount::in_folder(tempfile::tempdir().unwrap(), None, sizes))
    }

    /// On a disk of 64 MiB, which a test can fill.
    pub fn on_small_disk(test: &str, sizes: Sizes) -> Option<Mount> {
        if !may_mount(test) || !has_programs(&["mkfs.ext4", "mount"]) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let disk = NamedTempFile::new().unwrap();
        disk.as_file().set_len(64 << 20).unwrap();
        run(Command::new("mkfs.ext4").arg("-q").arg(disk.path()));
        run(Command::new("mount").args(["-o", "loop"]).arg(disk.path()).arg(folder.path()));
        Some(Mount::in_folder(folder, Some(disk), sizes))
    }

    fn in_folder(folder: TempDir, disk: Option<NamedTempFile>, sizes: Sizes) -> Mount {
        // Other users come to the mount, too.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (lower, at) = (folder.path().join("lower"), folder.path().join("at"));
        fs::create_dir(&lower).unwrap();
        fs::create_dir(&at).unwrap();
        let mut mount = Mount { lower, at, sizes, daemon: None, _folder: folder, _disk: disk };
        mount.start();
        mount
    }

    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    /// With these variables of the environment.
    pub fn start_with(&mut self, variables: &[(&str, &str)]) {
        let _ = fs::remove_file(self.said());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([SERVES, "--exact", "--nocapture"]);
        command.env(LOWER, &self.lower).env(MOUNTPOINT, &self.at);
        command.env(SAID, self.said()).envs(variables.iter().copied());
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

    /// A path in the folder of the lower.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.lower.parent().unwrap().join(name)
    }

    fn said(&self) -> PathBuf {
        self.beside("said")
    }

    /// What the daemon found when it began.
    pub fn before(&self) -> String {
        fs::read_to_string(self.said()).unwrap_or_default()
    }

    pub fn log(&self) -> PathBuf {
        self.beside("lower-oneflush/log")
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

    /// The daemon says that something has failed.
    #[cfg(feature = "mutants")]
    pub fn unmount_poisoned(&mut self) {
        mount::unmount(&self.at).unwrap();
        let mut daemon = self.daemon.take().unwrap();
        assert!(!daemon.wait().unwrap().success());
    }

    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    pub fn wait_for_end(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        assert!(daemon.wait().unwrap().success());
    }
}

pub fn names(dir: &Path) -> Vec<OsString> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// Random numbers, the same from the same seed.
pub struct Draws(pub u64);

impl Draws {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}
