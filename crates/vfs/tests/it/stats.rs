//! `PRAGMA oneflush_stats` and `PRAGMA oneflush_strategy` say what happened.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tempfile::TempDir;

fn open(path: &Path) -> Connection {
    oneflush_vfs::register().unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(
        format!("file:{}?vfs=oneflush&strategy=stock", path.display()),
        flags,
    )
    .unwrap()
}

fn database() -> (TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("a.db"));
    (dir, db)
}

fn stats(db: &Connection) -> Value {
    let json: String = db.query_row("PRAGMA oneflush_stats", [], |row| row.get(0)).unwrap();
    serde_json::from_str(&json).unwrap()
}

fn number(stats: &Value, pointer: &str) -> u64 {
    stats
        .pointer(pointer)
        .unwrap_or_else(|| panic!("{pointer} missing in {stats}"))
        .as_u64()
        .unwrap()
}

/// The commits that `work` makes, as recorded one by one.
fn commits_of(db: &Connection, work: &str) -> Vec<(u64, u64)> {
    let before = number(&stats(db), "/commits/count");
    db.execute_batch(work).unwrap();
    let after = stats(db);
    let count = (number(&after, "/commits/count") - before) as usize;
    let recent = after["commits"]["recent"].as_array().unwrap();
    recent[recent.len() - count..]
        .iter()
        .map(|c| (number(c, "/bytes"), number(c, "/syncs")))
        .collect()
}

const SETUP: &str = "CREATE TABLE t(v); INSERT INTO t VALUES ('one');";

#[test]
fn a_wal_commit_is_one_frame_a_page_and_one_sync() {
    let (_dir, db) = database();
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full;").unwrap();
    db.execute_batch(SETUP).unwrap();
    assert_eq!(commits_of(&db, "INSERT INTO t VALUES (1)"), [(4120, 1)]);
    assert_eq!(commits_of(&db, "PRAGMA synchronous=normal; INSERT INTO t VALUES (1)"), [(4120, 0)]);
}

#[test]
fn a_delete_commit_is_the_journal_and_the_pages() {
    let (_dir, db) = database();
    db.execute_batch("PRAGMA synchronous=full;").unwrap();
    db.execute_batch(SETUP).unwrap();
    // Journal: header 512, 2 records of 4096 + 8, the record count 12. Database: 2 pages. Syncs:
    // the journal twice, the database once.
    assert_eq!(commits_of(&db, "INSERT INTO t VALUES (1)"), [(512 + 2 * 4104 + 12 + 2 * 4096, 3)]);
}

#[test]
fn a_rollback_is_no_commit_and_costs_the_next_one_nothing() {
    let (_dir, db) = database();
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full; PRAGMA cache_size=2;")
        .unwrap();
    db.execute_batch(SETUP).unwrap();
    let work =
        "BEGIN; WITH RECURSIVE c(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 1000)
        INSERT INTO t SELECT printf('%.500c', 'x') FROM c; ROLLBACK; INSERT INTO t VALUES (2)";
    let commits = commits_of(&db, work);
    assert_eq!(commits.len(), 1);
    // The frames of the rolled-back transaction are in the WAL. The new transaction lies behind
    // them or over them.
    assert_eq!(commits[0].0 / 4120, 1, "{commits:?}");
}

#[test]
fn a_checkpoint_is_counted_for_the_files_and_for_no_commit() {
    let (_dir, db) = database();
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full;").unwrap();
    db.execute_batch(SETUP).unwrap();
    let before = stats(&db);
    assert_eq!(commits_of(&db, "PRAGMA wal_checkpoint(TRUNCATE)"), []);
    let after = stats(&db);
    assert!(number(&after, "/files/db/write_bytes") > number(&before, "/files/db/write_bytes"));
    assert!(number(&after, "/files/db/syncs") > number(&before, "/files/db/syncs"));
    assert_eq!(commits_of(&db, "INSERT INTO t VALUES (3)").len(), 1);
}

#[test]
fn an_empty_transaction_is_no_commit() {
    let (_dir, db) = database();
    db.execute_batch(SETUP).unwrap();
    assert_eq!(commits_of(&db, "BEGIN IMMEDIATE; COMMIT; SELECT * FROM t;"), []);
}

#[test]
fn an_explicit_transaction_is_one_commit_and_its_latency_leaves_out_the_time_before_commit() {
    let (_dir, db) = database();
    db.execute_batch("PRAGMA synchronous=full;").unwrap();
    db.execute_batch(SETUP).unwrap();
    db.execute_batch("BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2);").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let began = std::time::Instant::now();
    assert_eq!(commits_of(&db, "COMMIT").len(), 1);
    // A busy machine may take long for it.
    let took_ns = began.elapsed().as_nanos() as u64;
    let recent = stats(&db)["commits"]["recent"].as_array().unwrap().last().unwrap().clone();
    let latency_ns = number(&recent, "/latency_ns");
    assert!((1..took_ns).contains(&latency_ns), "{latency_ns} of {took_ns}");
}

#[test]
fn every_role_counts_what_went_to_its_file() {
    let (dir, db) = database();
    db.execute_batch("PRAGMA temp_store=file; PRAGMA cache_size=5; CREATE TABLE t(v);").unwrap();
    db.execute_batch(
        "WITH RECURSIVE c(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 20000)
         INSERT INTO t SELECT printf('%.200c', i) FROM c;
         CREATE TEMP TABLE sorted AS SELECT v FROM t ORDER BY random();",
    )
    .unwrap();
    let stats = stats(&db);
    assert!(number(&stats, "/files/temp/write_bytes") > 1_000_000, "{stats}");
    assert!(number(&stats, "/files/rollback_journal/opens") > 0);
    assert!(number(&stats, "/files/rollback_journal/deletes") > 0);
    assert_eq!(number(&stats, "/files/wal/opens"), 0);
    let size = std::fs::metadata(dir.path().join("a.db")).unwrap().len();
    assert!(number(&stats, "/files/db/write_bytes") >= size);
    let syncs = number(&stats, "/files/db/syncs");
    assert_eq!(number(&stats, "/files/db/sync_latency_ns/count"), syncs);
    assert!(number(&stats, "/files/db/sync_latency_ns/max") > 0);
}

#[test]
fn connections_and_threads_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let db = open(&path);
    db.execute_batch("PRAGMA journal_mode=wal;").unwrap();
    db.execute_batch(SETUP).unwrap();
    let before = number(&stats(&db), "/commits/count");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let db = open(&path);
                db.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
                for at in 0..25 {
                    db.execute("INSERT INTO t VALUES (?1)", [at]).unwrap();
                }
            });
        }
    });
    let after = stats(&db);
    assert_eq!(number(&after, "/commits/count") - before, 100);
    assert_eq!(number(&after, "/connections"), 1);
    assert_eq!(number(&after, "/files/db/opens"), 5);
}

#[test]
fn the_strategy_is_told_and_cannot_be_set() {
    let (_dir, db) = database();
    let strategy: String = db.query_row("PRAGMA oneflush_strategy", [], |row| row.get(0)).unwrap();
    assert_eq!(strategy, "stock");
    for (pragma, part) in [
        ("PRAGMA oneflush_strategy=plain", "only tells"),
        ("PRAGMA oneflush_stats=1", "takes no value"),
        ("PRAGMA oneflush_nonsense", "not known"),
    ] {
        let error = db.query_row(pragma, [], |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
