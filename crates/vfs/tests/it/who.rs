//! `PRAGMA oneflush_who`: who has the database open, asked inside of a process that uses it.

use std::io::{BufRead, BufReader};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use oneflush_testing::{Running, named, slowed};
use rusqlite::Connection;
use rustix::fs::inotify;
use rustix::io::Errno;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::open_with;

/// This program again, with SQLite alone: it is in a read transaction until it is killed.
#[test]
fn reads_with_sqlite_alone() {
    let Some(path) = std::env::var_os("ONEFLUSH_TEST_READS") else { return };
    let db = Connection::open(path).unwrap();
    db.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    println!("\nreads");
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

fn reader(path: &Path) -> Running {
    let mut running = Running::start(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", named!(reads_with_sqlite_alone), "--nocapture"])
            .env("ONEFLUSH_TEST_READS", path)
            .stdout(Stdio::piped()),
    );
    let said = BufReader::new(running.stdout.take().unwrap());
    assert!(said.lines().map_while(Result::ok).any(|line| line == "reads"));
    running
}

fn who(db: &Connection) -> Vec<Value> {
    let json: String = db.query_row("PRAGMA oneflush_who", [], |row| row.get(0)).unwrap();
    serde_json::from_str(&json).unwrap()
}

fn row_of(rows: &[Value], pid: u32) -> &Value {
    rows.iter().find(|row| row["pid"] == pid).unwrap_or_else(|| panic!("no {pid}: {rows:?}"))
}

fn holds<'a>(row: &'a Value, lock: &str) -> Option<&'a Value> {
    row["holds"].as_array().unwrap().iter().find(|hold| {
        hold["lock"].as_str().is_some_and(|name| name == lock || name.starts_with(lock))
    })
}

fn scratch() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    (dir, path)
}

fn create(path: &Path, strategy: &str) -> Connection {
    let db = open_with(path, &format!("strategy={strategy}")).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES (1)")
        .unwrap();
    db
}

/// The locks of this process on files in this folder. Unlike `/proc/locks`, the kernel tells those
/// of one descriptor at once.
fn locks_in(folder: &Path) -> Vec<String> {
    let descriptors: Vec<PathBuf> =
        std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut locks = Vec::new();
    for descriptor in descriptors {
        if !std::fs::read_link(&descriptor).is_ok_and(|file| file.starts_with(folder)) {
            continue;
        }
        let info = Path::new("/proc/self/fdinfo").join(descriptor.file_name().unwrap());
        let info = std::fs::read_to_string(info).unwrap();
        let lines = info.lines().filter_map(|line| line.strip_prefix("lock:"));
        // Without its number in the list.
        locks.extend(lines.filter_map(|line| Some(line.split_once(": ")?.1.to_owned())));
    }
    locks.sort();
    locks
}

/// The names of the files that were opened in the watched folder, since this was last asked.
fn opened(watch: &OwnedFd) -> Vec<String> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    let mut names = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => names.extend(event.file_name().map(|name| text(name.to_bytes()))),
            Err(errno) => {
                assert_eq!(errno, Errno::AGAIN);
                return names;
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_asking_process_and_others_are_named_with_what_they_hold() {
    for strategy in ["stock", "plain"] {
        let (_dir, path) = scratch();
        let db = create(&path, strategy);
        let reader = reader(&path);
        db.execute_batch("INSERT INTO t VALUES (2); INSERT INTO t VALUES (3); BEGIN IMMEDIATE")
            .unwrap();
        let began = Instant::now();
        let rows = who(&db);
        assert!(began.elapsed() < slowed(Duration::from_secs(1)), "{:?}", began.elapsed());
        let (own, other) = (row_of(&rows, std::process::id()), row_of(&rows, reader.id()));
        assert!(holds(own, "write").is_some() && holds(other, "write").is_none(), "{rows:?}");
        // The WAL index is read where SQLite has mapped it.
        assert_eq!(holds(other, "read mark").unwrap()["frames_behind"], 2, "{other}");
        assert_eq!((&other["stopped"], &other["connections"]), (&false.into(), &1.into()));
        assert!(other["strategy"].is_null(), "{other}");
        if strategy == "plain" {
            assert_eq!(own["strategy"], "plain", "{own}");
        }
        db.execute_batch("COMMIT").unwrap();
        assert!(holds(row_of(&who(&db), std::process::id()), "write").is_none());
    }
}

/// To open and close one of the files would take all locks of this process away.
#[test]
fn the_pragma_opens_no_file_of_the_database_and_leaves_all_locks() {
    for strategy in ["stock", "plain", "eager", "waldio"] {
        let (dir, path) = scratch();
        let db = create(&path, strategy);
        db.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2)").unwrap();
        let before = locks_in(dir.path());
        assert!(before.len() >= 3, "{strategy}: {before:?}");
        let opens = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&opens, dir.path(), inotify::WatchFlags::OPEN).unwrap();
        let rows = who(&db);
        assert_eq!(opened(&opens), [""; 0], "{strategy}");
        assert_eq!(locks_in(dir.path()), before, "{strategy}");
        let own = row_of(&rows, std::process::id());
        assert!(holds(own, "write").is_some() && holds(own, "read mark").is_some(), "{own}");
        if strategy != "stock" {
            assert_eq!(own["strategy"], strategy, "{own}");
        }
        db.execute_batch("COMMIT").unwrap();
        // Such an open is noticed.
        drop(std::fs::File::open(dir.path().join("a.db")).unwrap());
        assert!(opened(&opens).contains(&"a.db".to_owned()));
    }
}

#[test]
fn a_value_is_refused_and_a_database_that_was_moved_is_said() {
    let (dir, path) = scratch();
    let db = create(&path, "stock");
    let error = db.query_row("PRAGMA oneflush_who=1", [], |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("takes no value"), "{error}");
    std::fs::rename(&path, dir.path().join("b.db")).unwrap();
    let error = db.query_row("PRAGMA oneflush_who", [], |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("a.db") && error.contains("No such file"), "{error}");
}
