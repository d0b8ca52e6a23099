//! Trials that end in the middle, and how long a trial takes.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use oneflush_testing::{Running, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// Sends the signal while commits are measured.
fn ended_by(sandbox: &Sandbox, path: &Path, signal: Signal) -> Output {
    let child = Running::start(
        sandbox
            .oneflush()
            .args(["try", "--seconds", "60"])
            .arg(path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let data = path.parent().unwrap();
    let copy_has_wal = || {
        let private = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
        private.into_iter().any(|path| {
            path.is_dir()
                && path.join("copy.db-wal").metadata().is_ok_and(|wal| wal.len() > 100_000)
        })
    };
    wait_until("the measurement", copy_has_wal);
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
    child.wait_with_output().unwrap()
}

fn only_the_database_is_there(data: &Path) -> bool {
    fs::read_dir(data)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .eq([OsString::from("app.db")])
}

#[test]
fn signals_leave_nothing_and_the_database_as_it_was() {
    let sandbox = Sandbox::new();
    let data = sandbox.open_directory("data");
    let path = data.join("app.db");
    make(&path, "wal", 2_000);
    let before = look(&data);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let output = ended_by(&sandbox, &path, signal);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("interrupted; nothing is left"), "{}", stderr(&output));
        assert!(stdout(&output).is_empty());
        assert!(look(&data) == before, "{signal:?}");
    }
    let output = ended_by(&sandbox, &path, Signal::KILL);
    assert_eq!(output.status.signal(), Some(9));
    // The guard is a process of its own.
    wait_until("the guard's clearing", || only_the_database_is_there(&data));
    assert!(look(&data) == before);
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn a_trial_keeps_its_time() {
    let sandbox = Sandbox::new();
    let path = sandbox.open_directory("data").join("app.db");
    make(&path, "delete", 2_000);
    let begun = Instant::now();
    let output =
        sandbox.oneflush().args(["try", "--seconds", "10", "--json"]).arg(&path).output().unwrap();
    let took = begun.elapsed();
    let found = json(&output);
    // A machine under load may need longer for the one round that is always finished.
    let bound = if found["rounds"].as_u64() > Some(1) { 14 } else { 60 };
    assert!(took < Duration::from_secs(bound), "{took:?}: {found}");
    assert!(found["seconds"].as_f64().unwrap() <= took.as_secs_f64());
}
