//! `scripts/stages`: how a run ends, with a program in the place of `make`.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use oneflush_testing::{Running, has_programs, wait_until};

/// `nohup make test` ended with the terminal all the same: the script took the signal that it was
/// to ignore.
#[test]
fn a_run_that_is_to_outlive_its_terminal_goes_on_after_a_hangup() {
    if !has_programs(&["python3", "nohup"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (make, runs, may_end) =
        (dir.path().join("make"), dir.path().join("runs"), dir.path().join("may-end"));
    let text = format!(
        "#!/bin/sh\n: > {}\nwhile [ ! -e {} ]; do sleep 0.05; done\n",
        runs.display(),
        may_end.display()
    );
    fs::write(&make, text).unwrap();
    fs::set_permissions(&make, fs::Permissions::from_mode(0o755)).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/stages");
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("nohup");
    command.arg(script).arg("lint").env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut stages = Running::start(&mut command);
    wait_until("the stage runs", || runs.exists());
    let hangup =
        Command::new("sh").args(["-c", &format!("kill -HUP {}", stages.id())]).status().unwrap();
    assert!(hangup.success());
    File::create(may_end).unwrap();
    let mut said = String::new();
    stages.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(stages.wait().unwrap().success(), "{said}");
    assert!(said.contains("lint: 1 passed"), "{said}");
}
