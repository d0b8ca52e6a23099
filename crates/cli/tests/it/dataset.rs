//! `oneflush identify --dataset`: rows of many traces, each trace's own, whatever happens.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

use crate::common::commits::Commits;
use crate::common::visible::files;
use crate::common::{Sandbox, assert_refused, skip_unless_root, stderr, stdout};

fn identify(sandbox: &Sandbox, arguments: &str) -> Output {
    sandbox.oneflush().arg("identify").args(arguments.split(' ')).output().unwrap()
}

fn identified(sandbox: &Sandbox, arguments: &str) -> String {
    let output = identify(sandbox, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn write(sandbox: &Sandbox, name: &str, count: u64) {
    fs::write(sandbox.path().join(name), Commits::new(count, 6).text()).unwrap();
}

/// Of a writer that has not ended well. Locks stay.
fn hidden_files(dir: &Path) -> usize {
    let is_left = |name: std::ffi::OsString| Path::new(&name).extension() != Some("lock".as_ref());
    let names = fs::read_dir(dir.join(".writing")).into_iter().flatten();
    names.filter(|entry| is_left(entry.as_ref().unwrap().file_name())).count()
}

fn rows(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

/// The rows of a table, in the order of its files.
fn table(dataset: &Path, table: &str) -> Vec<Row> {
    let names = files(dataset).into_keys().filter(|name| name.starts_with(table));
    names.flat_map(|name| rows(&dataset.join(name))).collect()
}

fn field<'a>(row: &'a Row, column: &str) -> &'a Field {
    let found = row.get_column_iter().find(|(name, _)| *name == column);
    found.unwrap_or_else(|| panic!("no column {column}")).1
}

fn text(row: &Row, column: &str) -> Option<String> {
    match field(row, column) {
        Field::Str(text) => Some(text.clone()),
        Field::Null => None,
        other => panic!("{column}: {other}"),
    }
}

fn whole(row: &Row, column: &str) -> Option<i64> {
    match field(row, column) {
        Field::Long(number) | Field::TimestampMicros(number) => Some(*number),
        Field::Null => None,
        other => panic!("{column}: {other}"),
    }
}

/// Milliseconds of the JSON as the nanoseconds that they were.
fn ns(ms: &Value) -> Option<i64> {
    ms.as_f64().map(|ms| (ms * 1e6).round() as i64)
}

fn assert_row_is_json(row: &Row, object: &Value) {
    for column in ["process", "database", "journal_mode", "synchronous", "outcome", "reason"] {
        assert_eq!(text(row, column).as_deref(), object[column].as_str(), "{column}");
    }
    for column in ["pid", "tid", "segments", "flushes", "syncs"] {
        assert_eq!(whole(row, column), object[column].as_i64(), "{column}");
    }
    let phases = &object["phases"];
    for (column, ms) in [
        ("latency_ns", &object["latency_ms"]),
        ("silent_ns", &object["silent_ms"]),
        ("log_ns", &phases["log_ms"]),
        ("db_ns", &phases["db_ms"]),
        ("reset_ns", &phases["reset_ms"]),
        ("append_ns", &phases["append_ms"]),
        ("checkpoint_ns", &phases["checkpoint_ms"]),
    ] {
        assert_eq!(whole(row, column), ns(ms), "{column}");
    }
    for class in ["db", "journal", "fs_journal", "metadata"] {
        for (prefix, from) in [
            ("bytes", &object["bytes"]),
            ("requests", &object["requests"]),
            ("checkpoint_bytes", &phases["checkpoint_bytes"]),
        ] {
            let column = format!("{prefix}_{class}");
            assert_eq!(whole(row, &column), from[class].as_i64(), "{column}");
        }
    }
    let Field::Double(confidence) = field(row, "confidence") else { panic!("confidence") };
    assert_eq!(Some(*confidence), object["confidence"].as_f64());
    let Field::ListInternal(others) = field(row, "others") else { panic!("others") };
    let others = others.elements().iter().map(|other| match other {
        Field::Str(text) => Value::from(text.as_str()),
        other => panic!("others: {other}"),
    });
    assert_eq!(Value::Array(others.collect()), object["others"]);
}

#[test]
fn rows_are_the_json_of_each_transaction_with_times_and_labels() {
    let sandbox = Sandbox::new();
    write(&sandbox, "t.txt", 5000);
    let mut objects: Vec<Value> = identified(&sandbox, "t.txt --json")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let said = identified(
        &sandbox,
        "t.txt --dataset fleet --label device=a/b,build=B --label region=eu --begin \
         2026-11-28T23:59:30Z",
    );
    assert!(said.contains("t.txt: ") && said.contains(" transactions of a/b\n"), "{said}");
    let fleet = sandbox.path().join("fleet");
    let days: Vec<String> = files(&fleet).into_keys().collect();
    assert_eq!(days.len(), 4, "marker, trace and two days: {days:?}");
    assert!(days[2].starts_with("transactions/device=a%2Fb/day=2026-11-28/"), "{days:?}");
    assert!(days[3].starts_with("transactions/device=a%2Fb/day=2026-11-29/"), "{days:?}");
    let mut rows = table(&fleet, "transactions");
    assert_eq!(rows.len(), objects.len());
    // Midnight divides transactions of which some become complete later than others.
    rows.sort_by_key(|row| whole(row, "begin"));
    objects.sort_by_key(|object| ns(&object["begin_s"]));
    let begin_us = 1_795_910_370_000_000;
    for (row, object) in rows.iter().zip(&objects) {
        assert_row_is_json(row, object);
        let begin = whole(row, "begin").unwrap();
        assert_eq!(begin - begin_us, whole(row, "offset_us").unwrap());
        let end = begin + whole(row, "latency_ns").unwrap() / 1000;
        assert_eq!(whole(row, "end"), Some(end));
        assert_eq!(text(row, "build").as_deref(), Some("B"));
        assert!(row.get_column_iter().all(|(name, _)| name != "device"), "it is in the folder");
    }
    let [trace] = &table(&fleet, "traces")[..] else { panic!("one trace") };
    assert_eq!(whole(trace, "transactions"), Some(objects.len() as i64));
    assert_eq!(text(trace, "device").as_deref(), Some("a/b"));
    assert_eq!(text(trace, "clock").as_deref(), Some("given"));
    assert_eq!(whole(trace, "begin"), Some(begin_us));
    let sum = Command::new("sha256sum").arg(sandbox.path().join("t.txt")).output().unwrap();
    assert_eq!(text(trace, "sha256").as_deref(), stdout(&sum).split(' ').next());
}

#[test]
fn without_a_clock_times_are_null_and_nothing_is_guessed() {
    let sandbox = Sandbox::new();
    write(&sandbox, "t.txt", 20);
    identified(&sandbox, "t.txt --dataset fleet");
    let fleet = sandbox.path().join("fleet");
    let null = "__HIVE_DEFAULT_PARTITION__";
    let folder = format!("transactions/device={null}/day={null}/");
    assert!(files(&fleet).keys().any(|name| name.starts_with(&folder)));
    let rows = table(&fleet, "transactions");
    assert!(!rows.is_empty() && rows.iter().all(|row| whole(row, "begin").is_none()));
    assert!(rows.iter().all(|row| whole(row, "offset_us").is_some()));
    let [trace] = &table(&fleet, "traces")[..] else { panic!("one trace") };
    assert_eq!((text(trace, "clock"), whole(trace, "begin")), (None, None));
}

#[test]
fn a_trace_again_replaces_its_own_rows_and_no_others() {
    let sandbox = Sandbox::new();
    write(&sandbox, "one.txt", 300);
    write(&sandbox, "two.txt", 200);
    let labels = "trace,device,build,begin\none.txt,a,A,2026-11-28T10:00:00Z\n\
                  two.txt,b,A,2026-11-28T10:00:00Z\n";
    fs::write(sandbox.path().join("labels.csv"), labels).unwrap();
    let fleet = sandbox.path().join("fleet");
    identified(&sandbox, "one.txt two.txt --dataset fleet --labels labels.csv");
    let first = files(&fleet);
    assert_eq!(first.len(), 5);
    // The same again: the same bytes.
    let said = identified(&sandbox, "two.txt one.txt --dataset fleet --labels labels.csv");
    assert!(said.contains("of a, again\n"), "{said}");
    assert_eq!(files(&fleet), first);
    // Another label, and another day: the old rows are gone, those of the other trace stay.
    identified(
        &sandbox,
        "one.txt --dataset fleet --labels labels.csv --label build=B --begin 2026-11-30T10:00:00Z",
    );
    let second = files(&fleet);
    assert_eq!(second.len(), 5);
    let moved: Vec<&String> = second.keys().filter(|name| !first.contains_key(*name)).collect();
    assert!(moved.len() == 1 && moved[0].contains("device=a/day=2026-11-30"), "{moved:?}");
    let same = first.iter().filter(|(name, bytes)| second.get(*name) == Some(bytes));
    assert_eq!(same.count(), 3, "marker and both files of the other trace");
    assert!(!fleet.join("transactions/device=a/day=2026-11-28").exists(), "an empty folder");
    // The same trace of another device is another trace.
    identified(&sandbox, "one.txt --dataset fleet --label device=c");
    assert_eq!(table(&fleet, "traces").len(), 3);
    assert_eq!(hidden_files(&fleet), 0);
}

#[test]
fn a_bad_trace_is_a_row_and_a_line_and_the_others_go_on() {
    let sandbox = Sandbox::new();
    write(&sandbox, "good.txt", 100);
    let at = |name: &str| sandbox.path().join(name);
    fs::write(at("empty.txt"), "").unwrap();
    fs::write(at("letter.txt"), "Dear Sir or Madam,\n").unwrap();
    fs::write(at("newer.txt"), "# tracer: nop\n#\n# oneflush: format 2\n").unwrap();
    let packed = zstd::encode_all(Commits::new(2000, 3).text().as_bytes(), 3).unwrap();
    fs::write(at("cut.zst"), &packed[..packed.len() / 2]).unwrap();
    let mut damaged = packed.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xff);
    fs::write(at("damaged.zst"), damaged).unwrap();
    let output = identify(
        &sandbox,
        "empty.txt letter.txt missing.txt newer.txt cut.zst damaged.zst good.txt --dataset fleet \
         --label device=d",
    );
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    for said in [
        "empty.txt",
        "letter.txt: is in no known format",
        "missing.txt",
        "newer.txt",
        "damaged.zst",
    ] {
        let lines =
            message.lines().filter(|line| line.starts_with("oneflush: ") && line.contains(said));
        assert_eq!(lines.count(), 1, "{said}: {message}");
    }
    assert!(stdout(&output).contains("good.txt: "), "{}", stdout(&output));
    let traces = table(&sandbox.path().join("fleet"), "traces");
    let of = |name: &str| {
        let found = traces.iter().find(|trace| text(trace, "source").as_deref() == Some(name));
        found.unwrap_or_else(|| panic!("{name} has no row"))
    };
    assert_eq!(traces.len(), 6, "all but the one that is not there");
    for name in ["empty.txt", "letter.txt", "newer.txt", "damaged.zst"] {
        assert!(text(of(name), "error").is_some(), "{name}");
    }
    assert!(text(of("newer.txt"), "error").unwrap().contains("format 2"));
    // A trace that is cut off is told as far as it goes.
    assert_eq!(text(of("cut.zst"), "error"), None);
    assert!(text(of("cut.zst"), "cut_off").is_some());
    assert!(whole(of("cut.zst"), "transactions").unwrap() > 100);
    assert_eq!(text(of("good.txt"), "error"), None);
}

