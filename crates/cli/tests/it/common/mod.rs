//! Runs the program, as root or as nobody, and looks for what it left behind.

pub mod browser;
pub mod commits;
pub mod crashed;
#[cfg(feature = "laboratory")]
pub mod visible;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use oneflush_testing::dies_with_test;
use oneflush_testing::flawed::why_not;
use tempfile::TempDir;

/// `nobody` of most systems; any number that is not root would do.
const NOBODY: u32 = 65_534;

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True, and a word on stderr, if the test cannot run here.
pub fn skip_unless_root(what: &str) -> bool {
    if !is_root() {
        oneflush_testing::skip(format_args!("{what} needs root"));
    }
    !is_root()
}

/// True: `oneflush mount` can mount here, as root. False: the test skips.
pub fn may_mount() -> bool {
    why_not().map(oneflush_testing::skip).is_none()
}

fn status_field(pid: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
}

/// Whether Ctrl-C no longer kills the process: it catches SIGINT, which is bit 1.
pub fn catches_ctrl_c(pid: u32) -> bool {
    u64::from_str_radix(&status_field(pid, "SigCgt:"), 16).unwrap_or(0) & 0b10 != 0
}

/// Whether it has read all its input that is there, and would end well by Ctrl-C.
pub fn waits_for_input(pid: u32) -> bool {
    catches_ctrl_c(pid) && status_field(pid, "State:").starts_with('S')
}

/// How long the process has worked, whatever else ran meanwhile, in hundredths of a second.
pub fn worked(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map(|(_, fields)| fields.split(' ').collect()).unwrap_or_default();
    [11, 12].iter().filter_map(|&at| fields.get(at)?.parse::<u64>().ok()).sum()
}

/// A directory that the program works in, so that everything that it leaves is seen.
pub struct Sandbox {
    pub dir: TempDir,
}

impl Sandbox {
    pub fn new() -> Sandbox {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // Others than its owner must be able to pass.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        Sandbox { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A subdirectory that everybody can write to.
    pub fn open_directory(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir(&path).expect("mkdir");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("chmod");
        path
    }

    /// The program with `TMPDIR` in this sandbox.
    pub fn oneflush(&self) -> Command {
        self.command(Path::new(env!("CARGO_BIN_EXE_oneflush")))
    }

    /// The same, run by somebody who is not root: a copy, since a build directory may be closed to
    /// others.
    pub fn oneflush_as_nobody(&self) -> Command {
        let copy = self.path().join("oneflush-copy");
        fs::copy(env!("CARGO_BIN_EXE_oneflush"), &copy).expect("copy of the program");
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("chmod");
        let mut command = self.command(&copy);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn command(&self, program: &Path) -> Command {
        let tmp = self.path().join("tmp");
        if !tmp.exists() {
            self.open_directory("tmp");
        }
        let mut command = Command::new(program);
        dies_with_test(&mut command).env("TMPDIR", tmp).current_dir(self.path());
        command
    }

    /// Fails the test if anything is in the temporary directory or in `dirs`; a guard process may
    /// need a moment.
    pub fn assert_nothing_left(&self, dirs: &[&Path]) {
        let tmp = self.path().join("tmp");
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let all = dirs.iter().copied().chain([tmp.as_path()]);
            let left: Vec<PathBuf> = all.flat_map(entries).chain(loop_devices_in(&tmp)).collect();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left behind: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

/// Loop devices whose backing file is (or was) in `dir`.
fn loop_devices_in(dir: &Path) -> Vec<PathBuf> {
    let devices = entries(Path::new("/sys/block")).into_iter();
    devices
        .filter(|device| {
            let backing = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
            backing.starts_with(&*dir.to_string_lossy())
        })
        .collect()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The commands that the program's own help names.
pub fn commands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The long options that a command's help has a line for.
pub fn options(help: &str) -> Vec<String> {
    let lines = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("--").or_else(|| line.get(4..)?.strip_prefix("--"))?;
        line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').next()
    });
    lines.map(|name| format!("--{name}")).collect()
}

/// The command failed with `code`, and its message has all of `words`.
pub fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert!(stdout(output).is_empty(), "a result in spite of the error: {}", stdout(output));
    let lines = message
        .lines()
        .filter(|line| line.starts_with("oneflush: ") || line.starts_with("error: "));
    assert_eq!(lines.count(), 1, "one message: {message}");
    assert!(!message.contains("panicked"), "{message}");
}
