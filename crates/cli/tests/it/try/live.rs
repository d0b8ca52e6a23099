//! Databases that programs use meanwhile: their commits go on, and the copy is one state of them.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStdout, Stdio};

use oneflush_testing::{Running, has_programs};

use super::*;
use crate::common::assert_refused;

/// Commits all the time, and says each commit; gives up as Python's driver does, after 5 s.
const WRITER: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
while True:
    db.execute('BEGIN IMMEDIATE')
    n = db.execute('UPDATE total SET n = n + 1 RETURNING n').fetchone()[0]
    db.execute('INSERT INTO messages(v) VALUES (?)', (str(n) * 40,))
    db.execute('COMMIT')
    print(n, flush=True)
";

/// Does what it is told and then waits for its end.
const HOLDER: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.executescript(sys.argv[2])
print('ready', flush=True)
sys.stdin.read()
";

fn python(script: &str, arguments: &[&OsStr]) -> (Running, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new("python3");
    command.args(["-c", script]).args(arguments);
    let mut child =
        Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

/// On a busy machine the writer may commit during each copy. Then the program says to try again.
fn tried_until_it_stands_still(sandbox: &Sandbox, path: &Path) -> Output {
    let mut tries = 0;
    loop {
        let mut command = sandbox.oneflush();
        command.args(["try", "--seconds", "1", "--json"]).arg(path);
        let output = command.output().unwrap();
        tries += 1;
        if output.status.success() || tries == 10 || !stderr(&output).contains("; try again") {
            return output;
        }
    }
}

#[test]
fn a_live_writer_in_another_process_loses_nothing_and_is_not_refused() {
    if !has_programs(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let data = sandbox.open_directory("data");
    for mode in ["wal", "delete", "persist"] {
        let path = data.join(format!("{mode}.db"));
        make(&path, mode, 5_000);
        open(&path).execute_batch("CREATE TABLE total(n); INSERT INTO total VALUES (0)").unwrap();
        let (mut writer, mut lines) = python(WRITER, &[path.as_os_str()]);
        lines.next().unwrap().unwrap();
        let found = json(&tried_until_it_stands_still(&sandbox, &path));
        assert!(found["commit"]["rows"].as_u64().unwrap() > 5_000, "{mode}: its commits are seen");
        assert!(writer.try_wait().unwrap().is_none(), "{mode}: the writer was refused");
        writer.kill().unwrap();
        writer.wait().unwrap();
        let last: i64 = lines.map_while(Result::ok).last().unwrap().parse().unwrap();
        let db = open(&path);
        let n: i64 = db.query_row("SELECT n FROM total", [], |row| row.get(0)).unwrap();
        assert!(n >= last, "{mode}: {n} of {last}");
        let rows: i64 =
            db.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 5_000 + n, "{mode}");
        let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "{mode}");
    }
    let names: Vec<_> = look(&data).into_keys().collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("oneflush")), "{names:?}");
}

/// Whoever has the database open and does nothing finds all as it was, byte by byte.
#[test]
fn open_databases_are_as_they_were() {
    if !has_programs(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let data = sandbox.open_directory("data");
    for (at, (mode, does)) in [
        // The WAL has content, its index is shared.
        ("wal", "INSERT INTO messages(v) VALUES ('more')"),
        ("wal", "BEGIN IMMEDIATE; INSERT INTO messages(v) VALUES ('more')"),
        // No WAL index, and the file is locked.
        (
            "wal",
            "PRAGMA locking_mode = exclusive; PRAGMA journal_mode = wal;
            INSERT INTO messages(v) VALUES ('more')",
        ),
        ("delete", "BEGIN; SELECT count(*) FROM messages"),
        ("delete", "BEGIN IMMEDIATE; INSERT INTO messages(v) VALUES ('more')"),
        ("delete", "BEGIN EXCLUSIVE"),
        // Pages that are not committed are in the file.
        ("delete", "PRAGMA cache_size = 5; BEGIN; DELETE FROM messages WHERE id > 400"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = data.join(format!("{at}.db"));
        make(&path, mode, 5_000);
        let (_holder, mut lines) = python(HOLDER, &[path.as_os_str(), OsStr::new(does)]);
        assert_eq!(lines.next().unwrap().unwrap(), "ready", "{does}");
        let rows = tried(&sandbox, &path)["commit"]["rows"].as_u64().unwrap();
        let is_committed = mode == "wal" && !does.starts_with("BEGIN");
        assert_eq!(rows, if is_committed { 5_001 } else { 5_000 }, "{does}");
    }
}

/// Without a lock only a file that stands still can be copied. This one never does.
#[test]
fn a_locked_database_that_never_stands_still_is_refused_with_its_user() {
    if !has_programs(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.open_directory("data").join("app.db");
    make(&path, "delete", 20_000);
    let script = "
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('BEGIN EXCLUSIVE')
try:
    os.nice(-15)  # Beside other work, too, it never rests for as long as a copy takes.
except PermissionError:
    pass
print('ready', flush=True)
while True:
    os.utime(sys.argv[1])
";
    let (writer, mut lines) = python(script, &[path.as_os_str()]);
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let output = command(&sandbox, &path).output().unwrap();
    let user = format!("{} python3", writer.id());
    assert_refused(&output, 75, &["was changed each time", &user, "oneflush try /"]);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    sandbox.assert_nothing_left(&[]);
}
