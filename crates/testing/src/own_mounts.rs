//! A test that mounts does so in a mount namespace of its own.
//!
//! The kernel unmounts everything when the test's process ends, however it ends.

use std::fs::File;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::running::{Running, with_own_mounts};

/// Set in the process that has the namespace.
const INSIDE: &str = "ONEFLUSH_TEST_OWN_MOUNTS";
const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// Runs the calling test, whose name [`named!`](crate::named) tells, once more in a process with
/// its own mount namespace. True: this is that process. False: it ran, and passed within this time.
pub fn in_own_mounts(test: &str, at_most: Duration) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let folder = tempfile::tempdir().expect("a folder for what the test says");
    let said_at = folder.path().join("said");
    let said = File::create(&said_at).expect("a file for what the test says");
    let mut command = Command::new(std::env::current_exe().expect("the test's own program"));
    command.args([test, "--exact", "--nocapture"]).env(INSIDE, "1");
    command.stdout(said.try_clone().expect("the same file")).stderr(said);
    let mut running = Running::start(with_own_mounts(&mut command));
    let deadline = Instant::now() + at_most;
    let status = loop {
        match running.try_wait().expect("the process of the test") {
            None if Instant::now() < deadline => thread::sleep(LOOKS_EVERY),
            ended => break ended,
        }
    };
    drop(running);
    let said = std::fs::read_to_string(&said_at).unwrap_or_default();
    // A name that is not the test's would run nothing, and succeed.
    let passed = status.is_some_and(|status| status.success()) && said.contains("1 passed");
    assert!(
        passed,
        "{test} in its own mount namespace: {status:?} (None: it took too long)\n{said}"
    );
    print!("{said}");
    false
}
