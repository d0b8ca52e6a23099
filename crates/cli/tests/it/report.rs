//! `oneflush report` as a user meets it: the terminal, JSON, files, and what is refused.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use oneflush_testing::{Running, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::commits::Commits;
use crate::common::{Sandbox, assert_refused, stderr, stdout, waits_for_input};

fn report(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    sandbox.oneflush().arg("report").args(arguments).output().unwrap()
}

fn done(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn written(sandbox: &Sandbox, name: &str, text: &str) -> PathBuf {
    let path = sandbox.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn data(name: &str) -> Option<PathBuf> {
    oneflush_testing::shared_data(&format!("traces/{name}"))
}

#[test]
fn two_traces_stand_side_by_side_within_80_columns() {
    let sandbox = Sandbox::new();
    written(
        &sandbox,
        "before-with-a-rather-long-name-for-a-trace.txt",
        &Commits::new(200, 6).text(),
    );
    written(&sandbox, "after.txt", &Commits::new(100, 4).text());
    let text =
        done(report(&sandbox, &["before-with-a-rather-long-name-for-a-trace.txt", "after.txt"]));
    let wide = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None);
    let tables = [
        "Latency, ms                median  average     75 %     99 %   99.9 %      max",
        "KB a transaction           median  average     75 %     99 %   99.9 %      max",
        "KB by class, after.txt     median  average     75 %     99 %   99.9 %      max",
        "MB of all                      db  journal  fs jrnl     meta      all db share",
        "Databases, after.txt         txns    share    db MB  jrnl MB    fs MB  flushes",
    ];
    for table in tables {
        assert!(text.lines().any(|line| line == table), "{table:?} is not in:\n{text}");
    }
    let latency = text.split("Latency, ms").nth(1).unwrap();
    let rows: Vec<&str> = latency
        .lines()
        .skip(1)
        .take(2)
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(rows, ["…-name-for-a-trace.txt", "after.txt"]);
    assert!(text.contains("\nFindings\n- after.txt: Beside before-"), "{text}");
}

#[test]
fn json_has_the_figures_of_the_phones_own_paper() {
    let sandbox = Sandbox::new();
    let Some(trace) = data("phone_ycsb_a.ftrace.gz") else { return };
    let json: Value =
        serde_json::from_str(&done(report(&sandbox, &[trace.to_str().unwrap(), "--json"])))
            .unwrap();
    let trace = &json["traces"][0];
    assert_eq!(trace["transactions"], 447);
    // A PERSIST transaction of two pages: 44 KB, of which 8 are the database's; Table 4 has 12, 24
    // and 16.
    let medians = ["db", "journal", "fs_journal"]
        .map(|class| trace["kb_by_class"][class]["median"].as_f64().unwrap());
    assert_eq!((trace["kb"]["median"].as_f64(), medians), (Some(44.0), [8.0, 20.0, 16.0]));
    let journaling =
        json["findings"].as_array().unwrap().iter().find(|finding| finding["kind"] == "journaling");
    assert!(
        journaling.unwrap()["text"]
            .as_str()
            .unwrap()
            .starts_with("82 % of the bytes are journaling")
    );
    let all = |of: &Value| {
        ["db", "journal", "fs_journal", "metadata"]
            .iter()
            .map(|class| of[class].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(all(&trace["bytes"]), all(&trace["databases"][0]["bytes"]));
}

#[test]
fn files_are_written_and_said() {
    let sandbox = Sandbox::new();
    written(&sandbox, "trace.txt", &Commits::new(50, 5).text());
    let said =
        done(report(&sandbox, &["trace.txt", "-o", "page.html", "--perfetto", "p.json", "--json"]));
    assert_eq!(said.lines().count(), 1, "only the JSON");
    let said = done(report(&sandbox, &["trace.txt", "-o", "page.html", "--perfetto", "p.json"]));
    assert_eq!(
        said,
        "page.html: 50 transactions of 1 trace, 2 findings\np.json: 50 transactions of 1 trace, 2 \
            findings\n"
    );
    assert!(
        std::fs::read_to_string(sandbox.path().join("page.html"))
            .unwrap()
            .starts_with("<!doctype html>")
    );
    let perfetto: Value =
        serde_json::from_str(&std::fs::read_to_string(sandbox.path().join("p.json")).unwrap())
            .unwrap();
    let events = perfetto["traceEvents"].as_array().unwrap();
    let begun =
        |event: &&Value| event["ph"] == "b" && event["name"].as_str().unwrap().ends_with("a.db");
    assert_eq!(events.iter().filter(begun).count(), 50);
    // Four of five commits have one flush, the others have four.
    assert_eq!(events.iter().filter(|event| event["ph"] == "n").count(), 40 + 10 * 4);
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn a_phones_queue_depth_stands_in_the_trace_for_perfetto() {
    let sandbox = Sandbox::new();
    let Some(trace) = data("most_result.po") else { return };
    done(report(&sandbox, &[trace.to_str().unwrap(), "--perfetto", "p.json"]));
    let perfetto: Value =
        serde_json::from_str(&std::fs::read_to_string(sandbox.path().join("p.json")).unwrap())
            .unwrap();
    let events = perfetto["traceEvents"].as_array().unwrap();
    let depths: Vec<u64> = events
        .iter()
        .filter(|event| event["ph"] == "C")
        .map(|event| event["args"]["requests"].as_u64().unwrap())
        .collect();
    assert!(depths.len() > 100 && depths.iter().any(|depth| *depth > 1), "{depths:?}");
    assert!(depths.iter().all(|depth| *depth < 64), "requests are forgotten: {depths:?}");
    let times: Vec<f64> = events
        .iter()
        .filter(|event| event["ph"] == "C")
        .map(|event| event["ts"].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted());
}

#[test]
fn only_the_databases_that_are_asked_for_count() {
    let sandbox = Sandbox::new();
    written(&sandbox, "trace.txt", &Commits::new(60, 6).text());
    let json = done(report(&sandbox, &["trace.txt", "--json", "--database", "app3/"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["traces"][0]["transactions"], 10);
    assert_eq!(json["traces"][0]["databases"][0]["database"], "/data/app3/a.db");
    assert_eq!(json["traces"][0]["notes"][0], "only databases with \"app3/\" in their name");
}

#[test]
fn a_trace_without_transactions_is_told_and_no_error() {
    let sandbox = Sandbox::new();
    written(
        &sandbox,
        "trace.txt",
        "0.001000000\tC\tWS\t1000\t8\t1234\tapp\tD\t/data/app/picture.jpg\n",
    );
    let text = done(report(&sandbox, &["trace.txt", "-o", "page.html"]));
    assert_eq!(text, "page.html: 0 transactions of 1 trace, 0 findings\n");
    let text = done(report(&sandbox, &["trace.txt"]));
    assert_eq!(
        text,
        "trace.txt\n  blkparse text of MOST, 0 transactions of 0 databases in 0.0 s\n"
    );
}

#[test]
fn what_cannot_be_done_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    written(&sandbox, "trace.txt", &Commits::new(5, 1).text());
    written(&sandbox, "letter.txt", "Dear reader,\nthis is no trace.\n");
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        assert_refused(&report(&sandbox, arguments), code, words);
    };
    refused(&["missing.txt"], 1, &["missing.txt"]);
    refused(&["letter.txt", "-o", "page.html"], 1, &["letter.txt"]);
    assert!(
        !sandbox.path().join("page.html").exists(),
        "nothing is left of a page that was not made"
    );
    refused(&["trace.txt", "-o", "trace.txt"], 2, &["-o trace.txt", "is one of the traces"]);
    refused(
        &["trace.txt", "--perfetto", "trace.txt"],
        2,
        &["--perfetto trace.txt", "is one of the traces"],
    );
    refused(&["trace.txt", "-o", "x", "--perfetto", "x"], 2, &["-o and --perfetto", "same file"]);
    refused(
        &["trace.txt", "-o", "no/such/folder.html"],
        1,
        &["no/such/folder.html", "choose another with -o"],
    );
    refused(&["-", "-"], 2, &["standard input"]);
    let output = sandbox.oneflush().arg("report").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// The input is a pipe that stays open, so only the signal can end it.
#[test]
fn a_signal_ends_the_input_and_the_page_is_made_of_what_was_read() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    command
        .args(["report", "-", "-o", "page.html"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Running::start(&mut command);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(Commits::new(40, 2).text().as_bytes()).unwrap();
    wait_until("it has read what is there", || waits_for_input(child.id()));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("oneflush: standard input: stopped by a signal"),
        "{}",
        stderr(&output)
    );
    assert!(
        stdout(&output).starts_with("page.html: 40 transactions of 1 trace"),
        "{}",
        stdout(&output)
    );
    let page = std::fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    assert!(page.trim_end().ends_with("</html>"));
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn a_trace_that_is_cut_off_is_told_as_far_as_it_goes() {
    let sandbox = Sandbox::new();
    let text = Commits::new(40, 1).text();
    let bytes = &text.as_bytes()[..text.len() - 30];
    std::fs::write(sandbox.path().join("trace.txt"), bytes).unwrap();
    let said = done(report(&sandbox, &["trace.txt"]));
    assert!(said.contains("the trace is cut off: the last line has no end"), "{said}");
}
