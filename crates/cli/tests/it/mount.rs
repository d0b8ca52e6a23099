//! `oneflush mount` as root: what the kernel is told of a mount.

use std::fs;
use std::path::Path;
use std::time::Duration;

use oneflush_testing::{Running, in_own_mounts, named, run, wait_until};

use crate::common::{Sandbox, may_mount};

/// The options of what is mounted there, in the words of mount(8). `None`: nothing is.
fn options_of(mountpoint: &Path) -> Option<Vec<String>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = mounts.find(|fields| Path::new(fields[4]) == mountpoint)?;
    Some(mount[5].split(',').map(str::to_owned).collect())
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
    let (lower, at) = (folder.join("lower"), folder.join("at"));
    fs::create_dir(&lower).unwrap();
    fs::create_dir(&at).unwrap();
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
