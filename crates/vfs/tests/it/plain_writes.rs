//! What `plain` writes to the WAL, call by call, with real SQLite on real files.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::recorder;

fn open(path: &Path, parameters: &str) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=oneflush&strategy=plain{parameters}", path.display());
    let db = Connection::open_with_flags(uri, flags).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full; CREATE TABLE t(v)")
        .unwrap();
    db
}

fn opened() -> (TempDir, PathBuf, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let db = open(&path, "");
    (dir, path, db)
}

fn insert(db: &Connection, rows: u32) {
    let mut statement = db.prepare("INSERT INTO t VALUES (randomblob(100))").unwrap();
    for _ in 0..rows {
        statement.execute([]).unwrap();
    }
}

/// The database and its WAL as they are, opened by SQLite alone.
fn rows_after_a_crash(path: &Path) -> u32 {
    let copy = path.with_extension("copy");
    let side = |path: &Path| format!("{}-wal", path.display());
    std::fs::copy(path, &copy).unwrap();
    std::fs::copy(side(path), side(&copy)).unwrap();
    let db = Connection::open_with_flags_and_vfs(&copy, OpenFlags::default(), "unix").unwrap();
    assert_eq!(
        db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap(),
        "ok"
    );
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// The lengths of the writes among the calls.
fn writes(calls: &[String]) -> Vec<usize> {
    let write =
        |call: &String| call.strip_prefix("xWrite ")?.split([' ', '@']).nth(1)?.parse().ok();
    calls.iter().filter_map(write).collect()
}

#[test]
fn a_commit_of_one_page_is_one_write_and_one_sync() {
    let _guard = recorder::begin();
    let (_dir, path, db) = opened();
    insert(&db, 3);
    recorder::take();
    insert(&db, 5);
    let calls = recorder::take();
    assert_eq!(writes(&calls), [4120; 5], "{calls:?}");
    assert_eq!(calls.iter().filter(|call| call.starts_with("xSync")).count(), 5);
    assert_eq!(rows_after_a_crash(&path), 8);
}

/// SQLite writes the pages again, and then the headers of all frames behind the first of them.
#[test]
fn a_transaction_that_writes_pages_twice_is_all_there() {
    let _guard = recorder::begin();
    let (_dir, path, db) = opened();
    db.execute_batch("PRAGMA cache_size=5; CREATE INDEX i ON t(v)").unwrap();
    recorder::take();
    db.execute_batch("BEGIN").unwrap();
    insert(&db, 600);
    db.execute_batch("COMMIT").unwrap();
    let lengths = writes(&recorder::take());
    for length in [24, 4096, 4120] {
        assert!(
            lengths.iter().filter(|&&written| written == length).count() > 20,
            "{length}: {lengths:?}"
        );
    }
    assert_eq!(rows_after_a_crash(&path), 600);
}

/// Without powersafe overwrite SQLite fills the sector with frames. It syncs where the sector ends,
/// in the middle of a frame.
#[test]
fn a_sync_in_the_middle_of_a_frame_finds_what_was_written_before_it() {
    let _guard = recorder::begin();
    let dir = tempfile::tempdir().unwrap();
    for page_bytes in [512, 4096] {
        let path = dir.path().join(format!("{page_bytes}.db"));
        let stock =
            Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), "unix").unwrap();
        stock.execute_batch(&format!("PRAGMA page_size={page_bytes}; CREATE TABLE s(v)")).unwrap();
        drop(stock);
        let db = open(&path, "&psow=0");
        for rows in 1..60 {
            recorder::take();
            insert(&db, 1);
            let lengths = writes(&recorder::take());
            assert!(lengths.len() > 1, "{lengths:?}");
            assert_eq!(rows_after_a_crash(&path), rows, "{page_bytes}");
        }
    }
}
