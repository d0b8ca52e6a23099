//! `oneflush stats`: what the files tell.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::common::{Sandbox, assert_refused, stderr, stdout};

fn open(path: &Path, strategy: &str) -> Connection {
    oneflush_vfs::register().unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(
        format!("file:{}?vfs=oneflush&strategy={strategy}", path.display()),
        flags,
    )
    .unwrap()
}

fn stats(sandbox: &Sandbox, path: &Path) -> (Value, String) {
    let run = |arguments: &[&str]| {
        let output = sandbox.oneflush().arg("stats").arg(path).args(arguments).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
        stdout(&output)
    };
    let text = run(&[]);
    for line in text.lines().skip(1) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    (serde_json::from_str(&run(&["--json"])).unwrap(), text)
}

#[test]
fn a_plain_database_in_each_mode_is_told_by_its_files() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    let db = open(&path, "stock");
    assert_eq!(stats(&sandbox, &path).0["journal_mode"], "none");
    db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES (1)").unwrap();
    let (json, text) = stats(&sandbox, &path);
    assert_eq!(
        (&json["journal_mode"], &json["pages"], &json["page_bytes"]),
        (&"rollback".into(), &2.into(), &4096.into())
    );
    assert!(text.contains("rollback") && text.contains("nobody"), "{text}");
    db.execute_batch("PRAGMA journal_mode=wal; INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)")
        .unwrap();
    let (json, text) = stats(&sandbox, &path);
    assert_eq!(
        (&json["journal_mode"], &json["wal_frames"], &json["guarded"]),
        (&"wal".into(), &2.into(), &false.into())
    );
    assert!(text.contains("2 frames"), "{text}");
    // This very process has it open.
    assert!(text.contains(&format!("{} (", std::process::id())), "{text}");
    let before = std::fs::read(&path).unwrap();
    stats(&sandbox, &path);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    db.execute_batch("INSERT INTO t VALUES (4)").unwrap();
}

#[test]
fn a_database_in_use_with_eager_has_live_figures_and_after_a_crash_its_logs() {
    let sandbox = Sandbox::new();
    let (path, copy) = (sandbox.path().join("a.db"), sandbox.path().join("copy.db"));
    let db = open(&path, "eager");
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full; CREATE TABLE t(v)")
        .unwrap();
    for n in 0..3 {
        db.execute("INSERT INTO t VALUES (?)", [n]).unwrap();
    }
    let (json, text) = stats(&sandbox, &path);
    assert_eq!(json["guarded"], true);
    let live = |key: &str| json["live"][key].as_u64().unwrap();
    assert!(live("records") >= 3 && live("logged_frames") == live("committed_frames"), "{json}");
    assert_eq!(json["live"]["failed"], false);
    assert!(text.contains("log, live") && text.contains("in use with eager"), "{text}");
    // As a crash leaves it.
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(format!("{}-oneflush", path.display()), format!("{}-oneflush", copy.display()))
        .unwrap();
    let (json, text) = stats(&sandbox, &copy);
    assert!(json["log"]["records"].as_u64().unwrap() >= 3 && json["live"].is_null(), "{json}");
    assert!(text.contains("oneflush recover"), "{text}");
    db.execute("INSERT INTO t VALUES (9)", []).unwrap();
}

