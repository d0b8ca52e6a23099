//! Strategy `maw` in the rollback modes, with real SQLite on real files. A crash is a copy of the
//! files at that moment.

mod common;

use std::path::Path;
use std::time::Duration;

use common::{
    count, crash, files, insert, integrity, number, open_stock, open_with, scratch, side, stats,
};
use rusqlite::Connection;

const MODES: [&str; 3] = ["delete", "truncate", "persist"];

fn open_in(path: &Path, mode: &str, parameters: &str) -> Connection {
    let db = open_with(path, &format!("strategy=maw&atomic=log&{parameters}")).unwrap();
    db.busy_timeout(Duration::from_secs(5)).unwrap();
    db.execute_batch(&format!(
        "PRAGMA journal_mode={mode}; PRAGMA synchronous=full; CREATE TABLE IF NOT EXISTS t(v)"
    ))
    .unwrap();
    db
}

fn open(path: &Path) -> Connection {
    open_in(path, "delete", "")
}

fn counted(db: &Connection, what: &str) -> u64 {
    stats(db)["maw"][what].as_u64().unwrap_or_else(|| panic!("{what}: {}", stats(db)))
}

fn logged(db: &Connection, what: &str) -> u64 {
    stats(db)["maw"]["log"][what].as_u64().unwrap_or_else(|| panic!("{what}: {}", stats(db)))
}

#[test]
fn a_commit_is_one_record_and_the_last_close_leaves_one_plain_file() {
    for mode in MODES {
        for page_size in [512, 1024, 4096, 65_536] {
            let (_dir, path) = scratch();
            let db = open_with(&path, "strategy=maw&atomic=log").unwrap();
            db.execute_batch(&format!("PRAGMA page_size={page_size}")).unwrap();
            db.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(v)")).unwrap();
            for rows in [1, 20, 300] {
                insert(&db, rows);
            }
            assert_eq!(counted(&db, "atomic"), 321, "{mode}, {page_size}");
            assert_eq!(logged(&db, "records") - 1, 321, "one of page 1, one a commit");
            // The first transaction of a new database is SQLite's own, and so is its journal.
            let journal = side(&path, "-journal");
            assert_eq!(journal.exists(), mode != "delete");
            let _ = std::fs::remove_file(journal);
            assert_eq!(files(&path), ["", "-maw", "-oneflush-shm"]);
            let again = open_in(&crash(&path, &["-maw"]), mode, "");
            assert_eq!((count(&again), integrity(&again).as_str()), (321, "ok"));
            let refused = open_stock(&path).query_row("SELECT * FROM t", [], |_| Ok(()));
            assert!(refused.unwrap_err().to_string().contains("not a database"));
            drop(db);
            assert_eq!(files(&path), [""], "{mode}, {page_size}");
            let stock = open_stock(&path);
            assert_eq!((count(&stock), integrity(&stock).as_str()), (321, "ok"));
        }
    }
}

/// The file as it was before the first commit: nothing that was written in place has reached the
/// device.
#[test]
fn nothing_of_the_database_file_needs_to_have_reached_the_device() {
    for page_size in [512, 4096, 16_384] {
        let (_dir, path) = scratch();
        let db = open_with(&path, "strategy=maw&atomic=log").unwrap();
        db.execute_batch(&format!("PRAGMA page_size={page_size}; CREATE TABLE t(v)")).unwrap();
        insert(&db, 1);
        let before = std::fs::read(&path).unwrap();
        insert(&db, 200);
        db.execute_batch("UPDATE t SET v = v || 'x'; DELETE FROM t WHERE rowid % 3 = 0").unwrap();
        let expected = count(&db);
        let copy = crash(&path, &["-maw"]);
        std::fs::write(&copy, &before).unwrap();
        let again = open(&copy);
        assert_eq!((count(&again), integrity(&again).as_str()), (expected, "ok"));
        // Torn in page 1, where the guard is.
        let copy = crash(&path, &["-maw"]);
        let mut torn = before.clone();
        torn[16..100].fill(0x5a);
        std::fs::write(&copy, &torn).unwrap();
        let again = open(&copy);
        assert_eq!((count(&again), integrity(&again).as_str()), (expected, "ok"));
    }
}

