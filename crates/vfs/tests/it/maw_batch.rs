//! SQLite's own batch of atomic writes (`SQLITE_ENABLE_BATCH_ATOMIC_WRITE`) with strategy `maw`.
//!
//! The file controls do what they say. `SQLITE_IOCAP_BATCH_ATOMIC` is never claimed, so a build
//! with that option commits as any other does.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use oneflush_testing::flawed::{Flawed, Flaws, Sync, why_not};
use oneflush_testing::{built, in_own_mounts, named, skip};
use rusqlite::{Connection, ffi};

use crate::common::{self, count, files, integrity, open_stock, open_with, scratch, stats};

fn control(db: &Connection, operation: c_int) -> c_int {
    // SAFETY: the connection is open; these controls take no argument.
    unsafe {
        ffi::sqlite3_file_control(db.handle(), c"main".as_ptr(), operation, std::ptr::null_mut())
    }
}

/// The main file, as SQLite has it.
fn main_file(db: &Connection) -> *mut ffi::sqlite3_file {
    let mut file: *mut ffi::sqlite3_file = std::ptr::null_mut();
    // SAFETY: the connection is open, and the pointer lives during the call.
    let code = unsafe {
        ffi::sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_FILE_POINTER,
            (&raw mut file).cast::<c_void>(),
        )
    };
    assert_eq!(code, ffi::SQLITE_OK);
    file
}

fn read(db: &Connection, bytes: usize, offset: i64) -> Vec<u8> {
    let (file, mut buffer) = (main_file(db), vec![0; bytes]);
    // SAFETY: the file is open while the connection is; the buffer has this length.
    let code = unsafe {
        let method = (*(*file).pMethods).xRead.unwrap();
        method(file, buffer.as_mut_ptr().cast(), bytes as c_int, offset)
    };
    assert_eq!(code, ffi::SQLITE_OK);
    buffer
}

fn write(db: &Connection, data: &[u8], offset: i64) {
    let file = main_file(db);
    // SAFETY: as above.
    let code = unsafe {
        let method = (*(*file).pMethods).xWrite.unwrap();
        method(file, data.as_ptr().cast(), data.len() as c_int, offset)
    };
    assert_eq!(code, ffi::SQLITE_OK);
}

const PAGE: usize = 4096;

/// A database with pages of a known content, and a connection that has it locked.
fn locked(path: &std::path::Path) -> Connection {
    let db = open_with(path, "strategy=maw&atomic=log").unwrap();
    db.execute_batch(
        "PRAGMA synchronous=full; CREATE TABLE t(v); INSERT INTO t VALUES (hex(zeroblob(9000)))",
    )
    .unwrap();
    db.execute_batch("BEGIN EXCLUSIVE").unwrap();
    db
}

/// The pages behind page 2 are those of the long value. Each is written anew with other digits.
fn change(db: &Connection, digit: u8) {
    for page in [2, 3, 4] {
        let offset = (page * PAGE) as i64;
        let changed: Vec<u8> = read(db, PAGE, offset)
            .into_iter()
            .enumerate()
            .map(|(at, byte)| if at >= 4 && byte.is_ascii_digit() { digit } else { byte })
            .collect();
        write(db, &changed, offset);
    }
}

/// The digits of the value, each once.
fn digits(db: &Connection) -> String {
    let value: String = db.query_row("SELECT v FROM t", [], |row| row.get(0)).unwrap();
    let mut found: Vec<char> = value.chars().collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().collect()
}

#[test]
fn a_batch_is_committed_by_one_record_and_a_rollback_leaves_nothing() {
    let (_dir, path) = scratch();
    let db = locked(&path);
    let before = std::fs::read(&path).unwrap();
    let records = stats(&db)["maw"]["log"]["records"].as_u64();
    assert_eq!(control(&db, ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE), ffi::SQLITE_OK);
    assert_eq!(control(&db, ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE), ffi::SQLITE_IOERR_BEGIN_ATOMIC);
    change(&db, b'7');
    assert_eq!(read(&db, PAGE, 3 * PAGE as i64)[100], b'7', "its own writes are seen");
    assert_eq!(std::fs::read(&path).unwrap(), before, "and by nobody else");
    assert_eq!(control(&db, ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE), ffi::SQLITE_OK);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(read(&db, PAGE, 3 * PAGE as i64)[100], b'0');
    assert_eq!(stats(&db)["maw"]["log"]["records"].as_u64(), records);

    assert_eq!(control(&db, ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE), ffi::SQLITE_OK);
    change(&db, b'8');
    assert_eq!(control(&db, ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE), ffi::SQLITE_OK);
    assert_eq!(stats(&db)["maw"]["log"]["records"].as_u64(), records.map(|records| records + 1));
    // After a crash that has lost all writes in place.
    let copy = common::crash(&path, &["-maw"]);
    std::fs::write(&copy, &before).unwrap();
    let again = open_with(&copy, "strategy=maw&atomic=log").unwrap();
    assert_eq!((digits(&again).as_str(), integrity(&again).as_str()), ("08", "ok"));
    db.execute_batch("ROLLBACK; INSERT INTO t VALUES (1); DELETE FROM t WHERE v = 1").unwrap();
    assert_eq!(integrity(&db), "ok");
    drop(db);
    assert_eq!(files(&path), [""]);
    assert_eq!(digits(&open_stock(&path)), "08");
}