#[test]
fn two_writers_of_the_same_traces_leave_what_one_leaves() {
    let sandbox = Sandbox::new();
    let names: Vec<String> = (0..8).map(|n| format!("t{n}.txt")).collect();
    let mut labels = "trace,device,begin\n".to_owned();
    for (n, name) in names.iter().enumerate() {
        write(&sandbox, name, 200 + 10 * n as u64);
        labels += &format!("{name},d{n},2026-11-28T10:00:00Z\n");
    }
    fs::write(sandbox.path().join("labels.csv"), labels).unwrap();
    let all = names.join(" ");
    identified(&sandbox, &format!("{all} --dataset alone --labels labels.csv"));
    let begin = |order: &str| {
        let arguments = format!("{order} --dataset both --labels labels.csv");
        sandbox
            .oneflush()
            .arg("identify")
            .args(arguments.split(' '))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let backwards: Vec<&str> = names.iter().rev().map(String::as_str).collect();
    let mut writers = [begin(&all), begin(&all), begin(&backwards.join(" "))];
    for writer in &mut writers {
        assert!(writer.wait().unwrap().success());
    }
    assert_eq!(files(&sandbox.path().join("both")), files(&sandbox.path().join("alone")));
}

/// The rows of a trace are in other folders with another begin. The later writer's stay.
#[test]
fn two_writers_that_label_one_trace_otherwise_leave_what_one_of_them_leaves() {
    let sandbox = Sandbox::new();
    write(&sandbox, "t.txt", 100);
    let arguments = |dataset: &str, day: u32| {
        format!("t.txt --dataset {dataset} --label device=d --begin 2026-11-{day}T10:00:00Z")
    };
    let days = [10, 20];
    let alone = days.map(|day| {
        identified(&sandbox, &arguments(&format!("alone-{day}"), day));
        files(&sandbox.path().join(format!("alone-{day}")))
    });
    for round in 0..10 {
        let both = format!("both-{round}");
        let mut writers = days.map(|day| {
            let mut command = sandbox.oneflush();
            command.arg("identify").args(arguments(&both, day).split(' '));
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        });
        for writer in &mut writers {
            assert!(writer.wait().unwrap().success());
        }
        let found = files(&sandbox.path().join(&both));
        assert!(alone.contains(&found), "{:?}", found.keys());
    }
}

/// Each moves its trace from day to day, and removes the folder of the day before if it is empty.
#[test]
fn a_folder_that_one_writer_removes_is_made_again_by_another() {
    let sandbox = Sandbox::new();
    let names = ["one.txt", "two.txt"];
    // Its folder for temporary files is made once.
    sandbox.oneflush();
    std::thread::scope(|scope| {
        for (n, name) in names.iter().enumerate() {
            write(&sandbox, name, 50 + n as u64);
            let sandbox = &sandbox;
            scope.spawn(move || {
                for round in 0..40 {
                    let day = 10 + (round + n) % 2;
                    let begin = format!("--begin 2026-11-{day}T10:00:00Z");
                    identified(sandbox, &format!("{name} --dataset fleet --by region,day {begin}"));
                }
            });
        }
    });
    let found = files(&sandbox.path().join("fleet"));
    assert_eq!(found.len(), 1 + 2 * names.len(), "{:?}", found.keys());
}

#[test]
fn a_writer_that_is_killed_leaves_only_whole_files() {
    let sandbox = Sandbox::new();
    write(&sandbox, "big.txt", 40_000);
    let fleet = sandbox.path().join("fleet");
    let arguments = "big.txt --dataset fleet --label device=d --begin 2026-11-28T10:00:00Z";
    let mut child = sandbox.oneflush().arg("identify").args(arguments.split(' ')).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while hidden_files(&fleet) == 0 && child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "nothing is written");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for name in files(&fleet).into_keys().filter(|name| name.ends_with(".parquet")) {
        assert!(!rows(&fleet.join(&name)).is_empty(), "{name}");
    }
    identified(&sandbox, arguments);
    identified(&sandbox, &arguments.replace("fleet", "other"));
    assert_eq!(files(&fleet), files(&sandbox.path().join("other")));
}