/// A crash has torn page 1 while it was written. Beside the database is a journal that SQLite has
/// finished. Or the file has grown before its commit, by pages with anything in them.
#[test]
fn a_torn_page_one_is_mended_whatever_lies_beside_it_and_behind_it() {
    for mode in MODES {
        for grown_bytes in [0, 64 * 512] {
            let (_dir, path) = scratch();
            let db = open_with(&path, "strategy=maw&atomic=log").unwrap();
            db.execute_batch(&format!("PRAGMA page_size=512; PRAGMA journal_mode={mode}")).unwrap();
            db.execute_batch("CREATE TABLE t(v)").unwrap();
            insert(&db, 60);
            let copy = crash(&path, &["-maw"]);
            std::fs::write(side(&copy, "-journal"), [0; 1024]).unwrap();
            let mut torn = std::fs::read(&copy).unwrap();
            torn[..512].fill(0x5a);
            torn.resize(torn.len() + grown_bytes, 0xa5);
            std::fs::write(&copy, &torn).unwrap();
            let again = open_in(&copy, mode, "");
            assert_eq!((count(&again), integrity(&again).as_str()), (60, "ok"), "{mode}");
        }
    }
}

#[test]
fn a_rollback_commits_nothing_and_leaves_no_trace() {
    for mode in MODES {
        let (_dir, path) = scratch();
        let db = open_in(&path, mode, "");
        insert(&db, 50);
        let records = logged(&db, "records");
        for spills in [false, true] {
            let cache = if spills { 5 } else { 2000 };
            db.execute_batch(&format!("PRAGMA cache_size={cache}")).unwrap();
            db.execute_batch(
                "BEGIN; INSERT INTO t SELECT randomblob(3000) FROM t; UPDATE t SET v='gone'; ROLLBACK",
            )
            .unwrap();
            assert_eq!((count(&db), integrity(&db).as_str()), (50, "ok"), "{mode}, {spills}");
            db.execute_batch(
                "BEGIN; INSERT INTO t VALUES('kept'); SAVEPOINT s; UPDATE t SET v=randomblob(2000);
                 ROLLBACK TO s; DELETE FROM t WHERE v='kept'; COMMIT",
            )
            .unwrap();
            assert_eq!((count(&db), integrity(&db).as_str()), (50, "ok"), "{mode}, {spills}");
        }
        assert_eq!(logged(&db, "records"), records + 2, "{mode}: one for each commit");
    }
}

#[test]
fn what_spills_can_be_read_by_its_own_connection_only() {
    let (_dir, path) = scratch();
    let db = open(&path);
    insert(&db, 20);
    db.execute_batch(
        "PRAGMA cache_size=5; BEGIN; INSERT INTO t SELECT randomblob(3000) FROM t, t AS u",
    )
    .unwrap();
    assert_eq!(count(&db), 420);
    let outside = std::fs::read(&path).unwrap();
    assert_eq!(number(&db, "SELECT count(*) FROM t WHERE length(v) = 3000"), 400);
    assert_eq!(std::fs::read(&path).unwrap(), outside, "nothing is in place before the commit");
    db.execute_batch("COMMIT").unwrap();
    assert_eq!((count(&db), integrity(&db).as_str()), (420, "ok"));
}

#[test]
fn a_large_transaction_goes_on_as_an_ordinary_journaled_one() {
    for mode in MODES {
        let (_dir, path) = scratch();
        let db = open_in(&path, mode, "");
        insert(&db, 10);
        db.execute_batch("PRAGMA cache_size=5; BEGIN").unwrap();
        db.execute_batch(
            "INSERT INTO t SELECT randomblob(4000) FROM (WITH RECURSIVE n(i) AS \
             (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 6000) SELECT * FROM n)",
        )
        .unwrap();
        // A hot journal now, as of SQLite alone.
        let copy = crash(&path, &["-journal"]);
        assert_eq!((count(&open_stock(&copy)), integrity(&open_stock(&copy)).as_str()), (10, "ok"));
        db.execute_batch("COMMIT").unwrap();
        assert_eq!((count(&db), counted(&db, "ordinary")), (6010, 2), "{mode}");
        insert(&db, 10);
        assert_eq!((count(&db), integrity(&db).as_str()), (6020, "ok"));
        let again = open(&crash(&path, &["-maw"]));
        assert_eq!((count(&again), integrity(&again).as_str()), (6020, "ok"));
    }
}

#[test]
fn every_level_of_synchronous_and_every_journal_mode_works() {
    for mode in ["delete", "truncate", "persist", "memory", "off", "wal"] {
        for synchronous in ["off", "normal", "full", "extra"] {
            for locking in ["normal", "exclusive"] {
                let (_dir, path) = scratch();
                let db = open_in(&path, "delete", "");
                db.execute_batch(&format!(
                    "PRAGMA locking_mode={locking}; PRAGMA journal_mode={mode};
                     PRAGMA synchronous={synchronous}"
                ))
                .unwrap();
                insert(&db, 5);
                db.execute_batch(
                    "BEGIN; INSERT INTO t VALUES(1); SAVEPOINT s; INSERT INTO t VALUES(2)",
                )
                .unwrap();
                if mode != "off" {
                    db.execute_batch("ROLLBACK TO s; RELEASE s; COMMIT; DELETE FROM t WHERE v=1")
                        .unwrap();
                } else {
                    db.execute_batch("COMMIT; DELETE FROM t WHERE v IN (1, 2)").unwrap();
                }
                db.execute_batch("VACUUM").unwrap();
                let of = format!("{mode}, {synchronous}, {locking}");
                assert_eq!((count(&db), integrity(&db).as_str()), (5, "ok"), "{of}");
                drop(db);
                let stock = open_stock(&path);
                assert_eq!((count(&stock), integrity(&stock).as_str()), (5, "ok"), "{of}");
            }
        }
    }
}

