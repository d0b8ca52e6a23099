//! What users get wrong, and what goes wrong under them: one message that says what and how to go
//! on, exit code 1 to 3, nothing left behind.

use std::fs;
use std::path::Path;
use std::process::Command;

use oneflush_testing::{Running, wait_until};

use crate::common::{Sandbox, assert_refused, catches_ctrl_c, skip_unless_root};

#[test]
fn a_missing_directory_is_refused_by_name() {
    let sandbox = Sandbox::new();
    let missing = sandbox.path().join("missing");
    let output = sandbox.oneflush().args(["bench", "--dir"]).arg(&missing).output().unwrap();
    assert_refused(&output, 3, &[missing.to_str().unwrap(), "--dir DIR"]);
    assert!(!missing.exists());
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn a_file_in_place_of_a_directory_is_refused() {
    let sandbox = Sandbox::new();
    let file = sandbox.path().join("app.db");
    fs::write(&file, b"content").unwrap();
    let output = sandbox.oneflush().args(["bench", "--dir"]).arg(&file).output().unwrap();
    assert_refused(&output, 3, &[file.to_str().unwrap(), "Not a directory", "--dir DIR"]);
    assert_eq!(fs::read(&file).unwrap(), b"content");
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn a_directory_without_write_permission_is_refused() {
    let sandbox = Sandbox::new();
    let closed = sandbox.path().join("closed");
    fs::create_dir(&closed).unwrap();
    let mut permissions = fs::metadata(&closed).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&closed, permissions).unwrap();
    let output =
        sandbox.oneflush_as_nobody().args(["bench", "--dir"]).arg(&closed).output().unwrap();
    assert_refused(&output, 3, &[closed.to_str().unwrap(), "Permission denied", "writable"]);
    sandbox.assert_nothing_left(&[&closed]);
}

#[test]
fn a_read_only_file_system_is_refused() {
    if skip_unless_root("a mount") {
        return;
    }
    let sandbox = Sandbox::new();
    let point = sandbox.open_directory("ro");
    let program = env!("CARGO_BIN_EXE_oneflush");
    let script = format!(
        "mount -t tmpfs -o ro,size=1m none {0} && exec {program} bench --dir {0}",
        point.to_str().unwrap()
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    assert_refused(&output, 3, &[point.to_str().unwrap(), "Read-only", "--dir DIR"]);
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn a_scratch_file_system_needs_root() {
    let sandbox = Sandbox::new();
    let output = sandbox.oneflush_as_nobody().args(["bench", "--fs", "ext4"]).output().unwrap();
    assert_refused(&output, 3, &["--fs ext4", "needs root", "sudo", "--dir DIR"]);
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn a_disk_that_fills_up_ends_the_run_with_the_way_out() {
    if skip_unless_root("--fs") {
        return;
    }
    for (workers, mode) in
        [("threads", "off:off"), ("processes", "wal:off"), ("threads", "persist:off")]
    {
        let sandbox = Sandbox::new();
        let mut command = sandbox.oneflush();
        command.args([
            "bench",
            "--fs",
            "ext4",
            "--size",
            "64M",
            "--mobibench",
            "-T",
            "20",
            "-n",
            "1000000",
        ]);
        let output =
            command.args(["--modes", mode, "--rounds", "1", "--as", workers]).output().unwrap();
        assert_refused(&output, 1, &["disk full", "mode ", "round 1", "--size", "--txns"]);
        sandbox.assert_nothing_left(&[]);
    }
}

#[test]
fn a_full_directory_ends_the_run_with_the_way_out() {
    if skip_unless_root("a mount") {
        return;
    }
    let sandbox = Sandbox::new();
    let point = sandbox.open_directory("small");
    let program = env!("CARGO_BIN_EXE_oneflush");
    let script = format!(
        "mount -t tmpfs -o size=3m none {0} && {{ {program} bench --dir {0} --modes delete:off -n \
            400000 --rounds 1; \
         code=$?; ls -A {0}; exit $code; }}",
        point.to_str().unwrap()
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    // An empty stdout also says that the directory is empty again.
    assert_refused(&output, 1, &["disk full", "--dir", "--txns"]);
}

#[test]
fn an_unknown_word_in_modes_is_named_with_what_is_allowed() {
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    for (modes, words) in [
        ("wall", ["\"wall\"", "wal-growing"]),
        ("wal,delete:fulll", ["\"fulll\"", "normal"]),
        ("wal:full:maww", ["\"maww\"", "sqlite, stock"]),
        ("wal:plain+preallok=0", ["preallok", "did you mean prealloc?"]),
        ("wal:plain+prealloc=64K", ["URI parameter prealloc", "1 GiB"]),
        ("wal:sqlite+prealloc=0", ["SQLite alone", "one of our strategies"]),
        ("wal,,delete", ["--modes", "wal"]),
    ] {
        let output = sandbox
            .oneflush()
            .args(["bench", "--modes", modes, "--dir"])
            .arg(&dir)
            .output()
            .unwrap();
        assert_refused(&output, 2, &words);
        sandbox.assert_nothing_left(&[&dir]);
    }
}

#[test]
fn wrong_values_of_options_are_wrong_usage() {
    let sandbox = Sandbox::new();
    for (option, value) in [
        ("--fs", "zfs"),
        ("--size", "1X"),
        ("--txns", "0"),
        ("--rounds", "none"),
        ("--connections", "0"),
        ("--rate", "-1"),
        ("--beside-writer", "0"),
        ("--workload", "select"),
        ("--as", "fibers"),
        ("--plot", "result.pdf"),
    ] {
        let output =
            sandbox.oneflush().args(["bench", &format!("{option}={value}")]).output().unwrap();
        assert_refused(&output, 2, &[option, value]);
    }
    let output = sandbox.oneflush().args(["bench", "-j", "3"]).output().unwrap();
    assert_refused(&output, 2, &["--mobibench"]);
    for others in [&["-n", "10"][..], &["--workload", "update"], &["--mobibench"], &[]] {
        let output = sandbox.oneflush().args(["bench", "--serial"]).args(others).output().unwrap();
        assert_refused(&output, 2, &["--serial needs --sql DIR"]);
    }
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn a_file_that_is_not_sql_is_refused() {
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    let recording = sandbox.open_directory("recording");
    let run = || {
        sandbox
            .oneflush()
            .args(["bench", "--sql"])
            .arg(&recording)
            .arg("--dir")
            .arg(&dir)
            .output()
            .unwrap()
    };

    assert_refused(&run(), 1, &["loading.sql", "No such file", "0.sql"]);
    fs::write(recording.join("loading.sql"), "this is\nnot SQL\n").unwrap();
    assert_refused(&run(), 1, &["loading.sql is not SQL", "one SQL statement a line"]);
    fs::write(recording.join("loading.sql"), b"\xff\xfe\x00 binary").unwrap();
    assert_refused(&run(), 1, &["loading.sql is not SQL", "line 1"]);
    fs::write(recording.join("loading.sql"), "\n\n").unwrap();
    assert_refused(&run(), 1, &["loading.sql is empty"]);
    fs::write(recording.join("loading.sql"), "CREATE TABLE t(a)\n").unwrap();
    assert_refused(&run(), 1, &["0.sql", "No such file"]);
    fs::write(recording.join("0.sql"), "INSERT INTO t VALUES(1)\n").unwrap();
    fs::write(recording.join("1.sql"), "dear diary\n").unwrap();
    assert_refused(&run(), 1, &["1.sql is not SQL", "\"dear\""]);
    sandbox.assert_nothing_left(&[&dir]);
}

#[test]
fn ctrl_c_ends_the_run_and_leaves_nothing() {
    for workers in ["threads", "processes"] {
        let sandbox = Sandbox::new();
        let mut command = sandbox.oneflush();
        command.args(["bench", "--modes", "wal", "-n", "100000000", "--as", workers]);
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let child = Running::start(&mut command);
        wait_until("it catches Ctrl-C", || catches_ctrl_c(child.id()));
        // Mostly it is inside the run by then; what it interrupts does not matter.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_refused(&output, 1, &["interrupted"]);
        sandbox.assert_nothing_left(&[]);
    }
}

#[test]
fn a_saved_run_that_is_none_is_refused_by_name() {
    let sandbox = Sandbox::new();
    let from = |file: &Path, more: &[&str]| {
        sandbox.oneflush().args(["bench", "--from"]).arg(file).args(more).output().unwrap()
    };
    let missing = sandbox.path().join("missing.json");
    assert_refused(&from(&missing, &[]), 1, &[missing.to_str().unwrap(), "No such file"]);
    let other = sandbox.path().join("other.json");
    fs::write(&other, "{\"modes\": []}").unwrap();
    assert_refused(
        &from(&other, &[]),
        1,
        &[other.to_str().unwrap(), "missing field", "oneflush bench --json > FILE.json"],
    );
    for measuring in [
        &["--modes", "wal"][..],
        &["--txns", "10"],
        &["--dir", "."],
        &["--mobibench"],
        &["--keep-trace", "t"],
    ] {
        assert_refused(&from(&other, measuring), 2, &["--from", measuring[0]]);
    }
}

#[test]
fn a_plot_in_a_missing_directory_is_said_before_the_run() {
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    let plot = sandbox.path().join("missing/plot.svg");
    let mut command = sandbox.oneflush();
    command
        .args(["bench", "--modes", "wal", "-n", "100000000", "--plot"])
        .arg(&plot)
        .arg("--dir")
        .arg(&dir);
    assert_refused(&command.output().unwrap(), 1, &[plot.to_str().unwrap(), "writable directory"]);
    sandbox.assert_nothing_left(&[&dir]);
}

#[test]
fn probe_refuses_a_missing_directory_and_a_file() {
    let sandbox = Sandbox::new();
    let missing = sandbox.path().join("missing");
    let output = sandbox.oneflush().arg("probe").arg(&missing).output().unwrap();
    assert_refused(&output, 1, &[missing.to_str().unwrap()]);
    let file = sandbox.path().join("file");
    fs::write(&file, b"").unwrap();
    let output = sandbox.oneflush().arg("probe").arg(&file).output().unwrap();
    assert_refused(&output, 1, &[file.to_str().unwrap()]);
}

#[test]
fn the_worker_command_is_not_for_users() {
    let sandbox = Sandbox::new();
    let output =
        sandbox.oneflush().arg("__worker").stdin(std::process::Stdio::null()).output().unwrap();
    assert_refused(&output, 1, &["oneflush bench"]);
}

#[test]
fn a_full_standard_output_is_said_and_a_closed_one_is_quiet() {
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    let database = sandbox.path().join("plain.db");
    fs::write(&database, b"").unwrap();
    for arguments in [
        &["recover", "--dry-run", "plain.db"][..],
        &["crash", "--strategy", "stock", "--workload", "one", "--states", "1", "--faults", "0"],
        &["probe", "dir"],
        &["bench", "--dir", "dir", "--modes", "memory:off", "-n", "1", "--rounds", "1"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = sandbox.oneflush().args(arguments).stdout(full).output().unwrap();
        assert_refused(&output, 1, &["standard output: No space left on device"]);
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        let output = sandbox.oneflush().args(arguments).stdout(closed).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    }
    sandbox.assert_nothing_left(&[&dir]);
}
