//! Two processes count in one database, each with threads that stay and threads that open and
//! close. A close of any descriptor of a file takes the locks of its process away. Here each close
//! takes long, so that a lock that begins meanwhile would be lost, and an update with it.

use std::ffi::c_int;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use libsqlite3_sys as sqlite;
use oneflush_testing::named;
use rusqlite::Connection;

use crate::common::{self, integrity, number, open_stock, open_with, scratch, take_said};

const LASTS: Duration = Duration::from_millis(1500);
const STAYS: usize = 2;

type Close = unsafe extern "C" fn(c_int) -> c_int;

static CLOSE: OnceLock<Close> = OnceLock::new();

unsafe extern "C" fn slow_close(descriptor: c_int) -> c_int {
    thread::sleep(Duration::from_micros(300));
    // SAFETY: what SQLite would have called, with its argument.
    unsafe { CLOSE.get().unwrap()(descriptor) }
}

fn slow_down_closes() {
    // SAFETY: the VFS is registered and lives for ever; the system call has that type (os_unix.c,
    // `aSyscall`).
    unsafe {
        let unix = sqlite::sqlite3_vfs_find(c"unix".as_ptr());
        let now = (*unix).xGetSystemCall.unwrap()(unix, c"close".as_ptr()).unwrap();
        CLOSE.set(std::mem::transmute::<unsafe extern "C" fn(), Close>(now)).unwrap();
        let slow = std::mem::transmute::<Close, unsafe extern "C" fn()>(slow_close);
        assert_eq!((*unix).xSetSystemCall.unwrap()(unix, c"close".as_ptr(), Some(slow)), 0);
    }
}

fn open(path: &Path, strategy: &str) -> Connection {
    let db = open_with(path, &format!("strategy={strategy}")).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    let begun = db.execute_batch("PRAGMA synchronous=off");
    assert!(begun.is_ok(), "{begun:?}: {}", take_said(path));
    db
}

/// This program again, as one of two processes. It says how many of its updates were acknowledged.
#[test]
fn is_one_of_two() {
    let Ok(task) = std::env::var("ONEFLUSH_TEST_COUNTS") else { return };
    let (path, strategy) = task.split_once('|').unwrap();
    let path = Path::new(path);
    common::setup();
    slow_down_closes();
    let until = Instant::now() + LASTS;
    let is_over = AtomicBool::new(false);
    let count = || {
        let db = open(path, strategy);
        let mut acknowledged = 0;
        while Instant::now() < until {
            // A busy handler is not called where two would wait for each other.
            let updated = db.execute_batch("BEGIN IMMEDIATE; UPDATE t SET n = n + 1; COMMIT");
            match updated {
                Ok(()) => acknowledged += 1,
                Err(_) => _ = db.execute_batch("ROLLBACK"),
            }
        }
        acknowledged
    };
    let opens = || {
        while !is_over.load(Relaxed) {
            let db = open(path, strategy);
            let _ = db.query_row("SELECT n FROM t", [], |row| row.get::<_, i64>(0));
        }
    };
    let acknowledged: i64 = thread::scope(|scope| {
        let stay: Vec<_> = (0..STAYS).map(|_| scope.spawn(count)).collect();
        scope.spawn(opens);
        scope.spawn(opens);
        let sum = stay.into_iter().map(|one| one.join().unwrap()).sum();
        is_over.store(true, Relaxed);
        sum
    });
    println!("acknowledged: {acknowledged}");
}

#[test]
fn a_close_takes_no_lock_away_that_another_thread_has_just_taken() {
    for (strategy, mode) in [
        ("stock", "delete"),
        ("maw", "delete"),
        ("stock", "wal"),
        ("plain", "wal"),
        ("eager", "wal"),
        ("waldio", "wal"),
    ] {
        let (_dir, path) = scratch();
        let db = open_with(&path, &format!("strategy={strategy}")).unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(n); INSERT INTO t VALUES(0)"
        ))
        .unwrap();
        drop(db);
        let processes: Vec<_> = (0..2)
            .map(|_| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command
                    .args(["--exact", named!(is_one_of_two), "--nocapture"])
                    .env("ONEFLUSH_TEST_COUNTS", format!("{}|{strategy}", path.display()))
                    .stdout(std::process::Stdio::piped());
                oneflush_testing::dies_with_test(&mut command).spawn().unwrap()
            })
            .collect();
        let mut acknowledged = 0;
        for process in processes {
            let output = process.wait_with_output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{strategy}, {mode}: {said}");
            let (_, count) = said.split_once("acknowledged: ").unwrap();
            acknowledged += count.lines().next().unwrap().parse::<i64>().unwrap();
        }
        assert!(acknowledged > 0, "{strategy}, {mode}");
        let db = open_stock(&path);
        assert_eq!(integrity(&db), "ok", "{strategy}, {mode}");
        assert_eq!(number(&db, "SELECT n FROM t"), acknowledged, "{strategy}, {mode}");
    }
}
