//! Starts that one may doubt: files that do not belong together. Each is as with SQLite alone, or
//! better, and is told where SQLite says nothing.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;

use crate::common::{open_stock, open_with, scratch, take_said};

/// What a connection finds: the rows, or why there are none.
fn found(db: &Connection) -> String {
    let rows = db.query_row("SELECT count(*), total(n) FROM t", [], |row| {
        Ok(format!("{} rows, {}", row.get::<_, i64>(0)?, row.get::<_, f64>(1)?))
    });
    rows.unwrap_or_else(|error| error.sqlite_error().map_or(0, |e| e.extended_code).to_string())
}

/// A start: the files that lie there, by what follows the database's name.
type Files = Vec<(&'static str, Vec<u8>)>;

fn put(files: &Files) -> (TempDir, PathBuf) {
    let (dir, path) = scratch();
    for (end, bytes) in files {
        fs::write(format!("{}{end}", path.display()), bytes).unwrap();
    }
    (dir, path)
}

/// What SQLite alone finds, and what `plain` finds, says and leaves.
fn both(files: &Files) -> (String, String, String, TempDir) {
    let (_stock_dir, stock) = put(files);
    let alone = found(&open_stock(&stock));
    let (dir, path) = put(files);
    take_said(&path);
    let ours = open_with(&path, "strategy=plain").map_or_else(|e| e.to_string(), |db| found(&db));
    let said = take_said(&path);
    (alone, ours, said, dir)
}

fn read(path: &Path, end: &str) -> Vec<u8> {
    fs::read(format!("{}{end}", path.display())).unwrap()
}

/// A database in WAL mode, as it lies there while it is open: file and WAL. Each transaction but
/// the first adds one row and a table, so page 1 changes.
fn live(dir: &Path, name: &str, copied: usize, in_wal: usize) -> (Vec<u8>, Vec<u8>) {
    let path = dir.join(name);
    let db = open_stock(&path);
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(n)")
        .unwrap();
    // Another connection comes each time: SQLite counts changes from what it reads.
    let add = |n: usize| {
        let sql = format!("BEGIN; INSERT INTO t VALUES({n}); CREATE TABLE t{n}(x); COMMIT");
        open_stock(&path).execute_batch(&sql).unwrap();
    };
    (0..copied).for_each(add);
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    (copied..copied + in_wal).for_each(add);
    (read(&path, ""), read(&path, "-wal"))
}

#[test]
fn a_wal_of_another_time_is_taken_as_sqlite_takes_it_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (file, wal) = live(dir.path(), "a.db", 3, 2);
    let (older, _) = live(dir.path(), "b.db", 1, 0);
    let (newer, _) = live(dir.path(), "c.db", 9, 0);
    for (database, is_doubtful) in [(file, false), (older, true), (newer, true)] {
        let (alone, ours, said, _dir) = both(&vec![("", database), ("-wal", wal.clone())]);
        assert_eq!(alone, ours);
        assert_eq!(said.contains("the WAL beside it is of another time"), is_doubtful, "{said}");
    }
}

#[test]
fn the_wal_of_an_empty_file_is_saved_where_sqlite_deletes_it() {
    let dir = tempfile::tempdir().unwrap();
    let (file, wal) = live(dir.path(), "a.db", 1, 2);
    let (alone, ours, said, here) = both(&vec![("", Vec::new()), ("-wal", wal.clone())]);
    assert_eq!(alone, ours);
    assert!(said.contains("an empty file beside a WAL with commits"), "{said}");
    let orphan = here.path().join("a.db-orphan-0");
    assert_eq!(read(&orphan, "-wal"), wal);
    fs::write(&orphan, file).unwrap();
    assert_eq!(found(&open_stock(&orphan)), "3 rows, 3", "the database is put back");
    // A new database begins with an empty file, and has no WAL.
    let (alone, ours, said, _here) = both(&vec![("", Vec::new())]);
    assert_eq!((alone, said.as_str()), (ours, ""));
    // Nor is a folder one, which SQLite cannot delete.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    fs::create_dir(dir.path().join("a.db-wal")).unwrap();
    let db = open_with(&path, "strategy=plain").unwrap();
    let refused = db.execute_batch("SELECT * FROM sqlite_schema").unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::SystemIoFailure));
    assert!(dir.path().join("a.db-wal").is_dir());
}

/// A database in a rollback mode in the middle of a transaction: file and hot journal.
fn hot(dir: &Path) -> (Vec<u8>, Vec<u8>) {
    let path = dir.join("hot.db");
    let db = open_stock(&path);
    db.execute_batch(
        "PRAGMA cache_size=1; CREATE TABLE t(n, filler); INSERT INTO t VALUES(1, 'one');
         BEGIN;
         WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n LIMIT 50)
         INSERT INTO t SELECT i, randomblob(2000) FROM n; UPDATE t SET n = n + 1",
    )
    .unwrap();
    (read(&path, ""), read(&path, "-journal"))
}

#[test]
fn a_hot_journal_is_rolled_back_and_a_wal_beside_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (file, journal) = hot(dir.path());
    let (_, wal) = live(dir.path(), "a.db", 1, 2);
    let mut files = vec![("", file), ("-journal", journal)];
    let (alone, ours, said, _dir) = both(&files);
    assert_eq!((alone.as_str(), ours.as_str()), ("1 rows, 1", "1 rows, 1"));
    assert!(!said.contains("rolls a journal back"), "{said}");
    files.push(("-wal", wal));
    let (alone, ours, said, _dir) = both(&files);
    assert_eq!(alone, ours);
    assert!(said.contains("SQLite rolls a journal back, and takes a WAL"), "{said}");
}

#[test]
fn a_file_shorter_than_its_header_says_is_the_error_that_sqlite_has() {
    const NO_DATABASE_OR_CORRUPT: [&str; 2] = ["11", "26"];
    let dir = tempfile::tempdir().unwrap();
    let (file, wal) = live(dir.path(), "a.db", 9, 0);
    let half = file[..file.len() / 2].to_vec();
    let (alone, ours, _, _dir) = both(&vec![("", half.clone())]);
    assert!(alone == ours && NO_DATABASE_OR_CORRUPT.contains(&alone.as_str()), "{alone}");
    // The WAL may have what is missing, and then nothing is wrong.
    let (alone, ours, _, _dir) = both(&vec![("", half), ("-wal", wal)]);
    assert_eq!(alone, ours);
}

/// Nobody has it mapped, so the first opener makes it anew.
#[test]
fn an_index_of_another_layout_is_made_anew_by_the_first_opener() {
    let dir = tempfile::tempdir().unwrap();
    let (file, wal) = live(dir.path(), "a.db", 2, 2);
    let noise: Vec<u8> = (0..32 << 10).map(|at| (at * 7 % 251) as u8).collect();
    for index in [noise, vec![0xff; 100], Vec::new()] {
        let files = vec![("", file.clone()), ("-wal", wal.clone()), ("-shm", index)];
        let (alone, ours, said, _dir) = both(&files);
        assert_eq!((alone.as_str(), ours.as_str(), said.as_str()), ("4 rows, 6", "4 rows, 6", ""));
    }
}
