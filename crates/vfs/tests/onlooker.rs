//! Connections with `eager` that only read: a dashboard, `sqlite3 -readonly`, `mode=ro`, a user who
//! may only read the files.
//!
//! The case: Datasette was the first to open a database of a service that uses `eager`. It got
//! "unable to open database file", because a connection that may not write could not mark the
//! database as in use.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{commits, crash, files, open_stock, open_with, side, take_said};
use rusqlite::Connection;
use tempfile::TempDir;

const NOBODY: u32 = 65534;

fn read_only(path: &Path) -> rusqlite::Result<Connection> {
    open_with(path, "strategy=eager&mode=ro")
}

fn look(path: &Path) -> Result<i64, String> {
    read_only(path).map_err(|error| error.to_string()).and_then(|db| commits::check(&db))
}

fn scratch(count: usize) -> (TempDir, PathBuf) {
    common::setup();
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("a.db");
    let db = open_stock(&path);
    db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    commits::create(&db);
    commits::make(&db, count);
    drop(db);
    (dir, path)
}

#[test]
fn a_reader_may_be_the_first_and_a_writer_that_comes_is_told_who_is_in_the_way() {
    let (_dir, path) = scratch(3);
    let reader = read_only(&path).unwrap();
    assert_eq!(commits::check(&reader), Ok(3));
    let said = take_said(&path);
    assert!(said.contains("for reading only, so strategy eager is not in force"), "{said}");
    assert_eq!(look(&path), Ok(3));
    assert_eq!(take_said(&path), "", "it is said once");

    // SQLite alone writes beside it, and the connection reads that.
    let alone = open_stock(&path);
    commits::make(&alone, 1);
    assert_eq!(commits::check(&reader), Ok(4));
    drop(alone);

    let refused = open_with(&path, "strategy=eager").map(|db| commits::check(&db));
    assert!(matches!(refused, Err(_) | Ok(Err(_))));
    let said = take_said(&path);
    assert!(said.contains("open elsewhere with SQLite's own WAL"), "{said}");
    assert_eq!(commits::check(&reader), Ok(4));
    drop(reader);
    let writer = open_with(&path, "strategy=eager").unwrap();
    commits::make(&writer, 1);
    assert_eq!(look(&path), Ok(5));
    drop(writer);
    assert_eq!((files(&path), commits::check(&open_stock(&path))), (vec![String::new()], Ok(5)));
}

#[test]
fn a_reader_of_a_rollback_mode_sees_what_a_writer_makes_of_it() {
    let (_dir, path) = scratch(3);
    open_stock(&path).query_row("PRAGMA journal_mode=delete", [], |_| Ok(())).unwrap();
    let reader = read_only(&path).unwrap();
    assert_eq!(commits::check(&reader), Ok(3));
    let writer = open_with(&path, "strategy=eager").unwrap();
    writer.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    commits::make(&writer, 2);
    // The guard is set, and the image has what the reader sees.
    assert!(files(&path).contains(&"-oneflush".to_owned()));
    assert_eq!(commits::check(&reader), Ok(5));
    commits::make(&writer, 1);
    assert_eq!(commits::check(&reader), Ok(6));
    drop((reader, writer));
    assert_eq!((files(&path), commits::check(&open_stock(&path))), (vec![String::new()], Ok(6)));
}

#[test]
fn a_reader_beside_a_writer_reads_its_commits_and_leaves_a_plain_file_if_it_is_the_last() {
    let (_dir, path) = scratch(0);
    let writer = open_with(&path, "strategy=eager").unwrap();
    commits::make(&writer, 3);
    let reader = read_only(&path).unwrap();
    assert_eq!(commits::check(&reader), Ok(3));
    commits::make(&writer, 2);
    assert_eq!(commits::check(&reader), Ok(5));
    drop(writer);
    assert_eq!(commits::check(&reader), Ok(5));
    let again = open_with(&path, "strategy=eager").unwrap();
    commits::make(&again, 1);
    assert_eq!(commits::check(&reader), Ok(6));
    drop(again);
    drop(reader);
    assert_eq!((files(&path), commits::check(&open_stock(&path))), (vec![String::new()], Ok(6)));
}

#[test]
fn a_reader_that_comes_first_after_a_crash_recovers_where_it_may() {
    let (_dir, path) = scratch(0);
    let writer = open_with(&path, "strategy=eager").unwrap();
    commits::make(&writer, 4);
    for left in [&["-oneflush"][..], &["-oneflush", "-oneflush-wal", "-oneflush-shm"]] {
        let crashed = crash(&path, left);
        assert_eq!(look(&crashed), Ok(4), "{left:?}: {}", take_said(&crashed));
        assert_eq!(commits::check(&open_stock(&crashed)), Ok(4));
    }
}

/// This program again, as a user who may only read. `ONEFLUSH_TEST_READS` names the database.
#[test]
fn reads_as_another_user() {
    let Ok(path) = std::env::var("ONEFLUSH_TEST_READS") else { return };
    let path = Path::new(&path);
    common::setup();
    for parameters in ["strategy=eager&mode=ro", "strategy=eager"] {
        let found = open_with(path, parameters)
            .map_err(|error| error.to_string())
            .and_then(|db| commits::check(&db));
        println!("answer: {found:?} {}", take_said(path).replace('\n', "; "));
    }
}

fn as_nobody(dir: &Path, path: &Path) -> Vec<String> {
    let program = dir.join("program");
    if !program.exists() {
        oneflush_testing::copy_program(&program);
    }
    let mut command = Command::new(program);
    command
        .args(["--exact", "reads_as_another_user", "--nocapture"])
        .env("ONEFLUSH_TEST_READS", path);
    let output = command.current_dir("/").uid(NOBODY).gid(NOBODY).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let answers = said
        .lines()
        .filter_map(|line| line.split_once("answer: "))
        .map(|(_, answer)| answer.to_owned());
    answers.collect()
}

#[test]
fn a_user_who_may_only_read_reads_beside_a_writer_and_is_told_the_way_out_after_a_crash() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can act for another user");
        return;
    }
    let (dir, path) = scratch(0);
    let writer = open_with(&path, "strategy=eager").unwrap();
    commits::make(&writer, 4);
    for answer in as_nobody(dir.path(), &path) {
        assert!(answer.starts_with("Ok(4)"), "{answer}");
    }
    let crashed = crash(&path, &["-oneflush", "-oneflush-wal", "-oneflush-shm"]);
    let before: Vec<Vec<u8>> =
        ["", "-oneflush"].map(|suffix| fs::read(side(&crashed, suffix)).unwrap()).into();
    let answers = as_nobody(dir.path(), &crashed);
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert!(answer.starts_with("Err(") && answer.contains("`oneflush recover`"), "{answer}");
    }
    let after: Vec<Vec<u8>> =
        ["", "-oneflush"].map(|suffix| fs::read(side(&crashed, suffix)).unwrap()).into();
    assert!(before == after);
    assert_eq!(commits::check(&open_with(&crashed, "strategy=eager").unwrap()), Ok(4));
}
