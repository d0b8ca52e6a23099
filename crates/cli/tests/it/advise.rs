//! `oneflush advise` as a user meets it: phones' traces, the device's wear, a live recording, and
//! what is refused. How near its estimates are: `advise_error.rs`.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use serde_json::Value;

use crate::common::commits::Commits;
use crate::common::{Sandbox, assert_refused, skip_unless_root, stderr, stdout};
use crate::recording::scratch;

fn advise(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    sandbox.oneflush().arg("advise").args(arguments).output().unwrap()
}

fn done(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    serde_json::from_str(&done(advise(sandbox, &[arguments, &["--json"]].concat()))).unwrap()
}

fn written(sandbox: &Sandbox, name: &str, text: &str) -> String {
    std::fs::write(sandbox.path().join(name), text).unwrap();
    name.to_owned()
}

fn data(name: &str) -> Option<PathBuf> {
    oneflush_testing::shared_data(&format!("traces/{name}"))
}

fn row<'a>(rows: &'a Value, strategy: &str) -> &'a Value {
    rows.as_array().unwrap().iter().find(|row| row["strategy"] == strategy).unwrap()
}

fn likely(rows: &Value, strategy: &str, what: &str) -> f64 {
    row(rows, strategy)[what]["likely"].as_f64().unwrap()
}

#[test]
fn a_phones_persist_commits_would_cost_a_fifth_in_wal_mode_and_one_flush() {
    let sandbox = Sandbox::new();
    let Some(trace) = data("phone_ycsb_a.ftrace.gz") else { return };
    let told = json(&sandbox, &[trace.to_str().unwrap()]);
    let database = &told["traces"][0]["databases"][0];
    assert_eq!(database["modes"][0], "PERSIST FULL");
    assert_eq!(database["page_bytes_known"], false);
    let rows = &database["rows"];
    let kb = |strategy| likely(rows, strategy, "kb");
    let flushes = |strategy| likely(rows, strategy, "flushes");
    assert!((kb("stock") - 44.2).abs() < 0.1 && (flushes("stock") - 5.0).abs() < 0.1);
    // A page of 4,096 bytes with the header of its frame spans two or three blocks.
    assert!((8.0..9.5).contains(&kb("plain")), "{rows}");
    assert!((4.0..8.0).contains(&kb("eager")) && kb("eager") < kb("plain"), "{rows}");
    assert!(flushes("plain") < 1.2 && flushes("eager") < 1.2 && flushes("maw") < 1.2, "{rows}");
    // Bytes of a transaction, its rate and the day agree.
    let rate = database["transactions_per_second"].as_f64().unwrap();
    let gb_per_day = kb("plain") * 1024.0 * rate * 86_400.0 / 1e9;
    assert!((likely(rows, "plain", "gb_per_day") / gb_per_day - 1.0).abs() < 0.001, "{rows}");
}

#[test]
fn a_trace_of_seven_seconds_is_said_to_be_extrapolated() {
    let sandbox = Sandbox::new();
    let Some(trace) = data("most_result.po") else { return };
    let text = done(advise(&sandbox, &[trace.to_str().unwrap(), "--tbw", "10"]));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "6 transactions of 3 databases in 7.2 s",
        "Extrapolated: 7.2 s were recorded, and a day is taken to be like them.",
        "10.0 TB written last: as recorded",
        "all databases; one without an estimate counts as recorded",
        "PRAGMA journal_mode=WAL oneflush run --strategy plain -- PROGRAM",
    ] {
        assert!(words.contains(said), "{said:?} is not in:\n{text}");
    }
}

#[test]
fn all_is_said_within_80_columns() {
    let sandbox = Sandbox::new();
    let trace = written(&sandbox, "trace.txt", &Commits::new(400, 6).text());
    let life_time = written(&sandbox, "life_time", "0x01 0x03\n");
    let text = done(advise(&sandbox, &[&trace, "--life-time", &life_time]));
    let wide = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None);
    assert!(text.contains("life_time: 20 to 30 % of its life is used."), "{text}");
    assert!(text.contains("\nKB a transaction           likely"), "{text}");
    assert!(text.contains("and 3 others with fewer transactions"), "{text}");
}

