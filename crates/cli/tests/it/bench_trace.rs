//! `oneflush bench --keep-trace`: the recording holds the run's transactions, and `identify` finds
//! them.
//!
//! Needs root; says so and passes where it is missing.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::{Sandbox, skip_unless_root, stderr, stdout};

const TRANSACTIONS: u64 = 300;

#[test]
fn a_kept_recording_holds_every_transaction_of_the_run() {
    if skip_unless_root("a_kept_recording_holds_every_transaction_of_the_run") {
        return;
    }
    let sandbox = Sandbox::new();
    let trace = sandbox.path().join("run.zst");
    let output = sandbox
        .oneflush()
        .args([
            "bench",
            "--modes",
            "persist,wal",
            "-n",
            &TRANSACTIONS.to_string(),
            "--rounds",
            "1",
            "--size",
            "256M",
        ])
        .args(["--json", "--keep-trace"])
        .arg(&trace)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        report["recording"]["events"].as_u64().unwrap() > 4 * TRANSACTIONS,
        "{}",
        report["recording"]
    );
    assert_eq!(report["recording"]["lost"], 0);
    assert!(
        report["notes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|note| note.as_str().unwrap().contains("run.zst"))
    );

    let output = sandbox.oneflush().args(["identify", "--json"]).arg(&trace).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut by_mode: BTreeMap<String, u64> = BTreeMap::new();
    for line in stdout(&output).lines() {
        let transaction: Value = serde_json::from_str(line).unwrap();
        assert!(transaction["database"].as_str().unwrap().ends_with("bench.db"), "{line}");
        let mode = format!("{} {}", transaction["journal_mode"], transaction["synchronous"]);
        *by_mode.entry(mode).or_default() += 1;
    }
    // What sets the modes up are a few more; the first one of a mode may look like one of the
    // set-up.
    for mode in ["\"PERSIST\" \"FULL\"", "\"WAL\" \"FULL\""] {
        let found = by_mode.get(mode).copied().unwrap_or_default();
        assert!((TRANSACTIONS - 1..=TRANSACTIONS + 10).contains(&found), "{mode}: {by_mode:?}");
    }
}

#[test]
fn a_recording_that_cannot_be_kept_is_said_before_the_run() {
    if skip_unless_root("a_recording_that_cannot_be_kept_is_said_before_the_run") {
        return;
    }
    let sandbox = Sandbox::new();
    let trace = sandbox.path().join("missing/run.zst");
    let output = sandbox
        .oneflush()
        .args([
            "bench",
            "--modes",
            "wal",
            "-n",
            "50",
            "--rounds",
            "1",
            "--size",
            "256M",
            "--keep-trace",
        ])
        .arg(&trace)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(message.contains("missing/run.zst") && message.contains("No such file"), "{message}");
    assert_eq!(stdout(&output), "");
}
