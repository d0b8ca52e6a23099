//! `oneflush bench` through a mount of `oneflush mount`, and its workloads without SQLite.
//!
//! What mounts needs root and FUSE; each test says so and passes where they are missing.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use oneflush_testing::{Running, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Sandbox, assert_refused, may_mount, skip_unless_root, stderr, stdout};

const SCRATCH: [&str; 6] = ["--fs", "ext4", "--size", "256M", "--rounds", "1"];

/// Daemons whose mounts are in this sandbox.
fn daemons_in(sandbox: &Sandbox) -> usize {
    let wanted = format!("\0mount\0{}/", sandbox.path().display());
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_daemon = |process: &Path| {
        fs::read_to_string(process.join("cmdline")).is_ok_and(|line| line.contains(&wanted))
    };
    processes.filter(|process| is_daemon(process)).count()
}

fn assert_nothing_left(sandbox: &Sandbox) {
    sandbox.assert_nothing_left(&[]);
    wait_until("no daemon", || daemons_in(sandbox) == 0);
}

/// The report, and that nothing is left behind it.
fn report(arguments: &[&str]) -> Value {
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    let output = command.arg("bench").args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_nothing_left(&sandbox);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn on_scratch(arguments: &[&str]) -> Value {
    report(&[&SCRATCH[..], arguments].concat())
}

fn mode<'a>(report: &'a Value, name: &str) -> &'a Value {
    let modes = report["modes"].as_array().unwrap();
    modes.iter().find(|mode| mode["mode"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

fn figure(mode: &Value, name: &str) -> f64 {
    mode["median"][name].as_f64().unwrap_or_else(|| panic!("{name} of {mode}"))
}

fn bytes_of(mode: &Value, class: &str) -> f64 {
    mode["median"]["bytes_per_transaction_by_class"][class].as_f64().unwrap_or_default()
}

/// In DELETE mode SQLite syncs the journal, the database and, once the journal is gone, the
/// directory. On ext4 the sync of a file that has grown is two flushes.
#[test]
fn a_commit_through_the_mount_is_a_flush_for_each_sync_and_is_counted_at_the_device() {
    if !may_mount() {
        return;
    }
    let modes = ["--modes", "delete,delete:mounted,wal:mounted", "-n", "200"];
    let report = on_scratch(&modes);
    let (below, delete) = (mode(&report, "delete"), mode(&report, "delete:mounted"));
    let wal = mode(&report, "wal:mounted");
    for one in [below, delete, wal] {
        assert_eq!(one["median"]["transactions"], 200);
        assert_eq!(one["median"]["counted_at"], "block_device");
        assert!(figure(one, "unattributed_ratio") < 0.05, "{one}");
    }
    let flushes = |mode| figure(mode, "flushes_per_transaction");
    assert!((3.0..3.6).contains(&flushes(delete)), "{}", flushes(delete));
    assert!((1.0..1.4).contains(&flushes(wal)), "{}", flushes(wal));
    assert!(flushes(below) > flushes(delete), "{}", flushes(below));
    let bytes = |mode| figure(mode, "bytes_per_transaction");
    assert!(bytes(delete) < 0.65 * bytes(below), "{} {}", bytes(delete), bytes(below));
    // Its log is a journal, and the files in the lower are known by name.
    assert!(bytes_of(delete, "journal") > 0.8 * bytes(delete), "{delete}");
    assert_eq!(delete["to_control"]["control"], "delete");
    // The daemon works, too.
    let cpu = |mode| figure(mode, "cpu_us_per_transaction");
    assert!(cpu(delete) > cpu(below), "{} {}", cpu(delete), cpu(below));
}

#[test]
fn an_append_is_one_flush_through_the_mount_and_every_unit_is_counted() {
    if !may_mount() {
        return;
    }
    let report = on_scratch(&["--workload", "append", "-n", "200", "-t", "1,4"]);
    assert_eq!(report["unit"], "sync");
    let rows: Vec<_> = report["modes"].as_array().unwrap().iter().collect();
    let names: Vec<_> = rows.iter().map(|row| row["mode"].as_str().unwrap()).collect();
    assert_eq!(names, ["files", "files:mounted", "files", "files:mounted"]);
    for row in &rows {
        assert_eq!(row["median"]["transactions"], 200);
        assert!(bytes_of(row, "db") >= 4096.0, "{row}");
    }
    let flushes = figure(rows[1], "flushes_per_transaction");
    assert!((1.0..1.4).contains(&flushes), "{flushes}");
    // Of four who sync at the same time, some share one.
    assert!(figure(rows[3], "flushes_per_transaction") < flushes, "{}", rows[3]);
    assert!(bytes_of(rows[0], "journal") == 0.0 && bytes_of(rows[1], "journal") > 4096.0);
    let conclusion = report["conclusion"].as_str().unwrap();
    assert!(conclusion.contains("the file system alone"), "{conclusion}");
}

#[test]
fn files_are_overwritten_streamed_and_read_in_both_modes() {
    if !may_mount() {
        return;
    }
    for (workload, unit) in [("overwrite", "sync"), ("stream", "piece"), ("cached-read", "piece")] {
        let report = on_scratch(&["--workload", workload, "-n", "40"]);
        assert_eq!(report["unit"], unit);
        for name in ["files", "files:mounted"] {
            let mode = mode(&report, name);
            assert_eq!(mode["median"]["transactions"], 40, "{workload}");
            let bytes = bytes_of(mode, "db");
            match workload {
                "stream" => assert!((262_144.0..270_000.0).contains(&bytes), "{bytes}"),
                "cached-read" => assert_eq!(figure(mode, "bytes_per_transaction") as u64 / 4096, 0),
                _ => assert!((3000.0..4097.0).contains(&bytes), "{bytes}"),
            }
        }
    }
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    command.args(["bench", "--workload", "stream", "-n", "40"]).args(SCRATCH);
    let table = stdout(&command.output().unwrap());
    assert!(table.contains("MB/s") && !table.contains("p50/floor"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn mounted_modes_work_in_turns_and_with_processes() {
    if !may_mount() {
        return;
    }
    let in_turns = ["--in-turns", "-n", "60", "--modes", "wal,wal:mounted,delete:sqlite:mounted"];
    for arguments in [
        &in_turns[..],
        &["--in-turns", "-n", "60", "--workload", "append"],
        &["--as", "processes", "-t", "2", "-n", "60", "--modes", "wal,wal:mounted"],
    ] {
        let report = on_scratch(arguments);
        for mode in report["modes"].as_array().unwrap() {
            assert_eq!(mode["median"]["transactions"], 60, "{arguments:?} {}", mode["mode"]);
        }
    }
}

#[test]
fn a_directory_without_a_device_of_its_own_has_a_mount_too_and_its_report_is_read_again() {
    if !may_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    let mut command = sandbox.oneflush();
    command.args(["bench", "--modes", "wal,wal:mounted", "-n", "20", "--rounds", "1", "--json"]);
    let output = command.arg("--dir").arg(&dir).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    sandbox.assert_nothing_left(&[&dir]);
    wait_until("no daemon", || daemons_in(&sandbox) == 0);
    let saved = sandbox.path().join("result.json");
    fs::write(&saved, &output.stdout).unwrap();
    let output = sandbox.oneflush().args(["bench", "--from"]).arg(&saved).output().unwrap();
    let table = stdout(&output);
    assert!(table.contains("\nwal:mounted ") && table.contains("WAL (mounted) is "), "{table}");
}

#[test]
fn a_fast_commit_file_system_is_told_by_its_name() {
    if skip_unless_root("--fs") {
        return;
    }
    let arguments = ["--fs", "ext4-fast-commit", "--size", "64M", "--rounds", "1", "-n", "50"];
    let of_fast = ["--workload", "append", "--modes", "files"];
    let report = report(&[&arguments[..], &of_fast].concat());
    assert_eq!(report["environment"]["fs"], "ext4-fast-commit");
    let place = report["environment"]["place"].as_str().unwrap();
    assert!(place.starts_with("ext4-fast-commit on a 64 MiB loop device"), "{place}");
    // A fast commit is a block, where a whole one is five.
    let journal = bytes_of(&report["modes"][0], "fs_journal");
    assert!((4096.0..10_000.0).contains(&journal), "{journal}");
}

/// The mount is in a namespace that the program has for itself.
fn sees_mount(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/mountinfo"))
        .is_ok_and(|mounts| mounts.contains(" fuse.oneflush "))
}

#[test]
fn no_mount_and_no_daemon_outlives_the_program_however_it_ends() {
    if !may_mount() {
        return;
    }
    for signal in [Signal::INT, Signal::KILL] {
        let sandbox = Sandbox::new();
        let mut command = sandbox.oneflush();
        command.args(["bench", "--modes", "wal:mounted", "--rate", "5", "-n", "100000"]);
        command.args(SCRATCH).stdout(Stdio::null()).stderr(Stdio::null());
        let mut program = Running::start(&mut command);
        wait_until("a mount", || sees_mount(program.id()) && daemons_in(&sandbox) == 1);
        kill_process(Pid::from_child(&program), signal).unwrap();
        let status = program.wait().unwrap();
        assert!(!status.success(), "{signal:?}: {status}");
        assert_nothing_left(&sandbox);
    }
}

#[test]
fn modes_and_workloads_that_do_not_fit_are_refused_by_name() {
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    for (arguments, words) in [
        (&["--workload", "append", "--modes", "wal"][..], ["mode wal", "files,files:mounted"]),
        (&["--modes", "wal,files"], ["mode files", "append, overwrite, stream"]),
        (&["--modes", "wal:mounted:sqlite"], ["wal:mounted:sqlite", "sqlite, stock"]),
        (&["--modes", "files:full"], ["files:full", "files or files:mounted"]),
        (&["--workload", "stream", "--in-turns"], ["--in-turns", "cached-read"]),
        (&["--workload", "append", "--beside-writer"], ["--beside-writer", "point or scan"]),
        (&["--workload", "appendix"], ["appendix", "append, append-unsynced, overwrite"]),
    ] {
        let mut command = sandbox.oneflush();
        let output = command.arg("bench").args(arguments).arg("--dir").arg(&dir).output().unwrap();
        assert_refused(&output, 2, &words);
    }
    sandbox.assert_nothing_left(&[&dir]);
}