#[test]
fn a_batch_that_cannot_be_committed_is_told_so_and_can_be_rolled_back() {
    let name = named!(a_batch_that_cannot_be_committed_is_told_so_and_can_be_rolled_back);
    if why_not().map(|why| skip(&why)).is_some() || !in_own_mounts(name, Duration::from_secs(60)) {
        return;
    }
    let flawed = Flawed::mount("oneflush", Flaws::default()).unwrap();
    let path = flawed.path().join("a.db");
    let db = locked(&path);
    assert_eq!(control(&db, ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE), ffi::SQLITE_OK);
    change(&db, b'7');
    flawed.set_sync(Sync::Fails);
    assert_eq!(
        control(&db, ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE),
        ffi::SQLITE_IOERR_COMMIT_ATOMIC
    );
    flawed.set_sync(Sync::Kept);
    assert_eq!(control(&db, ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE), ffi::SQLITE_OK);
    db.execute_batch("ROLLBACK").unwrap();
    assert_eq!((count(&db), integrity(&db).as_str()), (1, "ok"));
    assert!(db.execute("INSERT INTO t VALUES (1)", []).is_err(), "after a failed write");
}

/// The amalgamation that this workspace is built with.
fn amalgamation() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let folders = std::fs::read_dir(home.join("registry/src")).ok()?;
    let crates = folders.flatten().filter_map(|folder| std::fs::read_dir(folder.path()).ok());
    let mut found: Vec<PathBuf> = crates
        .flat_map(|crates| crates.flatten())
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("libsqlite3-sys-"))
        .map(|entry| entry.path().join("sqlite3"))
        .filter(|folder| folder.join("sqlite3.c").exists())
        .collect();
    found.sort();
    found.pop()
}

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sqlite3.h"

static void check(int code, sqlite3 *db, const char *doing) {
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
    fprintf(stderr, "%s: %d, %s\n", doing, code, sqlite3_errmsg(db));
    exit(1);
}

static int prints(void *unused, int count, char **values, char **names) {
    (void)unused; (void)count; (void)names;
    printf("%s\n", values[0]);
    return 0;
}

int main(int count, char **words) {
    sqlite3 *db, *loader;
    (void)count;
    check(sqlite3_open(":memory:", &loader), loader, "open");
    sqlite3_enable_load_extension(loader, 1);
    char *why = 0;
    if (sqlite3_load_extension(loader, words[1], 0, &why) != SQLITE_OK) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    check(sqlite3_open_v2(words[2], &db, flags, 0), db, words[2]);
    for (int at = 3; words[at]; at++) {
        check(sqlite3_exec(db, words[at], prints, 0, 0), db, words[at]);
    }
    if (words[2][0] && getenv("DIES")) abort();
    check(sqlite3_close(db), db, "close");
    return 0;
}
"#;

#[test]
fn a_build_with_batches_commits_as_any_other_does() {
    let (Some(folder), Some(sqlite)) = (built(&["cc"]), amalgamation()) else { return };
    let (dir, path) = scratch();
    let (source, program) = (dir.path().join("program.c"), dir.path().join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    let compiled = Command::new("cc")
        .args(["-O0", "-w", "-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE", "-DSQLITE_THREADSAFE=1"])
        .arg("-I")
        .arg(&sqlite)
        .arg(&source)
        .arg(sqlite.join("sqlite3.c"))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    let uri = format!("file:{}?vfs=oneflush&strategy=maw&atomic=log", path.display());
    let run = |sql: &[&str], dies: bool| {
        let mut command = Command::new(&program);
        command.arg(folder.join("liboneflush.so")).arg(&uri).args(sql);
        if dies {
            command.env("DIES", "1");
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), !dies, "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let mut rows = 0;
    for mode in ["delete", "truncate", "persist"] {
        for synchronous in ["off", "normal", "full"] {
            for dies in [false, true] {
                let pragmas =
                    format!("PRAGMA journal_mode={mode}; PRAGMA synchronous={synchronous}");
                let said = run(
                    &[
                        &pragmas,
                        "SELECT 'batches: ' || sqlite_compileoption_used(
                            'ENABLE_BATCH_ATOMIC_WRITE')",
                        "CREATE TABLE IF NOT EXISTS t(v)",
                        "INSERT INTO t VALUES (randomblob(5000))",
                        "BEGIN; INSERT INTO t VALUES (1); ROLLBACK",
                        "BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT",
                        "SELECT count(*) FROM t",
                    ],
                    dies,
                );
                rows += 3;
                let about = format!("{mode}, {synchronous}: {said}");
                assert!(dies || said.contains("batches: 1"), "{about}");
                let db = open_with(&path, "strategy=maw&atomic=log").unwrap();
                assert_eq!((count(&db), integrity(&db).as_str()), (rows, "ok"), "{about}");
            }
        }
    }
}
