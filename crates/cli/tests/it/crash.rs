//! `oneflush crash` as a user meets it: what it prints, where it leaves a failing case, and its
//! exit codes.

use std::fs;
use std::process::Stdio;

use oneflush_testing::{Running, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Sandbox, catches_ctrl_c, worked};

#[test]
fn a_clean_run_says_what_was_examined() {
    let sandbox = Sandbox::new();
    let arguments =
        ["crash", "--strategy", "stock", "--workload", "one", "--states", "300", "--faults", "20"];
    let output = sandbox.oneflush().args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "stock, wal, full; seed 1",
        "duplicates",
        "ext4 ordered",
        "torn at 512 B",
        "failed fsync",
        "no violation",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = sandbox.oneflush().args(arguments).arg("--json").output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["total"]["states"].as_u64().unwrap() >= 300, "{json}");
    assert!(json["violation"].is_null());
}

#[test]
fn an_engine_without_sqlite_runs_its_own_workloads() {
    let sandbox = Sandbox::new();
    let arguments = ["crash", "--engine", "mvbt", "--states", "300"];
    let output =
        sandbox.oneflush().args(arguments).args(["--workload", "readers"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in ["mvbt; seed 1", "readers", "torn at 512 B", "no violation"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output =
        sandbox.oneflush().args(arguments).args(["--workload", "vacuum", "--json"]).output();
    let output = output.unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("workload \"vacuum\" of mvbt is not known"), "{message}");
    let output = sandbox.oneflush().args(arguments).args(["--journal", "wal"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_violation_is_exit_code_1_and_its_file_replays_alone() {
    let sandbox = Sandbox::new();
    let arguments =
        ["crash", "--strategy", "stock", "--workload", "one", "--sabotage", "no-flush", "--out"];
    let output = sandbox.oneflush().args(arguments).arg(sandbox.path()).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("acknowledged commits are lost"), "{message}");
    assert!(message.contains("--seed 1") && message.contains("--sabotage no-flush"), "{message}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("violation: workload one") && !text.contains("moments"),
        "nothing was examined: {text}"
    );
    let entries = fs::read_dir(sandbox.path()).unwrap().map(|entry| entry.unwrap().path());
    let file =
        entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "json")).unwrap();
    assert!(message.contains(file.to_str().unwrap()), "{message}");
    let again = sandbox.oneflush().args(["crash", "--replay"]).arg(&file).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8(again.stderr).unwrap().contains("acknowledged commits are lost"));
}

#[test]
fn what_is_not_known_is_wrong_usage_and_says_what_is_known() {
    let sandbox = Sandbox::new();
    for (option, value, known) in [
        ("--strategy", "lucky", "sqlite"),
        ("--workload", "lazy", "savepoints"),
        ("--replay", "missing.json", "missing.json"),
        ("--states", "0", "--states"),
        ("--uri", "group_commit=bogus", "allowed: on, off"),
        ("--uri", "group_commit=off&bogus=1", "keep_wal, checkpoints"),
        ("--uri", "bogus", "NAME=VALUE"),
        ("--uri", "durability=full", "PRAGMA synchronous"),
        ("--out", "missing", "writable directory"),
    ] {
        let mut command = sandbox.oneflush();
        command.args(["crash", option, value]);
        if option == "--uri" {
            command.args(["--strategy", "stock"]);
        }
        let output = command.output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(known), "{message}");
    }
}

#[test]
fn ctrl_c_ends_a_run_that_says_what_it_has_examined() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    command.args([
        "crash",
        "--strategy",
        "stock",
        "--workload",
        "one",
        "--states",
        "1000000000",
        "--json",
    ]);
    let child = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    // A second's work is some thousand states.
    wait_until("it catches Ctrl-C and has worked", || {
        catches_ctrl_c(child.id()) && worked(child.id()) > 100
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("interrupted"), "{message}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["interrupted"], true);
    assert!(json["total"]["states"].as_u64().unwrap() > 100, "{json}");
}
