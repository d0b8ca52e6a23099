//! Conversions that end in the middle: by Ctrl-C, by `kill -9`.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use oneflush_testing::{Running, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::common::crashed::side;

/// Of a database of 15 MB. SQLite's cache is 2 MB, so each step has written by then.
const ROWS: u32 = 50_000;
const WRITTEN_BYTES: u64 = 4 << 20;
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