/// A writer with a wrong label was killed when its rows were in their place, and its trace's row
/// not yet. Nobody would have known of these rows: the row in `traces` names others.
#[test]
fn what_a_killed_writer_has_put_elsewhere_goes_with_the_next_run() {
    let sandbox = Sandbox::new();
    write(&sandbox, "t.txt", 100);
    let arguments = "t.txt --dataset fleet --label device=d --begin 2026-11-28T10:00:00Z";
    identified(&sandbox, arguments);
    let fleet = sandbox.path().join("fleet");
    let whole = files(&fleet);
    let place = whole.keys().find(|name| name.starts_with("transactions/")).unwrap();
    let stray = place.replace("2026-11-28", "2026-11-30");
    fs::create_dir_all(fleet.join(&stray).parent().unwrap()).unwrap();
    fs::copy(fleet.join(place), fleet.join(&stray)).unwrap();
    let id = Path::new(place).file_stem().unwrap().to_string_lossy();
    fs::write(fleet.join(format!(".writing/{id}.abc.plan")), &stray).unwrap();
    identified(&sandbox, arguments);
    assert_eq!(files(&fleet), whole);
    assert_eq!(hidden_files(&fleet), 0);
}

#[test]
fn rows_of_days_before_and_behind_1970_stay_apart() {
    let sandbox = Sandbox::new();
    // The events of the first half come behind those of the second.
    let text = Commits::new(400, 1).text();
    let half = text.len() / 2 + text[text.len() / 2..].find('\n').unwrap() + 1;
    let text = format!("{}{}", &text[half..], &text[..half]);
    fs::write(sandbox.path().join("t.txt"), text).unwrap();
    let said = identified(&sandbox, "t.txt --dataset fleet --by day --begin 1970-01-01T00:00:00Z");
    let rows = table(&sandbox.path().join("fleet"), "transactions").len();
    assert!(said.contains(&format!("t.txt: {rows} transactions")), "{rows}: {said}");
    let [trace] = &table(&sandbox.path().join("fleet"), "traces")[..] else { panic!("one trace") };
    assert_eq!(whole(trace, "begin"), Some(0), "the first event has the given time");
}

