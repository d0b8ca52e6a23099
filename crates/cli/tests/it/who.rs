//! `oneflush who`: every process that has a database open is named, with what it holds.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use oneflush_testing::{Running, named, slowed, wait_until};
use rusqlite::{Connection, OpenFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Sandbox, assert_refused, skip_unless_root, stderr, stdout};

/// SQLite alone is the strategy "none".
pub fn open(path: &Path, strategy: &str) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    if strategy == "none" {
        return Connection::open_with_flags(path, flags).unwrap();
    }
    if strategy == "lsmvbt" {
        let uri = format!("file:{}?engine=lsmvbt", path.display());
        return Connection::open_with_flags(uri, flags).unwrap();
    }
    oneflush_vfs::register().unwrap();
    let uri = format!("file:{}?vfs=oneflush&strategy={strategy}", path.display());
    Connection::open_with_flags(uri, flags).unwrap()
}

/// This program again: it runs the SQL, says so, and keeps the database open until it is killed.
#[test]
fn holds() {
    let Ok(task) = std::env::var("ONEFLUSH_TEST_HOLDS") else { return };
    let [strategy, sql, path] = task.splitn(3, '|').collect::<Vec<_>>()[..] else {
        panic!("{task}")
    };
    let db = open(Path::new(path), strategy);
    db.busy_timeout(Duration::from_secs(5)).unwrap();
    db.execute_batch(sql).unwrap();
    println!("\nholds");
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// A process that has done so and waits.
pub fn holder(path: &Path, strategy: &str, sql: &str) -> Running {
    let mut running = Running::start(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", named!(holds), "--nocapture"])
            .env("ONEFLUSH_TEST_HOLDS", format!("{strategy}|{sql}|{}", path.display()))
            .stdout(Stdio::piped()),
    );
    let said = BufReader::new(running.stdout.take().unwrap());
    let mut lines = said.lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "holds"), "{strategy}: {sql}");
    running
}

fn signal(running: &Running, signal: Signal) {
    kill_process(Pid::from_child(running), signal).unwrap();
}

/// The rows by JSON, and the table. Both come within a second.
fn who(sandbox: &Sandbox, path: &Path) -> (Vec<Value>, String) {
    let run = |arguments: &[&str]| {
        let began = Instant::now();
        let output = sandbox.oneflush().arg("who").arg(path).args(arguments).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
        assert!(began.elapsed() < slowed(Duration::from_secs(1)), "{:?}", began.elapsed());
        stdout(&output)
    };
    let text = run(&[]);
    for line in text.lines().skip(1) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let mut rows: Vec<Value> = serde_json::from_str(&run(&["--json"])).unwrap();
    // In a container even root may not look into all.
    rows.retain(|row| !row["pid"].is_null());
    (rows, text)
}

fn row_of<'a>(rows: &'a [Value], running: &Running) -> &'a Value {
    let pid = running.id();
    rows.iter().find(|row| row["pid"] == pid).unwrap_or_else(|| panic!("no {pid}: {rows:?}"))
}

fn locks(row: &Value) -> Vec<&str> {
    row["holds"].as_array().unwrap().iter().map(|hold| hold["lock"].as_str().unwrap()).collect()
}

fn hold<'a>(row: &'a Value, lock: &str) -> &'a Value {
    let mut holds = row["holds"].as_array().unwrap().iter();
    holds.find(|hold| hold["lock"] == lock).unwrap_or_else(|| panic!("no {lock}: {row}"))
}

/// Starts a read transaction, and stays in it.
const READS: &str = "BEGIN; SELECT count(*) FROM t";

