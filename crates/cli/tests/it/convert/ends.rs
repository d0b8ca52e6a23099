//! Conversions that end in the middle: by Ctrl-C, by `kill -9`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use oneflush_testing::{Running, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::common::crashed::side;

/// Of a database of 9 MB. SQLite's cache is 2 MB, so each step has written by then.
const ROWS: u32 = 30_000;
const WRITTEN_BYTES: u64 = 3 << 20;
/// On a busy machine the process may be at its end before the signal comes.
const TRIES: usize = 20;

/// Sends `signal` once the file of this suffix has some content; tries again where that was too
/// late. The process is waited for. The answer has the reserved bytes before.
fn caught(sandbox: &Sandbox, database: &Path, suffix: &str, signal: Signal) -> (Output, u8) {
    for _ in 0..TRIES {
        let was = reserved(database);
        let wanted = if was == 24 { "25" } else { "24" };
        let mut child = Running::start(
            sandbox
                .oneflush()
                .arg("convert")
                .arg(database)
                .args(["--reserve", wanted, "--force"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let file = side(database, suffix);
        let has_content = || file.metadata().is_ok_and(|file| file.len() >= WRITTEN_BYTES);
        wait_until("the step", || has_content() || child.try_wait().unwrap().is_some());
        let pid = Pid::from_raw(child.id() as i32).unwrap();
        let _ = kill_process(pid, signal);
        let output = child.wait_with_output().unwrap();
        if !output.status.success() && !stderr(&output).contains("OF-611") {
            return (output, was);
        }
    }
    panic!("the signal came too late each time");
}

#[test]
fn ctrl_c_leaves_the_database_as_it_was_and_nothing_beside_it() {
    let sandbox = Sandbox::new();
    for (mode, journal) in [("wal", "-wal"), ("delete", "-journal")] {
        let path = sandbox.path().join(format!("{mode}.db"));
        make(&path, mode, ROWS);
        let before = content(&path);
        for suffix in ["-oneflush-converting", journal] {
            let (output, was) = caught(&sandbox, &path, suffix, Signal::INT);
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{message}");
            assert!(message.contains("interrupted; the database is as it was"), "{message}");
            assert_eq!(beside(&path), Vec::<PathBuf>::new(), "{mode} {suffix}");
            assert_eq!((reserved(&path), content(&path)), (was, before.clone()), "{mode} {suffix}");
        }
    }
}

/// Whoever waits for long is told what for. Ctrl-C ends a statement that takes minutes.
#[test]
fn a_long_step_is_said_and_ctrl_c_reaches_into_its_statement() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    // The constraint takes some 20 ms a row, and PRAGMA integrity_check looks at each.
    open(&path)
        .execute_batch(
            "PRAGMA ignore_check_constraints = on;
            CREATE TABLE t(id INTEGER PRIMARY KEY,
                v CHECK (length(hex(zeroblob(10000000 + v))) > 0));
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
            INSERT INTO t(v) SELECT i FROM n",
        )
        .unwrap();
    let before = fs::read(&path).unwrap();
    let mut child = Running::start(
        sandbox
            .oneflush()
            .arg("convert")
            .arg(&path)
            .args(["--reserve", "24"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("a.db: checking the database, "), "{line}");
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    wait_until("the end", || child.try_wait().unwrap().is_some());
    assert!(lines.last().unwrap().unwrap().contains("[OF-610]"));
    assert!(fs::read(&path).unwrap() == before && beside(&path).is_empty());
}

#[test]
fn after_a_kill_the_next_open_rolls_back_and_a_conversion_then_succeeds() {
    let sandbox = Sandbox::new();
    for (mode, journal) in [("wal", "-wal"), ("delete", "-journal")] {
        let path = sandbox.path().join(format!("{mode}.db"));
        make(&path, mode, ROWS);
        let before = content(&path);
        for suffix in ["-oneflush-converting", journal] {
            let (output, was) = caught(&sandbox, &path, suffix, Signal::KILL);
            assert_eq!(output.status.signal(), Some(9));
            let left = beside(&path);
            assert!(left.contains(&side(&path, suffix)), "in the middle: {left:?}");
            assert_eq!((content(&path), reserved(&path)), (before.clone(), was), "{mode} {suffix}");
            let copy = side(&path, "-oneflush-converting");
            assert_eq!(copy.exists(), suffix != journal, "a checked copy has no name");
            // What was left is in nobody's way.
            let wanted = if reserved(&path) == 30 { "31" } else { "30" };
            converted(&sandbox, &path, &["--reserve", wanted, "--force"]);
            assert_eq!(
                (reserved(&path).to_string(), content(&path)),
                (wanted.to_owned(), before.clone())
            );
            assert_eq!(beside(&path), Vec::<PathBuf>::new());
        }
    }
}

/// A writer that got in between the copy and the write would be overwritten.
#[test]
fn nobody_writes_while_a_database_is_converted_and_no_commit_is_lost() {
    let sandbox = Sandbox::new();
    for mode in ["wal", "delete"] {
        let path = sandbox.path().join(format!("{mode}.db"));
        make(&path, mode, ROWS);
        let mut child =
            Running::start(sandbox.oneflush().arg("convert").arg(&path).args(["--reserve", "24"]));
        let copy = side(&path, "-oneflush-converting");
        wait_until("the copy", || copy.exists() || child.try_wait().unwrap().is_some());
        let (mut written, mut refused) = (0, 0);
        while child.try_wait().unwrap().is_none() {
            let db = open(&path);
            db.busy_timeout(Duration::ZERO).unwrap();
            match db.execute("INSERT INTO t(v) VALUES ('meanwhile')", []) {
                Ok(rows) => written += rows as i64,
                Err(_) => refused += 1,
            }
        }
        assert!(child.wait().unwrap().success() && refused > 0, "{mode}: {written} {refused}");
        assert_eq!((content(&path).0, reserved(&path)), (i64::from(ROWS) + written, 24), "{mode}");
    }
}

/// A copy that a killed conversion left, or something else of that name, holds nothing of anybody.
#[test]
fn the_rest_of_a_killed_conversion_is_replaced() {
    let sandbox = Sandbox::new();
    let (path, other) = (sandbox.path().join("a.db"), sandbox.path().join("other"));
    make(&path, "wal", 100);
    fs::write(&other, "not to be written").unwrap();
    std::os::unix::fs::symlink(&other, side(&path, "-oneflush-converting")).unwrap();
    converted(&sandbox, &path, &["--reserve", "24"]);
    assert_eq!(fs::read_to_string(&other).unwrap(), "not to be written");
    assert_eq!((reserved(&path), beside(&path).len()), (24, 0));
}
