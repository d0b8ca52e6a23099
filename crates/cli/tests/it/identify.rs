//! `oneflush identify` as a user meets it: over traces of phones where the project's data are there
//! (else a test says so and passes), and over one that stands here.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use oneflush_testing::{Running, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Sandbox, assert_refused, stderr, stdout, waits_for_input};

/// One commit of PERSIST with FULL, its file system's journal, and a line that is none, by MOST's
/// columns.
const PERSIST: &str = concat!(
    "0.001000000\tC\tWS\t1000\t8\t1234\tapp\tD\t/data/app/a.db-journal\n",
    "0.001100000\tC\tWS\t1032\t16\t1234\tapp\tD\t/data/app/a.db-journal\n",
    "0.001200000\tC\tWS\t9000\t32\t77\tjbd2/sda-8\tJ\tfile-NONE\n",
    "0.002000000\tC\tFWS\t0\t0\t1234\tapp\tM\tfile-NONE\n",
    "this is no line of a trace\n",
    "0.003000000\tC\tWS\t1000\t8\t1234\tapp\tD\t/data/app/a.db-journal\n",
    "0.004000000\tC\tFWS\t0\t0\t1234\tapp\tM\tfile-NONE\n",
    "0.005000000\tC\tWS\t2000\t16\t1234\tapp\tD\t/data/app/a.db\n",
    "0.006000000\tC\tFWS\t0\t0\t1234\tapp\tM\tfile-NONE\n",
    "0.007000000\tC\tWS\t1000\t8\t1234\tapp\tD\t/data/app/a.db-journal\n",
    "0.008000000\tC\tFWS\t0\t0\t1234\tapp\tM\tfile-NONE\n",
);

fn data(name: &str) -> Option<PathBuf> {
    oneflush_testing::shared_data(&format!("traces/{name}"))
}

fn identify(sandbox: &Sandbox, trace: &Path, arguments: &[&str]) -> Output {
    sandbox.oneflush().arg("identify").arg(trace).args(arguments).output().unwrap()
}