#[test]
fn what_a_data_set_has_no_place_for_is_said() {
    let sandbox = Sandbox::new();
    write(&sandbox, "t.txt", 50);
    let null = "__HIVE_DEFAULT_PARTITION__";
    let refused = identify(&sandbox, &format!("t.txt --dataset fleet --label device={null}"));
    assert_refused(&refused, 2, &["device", null]);
    let long = format!("t.txt --dataset fleet --label device={}", "x".repeat(250));
    let output = identify(&sandbox, &long);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("label device") && stderr(&output).contains("--by"));
    let pipe = Command::new("mkfifo").arg(sandbox.path().join("pipe")).status().unwrap();
    assert!(pipe.success());
    let output = identify(&sandbox, "pipe --dataset fleet");
    assert!(stderr(&output).contains("is no file"), "{}", stderr(&output));
    fs::write(sandbox.path().join("labels.csv"), "trace,device\nother/t.txt,b\n").unwrap();
    let output = identify(&sandbox, "t.txt ./t.txt --dataset fleet --labels labels.csv");
    assert!(stderr(&output).contains("t.txt: the file of --labels has no line"));
    assert!(stdout(&output).contains("transactions of 1 trace\n"), "{}", stdout(&output));
    let head = "# tracer: nop\n# oneflush: format 1\n# oneflush: label process=x\n\
                # oneflush: label build=B\n";
    fs::write(sandbox.path().join("r.txt"), head).unwrap();
    identified(&sandbox, "r.txt --dataset own");
    let [trace] = &table(&sandbox.path().join("own"), "traces")[..] else { panic!("one trace") };
    assert_eq!(text(trace, "build").as_deref(), Some("B"));
    let Field::ListInternal(notes) = field(trace, "notes") else { panic!("notes") };
    let notes = format!("{:?}", notes.elements());
    assert!(notes.contains("label process of the recording is left out"), "{notes}");
}