#[test]
fn a_database_in_use_with_waldio_has_live_figures_and_after_a_crash_its_logs() {
    let sandbox = Sandbox::new();
    let (path, copy) = (sandbox.path().join("a.db"), sandbox.path().join("copy.db"));
    let db = open(&path, "waldio");
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full; CREATE TABLE t(v)")
        .unwrap();
    for n in 0..3 {
        db.execute("INSERT INTO t VALUES (?)", [n]).unwrap();
    }
    let (json, text) = stats(&sandbox, &path);
    let live = &json["live"];
    assert_eq!((&json["strategy"], &live["failed"]), (&"waldio".into(), &false.into()));
    assert!(live["written_frames"].as_u64().unwrap() >= 3, "{json}");
    assert_eq!(live["written_frames"], live["logged_frames"]);
    assert!(live["epoch"].is_null() && live["committed_frames"].is_null(), "{json}");
    assert!(text.contains("log, live") && text.contains("in use with waldio"), "{text}");
    for suffix in ["", "-waldio"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(name(&path), name(&copy)).unwrap();
    }
    let (json, text) = stats(&sandbox, &copy);
    assert!(json["log"]["frames"].as_u64().unwrap() >= 3 && json["live"].is_null(), "{json}");
    for words in ["oneflush recover", "next open with waldio", "layout embed", "log of waldio"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Another program's figures, in PRAGMA oneflush_stats.
    let own: String = db.query_row("PRAGMA oneflush_stats", [], |row| row.get(0)).unwrap();
    assert!(serde_json::from_str::<Value>(&own).unwrap()["waldio"]["slots"].is_object(), "{own}");
}

#[test]
fn a_database_in_use_with_maw_has_live_figures_and_after_a_crash_its_logs() {
    let sandbox = Sandbox::new();
    let (path, copy) = (sandbox.path().join("a.db"), sandbox.path().join("copy.db"));
    let db = open(&path, "maw&atomic=log");
    db.execute_batch("PRAGMA synchronous=full; CREATE TABLE t(v)").unwrap();
    for n in 0..3 {
        db.execute("INSERT INTO t VALUES (?)", [n]).unwrap();
    }
    let (json, text) = stats(&sandbox, &path);
    assert_eq!((&json["strategy"], &json["journal_mode"]), (&"maw".into(), &"rollback".into()));
    // One of page 1, and the inserts.
    assert_eq!(json["live"]["records"], 4, "{json}");
    assert!(text.contains("in use with maw") && text.contains("4 records"), "{text}");
    assert!(!text.contains("frames"), "{text}");
    for suffix in ["", "-maw"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(name(&path), name(&copy)).unwrap();
    }
    let (json, text) = stats(&sandbox, &copy);
    assert_eq!((&json["log"]["records"], &json["live"]), (&3.into(), &Value::Null), "{json}");
    for words in ["oneflush recover", "next open with maw", "3 records", "the log of maw"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let own: String = db.query_row("PRAGMA oneflush_stats", [], |row| row.get(0)).unwrap();
    let own = &serde_json::from_str::<Value>(&own).unwrap()["maw"];
    assert_eq!((&own["provider"], &own["atomic"]), (&"log".into(), &3.into()), "{own}");
    let log = &own["log"];
    assert!(log["logged_bytes"].as_u64() > Some(0) && log["recovered"].is_null(), "{own}");
}

/// Sizes stood right behind a suffix that was longer than its column: "-oneflush-kept4120 bytes".
#[test]
fn long_suffixes_are_apart_from_their_sizes() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    open(&path, "stock").execute_batch("CREATE TABLE t(v)").unwrap();
    for suffix in ["-oneflush-kept", "-oneflush-converting"] {
        std::fs::write(format!("{}{suffix}", path.display()), "12345").unwrap();
    }
    let (_, text) = stats(&sandbox, &path);
    for words in ["-oneflush-kept 5 bytes", "-oneflush-converting 5 bytes, the rest of a"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn what_is_no_database_is_refused() {
    let sandbox = Sandbox::new();
    let file = sandbox.path().join("notes.txt");
    std::fs::write(&file, "not a database, but a text that is long enough").unwrap();
    let run = |name: &str| sandbox.oneflush().args(["stats", name]).output().unwrap();
    assert_refused(&run("notes.txt"), 1, &["notes.txt", "not a SQLite database"]);
    assert_refused(&run("missing.db"), 1, &["missing.db", "No such file"]);
}

/// It waited without end for somebody who writes to the pipe, and so did `shell`.
#[test]
fn a_pipe_is_no_database() {
    let sandbox = Sandbox::new();
    let pipe = sandbox.path().join("pipe.db");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for command in ["stats", "shell"] {
        let output = sandbox.oneflush().arg(command).arg(&pipe).output().unwrap();
        assert_refused(&output, 1, &["pipe.db", "no regular file"]);
    }
}
