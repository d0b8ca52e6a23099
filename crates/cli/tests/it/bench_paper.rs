//! `oneflush bench --paper`: short runs of a paper's experiments, as root and as anybody.

use std::fs;
use std::process::{Output, Stdio};

use oneflush_testing::{Running, wait_until};
use serde_json::Value;

use crate::common::{Sandbox, assert_refused, catches_ctrl_c, skip_unless_root, stderr, stdout};

fn paper(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    paper_named(sandbox, "waldio", arguments)
}

fn paper_named(sandbox: &Sandbox, name: &str, arguments: &[&str]) -> Output {
    sandbox.oneflush().args(["bench", "--paper", name]).args(arguments).output().unwrap()
}

/// The figures of a row, by the heads of its sheet.
fn row(report: &Value, source: &str, label: &str) -> Vec<(String, Option<f64>)> {
    let named = |list: &Value, key: &str, name: &str| {
        let found = list.as_array().unwrap().iter().find(|one| one[key] == name);
        found.unwrap_or_else(|| panic!("{name}: {list}")).clone()
    };
    let sheet = named(&report["sheets"], "source", source);
    let heads = sheet["heads"].as_array().unwrap().iter();
    let row = named(&sheet["rows"], "label", label);
    let values = row["values"].as_array().unwrap().iter();
    heads
        .zip(values)
        .map(|(head, value)| (head.as_str().unwrap().to_owned(), value.as_f64()))
        .collect()
}

fn value(row: &[(String, Option<f64>)], head: &str) -> Option<f64> {
    row.iter().find(|(name, _)| name == head).unwrap_or_else(|| panic!("{head}: {row:?}")).1
}

