//! What holds of every log where the disk is full, files may not grow, or nothing may be written.
//!
//! Each case runs in this program again, with mounts or limits of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use oneflush_testing::{has_programs, named, skip};
use rusqlite::{Connection, ErrorCode};

use crate::common::{self, LOGGED, Logged, commits, crash, files, integrity, scratch};

/// `case|database|strategy`.
const CASE: &str = "ONEFLUSH_TEST_CASE";

#[test]
fn runs_a_case() {
    let Ok(case) = std::env::var(CASE) else { return };
    let words: Vec<&str> = case.split('|').collect();
    let [case, path, strategy] = words[..] else { panic!("{case}") };
    let (path, logged) = (Path::new(path), LOGGED.iter().find(|log| log.strategy == strategy));
    common::setup();
    match case {
        "full" => fills_the_disk(path, logged.unwrap()),
        "limit" => grows_to_the_limit(path, logged.unwrap()),
        "read-only" => reads_only(path, logged.unwrap()),
        _ => panic!("{case}"),
    }
    println!("done");
}

/// Runs this program by a shell, after `preparation`.
fn run(preparation: &str, case: &str, path: &Path, strategy: &str) {
    let program = std::env::current_exe().unwrap();
    let (program, test) = (program.display(), named!(runs_a_case));
    let script = format!("{preparation} exec '{program}' --exact {test} --nocapture");
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env(CASE, format!("{case}|{}|{strategy}", path.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("done"),
        "{case}, {strategy}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn may_mount() -> bool {
    let may = Command::new("unshare").args(["--mount", "true"]).status();
    let may = has_programs(&["unshare"]) && may.is_ok_and(|status| status.success());
    if !may {
        skip("a mount needs root");
    }
    may
}

/// Commits until there is no room. Answers how many were acknowledged.
fn fill(db: &Connection) -> i64 {
    db.execute_batch("CREATE TABLE IF NOT EXISTS big(v)").unwrap();
    let mut rows = 0;
    loop {
        match db.execute("INSERT INTO big VALUES (randomblob(20000))", []) {
            Ok(_) => rows += 1,
            Err(error) => {
                // SQLite's own write of a file over the limit is an I/O error.
                let expected = [ErrorCode::DiskFull, ErrorCode::SystemIoFailure];
                assert!(error.sqlite_error_code().is_some_and(|code| expected.contains(&code)));
                return rows;
            }
        }
        assert!(rows < 10_000, "the disk is not full");
    }
}

fn rows(db: &Connection) -> i64 {
    common::number(db, "SELECT count(*) FROM big")
}

/// What database and log may fill.
const ROOM_MIB: usize = 4;

/// What was acknowledged stays, an error says why no more is, and with room it goes on.
///
/// The room that is made is for the checkpoint as well, which writes as much as the log has. It
/// once was 2 MiB. A checkpoint that began a moment late filled them with a part of its pages, and
/// the next commit found a full disk again. SQLite alone does the same.
fn fills_the_disk(path: &Path, logged: &Logged) {
    let ballast = path.with_file_name("ballast");
    fs::write(&ballast, vec![7; (2 * ROOM_MIB) << 20]).unwrap();
    let db = logged.create(path, "");
    commits::make(&db, 3);
    let acknowledged = fill(&db);
    assert!(acknowledged > 0);
    assert_eq!((rows(&db), integrity(&db).as_str()), (acknowledged, "ok"));
    fs::remove_file(&ballast).unwrap();
    commits::make(&db, 2);
    db.execute_batch("DELETE FROM big WHERE rowid > 1").unwrap();
    drop(db);
    // The close may have had no room for its checkpoint. Then the log stays.
    let again = logged.joined(path);
    assert_eq!((rows(&again), commits::check(&again)), (1, Ok(5)));
}

/// A limit of the process (`ulimit -f`) is as a full disk.
fn grows_to_the_limit(path: &Path, logged: &Logged) {
    let db = logged.create(path, "");
    commits::make(&db, 3);
    let acknowledged = fill(&db);
    assert_eq!((rows(&db), integrity(&db).as_str()), (acknowledged, "ok"));
}

fn reads_only(path: &Path, logged: &Logged) {
    for opened in [logged.open(path), logged.read_only(path)] {
        let found = opened.map_err(|error| error.to_string()).and_then(|db| commits::check(&db));
        match found {
            Ok(commits) => assert_eq!(commits, 3),
            Err(error) => assert!(
                ["unable to open database file", "attempt to write a readonly database"]
                    .iter()
                    .any(|words| error.starts_with(words)),
                "{error}"
            ),
        }
    }
}

#[test]
fn a_full_disk_loses_nothing_and_with_room_it_goes_on() {
    if !may_mount() {
        return;
    }
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let place = path.parent().unwrap().display();
        let mount = format!("mount -t tmpfs -o size={}m none '{place}' &&", 3 * ROOM_MIB);
        run(&mount, "full", &path, logged.strategy);
    }
}

#[test]
fn a_limit_of_file_sizes_loses_nothing() {
    if !may_mount() {
        return;
    }
    for logged in LOGGED {
        let (_dir, path) = scratch();
        // Units of 512 bytes: 2 MiB. Without the trap the signal ends the process.
        run("trap '' XFSZ; ulimit -f 4096;", "limit", &path, logged.strategy);
        // Without the limit everything is there.
        let db = logged.joined(&path);
        assert!(rows(&db) > 0);
        assert_eq!((commits::check(&db), integrity(&db).as_str()), (Ok(3), "ok"));
        drop(db);
        assert_eq!(files(&path), [""]);
    }
}

/// What a crash has left cannot be recovered there. It is refused, or read as it is, and stays.
#[test]
fn a_read_only_place_shows_what_is_there_or_refuses_it() {
    if !may_mount() {
        return;
    }
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "");
        commits::make(&db, 3);
        let path = crash(&path, logged.log);
        drop(db);
        let place = path.parent().unwrap().display();
        let mount =
            format!("mount --bind '{place}' '{place}' && mount -o remount,bind,ro '{place}' &&");
        run(&mount, "read-only", &path, logged.strategy);
        assert_eq!(commits::check(&logged.joined(&path)), Ok(3));
    }
}
