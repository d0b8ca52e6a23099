//! `oneflush report DATASET`: what the report of traces says, of chosen rows, and of two groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::common::commits::Commits;
use crate::common::{Sandbox, assert_refused, stderr, stdout};

fn run(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    sandbox.oneflush().args(arguments).output().unwrap()
}

fn ran(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = run(sandbox, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let all: Vec<&str> = ["report"].iter().chain(arguments).chain(&["--json"]).copied().collect();
    serde_json::from_str(&ran(sandbox, &all)).unwrap()
}

/// A trace of a device, and its rows.
fn add(sandbox: &Sandbox, name: &str, commits: &Commits, label: &str, day: &str) {
    fs::write(sandbox.path().join(name), commits.text()).unwrap();
    let begin = format!("{day}T10:00:00Z");
    ran(sandbox, &["identify", name, "--dataset", "fleet", "--label", label, "--begin", &begin]);
}

/// Four devices, two builds, two days. Build B has only databases with PERSIST, which costs more.
fn fleet() -> Sandbox {
    let sandbox = Sandbox::new();
    for (device, count) in [("a1", 500), ("a2", 700)] {
        let label = format!("device={device},build=A");
        add(&sandbox, &format!("{device}.txt"), &Commits::new(count, 7), &label, "2026-11-27");
    }
    for (device, count) in [("b1", 400), ("b2", 650)] {
        let label = format!("device={device},build=B");
        add(&sandbox, &format!("{device}.txt"), &Commits::new(count, 1), &label, "2026-11-28");
    }
    sandbox
}

fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

#[test]
fn the_data_set_of_a_trace_has_the_figures_of_the_trace() {
    let sandbox = Sandbox::new();
    add(&sandbox, "t.txt", &Commits::new(5000, 6), "device=d", "2026-11-28");
    let [of_trace, of_dataset] = [json(&sandbox, &["t.txt"]), json(&sandbox, &["fleet"])];
    let names = ["trace", "name", "format", "notes"];
    let [mut figures, others] =
        [&of_dataset, &of_trace].map(|report| report["traces"][0].as_object().unwrap().clone());
    figures.retain(|name, _| !names.contains(&name.as_str()));
    assert!(figures.len() > 12, "{:?}", figures.keys());
    for (name, figure) in &figures {
        assert_eq!(figure, &others[name], "{name}");
    }
    // What to do about it is said for a data set where that differs.
    let said = |report: &Value| {
        let findings = report["findings"].as_array().unwrap().clone();
        findings
            .into_iter()
            .map(|finding| (finding["kind"].clone(), finding["text"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(said(&of_dataset), said(&of_trace));
    assert!(said(&of_trace).len() > 2);
}

#[test]
fn conditions_choose_rows_by_folders_labels_and_columns() {
    let sandbox = fleet();
    let count = |conditions: &[&str]| {
        let mut arguments = vec!["fleet"];
        conditions.iter().for_each(|condition| arguments.extend(["--where", condition]));
        json(&sandbox, &arguments)["traces"][0]["transactions"].as_u64().unwrap()
    };
    let all = count(&[]);
    let of_a = count(&["build=A"]);
    assert!(of_a > 0 && of_a < all);
    assert_eq!(count(&["build!=A"]), all - of_a);
    assert_eq!(count(&["device=a1"]) + count(&["device=a2"]), of_a);
    assert_eq!(count(&["day<=2026-11-27"]), of_a);
    assert_eq!(count(&["build=A,day>=2026-11-28"]), 0);
    assert_eq!(count(&["build=A", "device=a1"]), count(&["device=a1"]));
    let persist = count(&["journal_mode=PERSIST"]);
    assert!(persist > all - of_a && persist < all, "{persist}");
    assert_eq!(count(&["journal_mode!=PERSIST"]), all - persist);
    assert_eq!(count(&["latency_ns>=2000000"]) + count(&["latency_ns<2000000"]), all);
    assert_eq!(count(&["begin>=2026-11-28T10:00:00Z"]), all - of_a);
    assert_eq!(count(&["confidence>1"]), 0);
    assert_eq!(count(&["file_system=ext4"]), 0);
    let text = ran(&sandbox, &["report", "fleet", "--where", "build=A"]);
    assert!(
        text.contains("data set of 2 traces") && text.contains("only rows with build=A"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn two_groups_are_compared_with_bounds() {
    let sandbox = fleet();
    let report = json(&sandbox, &["fleet", "--compare", "build"]);
    let comparison = &report["comparison"];
    assert_eq!([&comparison["first"], &comparison["second"]], ["A", "B"]);
    assert_eq!(comparison["clusters"], serde_json::json!([2, 2]));
    let kb = |group: usize| report["traces"][group]["kb"]["average"].as_f64().unwrap();
    let bytes = &comparison["bytes"];
    let [value, low, high] =
        [&bytes["value"], &bytes["bounds"][0], &bytes["bounds"][1]].map(|n| n.as_f64().unwrap());
    assert!((value / (kb(1) / kb(0)) - 1.0).abs() < 1e-9, "{value}");
    assert!(low < value && value < high && value > 1.5, "{low} {value} {high}");
    let text = ran(&sandbox, &["report", "fleet", "--compare", "build=B,A"]);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("build=A: A transaction writes 0."), "{text}");
    assert!(said.contains("bounds of 95 %, from how devices differ: 2 of B, 2 of A"), "{text}");
    // Rows of one file may be of both groups.
    let modes = json(&sandbox, &["fleet", "--compare", "journal_mode", "--where", "build=A"]);
    assert_eq!([&modes["comparison"]["first"], &modes["comparison"]["second"]], ["PERSIST", "WAL"]);
    // One device does not differ from itself.
    let one = json(&sandbox, &["fleet", "--compare", "device=a1,b1"]);
    assert!(one["comparison"]["bytes"]["bounds"].is_null());
}

#[test]
fn what_cannot_be_compared_or_is_not_known_is_refused() {
    let sandbox = fleet();
    let refused = |arguments: &[&str], words: &[&str]| {
        let all: Vec<&str> = ["report"].iter().chain(arguments).copied().collect();
        assert_refused(&run(&sandbox, &all), 2, words);
    };
    refused(&["fleet", "--compare", "device"], &["a1, a2, b1, b2", "--compare device=A,B"]);
    refused(&["fleet", "--compare", "build=A,C"], &["has C"]);
    refused(&["fleet", "--compare", "flushes"], &["flushes", "journal_mode"]);
    refused(&["fleet", "--compare", "build=A"], &["build=A,B"]);
    refused(&["fleet", "--where", "colour=red"], &["colour", "build", "device"]);
    refused(&["fleet", "--where", "latency_ns=long"], &["latency_ns", "whole number"]);
    refused(&["fleet", "--where", "day>=2026-11-28T00:00:00Z"], &["no day"]);
    let filter = "journal_mode!=WAL";
    refused(&["fleet", "--compare", "journal_mode", "--where", filter], &["all rows have PERSIST"]);
    refused(&["fleet", "a1.txt"], &["alone"]);
    refused(&["fleet", "--perfetto", "p.json"], &["--perfetto"]);
    refused(&["fleet", "--database", "x"], &["--where database=x"]);
    refused(&["a1.txt", "--where", "build=A"], &["--dataset"]);
    fs::create_dir(sandbox.path().join("other")).unwrap();
    refused(&["other"], &["other", "is no data set"]);
    let marker = sandbox.path().join("fleet/oneflush-dataset.json");
    let newer = fs::read_to_string(&marker).unwrap().replace("\"version\": 1", "\"version\": 9");
    fs::write(&marker, newer).unwrap();
    refused(&["fleet"], &["version 9", "newer oneflush"]);
}

#[test]
fn what_is_missing_or_damaged_is_a_line_and_the_rest_is_told() {
    let sandbox = fleet();
    let whole = json(&sandbox, &["fleet", "--where", "build=B"]);
    let fleet = sandbox.path().join("fleet");
    fs::remove_dir_all(fleet.join("transactions/device=a1")).unwrap();
    let cut = parts(&fleet.join("transactions/device=a2")).remove(0);
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let row = fs::read_dir(fleet.join("traces")).unwrap().next().unwrap().unwrap().path();
    // Half a file that a writer has not renamed is no file of the data set.
    fs::write(fleet.join("transactions/device=b1/.half.parquet"), &bytes[..10]).unwrap();
    let output = run(&sandbox, &["report", "fleet", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 3, "{message}");
    assert!(lines[0].contains("device=a1") && lines[0].contains("is missing"), "{message}");
    assert!(lines[1].contains("device=a2") && lines[1].contains("cannot be read"), "{message}");
    let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(told["problems"].as_array().unwrap().len(), 2);
    let [told, whole] = [&told["traces"][0], &whole["traces"][0]];
    for figure in ["transactions", "bytes", "latency_ms", "flushes"] {
        assert_eq!(told[figure], whole[figure], "{figure}");
    }
    // A row of a trace that cannot be read.
    fs::write(&row, "no parquet").unwrap();
    let output = run(&sandbox, &["report", "fleet"]);
    let line = format!("traces/{}", row.file_name().unwrap().to_string_lossy());
    assert!(stderr(&output).contains(&line), "{}", stderr(&output));
    // Identified again, all is whole.
    for (device, build, day) in
        [("a1", "A", "27"), ("a2", "A", "27"), ("b1", "B", "28"), ("b2", "B", "28")]
    {
        let label = format!("device={device},build={build}");
        let begin = format!("2026-11-{day}T10:00:00Z");
        let trace = format!("{device}.txt");
        let arguments =
            ["identify", &trace, "--dataset", "fleet", "--label", &label, "--begin", &begin];
        ran(&sandbox, &arguments);
    }
    ran(&sandbox, &["report", "fleet"]);
}

#[test]
fn what_a_killed_writer_has_left_elsewhere_counts_once() {
    let sandbox = fleet();
    let whole = json(&sandbox, &["fleet"]);
    let file = parts(&sandbox.path().join("fleet/transactions/device=a1")).remove(0);
    let elsewhere = sandbox.path().join("fleet/transactions/device=a1/day=2026-11-26");
    fs::create_dir(&elsewhere).unwrap();
    fs::copy(&file, elsewhere.join(file.file_name().unwrap())).unwrap();
    let output = run(&sandbox, &["report", "fleet", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("day=2026-11-26"), "{}", stderr(&output));
    let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(told["traces"], whole["traces"]);
}

/// Rows whose trace has no times counted with a latency of 0, and those of calls with 0 flushes.
#[test]
fn what_a_trace_does_not_show_is_in_no_figure() {
    let sandbox = fleet();
    let one = "3397 pwrite64(4</tmp/a.db-journal>, \"\"..., 512, 0) = 512\n\
               3397 pwrite64(4</tmp/a.db-journal>, \"\"..., 4096, 512) = 4096\n\
               3397 fdatasync(4</tmp/a.db-journal>) = 0\n\
               3397 pwrite64(3</tmp/a.db>, \"\"..., 4096, 8192) = 4096\n\
               3397 fdatasync(3</tmp/a.db>) = 0\n\
               3397 unlink(\"/tmp/a.db-journal\") = 0\n";
    fs::write(sandbox.path().join("calls.txt"), one.repeat(60)).unwrap();
    let before = json(&sandbox, &["fleet"]);
    let label = "device=c1,build=C";
    ran(&sandbox, &["identify", "calls.txt", "--dataset", "fleet", "--label", label]);
    let after = json(&sandbox, &["fleet"]);
    let [before, after] = [&before["traces"][0], &after["traces"][0]];
    assert_eq!(after["latency_ms"], before["latency_ms"]);
    let count = |report: &Value| report["transactions"].as_u64().unwrap();
    assert!(count(after) >= count(before) + 59);
    let notes = after["notes"].to_string();
    assert!(notes.contains("have no latency") && notes.contains("show no device"), "{notes}");
    let compared = json(&sandbox, &["fleet", "--compare", "build=A,C"]);
    assert!(
        compared["comparison"]["flushes"].is_null() && compared["comparison"]["latency"].is_null()
    );
    assert!(compared["comparison"]["bytes"]["value"].as_f64().unwrap() > 0.0);
    // Columns of the table of traces choose as well.
    let of_calls = json(&sandbox, &["fleet", "--where", "has_device=false,events>100"]);
    assert_eq!(count(&of_calls["traces"][0]), count(after) - count(before));
}

#[test]
fn numbers_of_another_type_are_not_read_as_none() {
    let sandbox = fleet();
    let schema = "message m { required binary database (STRING); required int32 latency_ns; \
                  required int64 bytes_db; }";
    let schema = parquet::schema::parser::parse_message_type(schema).unwrap();
    let path = sandbox.path().join("fleet/transactions/device=a1/other.parquet");
    let file = fs::File::create(&path).unwrap();
    let properties = parquet::file::properties::WriterProperties::builder().build();
    parquet::file::writer::SerializedFileWriter::new(file, schema.into(), properties.into())
        .unwrap()
        .close()
        .unwrap();
    let output = run(&sandbox, &["report", "fleet", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let said = "column latency_ns is Int32, and not Int64";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

#[test]
fn a_page_says_what_it_shows() {
    let sandbox = fleet();
    let said = ran(&sandbox, &["report", "fleet", "--compare", "build", "-o", "page.html"]);
    assert!(said.contains("page.html: ") && said.contains("of 4 traces"), "{said}");
    let page = fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    for words in ["build=A", "build=B", "data set of 2 traces"] {
        assert!(page.contains(words), "{words}");
    }
}
