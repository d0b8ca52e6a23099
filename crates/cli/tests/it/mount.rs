//! `oneflush mount` as root: what the kernel is told of a mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oneflush_testing::{Running, in_own_mounts, named, run, wait_until};

use crate::common::{Sandbox, assert_refused, may_mount, stderr};

/// The options of what is mounted there, in the words of mount(8). `None`: nothing is.
fn options_of(mountpoint: &Path) -> Option<Vec<String>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let is_there = |fields: &Vec<&str>| Path::new(&fields[4].replace("\\040", " ")) == mountpoint;
    let mount = mounts.find(is_there)?;
    Some(mount[5].split(',').map(str::to_owned).collect())
}

/// What is mounted, and where.
fn made_in(folder: &Path) -> [PathBuf; 2] {
    ["lower", "at"].map(|name| {
        let path = folder.join(name);
        fs::create_dir(&path).unwrap();
        path
    })
}

/// All options of this kind were taken and none reached the kernel: with `-o nosuid` a program of
/// root ran as root.
#[test]
fn the_mount_forbids_what_the_command_line_forbids() {
    let test = named!(the_mount_forbids_what_the_command_line_forbids);
    if !may_mount() || !in_own_mounts(test, Duration::from_secs(120)) {
        return;
    }
    let sandbox = Sandbox::new();
    // What the file system of the sandbox is mounted with does not matter so.
    let folder = sandbox.open_directory("folder");
    run(std::process::Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&folder));
    let [lower, at] = made_in(&folder);
    for (options, expected) in [
        ("rw", &[][..]),
        ("rw,nosuid,nodev,noexec", &["nosuid", "nodev", "noexec"]),
        ("user", &["nosuid", "nodev", "noexec"]),
        ("user,exec,dev", &["nosuid"]),
    ] {
        let mut command = sandbox.oneflush();
        command.arg("mount").args([&lower, &at]).args(["--foreground", "-o", options]);
        let mut daemon = Running::start(&mut command);
        wait_until("a mount", || options_of(&at).is_some());
        let found = options_of(&at).unwrap();
        for option in ["nosuid", "nodev", "noexec"] {
            let is_there = found.iter().any(|one| one == option);
            assert_eq!(is_there, expected.contains(&option), "{option} of -o {options}: {found:?}");
        }
        let stats = run(sandbox.oneflush().arg("stats").arg(&at));
        let numbers = stats.lines().skip(1).filter(|line| line.split_whitespace().count() == 2);
        assert_eq!(numbers.count(), stats.lines().count() - 1, "{stats}");
        run(sandbox.oneflush().arg("umount").arg(&at));
        assert!(daemon.wait().unwrap().success());
    }
}

/// The second `oneflush mount` said "is not empty", a busy mount "Device or resource busy", and a
/// dead one "Transport endpoint is not connected": nothing led from there to the next command.
#[test]
fn a_mount_that_is_there_busy_or_dead_is_told_with_the_next_command() {
    let test = named!(a_mount_that_is_there_busy_or_dead_is_told_with_the_next_command);
    if !may_mount() || !in_own_mounts(test, Duration::from_secs(120)) {
        return;
    }
    let sandbox = Sandbox::new();
    let folder = sandbox.open_directory("my folder");
    let [lower, at] = made_in(&folder);
    let (lower_name, at_name) = (lower.display().to_string(), at.display().to_string());
    let oneflush = |words: &[&str]| sandbox.oneflush().args(words).output().unwrap();
    let mut command = sandbox.oneflush();
    command.arg("mount").args([&lower, &at]).arg("--foreground");
    let mut daemon = Running::start(&mut command);
    wait_until("a mount", || options_of(&at).is_some());

    let already = format!("{lower_name} is mounted already at {at_name}");
    let ends = format!("oneflush umount {at_name}");
    let again = oneflush(&["mount", &lower_name, &at_name, "--foreground"]);
    assert_refused(&again, 3, &[&already, &ends, "[OF-805]"]);
    let other = folder.join("other");
    fs::create_dir(&other).unwrap();
    let elsewhere = oneflush(&["mount", &lower_name, other.to_str().unwrap(), "--foreground"]);
    assert_refused(&elsewhere, 3, &[&already, &ends, "[OF-807]"]);

    let file = fs::File::create(at.join("file")).unwrap();
    let me = format!("({})", std::process::id());
    assert_refused(&oneflush(&["umount", &at_name]), 75, &["in use by ", &me, "[OF-817]"]);
    drop(file);

    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let again = format!("oneflush mount {lower_name} {at_name}");
    for command in ["sync", "stats"] {
        assert_refused(&oneflush(&[command, &at_name]), 1, &["has died", &again, "[OF-820]"]);
    }
    let unmounted = oneflush(&["umount", &at_name]);
    assert!(unmounted.status.success() && options_of(&at).is_none(), "{}", stderr(&unmounted));
    assert!(stderr(&unmounted).contains(&again), "{}", stderr(&unmounted));
    assert!(fs::exists(lower.with_file_name("lower-oneflush").join("log")).unwrap());
    run(sandbox.oneflush().args(["recover", "--fs"]).arg(&lower));
    assert_refused(&oneflush(&["umount", &at_name]), 3, &["no mount of oneflush"]);
}
