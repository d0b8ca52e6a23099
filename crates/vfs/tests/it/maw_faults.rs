//! Strategy `maw` where one call on the database file fails: no commit is there by half, and the
//! next one works. SQLite's own system calls are replaced, for this thread at a moment of the
//! test's choice.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rusqlite::{Connection, ffi};

use crate::common::{self, count, files, integrity, open_stock, open_with, scratch, setup, stats};

type Read = unsafe extern "C" fn(c_int, *mut c_void, usize, i64) -> isize;
type Write = unsafe extern "C" fn(c_int, *const c_void, usize, i64) -> isize;

static CALLS: OnceLock<(Read, Write)> = OnceLock::new();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Read,
    Write,
}

thread_local! {
    /// The call that fails, and how many such calls are made before it.
    static FAILING: Cell<Option<(Call, u32)>> = const { Cell::new(None) };
}

fn fails(call: Call) -> bool {
    match FAILING.get() {
        Some((failing, 0)) if failing == call => {
            FAILING.set(None);
            true
        }
        Some((failing, before)) if failing == call => {
            FAILING.set(Some((call, before - 1)));
            false
        }
        _ => false,
    }
}

/// No file has this descriptor. A call with it fails, and says so.
const NO_FILE: c_int = -1;

unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, len: usize, at: i64) -> isize {
    let fd = if fails(Call::Read) { NO_FILE } else { fd };
    // SAFETY: the arguments are SQLite's.
    CALLS.get().map_or(-1, |(read, _)| unsafe { read(fd, buffer, len, at) })
}

unsafe extern "C" fn write(fd: c_int, data: *const c_void, len: usize, at: i64) -> isize {
    let fd = if fails(Call::Write) { NO_FILE } else { fd };
    // SAFETY: the arguments are SQLite's.
    CALLS.get().map_or(-1, |(_, write)| unsafe { write(fd, data, len, at) })
}

/// Replaces SQLite's system calls by those of this file.
fn replace_calls() {
    static ONCE: OnceLock<()> = OnceLock::new();
    setup();
    ONCE.get_or_init(|| {
        // SAFETY: the VFS "unix" lives as long as the process, and has these two calls, which have
        // these types.
        unsafe {
            let unix = ffi::sqlite3_vfs_find(c"unix".as_ptr());
            let get = |name: &CStr| (*unix).xGetSystemCall.unwrap()(unix, name.as_ptr()).unwrap();
            let own = |call: *const c_void| {
                std::mem::transmute::<*const c_void, ffi::sqlite3_syscall_ptr>(call)
            };
            let set = |name: &CStr, call: *const c_void| {
                let code = (*unix).xSetSystemCall.unwrap()(unix, name.as_ptr(), own(call));
                assert_eq!(code, ffi::SQLITE_OK);
            };
            let calls = (
                std::mem::transmute::<unsafe extern "C" fn(), Read>(get(c"pread")),
                std::mem::transmute::<unsafe extern "C" fn(), Write>(get(c"pwrite")),
            );
            assert!(CALLS.set(calls).is_ok());
            set(c"pread", read as Read as *const c_void);
            set(c"pwrite", write as Write as *const c_void);
        }
    });
}

/// Lets one call fail while `act` runs. `None`: there were not so many calls.
fn with_failing<T>(call: Call, before: u32, act: impl FnOnce() -> T) -> Option<T> {
    FAILING.set(Some((call, before)));
    let done = act();
    let was_hit = FAILING.replace(None).is_none();
    was_hit.then_some(done)
}

const MODES: [&str; 3] = ["delete", "truncate", "persist"];

fn open(path: &Path, pragmas: &str) -> Connection {
    let db = open_with(path, "strategy=maw&atomic=log&checkpoints=sqlite").unwrap();
    db.execute_batch(&format!("{pragmas}; CREATE TABLE IF NOT EXISTS t(v)")).unwrap();
    db
}

/// Rows over a dozen pages. The first commit to the log has been made.
///
/// A row without the first word was once one of two million that begins with the word of
/// [`UPDATE`], in some case: one row of 101 was taken for updated.
fn fill(db: &Connection) {
    for rows in [100, 1] {
        db.execute_batch(&format!(
            "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < {rows}) \
                INSERT INTO t SELECT 'old' || randomblob(400) FROM r"
        ))
        .unwrap();
    }
}

/// The database becomes longer.
const UPDATE: &str = "UPDATE t SET v = 'new' || randomblob(600)";

fn updated(db: &Connection) -> i64 {
    common::number(db, "SELECT count(*) FROM t WHERE v LIKE 'new%'")
}

/// All rows are updated, or none is.
fn check(db: &Connection, what: &str) -> i64 {
    let updated = updated(db);
    assert!(updated == 0 || updated == 101, "{what}: {updated} rows");
    assert_eq!(integrity(db), "ok", "{what}");
    updated
}