#[test]
fn readers_and_writers_of_sqlite_and_of_plain_are_named_in_wal_mode() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    open(&path, "none").execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    let keeps_open = holder(&path, "plain", "INSERT INTO t VALUES (1)");
    let reader = holder(&path, "none", READS);
    let writer = holder(
        &path,
        "none",
        "INSERT INTO t VALUES (2); INSERT INTO t VALUES (3); BEGIN IMMEDIATE; SELECT * FROM t",
    );
    let stopped = holder(&path, "plain", READS);
    signal(&stopped, Signal::STOP);
    wait_until("the process is stopped", || {
        row_of(&who(&sandbox, &path).0, &stopped)["stopped"] == true
    });

    let (rows, text) = who(&sandbox, &path);
    assert_eq!(rows.len(), 4, "{rows:?}");
    for process in [&keeps_open, &reader, &writer, &stopped] {
        let row = row_of(&rows, process);
        assert!(locks(row).contains(&"SHARED") && locks(row).contains(&"mapped"), "{row}");
        assert!(row["connections"].as_u64().unwrap() >= 1, "{row}");
        assert_eq!(row["stopped"], process.id() == stopped.id(), "{row}");
        assert!(row["since_ms"].is_null() && row["note"].is_null(), "{row}");
        assert!(!row["program"].as_str().unwrap().is_empty(), "{row}");
        assert!(text.contains(&process.id().to_string()), "{text}");
    }
    assert_eq!(row_of(&rows, &keeps_open)["strategy"], "plain");
    assert_eq!(row_of(&rows, &reader)["strategy"], Value::Null);
    let held = row_of(&rows, &reader);
    let mark = locks(held).into_iter().find(|lock| lock.starts_with("read mark")).unwrap();
    assert_eq!(hold(held, mark)["frames_behind"], 2, "{held}");
    assert_eq!(hold(row_of(&rows, &writer), "write")["exclusive"], true);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["2 frames behind", "writes (the WAL's write lock)", "STOPPED; open in WAL mode"] {
        assert!(words.contains(part), "{part}: {text}");
    }
    // Those who look disturb nobody.
    let (_, after) = (drop(writer), holder(&path, "none", "INSERT INTO t VALUES (4)"));
    assert!(!locks(row_of(&who(&sandbox, &path).0, &after)).contains(&"write"));
}

#[test]
fn users_and_the_writer_of_lsmvbt_are_named() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    let user = holder(&path, "lsmvbt", "CREATE TABLE t(v)");
    let writer = holder(&path, "lsmvbt", "BEGIN IMMEDIATE; INSERT INTO t VALUES (1)");
    let (rows, text) = who(&sandbox, &path);
    for (process, held) in
        [(&user, vec!["use", "place"]), (&writer, vec!["use", "writer", "place"])]
    {
        let row = row_of(&rows, process);
        assert_eq!((&row["strategy"], locks(row)), (&Value::from("lsmvbt"), held), "{row}");
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("writes (LS-MVBT)"), "{text}");
}

#[test]
fn who_uses_a_log_is_named_with_its_strategy() {
    for (strategy, mode) in [("eager", "wal"), ("waldio", "wal"), ("maw&atomic=log", "delete")] {
        let sandbox = Sandbox::new();
        let path = sandbox.path().join("a.db");
        let sql = format!(
            "PRAGMA journal_mode={mode}; PRAGMA synchronous=full; CREATE TABLE t(v); \
             INSERT INTO t VALUES (1)"
        );
        let first = holder(&path, strategy, &sql);
        let second = holder(&path, strategy, "BEGIN IMMEDIATE");
        signal(&second, Signal::STOP);
        wait_until("the process is stopped", || {
            row_of(&who(&sandbox, &path).0, &second)["stopped"] == true
        });
        let (rows, text) = who(&sandbox, &path);
        let name = strategy.split('&').next().unwrap();
        for process in [&first, &second] {
            let row = row_of(&rows, process);
            assert_eq!(row["strategy"], name, "{row}");
            assert!(locks(row).contains(&"log"), "{row}");
        }
        let writes = if mode == "wal" { "write" } else { "RESERVED" };
        assert!(locks(row_of(&rows, &second)).contains(&writes), "{rows:?}");
        assert!(!locks(row_of(&rows, &first)).contains(&writes), "{rows:?}");
        assert!(text.contains(&format!("uses {name}'s log")), "{text}");
    }
}

