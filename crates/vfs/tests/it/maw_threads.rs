//! Strategy `maw` in threads that commit over several databases in every order, in forked children,
//! and in processes that end without a close.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use oneflush_testing::named;
use rusqlite::{Connection, ErrorCode};

use crate::common::{self, count, files, insert, integrity, number, open_stock, open_with};

const LASTS: Duration = Duration::from_secs(6);
/// A child has copies of all descriptors for a moment, and a close beside it leaves its log.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    common::setup();
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

const HANGS_AFTER: Duration = Duration::from_secs(90);

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let db = open_with(path, "strategy=maw&atomic=log")?;
    db.busy_timeout(Duration::from_millis(200))?;
    Ok(db)
}

fn attach(db: &Connection, path: &Path, name: &str) -> rusqlite::Result<()> {
    let uri = format!("file:{}?strategy=maw&atomic=log", path.display());
    db.execute(&format!("ATTACH ?1 AS {name}"), [uri]).map(drop)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn three(dir: &Path) -> [PathBuf; 3] {
    let paths = ["a.db", "b.db", "c.db"].map(|name| dir.join(name));
    for path in &paths {
        let db = open_stock(path);
        db.execute_batch("CREATE TABLE t(v); CREATE TABLE pairs(n); INSERT INTO pairs VALUES (0)")
            .unwrap();
    }
    paths
}

/// What one thread does: common commits of two databases, commits of each alone, rollbacks, and now
/// and then it detaches, or closes and opens again. Answers its common commits.
fn work([first, second]: [&Path; 2], seed: usize) -> rusqlite::Result<i64> {
    let (until, mut common) = (Instant::now() + LASTS, 0);
    let connect = || -> rusqlite::Result<Connection> {
        let db = open(first)?;
        attach(&db, second, "other")?;
        Ok(db)
    };
    let mut db = None;
    for at in seed.. {
        if Instant::now() > until {
            break;
        }
        let done = (|| {
            if db.is_none() {
                db = Some(connect()?);
            }
            let Some(open) = &db else { return Ok(()) };
            match at % 17 {
                3 => open.execute_batch("INSERT INTO main.t VALUES (randomblob(200))")?,
                7 => open.execute_batch("INSERT INTO other.t VALUES (randomblob(200))")?,
                11 => open
                    .execute_batch("DETACH other")
                    .and_then(|()| attach(open, second, "other"))?,
                13 => db = None,
                15 => open.execute_batch(
                    "BEGIN; UPDATE main.pairs SET n = n + 1; UPDATE other.pairs SET n = n + 1;
                     ROLLBACK",
                )?,
                _ => {
                    open.execute_batch(
                        "BEGIN; UPDATE main.pairs SET n = n + 1; UPDATE other.pairs SET n = n + 1;
                         COMMIT",
                    )?;
                    common += 1;
                }
            }
            Ok(())
        })();
        if let Err(error) = done {
            if !is_busy(&error) {
                return Err(error);
            }
            if let Some(open) = &db {
                let _ = open.execute_batch("ROLLBACK");
                let attached = open.prepare("SELECT 1 FROM other.t").is_ok();
                if !attached {
                    db = None;
                }
            }
        }
    }
    Ok(common)
}

/// Runs these, each in a thread, and fails if they hang.
fn in_threads<T: Send + 'static>(tasks: Vec<Box<dyn FnOnce() -> T + Send>>) -> Vec<T> {
    let (sender, ended) = mpsc::channel();
    let threads = tasks.len();
    for task in tasks {
        let sender = sender.clone();
        std::thread::spawn(move || sender.send(task()));
    }
    drop(sender);
    (0..threads).map(|_| ended.recv_timeout(HANGS_AFTER).expect("nobody hangs")).collect()
}

#[test]
fn threads_that_commit_over_databases_in_every_order_do_not_hang_each_other() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let paths = three(dir.path());
    let orders = [[0, 1], [1, 0], [1, 2], [2, 0], [0, 1]];
    let tasks = orders
        .iter()
        .enumerate()
        .map(|(seed, &order)| {
            let of = order.map(|at: usize| paths[at].clone());
            Box::new(move || work([&of[0], &of[1]], seed * 5)) as Box<dyn FnOnce() -> _ + Send>
        })
        .collect();
    let done: i64 = in_threads(tasks).into_iter().map(Result::unwrap).sum();
    assert!(done > 20, "{done}");
    let mut sum = 0;
    for path in &paths {
        let db = open(path).unwrap();
        assert_eq!(integrity(&db), "ok");
        sum += number(&db, "SELECT n FROM pairs");
        drop(db);
        assert_eq!(files(path), [""]);
    }
    assert_eq!(sum, 2 * done, "each common commit is in both of its databases");
}

/// Not a test of its own. `CASE|DATABASE`.
#[test]
fn runs_a_case() {
    let Ok(case) = std::env::var("ONEFLUSH_TEST_CASE") else { return };
    let (case, path) = case.split_once('|').unwrap();
    let path = Path::new(path);
    let db = open(path).unwrap();
    insert(&db, 5);
    let other = open(path).unwrap();
    assert_eq!(count(&other), 5);
    match case {
        "idle" => std::process::exit(7),
        "reading" => {
            let mut statement = other.prepare("SELECT v FROM t").unwrap();
            let mut rows = statement.query([]).unwrap();
            rows.next().unwrap().unwrap();
            std::process::exit(7);
        }
        "writing" => {
            db.execute_batch("BEGIN; INSERT INTO t VALUES (1)").unwrap();
            std::process::exit(7);
        }
        "two databases" => {
            let second = path.with_file_name("b.db");
            attach(&db, &second, "other").unwrap();
            for _ in 0..3 {
                db.execute_batch(
                    "BEGIN; UPDATE main.pairs SET n = n + 1;
                    UPDATE other.pairs SET n = n + 1; COMMIT",
                )
                .unwrap();
            }
            std::process::exit(7);
        }
        "beside threads" => {
            let path = path.to_owned();
            let (sender, commits) = mpsc::channel();
            std::thread::spawn(move || {
                let db = open(&path).unwrap();
                loop {
                    if db.execute_batch("UPDATE pairs SET n = n + 1").is_ok() {
                        let _ = sender.send(());
                    }
                }
            });
            (0..5).for_each(|_| commits.recv_timeout(HANGS_AFTER).unwrap());
            std::process::exit(7);
        }
        _ => panic!("{case}"),
    }
}

