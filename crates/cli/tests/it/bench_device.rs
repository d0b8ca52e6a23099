//! `oneflush bench --device`: the benchmark on an emulated flash device, and what is left of it.
//!
//! The device needs root, FUSE and loop devices; each test says so and passes where they are
//! missing.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use oneflush_testing::{Running, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Sandbox, assert_refused, catches_ctrl_c, may_mount, stderr, stdout};

/// Processes that serve a device for this sandbox.
fn servers_in(sandbox: &Sandbox) -> Vec<u32> {
    let wanted = format!("\0__flash\0{}/", sandbox.path().display());
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_server = |process: &Path| {
        fs::read_to_string(process.join("cmdline")).is_ok_and(|line| line.contains(&wanted))
    };
    processes
        .filter(|process| is_server(process))
        .filter_map(|process| process.file_name()?.to_str()?.parse().ok())
        .collect()
}

fn assert_nothing_left(sandbox: &Sandbox) {
    wait_until("no server", || servers_in(sandbox).is_empty());
    sandbox.assert_nothing_left(&[]);
}

fn report(arguments: &[&str]) -> Value {
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    let output = command.arg("bench").args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_nothing_left(&sandbox);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A page is programmed in 1.3 ms and a flush costs 0.5 ms more, whatever this machine's disk does.
/// A device that is nearly full copies pages for each that is written.
#[test]
fn a_commit_costs_what_it_costs_on_the_device_and_its_wear_is_told() {
    if !may_mount() {
        return;
    }
    let modes = ["--modes", "wal:sqlite,delete:sqlite", "-n", "60", "--rounds", "1"];
    let used = report(&[&["--device", "emmc"], &modes[..]].concat());
    let new = report(&[&["--device", "emmc:new"], &modes[..]].concat());
    for report in [&used, &new] {
        let place = report["environment"]["place"].as_str().unwrap();
        assert!(place.contains("emulated flash device (emmc"), "{place}");
        for mode in report["modes"].as_array().unwrap() {
            let figures = &mode["median"];
            assert_eq!(figures["counted_at"], "block_device");
            let p50_ns = figures["latency_ns"]["p50"].as_f64().unwrap();
            assert!(p50_ns >= 1.8e6, "{mode}");
            let flash = &figures["flash"];
            let of = |name: &str| flash[name].as_f64().unwrap_or_else(|| panic!("{name}: {flash}"));
            // A page has 8 KiB, so a commit of 4 KiB pads one at the least.
            assert!(of("write_amplification") >= 1.0, "{flash}");
            let written = figures["bytes_per_transaction"].as_f64().unwrap();
            let programmed = of("programmed_bytes_per_transaction");
            let expected = of("write_amplification") * written;
            assert!((programmed / expected - 1.0).abs() < 0.05, "{programmed} {expected}");
            assert!(of("life_days") > 1.0, "{flash}");
        }
    }
    let amplified = |report: &Value| {
        report["modes"][0]["median"]["flash"]["write_amplification"].as_f64().unwrap()
    };
    assert!(amplified(&used) > 1.5 * amplified(&new), "{} {}", amplified(&used), amplified(&new));
    assert_eq!(new["modes"][0]["median"]["flash"]["erases_per_1000_transactions"], 0.0);
}

#[test]
fn a_server_that_is_killed_ends_the_run_and_a_run_that_is_killed_ends_its_server() {
    if !may_mount() {
        return;
    }
    let arguments = ["bench", "--device", "ufs", "--modes", "wal:sqlite", "-n", "1000000"];
    for kills_server in [true, false] {
        let sandbox = Sandbox::new();
        let mut command = sandbox.oneflush();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = Running::start(&mut command);
        wait_until("the device is served", || servers_in(&sandbox).len() == 1);
        // Until it is in use.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let victim = if kills_server { servers_in(&sandbox)[0] } else { run.id() };
        kill_process(Pid::from_raw(victim as i32).unwrap(), Signal::KILL).unwrap();
        let output = if kills_server {
            run.wait_with_output().unwrap()
        } else {
            run.wait().unwrap();
            continue_after(&sandbox);
            continue;
        };
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        continue_after(&sandbox);
    }
}

fn continue_after(sandbox: &Sandbox) {
    wait_until("no server", || servers_in(sandbox).is_empty());
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn ctrl_c_takes_the_device_away() {
    if !may_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    command.args(["bench", "--device", "emmc", "--modes", "wal:sqlite", "-n", "1000000"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = Running::start(&mut command);
    wait_until("it catches Ctrl-C", || catches_ctrl_c(run.id()));
    wait_until("the device is served", || servers_in(&sandbox).len() == 1);
    std::thread::sleep(std::time::Duration::from_secs(1));
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_refused(&output, 1, &["interrupted", "nothing was left behind"]);
    assert_nothing_left(&sandbox);
}

#[test]
fn the_numbers_of_the_devices_are_listed_with_their_sources() {
    let sandbox = Sandbox::new();
    let output = sandbox.oneflush().args(["bench", "--device", "list"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for word in ["emmc:", "ufs:", "sd:", "nvme:", "program_ns", "data sheet", "no products"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn what_is_no_device_and_who_is_not_root_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    let output = sandbox.oneflush().args(["bench", "--device", "floppy"]).output().unwrap();
    assert_refused(&output, 2, &["floppy", "emmc, ufs, sd, nvme", ":new", "list"]);
    let arguments = ["bench", "--device", "emmc", "--dir", "."];
    let output = sandbox.oneflush().args(arguments).output().unwrap();
    assert_refused(&output, 2, &["--device", "--dir"]);
    let output = sandbox.oneflush_as_nobody().args(["bench", "--device", "emmc"]).output().unwrap();
    assert_refused(&output, 3, &["root", "--dir"]);
    if may_mount() {
        let arguments = ["bench", "--device", "emmc", "--size", "80M", "--modes", "wal"];
        let output = sandbox.oneflush().args(arguments).output().unwrap();
        assert_refused(&output, 1, &["--device emmc", "--size"]);
        sandbox.assert_nothing_left(&[]);
    }
}