#[test]
fn a_change_of_the_page_size_and_auto_vacuum_work() {
    let (_dir, path) = scratch();
    let db = open(&path);
    insert(&db, 300);
    for page_size in [512, 8192, 1024] {
        db.execute_batch(&format!("PRAGMA page_size={page_size}; VACUUM")).unwrap();
        insert(&db, 1);
        assert_eq!(number(&db, "PRAGMA page_size"), page_size);
        let again = open(&crash(&path, &["-maw"]));
        assert_eq!((count(&again), integrity(&again).as_str()), (count(&db), "ok"));
    }
    for vacuum in ["full", "incremental"] {
        db.execute_batch(&format!("PRAGMA auto_vacuum={vacuum}; VACUUM")).unwrap();
        db.execute_batch("INSERT INTO t SELECT randomblob(500) FROM t").unwrap();
        let large = std::fs::metadata(&path).unwrap().len();
        db.execute_batch("DELETE FROM t WHERE rowid % 2; PRAGMA incremental_vacuum").unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < large);
        assert_eq!(integrity(&db), "ok");
        let again = open(&crash(&path, &["-maw"]));
        assert_eq!((count(&again), integrity(&again).as_str()), (count(&db), "ok"));
    }
}

#[test]
fn connections_of_one_process_see_each_others_commits() {
    let (_dir, path) = scratch();
    let (one, two) = (open(&path), open_in(&path, "persist", ""));
    for _ in 0..20 {
        insert(&one, 1);
        insert(&two, 1);
        assert_eq!(count(&one), count(&two));
    }
    // A reader keeps the writer from its commit, as with SQLite alone.
    one.busy_timeout(Duration::ZERO).unwrap();
    let mut statement = two.prepare("SELECT v FROM t").unwrap();
    let mut rows = statement.query([]).unwrap();
    rows.next().unwrap().unwrap();
    assert!(one.execute("INSERT INTO t VALUES(1)", []).unwrap_err().to_string().contains("locked"));
    drop(rows);
    drop(statement);
    assert_eq!(one.execute("INSERT INTO t VALUES(1)", []).unwrap(), 1);
    assert_eq!(count(&two), 41);
    drop(one);
    assert_eq!(files(&path), ["", "-maw", "-oneflush-shm"]);
    drop(two);
    assert_eq!(files(&path), [""]);
}

#[test]
fn a_hot_journal_of_an_earlier_life_is_rolled_back() {
    let (_dir, path) = scratch();
    let stock = open_stock(&path);
    stock.execute_batch("CREATE TABLE t(v); PRAGMA cache_size=5").unwrap();
    insert(&stock, 10);
    stock.execute_batch("BEGIN; INSERT INTO t SELECT randomblob(4000) FROM t, t AS u").unwrap();
    let copy = crash(&path, &["-journal"]);
    assert_eq!(files(&copy), ["", "-journal"]);
    let db = open(&copy);
    assert_eq!((count(&db), integrity(&db).as_str()), (10, "ok"));
    insert(&db, 1);
    assert_eq!(files(&copy), ["", "-maw", "-oneflush-shm"]);
}

#[test]
fn several_databases_commit_together() {
    let (_dir, path) = scratch();
    let (_dir_two, two) = scratch();
    let db = open(&path);
    drop(open(&two));
    db.execute_batch(&format!("ATTACH 'file:{}?strategy=maw&atomic=log' AS two", two.display()))
        .unwrap();
    for _ in 0..10 {
        db.execute_batch("BEGIN; INSERT INTO t VALUES(1); INSERT INTO two.t VALUES(2); COMMIT")
            .unwrap();
    }
    db.execute_batch("BEGIN; INSERT INTO t VALUES(1); INSERT INTO two.t VALUES(2); ROLLBACK")
        .unwrap();
    assert_eq!(number(&db, "SELECT count(*) FROM two.t"), 10);
    assert_eq!(count(&db), 10);
    drop(db);
    assert_eq!(count(&open_stock(&two)), 10);
    assert_eq!((files(&path), files(&two)), (vec![String::new()], vec![String::new()]));
}