#[test]
fn a_commit_with_one_failing_call_is_there_or_not_and_the_next_one_works() {
    replace_calls();
    for (mode, locking) in MODES.iter().flat_map(|mode| [(mode, "normal"), (mode, "exclusive")]) {
        for call in [Call::Read, Call::Write] {
            let mut failed = Vec::new();
            for before in 0.. {
                let what = format!("{mode}, {locking}, {call:?} {before}");
                let (_dir, path) = scratch();
                let pragmas = format!("PRAGMA locking_mode={locking}; PRAGMA journal_mode={mode}");
                let db = open(&path, &pragmas);
                fill(&db);
                let Some(done) = with_failing(call, before, || db.execute_batch(UPDATE)) else {
                    break;
                };
                let there = check(&db, &what);
                assert!(done.is_err() || there == 101, "{what}");
                if let Err(error) = &done {
                    assert!(error.to_string().contains("disk I/O error"), "{what}: {error}");
                    failed.push(there);
                }
                // Others see the same, and the next commit works.
                if locking == "normal" {
                    assert_eq!(check(&open(&path, ""), &what), there, "{what}");
                }
                db.execute_batch("INSERT INTO t VALUES('next')").unwrap_or_else(|error| {
                    panic!("{what}: {error}");
                });
                assert_eq!((check(&db, &what), count(&db)), (there, 102), "{what}");
                drop(db);
                assert!(!files(&path).contains(&"-maw".to_owned()), "{what}");
                let stock = open_stock(&path);
                assert_eq!((check(&stock, &what), count(&stock)), (there, 102), "{what}");
            }
            assert!(failed.contains(&0), "{mode}, {locking}, {call:?}: {failed:?}");
            // A write may fail when the log has the commit.
            let is_write = call == Call::Write;
            assert_eq!(failed.contains(&101), is_write, "{mode}, {locking}: {failed:?}");
        }
    }
}

fn open_both(paths: &[PathBuf; 2], pragmas: &str) -> Connection {
    let db = open(&paths[0], pragmas);
    let uri = format!("file:{}?strategy=maw&atomic=log&checkpoints=sqlite", paths[1].display());
    db.execute_batch(&format!("ATTACH '{uri}' AS d; {pragmas}")).unwrap();
    db
}

#[test]
fn a_commit_to_several_databases_with_one_failing_write_is_in_all_of_them_or_in_none() {
    replace_calls();
    for locking in ["normal", "exclusive"] {
        let mut failed = Vec::new();
        for before in 0.. {
            let what = format!("{locking}, write {before}");
            let dir = tempfile::tempdir().unwrap();
            let paths = [dir.path().join("a.db"), dir.path().join("b.db")];
            for path in &paths {
                fill(&open(path, ""));
            }
            let db = open_both(&paths, &format!("PRAGMA locking_mode={locking}"));
            let transaction = format!("BEGIN; {UPDATE}; UPDATE d.t SET v = 'new'; COMMIT");
            let first = "BEGIN; INSERT INTO t VALUES(1); INSERT INTO d.t VALUES(1); \
                DELETE FROM t WHERE v = 1; DELETE FROM d.t WHERE v = 1; COMMIT";
            db.execute_batch(first).unwrap();
            assert_eq!(stats(&db)["maw"]["together"], 1, "{what}");
            let Some(done) = with_failing(Call::Write, before, || {
                let done = db.execute_batch(&transaction);
                if done.is_err() && !db.is_autocommit() {
                    db.execute_batch("ROLLBACK").unwrap();
                }
                done
            }) else {
                break;
            };
            let there = |db: &Connection| {
                let of_d = common::number(db, "SELECT count(*) FROM d.t WHERE v LIKE 'new%'");
                (check(db, &what), of_d)
            };
            let seen = there(&db);
            assert!(seen == (0, 0) || seen == (101, 101), "{what}: {seen:?}");
            assert!(done.is_err() || seen.0 == 101, "{what}");
            failed.extend(done.is_err().then_some(seen.0));
            db.execute_batch("INSERT INTO t VALUES('next')").unwrap();
            drop(db);
            let db = open_both(&paths, "");
            assert_eq!(there(&db), seen, "{what}");
            drop(db);
            for path in &paths {
                assert_eq!(check(&open_stock(path), &what), seen.0, "{what}");
            }
        }
        assert!(failed.contains(&0) && failed.contains(&101), "{locking}: {failed:?}");
    }
}

/// SQLite closes the journal before it deletes it, and opens it again to play it back.
#[test]
fn a_change_of_the_journal_mode_that_fails_in_exclusive_locking_mode_changes_nothing() {
    replace_calls();
    let mut failed = 0;
    for before in 0.. {
        let what = format!("write {before}");
        let (_dir, path) = scratch();
        fill(&open(&path, ""));
        let db = open(&path, "PRAGMA locking_mode=exclusive");
        db.execute_batch("INSERT INTO t VALUES('more')").unwrap();
        // To its end: the commit comes after the row.
        let change = || {
            let mut statement = db.prepare("PRAGMA journal_mode=wal")?;
            statement.query_map([], |_| Ok(()))?.collect::<rusqlite::Result<Vec<()>>>()
        };
        let Some(done) = with_failing(Call::Write, before, change) else { break };
        failed += usize::from(done.is_err());
        assert_eq!((count(&db), integrity(&db).as_str()), (102, "ok"), "{what}");
        drop(db);
        let again = open(&path, "");
        assert_eq!((count(&again), integrity(&again).as_str()), (102, "ok"), "{what}");
    }
    assert!(failed > 0);
}

/// How many threads of this process sync databases of `maw`.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim() == "oneflush-maw").count()
}

#[test]
fn a_closed_database_keeps_no_thread() {
    for _ in 0..100 {
        let (_dir, path) = scratch();
        let db = open_with(&path, "strategy=maw&atomic=log").unwrap();
        db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES(1)").unwrap();
        // The log ends, before the database is closed.
        db.execute_batch("PRAGMA journal_mode=wal; INSERT INTO t VALUES(2)").unwrap();
    }
    let mut left = threads();
    for _ in 0..100 {
        if left <= 1 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        left = threads();
    }
    panic!("{left} threads are left");
}