/// A file system of so many KiB in memory, gone with the test.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf, kib: u32) -> Small {
        fs::create_dir(&path).unwrap();
        let size = format!("size={kib}k");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&path).status();
        assert!(mounted.unwrap().success());
        Small(path)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_one_line_a_trace_and_what_was_there_stays() {
    if skip_unless_root("a small file system") {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = Small::mount(sandbox.path().join("small"), 72);
    write(&sandbox, "fits.txt", 100);
    write(&sandbox, "large.txt", 60_000);
    write(&sandbox, "later.txt", 90);
    identified(&sandbox, "fits.txt --dataset small/fleet --label device=a");
    let fleet = disk.0.join("fleet");
    let before = files(&fleet);
    let output = identify(&sandbox, "large.txt later.txt --dataset small/fleet --label device=a");
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("large.txt: not in the data set") && message.contains("No space left"),
        "{message}"
    );
    assert!(stdout(&output).contains("later.txt: "), "it fits again: {}", stdout(&output));
    let after = files(&fleet);
    assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)));
    assert_eq!(after.len(), before.len() + 2, "the later trace and its rows: {:?}", after.keys());
    assert_eq!(hidden_files(&fleet), 0);
}

#[test]
fn wrong_usage_is_said_before_anything_is_made() {
    let sandbox = Sandbox::new();
    write(&sandbox, "t.txt", 20);
    let refused = |arguments: &str, words: &[&str]| {
        assert_refused(&identify(&sandbox, arguments), 2, words);
    };
    refused("- --dataset fleet", &["standard input", "file"]);
    refused("t.txt --dataset fleet --label device", &["NAME=VALUE"]);
    refused("t.txt --dataset fleet --label latency_ns=1", &["latency_ns", "column"]);
    refused("t.txt --dataset fleet --by Build", &["--by Build"]);
    refused("t.txt --dataset fleet --begin yesterday", &["yesterday", "2026-11-28T22:44:10Z"]);
    refused("t.txt --dataset fleet --labels none.csv", &["none.csv"]);
    refused("t.txt --label device=a", &["--dataset"]);
    refused("t.txt --dataset fleet --json", &["--json"]);
    assert!(!sandbox.path().join("fleet").exists());
    fs::create_dir(sandbox.path().join("full")).unwrap();
    fs::write(sandbox.path().join("full/thesis"), "").unwrap();
    refused("t.txt --dataset full", &["full", "not empty"]);
    identified(&sandbox, "t.txt --dataset fleet --by build,day");
    refused("t.txt --dataset fleet --by device", &["--by build,day"]);
}
