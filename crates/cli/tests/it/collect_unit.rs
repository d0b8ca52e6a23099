//! The unit for systemd of `examples/collect`: its command line records, and systemd takes it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use oneflush_testing::Running;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::Sandbox;
use crate::recording::{database, insert, scratch};
use crate::rotated;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/collect").join(name)
}

fn unit() -> String {
    fs::read_to_string(example("oneflush-trace.service")).expect("the unit")
}

/// The value of a line `KEY=VALUE`, of which there is one.
fn value<'a>(unit: &'a str, key: &str) -> &'a str {
    let mut values = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let value = values.next().unwrap_or_else(|| panic!("{key} is in the unit"));
    assert_eq!(values.next(), None, "{key} is there once");
    value
}

#[test]
fn the_command_line_of_the_unit_records_and_its_signal_completes_the_last_file() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let unit = unit();
    let folder = format!("/var/lib/{}", value(&unit, "StateDirectory"));
    let mut words = value(&unit, "ExecStart").split(' ').map(|word| {
        let here = |path: &Path| path.to_str().expect("a path of this test").to_owned();
        match word {
            "/srv" => here(place.path()),
            "/etc/oneflush/labels" => here(&example("labels")),
            word => word.replace(&folder, &here(sandbox.path())),
        }
    });
    assert_eq!(words.next().as_deref(), Some("/usr/bin/oneflush"));
    let mut command = sandbox.oneflush();
    let mut child = Running::start(command.args(words).stderr(Stdio::piped()));
    let mut messages = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(messages.next().unwrap().unwrap().contains(": recording "));
    let db = database(&place.path().join("a.db"), "WAL");
    for _ in 0..50 {
        insert(&db);
    }
    assert_eq!(value(&unit, "KillSignal"), "SIGTERM");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let said: Vec<String> = messages.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said:?}");
    let parts = rotated::parts(sandbox.path());
    assert_eq!(parts.len(), 1, "{said:?}");
    assert_eq!(parts[0].facts.labels["device"], "kiosk-7");
    assert!(parts[0].ends && parts[0].transactions.len() >= 50, "{said:?}");
}

#[test]
fn systemd_takes_the_unit() {
    let sandbox = Sandbox::new();
    let copy = sandbox.path().join("oneflush-trace.service");
    let unit = unit().replace("/usr/bin/oneflush", env!("CARGO_BIN_EXE_oneflush"));
    fs::write(&copy, unit).unwrap();
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output();
    let Ok(output) = verify else {
        oneflush_testing::skip("no systemd-analyze");
        return;
    };
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
