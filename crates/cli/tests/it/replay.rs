//! Replays of recorded applications: the same final contents with and without our VFS.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{Sandbox, stderr};

fn replay(sandbox: &Sandbox, recording: &Path, arguments: &[&str]) -> Value {
    let dir = sandbox.path().join("dir");
    if !dir.exists() {
        sandbox.open_directory("dir");
    }
    let mut command = sandbox.oneflush();
    command
        .args(["bench", "--json", "--sql"])
        .arg(recording)
        .arg("--dir")
        .arg(&dir)
        .args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    sandbox.assert_nothing_left(&[&dir]);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A recording that is not part of this project.
fn recording(name: &str) -> Option<PathBuf> {
    oneflush_testing::shared_data(&format!("sql/{name}"))
}

#[test]
fn applications_leave_the_same_contents_with_and_without_our_vfs() {
    for (name, transactions_min) in [("facebook", 1_500), ("twitter", 200)] {
        let Some(recording) = recording(name) else { continue };
        let sandbox = Sandbox::new();
        let modes = "wal:sqlite,wal:stock,wal:waldio,persist:sqlite,persist:stock";
        let report = replay(&sandbox, &recording, &["--serial", "--rounds", "2", "--modes", modes]);
        let modes = report["modes"].as_array().unwrap();
        let first = &modes[0]["contents_fingerprint"];
        assert!(first.is_string(), "{name}: the rounds of {} differ", modes[0]["mode"]);
        for mode in modes {
            assert_eq!(&mode["contents_fingerprint"], first, "{name}, {}", mode["mode"]);
            assert!(mode["median"]["transactions"].as_u64().unwrap() > transactions_min);
            assert_eq!(
                mode["failed_statements"], modes[0]["failed_statements"],
                "{name}, {}",
                mode["mode"]
            );
        }
    }
}

#[test]
fn applications_run_their_two_threads_at_the_same_time() {
    for name in ["facebook", "twitter"] {
        let Some(recording) = recording(name) else { continue };
        let sandbox = Sandbox::new();
        for workers in ["threads", "processes"] {
            let arguments = [
                "--rounds",
                "1",
                "--as",
                workers,
                "--modes",
                "wal:sqlite,wal,persist:sqlite,persist",
            ];
            let report = replay(&sandbox, &recording, &arguments);
            for mode in report["modes"].as_array().unwrap() {
                assert_eq!(mode["connections"], 2);
                assert!(mode["median"]["transactions_per_s"].as_f64().unwrap() > 0.0);
                let latency = &mode["median"]["latency_ns"];
                assert!(
                    latency["p99"].as_u64().unwrap() >= latency["p50"].as_u64().unwrap(),
                    "{latency}"
                );
                assert!(latency["p50"].as_u64().unwrap() > 0, "{latency}");
                assert!(
                    mode["median"]["transactions"].as_u64().unwrap() > 200,
                    "{name}, {}",
                    mode["mode"]
                );
                let failed = mode["failed_statements"].to_string();
                assert!(!failed.contains("locked"), "nobody gives up for a lock: {failed}");
            }
        }
    }
}

fn small_recording(sandbox: &Sandbox, second: &str) -> PathBuf {
    let recording = sandbox.path().join("recording");
    fs::create_dir_all(&recording).unwrap();
    fs::write(recording.join("loading.sql"), "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);\n")
        .unwrap();
    let first = "BEGIN EXCLUSIVE\nINSERT INTO t VALUES(1, 'one; \
        two')\nCOMMIT;\nBEGIN\nCOMMIT\nSELECT * FROM t\n\
                 INSERT INTO missing VALUES(1)\nINSERT INTO t VALUES(1, 'again')\nUPDATE t SET b = \
                 'x' WHERE a = 99\n";
    fs::write(recording.join("0.sql"), first).unwrap();
    fs::write(recording.join("1.sql"), second).unwrap();
    recording
}

#[test]
fn failing_statements_are_counted_by_message_and_only_changes_are_transactions() {
    let sandbox = Sandbox::new();
    let recording =
        small_recording(&sandbox, "INSERT INTO t VALUES(2, 'b'); INSERT INTO t VALUES(3, 'c')\n");
    let report = replay(&sandbox, &recording, &["--rounds", "1", "--modes", "wal,persist:sqlite"]);
    for mode in report["modes"].as_array().unwrap() {
        // BEGIN … COMMIT with an insert, and the line with two inserts; an empty transaction and an
        // update of nothing are none.
        assert_eq!(mode["median"]["transactions"], 2);
        let failed = mode["failed_statements"].as_object().unwrap();
        assert_eq!(failed["no such table: missing"], 1, "{failed:?}");
        assert_eq!(failed["UNIQUE constraint failed: t.a"], 1, "{failed:?}");
    }
}

#[test]
fn different_contents_have_different_fingerprints() {
    let sandbox = Sandbox::new();
    let fingerprint = |second: &str| {
        let recording = small_recording(&sandbox, second);
        let report = replay(&sandbox, &recording, &["--serial", "--rounds", "1", "--modes", "wal"]);
        report["modes"][0]["contents_fingerprint"].as_str().unwrap().to_owned()
    };
    let one = fingerprint("INSERT INTO t VALUES(2, 'b')\n");
    assert_eq!(one, fingerprint("INSERT INTO t VALUES(2, 'b')\n"));
    assert_ne!(one, fingerprint("INSERT INTO t VALUES(2, 'B')\n"));
}