fn done(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn written(sandbox: &Sandbox, name: &str, bytes: &[u8]) -> PathBuf {
    let path = sandbox.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Reads what a program writes until it holds `wanted`.
fn read_until(from: &mut impl Read, wanted: &str) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&text).contains(wanted) {
        assert_eq!(from.read(&mut byte).unwrap(), 1, "ended: {}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn a_phones_trace_with_names_gives_six_transactions_of_three_databases_with_their_bytes() {
    let Some(trace) = data("most_result.po") else { return };
    let sandbox = Sandbox::new();
    let all = objects(&done(identify(&sandbox, &trace, &["--json"])));
    assert_eq!(all.len(), 6);
    let of = |ending: &str| -> Vec<&Value> {
        all.iter().filter(|found| found["database"].as_str().unwrap().ends_with(ending)).collect()
    };
    let bytes = |found: &Value| {
        ["db", "journal", "fs_journal", "metadata"]
            .map(|class| found["bytes"][class].as_u64().unwrap())
    };
    for found in &all {
        assert_eq!(
            (&found["journal_mode"], &found["synchronous"]),
            (&"PERSIST".into(), &"FULL".into())
        );
        let (begin_s, end_s) =
            (found["begin_s"].as_f64().unwrap(), found["end_s"].as_f64().unwrap());
        let latency_ms = found["latency_ms"].as_f64().unwrap();
        assert!(((end_s - begin_s) * 1e3 - latency_ms).abs() < 1e-3, "{found}");
        let phases =
            ["log_ms", "db_ms", "reset_ms"].map(|phase| found["phases"][phase].as_f64().unwrap());
        assert!((phases.iter().sum::<f64>() - latency_ms).abs() < 1e-3, "{found}");
        assert!(
            (0.5..=1.0).contains(&found["confidence"].as_f64().unwrap())
                && found["reason"].is_string()
        );
        assert_eq!(
            (&found["outcome"], &found["others"]),
            (&"committed".into(), &Value::Array(Vec::new()))
        );
        assert!(found["flushes"].as_u64().unwrap() >= 4, "{found}");
    }
    let rmq = of("/rmq.db");
    assert_eq!(rmq.len(), 4);
    for found in &rmq {
        assert_eq!((&found["process"], &found["tid"]), (&"GCMReader".into(), &3336.into()));
        assert_eq!((bytes(found)[0], bytes(found)[1]), (8192, 20_480));
        assert_eq!(
            (&found["requests"]["db"], &found["requests"]["journal"]),
            (&2.into(), &4.into())
        );
    }
    let fs_journal: Vec<u64> = rmq.iter().map(|found| bytes(found)[2] / 1024).collect();
    assert_eq!(fs_journal, [48, 44, 52, 60]);
    assert_eq!(
        of("/SyncData.sqlite3").iter().map(|found| bytes(found)).collect::<Vec<_>>(),
        [[40_960, 24_576, 45_056, 28_672]]
    );
    let storage = of(".localstorage");
    assert_eq!((storage.len(), bytes(storage[0])[0], bytes(storage[0])[1]), (1, 4096, 12_288));
}

#[test]
fn csv_says_what_json_says() {
    let Some(trace) = data("most_result.po") else { return };
    let sandbox = Sandbox::new();
    let all = objects(&done(identify(&sandbox, &trace, &["--json"])));
    let text = done(identify(&sandbox, &trace, &["--csv"]));
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len(), all.len());
    for (row, found) in rows.iter().zip(&all) {
        // Only the reason, which stands last, may hold commas, and is in quotes then.
        let fields: Vec<&str> = row.splitn(head.len(), ',').collect();
        assert_eq!(fields.len(), head.len(), "{row}");
        assert_eq!(fields.last().unwrap().trim_matches('"'), found["reason"].as_str().unwrap());
        for (name, field) in head.iter().zip(&fields[..fields.len() - 1]) {
            let value = match name.split_once('_') {
                Some(("bytes" | "requests", class)) => {
                    &found[name.split('_').next().unwrap()][class]
                }
                _ if found["phases"].get(name).is_some() => &found["phases"][name],
                _ => &found[*name],
            };
            match value {
                Value::String(text) => assert_eq!(field, text, "{name}"),
                Value::Number(number) => {
                    assert_eq!(field.parse::<f64>().ok(), number.as_f64(), "{name}")
                }
                Value::Null | Value::Array(_) => assert_eq!(*field, "", "{name}"),
                other => panic!("{name}: {other}"),
            }
        }
    }
}

#[test]
fn the_table_has_a_row_for_each_database_and_fits_80_columns() {
    let Some(trace) = data("most_result.po") else { return };
    let sandbox = Sandbox::new();
    let text = done(identify(&sandbox, &trace, &[]));
    assert!(text.contains("6 transactions of 3 databases"), "{text}");
    let is_row = |line: &&str| line.starts_with("  PERSIST FULL");
    let rows: Vec<Vec<&str>> =
        text.lines().filter(is_row).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 3, "{text}");
    // Mode, transactions, KB: db, journal, the file system's (48 + 44 + 52 + 60) / 4.
    assert_eq!(rows[0][..6], ["PERSIST", "FULL", "4", "8.0", "20.0", "51.0"], "{text}");
    let long: Vec<&str> = text
        .lines()
        .filter(|line| {
            line.chars().count() > 80 && !line.contains("/data/") && !line.contains("most_")
        })
        .collect();
    assert!(long.is_empty(), "{long:?}");
    for words in ["GCMReader 3336", "confidence", "of no transaction", "skipped"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_phones_trace_without_names_gives_448_transactions_of_persist() {
    let Some(trace) = data("phone_ycsb_a.ftrace.gz") else { return };
    let sandbox = Sandbox::new();
    let all = objects(&done(identify(&sandbox, &trace, &["--json"])));
    assert!(all.len().abs_diff(448) <= 5, "{}", all.len());
    assert!(all.iter().all(|found| found["journal_mode"] == "PERSIST"
        && found["database"].as_str().unwrap().contains("sector")));
    let sum = |class: &str| {
        all.iter().map(|found| found["bytes"][class].as_u64().unwrap()).sum::<u64>() as f64
    };
    let journaling = sum("journal") + sum("fs_journal");
    let share = journaling / (journaling + sum("db") + sum("metadata"));
    assert!((0.75..=0.85).contains(&share), "{share}");
    let table = done(identify(&sandbox, &trace, &[]));
    assert!(table.contains(&format!("{} transactions of ", all.len())), "{table}");
}

#[test]
fn a_truncated_gzip_gives_what_it_holds_and_says_so() {
    let Some(trace) = data("phone_ycsb_a.ftrace.gz") else { return };
    let sandbox = Sandbox::new();
    let begins = |found: &[Value]| {
        found.iter().map(|found| found["begin_s"].to_string()).collect::<Vec<_>>()
    };
    let whole = begins(&objects(&done(identify(&sandbox, &trace, &["--json"]))));
    let mut packed = std::fs::read(trace).unwrap();
    packed.truncate(packed.len() * 9 / 10);
    let cut = written(&sandbox, "cut.gz", &packed);
    let output = identify(&sandbox, &cut, &["--json"]);
    let message = stderr(&output);
    let found = begins(&objects(&done(output)));
    assert!(found.len() > 100 && found.len() < whole.len(), "{} of {}", found.len(), whole.len());
    assert_eq!(found, whole[..found.len()]);
    assert!(
        message.contains("cut.gz: the trace is cut off: the compressed data end early"),
        "{message}"
    );
    let table = done(identify(&sandbox, &cut, &[]));
    assert!(table.contains("the trace is cut off: the compressed data end early"), "{table}");
}

#[test]
fn a_line_that_is_not_understood_is_shown_with_its_number() {
    let sandbox = Sandbox::new();
    let trace = written(&sandbox, "a.po", PERSIST.as_bytes());
    let text = done(identify(&sandbox, &trace, &[]));
    assert!(text.contains("1 transaction of 1 database"), "{text}");
    assert!(text.contains("  PERSIST FULL") && text.contains("/data/app/a.db"), "{text}");
    assert!(
        text.contains("1 line or record not understood:\n    5  this is no line of a trace\n"),
        "{text}"
    );
    let lines = identify(&sandbox, &trace, &["--json"]);
    assert!(stderr(&lines).contains("a.po: 1 line or record not understood"), "{}", stderr(&lines));
    let found = &objects(&done(lines))[0];
    assert_eq!(found["bytes"]["db"], 8192);
    assert_eq!(
        (&found["bytes"]["journal"], &found["bytes"]["fs_journal"]),
        (&20_480.into(), &16_384.into())
    );
}

#[test]
fn only_the_database_that_was_asked_for_is_told() {
    let Some(trace) = data("most_result.po") else { return };
    let sandbox = Sandbox::new();
    let all = objects(&done(identify(&sandbox, &trace, &["--json", "--database", "rmq.db"])));
    assert_eq!(all.len(), 4);
    let text = done(identify(&sandbox, &trace, &["--database", "no such"]));
    assert!(text.contains("0 transactions") && text.contains("left out: 6 transactions"), "{text}");
}

#[test]
fn standard_input_and_several_traces_are_read_and_named() {
    let sandbox = Sandbox::new();
    let trace = written(&sandbox, "a.po", PERSIST.as_bytes());
    let mut command = sandbox.oneflush();
    command
        .args(["identify", "--json", "-"])
        .arg(&trace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = Running::start(command.stderr(Stdio::piped()));
    child.stdin.take().unwrap().write_all(PERSIST.as_bytes()).unwrap();
    let all = objects(&done(child.wait_with_output().unwrap()));
    assert_eq!(
        all.iter().map(|found| found["trace"].as_str().unwrap()).collect::<Vec<_>>(),
        ["standard input", trace.to_str().unwrap()]
    );
}

#[test]
fn what_is_no_trace_is_refused_with_what_was_looked_for() {
    let sandbox = Sandbox::new();
    let text = written(&sandbox, "letter.txt", "Dear Sir or Madam,\n".repeat(5000).as_bytes());
    assert_refused(
        &identify(&sandbox, &text, &[]),
        1,
        &["letter.txt", "no known format", "ftrace text", "strace -f -ttt"],
    );
    let database =
        written(&sandbox, "a.db", b"SQLite format 3\0 and so on, for more than a few bytes\n");
    assert_refused(
        &identify(&sandbox, &database, &["--json"]),
        1,
        &["a.db", "It is a database, not a trace"],
    );
    let empty = written(&sandbox, "empty", b"");
    assert_refused(&identify(&sandbox, &empty, &[]), 1, &["empty", "is empty"]);
    let missing = sandbox.path().join("none.po");
    assert_refused(&identify(&sandbox, &missing, &[]), 1, &["none.po", "cannot be opened"]);
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let sandbox = Sandbox::new();
    let trace = written(&sandbox, "a.po", PERSIST.as_bytes());
    assert_refused(&sandbox.oneflush().arg("identify").output().unwrap(), 2, &["TRACE"]);
    assert_refused(&identify(&sandbox, &trace, &["--json", "--csv"]), 2, &["--json", "--csv"]);
    assert_refused(&identify(&sandbox, Path::new("-"), &["-"]), 2, &["standard input", "twice"]);
    assert_refused(
        &identify(&sandbox, &trace, &["-o", trace.to_str().unwrap()]),
        2,
        &["a.po", "one of the traces"],
    );
    assert_eq!(std::fs::read(&trace).unwrap(), PERSIST.as_bytes());
}

#[test]
fn an_output_file_is_replaced_when_all_is_done_and_never_by_an_error() {
    let sandbox = Sandbox::new();
    let trace = written(&sandbox, "a.po", PERSIST.as_bytes());
    let letter = written(&sandbox, "letter.txt", b"Dear Sir or Madam,\n");
    let out = written(&sandbox, "out.json", b"kept\n");
    assert_refused(&identify(&sandbox, &letter, &["-o", "out.json"]), 1, &["letter.txt"]);
    assert_eq!(std::fs::read(&out).unwrap(), b"kept\n");
    assert_eq!(done(identify(&sandbox, &trace, &["--json", "-o", "out.json"])), "");
    assert_eq!(objects(&std::fs::read_to_string(&out).unwrap()).len(), 1);
    let mut left: Vec<_> =
        sandbox.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a.po", "letter.txt", "out.json", "tmp"]);
    let no_folder = identify(&sandbox, &trace, &["-o", "no/such/folder.json"]);
    assert_refused(&no_folder, 1, &["no/such/folder.json", "cannot be written"]);
}

#[test]
fn what_cannot_be_replaced_is_written_to_and_a_link_stays_a_link() {
    let sandbox = Sandbox::new();
    let trace = written(&sandbox, "a.po", PERSIST.as_bytes());
    let pipe = sandbox.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = Running::start(Command::new("cat").arg(&pipe).stdout(Stdio::piped()));
    assert_eq!(done(identify(&sandbox, &trace, &["--json", "-o", "pipe"])), "");
    assert_eq!(objects(&stdout(&reader.wait_with_output().unwrap())).len(), 1);
    written(&sandbox, "real.csv", b"");
    std::os::unix::fs::symlink("real.csv", sandbox.path().join("link.csv")).unwrap();
    done(identify(&sandbox, &trace, &["--csv", "-o", "link.csv"]));
    assert!(sandbox.path().join("link.csv").is_symlink());
    assert_eq!(
        std::fs::read_to_string(sandbox.path().join("real.csv")).unwrap().lines().count(),
        2
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    command
        .args(["identify", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Running::start(&mut command);
    // It has nothing to say before it has read something.
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(PERSIST.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(!message.contains("panicked") && !message.contains("oneflush: "), "{message}");
}

/// The input is a pipe that stays open, so only the signal can end it.
#[test]
fn a_signal_ends_the_input_and_what_was_read_is_told_whole() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    command
        .args(["identify", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Running::start(&mut command);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(PERSIST.as_bytes()).unwrap();
    // Until the program has read the pipe empty, a signal could come before its handler.
    wait_until("it has read what is there", || waits_for_input(child.id()));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let message = read_until(&mut child.stderr.take().unwrap(), "told");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(message.contains("oneflush: standard input: stopped by a signal"), "{message}");
    assert!(
        text.contains("1 transaction of 1 database") && text.contains("not understood"),
        "{text}"
    );
    drop(stdin);
}

#[test]
fn the_help_has_examples_and_formats() {
    let sandbox = Sandbox::new();
    let text = done(sandbox.oneflush().args(["identify", "--help"]).output().unwrap());
    for words in ["Examples:", "--json", "--database <SUBSTRING>", "blktrace", "trace_pipe"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}