#[test]
fn wear_and_the_makers_figure_make_years() {
    let sandbox = Sandbox::new();
    let trace = written(&sandbox, "trace.txt", &Commits::new(200, 1).text());
    let life = |arguments: &[&str]| {
        let told = json(&sandbox, &[&[trace.as_str()], arguments].concat());
        let years = &told["traces"][0]["life"][0];
        (years["years_min"].as_f64(), years["years_max"].as_f64())
    };
    let (Some(all), Some(same)) = life(&["--tbw", "150"]) else { panic!("no years") };
    assert_eq!(all, same);
    let life_time = written(&sandbox, "life_time", "0x02 0x01\n");
    let (Some(min), Some(max)) = life(&["--tbw", "150", "--life-time", &life_time]) else {
        panic!("no years")
    };
    assert!((min / all - 0.8).abs() < 1e-6 && (max / all - 0.9).abs() < 1e-6, "{min} {max} {all}");
    // Without bytes nobody can say years.
    assert_eq!(life(&["--life-time", &life_time]), (None, None));
    let smart = r#"{"percentage_used": 4, "data_units_written": 30000000}"#;
    let smart = written(&sandbox, "smart.json", smart);
    let (Some(min), Some(max)) = life(&["--life-time", &smart]) else { panic!("no years") };
    assert!(min < max && max < 1.4 * min, "{min} {max}");
}

#[test]
fn what_a_page_costs_can_be_said() {
    let sandbox = Sandbox::new();
    let Some(trace) = data("phone_ycsb_a.ftrace.gz") else { return };
    let kb = |more: &[&str]| {
        let told = json(&sandbox, &[&[trace.to_str().unwrap()], more].concat());
        likely(&told["traces"][0]["total"], "eager", "kb")
    };
    assert!(kb(&["--delta", "4096"]) > kb(&["--delta", "50"]) + 3.0);
    let told = json(&sandbox, &[trace.to_str().unwrap(), "--page-size", "1024"]);
    let database = &told["traces"][0]["databases"][0];
    assert_eq!(
        (&database["page_bytes"], &database["page_bytes_known"]),
        (&1024.into(), &true.into())
    );
}

#[test]
fn a_live_directory_is_recorded_and_advised() {
    if skip_unless_root("a_live_directory_is_recorded_and_advised") {
        return;
    }
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let path = place.path().join("live.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "PRAGMA page_size=8192; PRAGMA journal_mode=PERSIST; PRAGMA synchronous=FULL;
         CREATE TABLE t(id INTEGER PRIMARY KEY, v)",
    )
    .unwrap();
    let is_over = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        let over = &is_over;
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                db.execute("INSERT INTO t(v) VALUES(zeroblob(100))", []).unwrap();
            }
        });
        let dir = place.path().to_str().unwrap();
        let output = advise(&sandbox, &["--live", dir, "--seconds", "2", "--json"]);
        is_over.store(true, Ordering::Relaxed);
        assert!(stderr(&output).contains("for 2 s"), "{}", stderr(&output));
        serde_json::from_str::<Value>(&done(output)).unwrap()
    });
    let database = &told["traces"][0]["databases"][0];
    assert_eq!(Path::new(database["database"].as_str().unwrap()).file_name(), path.file_name());
    // The file itself says it.
    assert_eq!(
        (&database["page_bytes"], &database["page_bytes_known"]),
        (&8192.into(), &true.into())
    );
    assert!(database["transactions"].as_u64().unwrap() > 5, "{database}");
    let rows = &database["rows"];
    assert!(likely(rows, "plain", "flushes") < 0.5 * likely(rows, "stock", "flushes"), "{rows}");
}

#[test]
fn what_cannot_be_done_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    written(&sandbox, "trace.txt", &Commits::new(5, 1).text());
    written(&sandbox, "letter.txt", "Dear reader,\nthis is no trace.\n");
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        assert_refused(&advise(&sandbox, arguments), code, words);
    };
    refused(&["missing.txt"], 1, &["missing.txt"]);
    refused(&["letter.txt"], 1, &["letter.txt"]);
    refused(&["trace.txt", "--life-time", "letter.txt"], 1, &["letter.txt", "--life-time"]);
    refused(&["trace.txt", "--life-time", "none"], 1, &["none", "--life-time"]);
    refused(&["trace.txt", "--tbw", "0"], 2, &["--tbw", "150"]);
    refused(&["trace.txt", "--page-size", "1000"], 2, &["--page-size", "power of two"]);
    refused(&["trace.txt", "--delta", "0"], 2, &["--delta", "1 to 65536"]);
    refused(&["trace.txt", "--live", "."], 2, &["--live"]);
    assert_eq!(advise(&sandbox, &[]).status.code(), Some(2));
    let output = sandbox.oneflush_as_nobody().args(["advise", "--live", "."]).output().unwrap();
    assert_refused(&output, 3, &["root", "sudo oneflush advise --live"]);
}