#[test]
fn single_commits_are_found_at_a_device_and_told_beside_theirs() {
    if skip_unless_root("single_commits_are_found_at_a_device_and_told_beside_theirs") {
        return;
    }
    let sandbox = Sandbox::new();
    let arguments =
        ["--only", "fig. 11", "-n", "12", "--rounds", "1", "--size", "64M", "-o", "results"];
    let output = paper(&sandbox, &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let folder = sandbox.path().join("results");
    let text = fs::read_to_string(folder.join("waldio.md")).unwrap();
    assert_eq!(text, stdout(&output));
    assert!(text.contains("12 operations in place of its own number"), "{text}");
    let json = fs::read_to_string(folder.join("waldio.json")).unwrap();
    let report: Value = serde_json::from_str(&json).unwrap();
    let source = "Fig. 11 and Table 1";
    let delete = row(&report, source, "DELETE");
    assert_eq!(value(&delete, "theirs KB"), Some(80.0));
    assert_eq!(value(&delete, "fs journal %"), Some(100.0));
    assert!(value(&delete, "laid out KB").unwrap() > 30.0, "{delete:?}");
    // A frame of a header and a page spans two blocks, and its WAL makes the file system journal
    // only while it grows.
    let wal = row(&report, source, "WAL");
    assert_eq!(value(&wal, "laid out KB"), Some(8.0));
    // What the kernel merges depends on the moment.
    assert!((3.0..=4.0).contains(&value(&wal, "requests").unwrap()), "{wal:?}");
    assert!(value(&wal, "fs journal %").unwrap() < 20.0, "{wal:?}");
    assert!(value(&wal, "new KB").unwrap() >= 20.0, "{wal:?}");
    // A log that is laid out takes one block a commit, and nothing else.
    let waldio = row(&report, source, "WALDIO");
    assert_eq!(value(&waldio, "laid out KB"), Some(4.0));
    assert_eq!(value(&waldio, "4 KiB once %"), Some(100.0));
    assert_eq!(value(&waldio, "fs journal %"), Some(0.0));
    let verdicts = report["verdicts"].as_array().unwrap();
    for says in ["one write request of 4 KiB", "no commit makes the file system write"] {
        let one = verdicts.iter().find(|one| one["claim"].as_str().unwrap().contains(says));
        assert_eq!(one.unwrap()["verdict"], "holds", "{verdicts:?}");
    }
    assert!(report["environment"]["place"].as_str().unwrap().contains("loop device"));
    // Only the experiments that this figure needs ran.
    assert_eq!(report["experiments"].as_array().unwrap().len(), 2);
    sandbox.assert_nothing_left(&[]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn the_volume_of_a_commit_with_maw_stands_beside_stock_modes_and_what_is_not_there() {
    let name = "the_volume_of_a_commit_with_maw_stands_beside_stock_modes_and_what_is_not_there";
    if skip_unless_root(name) {
        return;
    }
    let sandbox = Sandbox::new();
    let arguments =
        ["--only", "table iii", "-n", "100", "--rounds", "1", "--size", "64M", "--json"];
    let output = paper_named(&sandbox, "maw", &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let persist = row(&report, "Table III", "EXT4 PERSIST");
    assert_eq!(
        (value(&persist, "total"), value(&persist, "× EXT4 PERSIST")),
        (Some(48.0), Some(1.0))
    );
    assert!(value(&persist, "fs").unwrap() > 0.0, "{persist:?}");
    let f2fs = row(&report, "Table III", "F2FS MAW");
    assert_eq!(f2fs.iter().filter(|(_, value)| value.is_some()).count(), 3, "theirs: {f2fs:?}");
    let maw = row(&report, "Table III", "log, PERSIST");
    // The log grows meanwhile.
    assert!(value(&maw, "× EXT4 PERSIST").unwrap() < 0.4, "{maw:?}");
    assert!(value(&maw, "flushes").unwrap() < 1.5, "{maw:?}");
    // What is in place at the end of 100 commits is some pages, once.
    assert!(value(&maw, "in place").unwrap() < 1.0, "{maw:?}");
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn each_element_of_a_multi_version_b_tree_saves_pages_beside_stock_sqlite() {
    if skip_unless_root("each_element_of_a_multi_version_b_tree_saves_pages_beside_stock_sqlite") {
        return;
    }
    let sandbox = Sandbox::new();
    let arguments =
        ["--only", "fig. 12, insert", "-n", "300", "--rounds", "1", "--size", "256M", "--json"];
    let output = paper_named(&sandbox, "lsmvbt", &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |label: &str, head: &str| value(&row(&report, "Fig. 12, insert", label), head);
    assert_eq!(of("WAL", "theirs/s"), Some(416.0));
    let pages = |label| of(label, "pages").unwrap();
    // So few inserts meet pages at one phase of their filling.
    assert!((1.0..1.25).contains(&pages("LS-MVBT")), "{}", pages("LS-MVBT"));
    assert!(pages("+ lazy split") > pages("LS-MVBT") + 0.9, "an anchor each");
    assert!(pages("MVBT") > pages("+ embedding") + 0.9, "an anchor each");
    assert!(pages("+ embedding") > pages("LS-MVBT"), "a split dirties more");
    let kilobytes = |label| of(label, "KB").unwrap();
    assert!(kilobytes("LS-MVBT") < 6.0 && kilobytes("WAL") > 8.0);
    assert!(of("LS-MVBT", "flushes").unwrap() < 1.05);
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn mixes_crashes_and_sizes_of_pages_are_told_in_a_directory_too() {
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    for (only, count) in
        [("fig. 9", 1), ("fig. 10, until", 1), ("fig. 11", 1), ("goal, the floor", 2)]
    {
        let arguments = ["--only", only, "-n", "3", "--rounds", "1", "--json", "--dir", "dir"];
        let output = paper_named(&sandbox, "lsmvbt", &arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let sheets = report["sheets"].as_array().unwrap();
        assert_eq!(sheets.len(), count, "{only}");
        for sheet in sheets {
            let ours = &sheet["rows"][0]["values"];
            assert!(ours.as_array().unwrap().last().unwrap().as_f64().unwrap() > 0.0, "{ours}");
        }
    }
    sandbox.assert_nothing_left(&[&dir]);
}

#[test]
fn in_a_directory_rates_are_told_and_bytes_are_not_invented() {
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    let arguments = ["--only", "goal", "-n", "32", "--rounds", "1", "--json", "--dir", "dir"];
    let output = paper(&sandbox, &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sheets = report["sheets"].as_array().unwrap();
    assert!(sheets.len() >= 3 && sheets.iter().all(|sheet| sheet["source"] == "Goal"));
    let wal = |title: &str| {
        let sheet = sheets.iter().find(|one| one["title"].as_str().unwrap().contains(title));
        sheet.unwrap()["rows"][0]["values"].clone()
    };
    assert!(wal("10,000 inserts").as_array().unwrap().iter().all(Value::is_null));
    let floor = wal("and the floor");
    assert!(floor[0].as_f64().unwrap() > 0.0 && floor[2].as_f64().unwrap() > 0.1, "{floor}");
    let writers = wal("16 writer");
    assert!(writers[0].as_f64().unwrap() > 0.0 && writers[2].is_null(), "{writers}");
    let readers = wal("8 readers");
    assert!(readers[0].as_f64().unwrap() > 0.0 && readers[2].as_f64().unwrap() > 0.0, "{readers}");
    let verdicts = report["verdicts"].as_array().unwrap();
    let of_bytes = verdicts.iter().find(|one| one["claim"].as_str().unwrap().contains("0.45"));
    assert!(of_bytes.unwrap()["verdict"].is_null());
    sandbox.assert_nothing_left(&[&dir]);
}

#[test]
fn what_does_not_fit_a_paper_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path().join("file"), "").unwrap();
    for (arguments, code, words) in [
        (
            &["--paper", "walido"][..],
            2,
            &["walido", "it is one of: lsmvbt, eager, io, waldio, maw"][..],
        ),
        (&["--paper", "waldio", "--modes", "wal"], 2, &["--modes", "--paper"]),
        (&["--paper", "waldio", "--csv"], 2, &["--csv", "--paper"]),
        (&["--paper", "waldio", "--from", "file"], 2, &["--from", "--paper"]),
        (&["--paper", "waldio", "--only", "Fig. 99"], 2, &["Fig. 99", "Fig. 13"]),
        (&["--paper", "waldio", "-o", "file"], 1, &["file", "--output"]),
        (&["-o", "results"], 2, &["--paper"]),
        (&["--only", "Fig. 13"], 2, &["--paper"]),
    ] {
        let output = sandbox.oneflush().arg("bench").args(arguments).output().unwrap();
        assert_refused(&output, code, words);
    }
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn ctrl_c_ends_the_experiments_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("dir");
    let mut command = sandbox.oneflush();
    command.args(["bench", "--paper", "waldio", "-n", "1000000", "--dir", "dir", "-o", "results"]);
    command.stderr(Stdio::piped()).stdout(Stdio::piped());
    let child = Running::start(&mut command);
    wait_until("it catches Ctrl-C", || catches_ctrl_c(child.id()));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_refused(&output, 1, &["interrupted", "nothing was left behind"]);
    sandbox.assert_nothing_left(&[&dir, &sandbox.path().join("results")]);
}