#[test]
fn a_process_that_ends_without_a_close_loses_nothing_and_leaves_a_plain_file_where_it_can() {
    let _alone = alone();
    for (case, is_plain) in [
        ("idle", true),
        ("reading", false),
        ("writing", false),
        ("two databases", true),
        ("beside threads", false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let paths = three(dir.path());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", named!(runs_a_case), "--nocapture"]);
        command.env("ONEFLUSH_TEST_CASE", format!("{case}|{}", paths[0].display()));
        let before = Instant::now();
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{case}: {output:?}");
        assert!(before.elapsed() < Duration::from_secs(30), "{case}");
        if is_plain {
            assert_eq!(
                (files(&paths[0]), files(&paths[1])),
                (vec![String::new()], vec![String::new()])
            );
        }
        for (path, rows) in [(&paths[0], 5), (&paths[1], 0)] {
            let db = open(path).unwrap();
            assert_eq!((count(&db), integrity(&db).as_str()), (rows, "ok"), "{case}");
            // A log that a process has died in making is unused until the next commit.
            db.execute_batch("PRAGMA user_version = 1").unwrap();
            drop(db);
            assert_eq!(files(path), [""], "{case}");
        }
        if case == "two databases" {
            for path in &paths[..2] {
                assert_eq!(number(&open_stock(path), "SELECT n FROM pairs"), 3);
            }
        }
    }
}

/// Runs `act` in a forked child. The answer is what it says.
fn in_child(act: impl FnOnce() -> String) -> String {
    use std::io::{Read, Write};
    let (mut reads, mut writes) = std::io::pipe().unwrap();
    // SAFETY: the child does little, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        let _ = writes.write_all(said.unwrap_or_else(|_| "panic".to_owned()).as_bytes());
        drop(writes);
        // SAFETY: ends the child without its parent's handlers.
        unsafe { libc::_exit(0) };
    }
    drop(writes);
    let mut said = String::new();
    reads.read_to_string(&mut said).unwrap();
    // SAFETY: waits for the child; no status is wanted.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    said
}

/// A child has neither its parent's locks nor its board. Its own connections work.
#[test]
fn a_forked_child_is_refused_with_what_it_inherits_and_harms_nobody() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let paths = three(dir.path());
    let path = &paths[0];
    let db = open(path).unwrap();
    insert(&db, 5);
    let try_it = |db: &Connection, sql: &str| match db.execute_batch(sql) {
        Ok(()) => "done".to_owned(),
        Err(error) => error.to_string(),
    };
    // Idle at the fork.
    let said = in_child(|| try_it(&db, "INSERT INTO t VALUES ('child')"));
    assert!(said.contains("unable to open database file"), "{said}");
    let said = in_child(|| try_it(&db, "SELECT * FROM t"));
    assert!(said.contains("unable to open database file"), "{said}");
    insert(&db, 1);
    // In a transaction at the fork. The parent commits and goes on, then the child tries.
    db.execute_batch("BEGIN; INSERT INTO t VALUES ('parent')").unwrap();
    let said = in_child(|| try_it(&db, "COMMIT"));
    assert!(said != "done", "{said}");
    db.execute_batch("COMMIT").unwrap();
    db.execute_batch("BEGIN; INSERT INTO t VALUES ('parent')").unwrap();
    let (mut reads, writes) = std::io::pipe().unwrap();
    let parent = std::cell::Cell::new(Some(writes));
    std::thread::scope(|scope| {
        let (told, said) = mpsc::channel();
        // SAFETY: as in `in_child`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            use std::io::Read;
            drop(parent.take());
            let _ = reads.read(&mut [0]);
            let refused = try_it(&db, "COMMIT") != "done";
            // SAFETY: as in `in_child`.
            unsafe { libc::_exit(i32::from(refused)) };
        }
        db.execute_batch("COMMIT; DELETE FROM t WHERE v = 'parent'").unwrap();
        drop(parent.take());
        scope.spawn(move || {
            let mut status = 0;
            // SAFETY: the status lives during the call.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            told.send(libc::WEXITSTATUS(status)).unwrap();
        });
        let refused = said.recv_timeout(HANGS_AFTER).expect("the child does not hang");
        assert_eq!(refused, 1, "the child's commit is refused");
    });
    assert_eq!((count(&db), integrity(&db).as_str()), (6, "ok"));
    // A connection of its own.
    let said = in_child(|| match open(path) {
        Ok(own) => try_it(&own, "INSERT INTO t VALUES ('own')"),
        Err(error) => error.to_string(),
    });
    assert_eq!(said, "done");
    insert(&db, 1);
    assert_eq!((count(&db), integrity(&db).as_str()), (8, "ok"));
    drop(db);
    assert_eq!(files(path), [""]);
    assert_eq!(count(&open_stock(path)), 8);
}