#[test]
fn the_levels_of_the_rollback_modes_are_told_and_who_has_no_transaction_holds_nothing() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    open(&path, "none").execute_batch("CREATE TABLE t(v)").unwrap();
    let (rows, text) = who(&sandbox, &path);
    assert!(rows.is_empty() && text.contains("nobody has it open"), "{text}");
    let idle = holder(&path, "none", "SELECT * FROM t");
    let reader = holder(&path, "stock", READS);
    let writer = holder(&path, "none", "BEGIN IMMEDIATE; INSERT INTO t VALUES (1)");
    let (rows, text) = who(&sandbox, &path);
    let of = |running: &Running| locks(row_of(&rows, running));
    assert_eq!((of(&idle), of(&reader)), (vec![], vec!["SHARED"]), "{rows:?}");
    assert!(of(&writer).contains(&"RESERVED"), "{rows:?}");
    assert!(text.contains("open, holds nothing") && text.contains("reads (SHARED)"), "{text}");
    drop((reader, writer));
    let alone = holder(&path, "none", "BEGIN EXCLUSIVE");
    let (rows, text) = who(&sandbox, &path);
    assert!(locks(row_of(&rows, &alone)).contains(&"EXCLUSIVE"), "{rows:?}");
    assert!(text.contains("keeps everybody out") && !text.contains("RESERVED"), "{text}");
    drop(idle);
}

#[test]
fn a_link_leads_to_the_database_and_two_connections_are_counted() {
    let sandbox = Sandbox::new();
    let (path, link) = (sandbox.path().join("a.db"), sandbox.path().join("link.db"));
    open(&path, "none").execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let attach = format!("SELECT * FROM t; ATTACH '{}' AS b; SELECT * FROM b.t", path.display());
    let both = holder(&path, "none", &attach);
    let (rows, _) = who(&sandbox, &link);
    let row = row_of(&rows, &both);
    assert_eq!((&row["connections"], rows.len()), (&2.into(), 1), "{row}");
    assert!(locks(row).contains(&"mapped"), "{row}");
}

#[test]
fn a_watch_says_since_when_and_ends_with_ctrl_c() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    open(&path, "none").execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    let reader = holder(&path, "none", READS);
    let mut watch = Running::start(
        sandbox
            .oneflush()
            .arg("who")
            .arg(&path)
            .args(["--watch", "0.1", "--json"])
            .stdout(Stdio::piped()),
    );
    let said = BufReader::new(watch.stdout.take().unwrap());
    let looks: Vec<Vec<Value>> =
        said.lines().take(3).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let since: Vec<&Value> = looks.iter().map(|rows| &row_of(rows, &reader)["since_ms"]).collect();
    assert!(since[0].as_u64() > Some(1_600_000_000_000), "{since:?}");
    assert!(since.iter().all(|one| one == &since[0]), "{since:?}");
    assert_eq!(hold(row_of(&looks[2], &reader), "SHARED")["since_ms"], *since[0]);
    signal(&watch, Signal::INT);
    // It ends by the signal, or by the pipe that nobody reads.
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

/// `/proc/locks` names the process even so.
#[test]
fn a_process_of_another_user_is_named_and_said_to_be_unseen() {
    if skip_unless_root("a process of another user") {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    open(&path, "none").execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    let reader = holder(&path, "none", READS);
    let run = |arguments: &[&str]| {
        let mut command = sandbox.oneflush_as_nobody();
        let output = command.arg("who").arg(&path).args(arguments).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
        stdout(&output)
    };
    let rows: Vec<Value> = serde_json::from_str(&run(&["--json"])).unwrap();
    let row = row_of(&rows, &reader);
    assert!(locks(row).contains(&"SHARED") && row["connections"].is_null(), "{row}");
    assert_eq!(row["note"], "cannot be seen: run as root");
    let last = rows.last().unwrap();
    assert!(last["pid"].is_null(), "{last}");
    assert!(last["note"].as_str().unwrap().ends_with("cannot be seen: run as root"), "{last}");
    assert!(run(&[]).contains("cannot be seen: run as root\n"));
}

#[test]
fn what_is_no_file_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    let run = |name: &str| sandbox.oneflush().args(["who", name]).output().unwrap();
    assert_refused(&run("missing.db"), 1, &["missing.db", "No such file", "name a database"]);
    std::fs::create_dir(sandbox.path().join("folder.db")).unwrap();
    assert_refused(&run("folder.db"), 1, &["folder.db", "directory"]);
    let pipe = sandbox.path().join("pipe.db");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_refused(&run("pipe.db"), 1, &["pipe.db", "no regular file"]);
    let short = sandbox.oneflush().args(["who", "a.db", "--watch", "0.01"]).output().unwrap();
    assert_refused(&short, 2, &["--watch", "too short"]);
}
