//! Strategy `maw` in the rollback modes, with real SQLite on real files. A crash is a copy of the
//! files at that moment.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::common::{
    self, count, crash, files, insert, integrity, number, open_stock, open_with, scratch, side,
    stats,
};

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

pub fn open(path: &Path) -> Connection {
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
                "BEGIN; INSERT INTO t SELECT randomblob(3000) FROM t; UPDATE t SET v='gone';
                 ROLLBACK",
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

/// A connection with this many databases, each with a table `t`.
pub fn open_several(dir: &Path, count: usize) -> (Connection, Vec<std::path::PathBuf>) {
    let paths: Vec<_> = (0..count).map(|at| dir.join(format!("{at}.db"))).collect();
    for path in &paths {
        if !path.exists() {
            drop(open(path));
        }
    }
    let db = open(&paths[0]);
    for (at, path) in paths.iter().enumerate().skip(1) {
        let uri = format!("file:{}?strategy=maw&atomic=log", path.display());
        db.execute_batch(&format!("ATTACH '{uri}' AS d{at}")).unwrap();
    }
    (db, paths)
}

/// One transaction that inserts a row into each.
pub fn insert_into_all(db: &Connection, count: usize, end: &str) -> rusqlite::Result<()> {
    let inserts: String =
        (1..count).map(|at| format!("INSERT INTO d{at}.t VALUES(randomblob(100));")).collect();
    db.execute_batch(&format!("BEGIN; INSERT INTO main.t VALUES(randomblob(100)); {inserts} {end}"))
}

pub fn counts(paths: &[std::path::PathBuf]) -> Vec<i64> {
    paths
        .iter()
        .map(|path| {
            let db = open(path);
            assert_eq!(integrity(&db), "ok");
            count(&db)
        })
        .collect()
}

/// All files as they are now, in another folder.
pub fn crash_all(dir: &Path, to: &Path, paths: &[std::path::PathBuf]) -> Vec<std::path::PathBuf> {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() && !entry.path().to_str().unwrap().ends_with("-shm")
        {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    paths.iter().map(|path| to.join(path.file_name().unwrap())).collect()
}

#[test]
fn several_databases_commit_by_one_record() {
    for of in [2, 5] {
        let dir = tempfile::tempdir().unwrap();
        let (db, paths) = open_several(dir.path(), of);
        for _ in 0..3 {
            insert_into_all(&db, of, "COMMIT").unwrap();
        }
        let records = || paths.iter().map(|path| std::fs::read(side(path, "-maw")).unwrap());
        let before: Vec<_> = records().collect();
        insert_into_all(&db, of, "COMMIT").unwrap();
        let changed = records().zip(&before).filter(|(now, before)| now != *before).count();
        assert_eq!(changed, 1, "one log gets one record");
        insert_into_all(&db, of, "ROLLBACK").unwrap();
        assert_eq!(counted(&db, "together"), 4);
        assert!(
            !std::fs::read_dir(dir.path())
                .unwrap()
                .any(|entry| { entry.unwrap().file_name().to_str().unwrap().contains("-mj") })
        );
        let copies = crash_all(dir.path(), &dir.path().join("crash"), &paths);
        assert_eq!(counts(&copies), vec![4; of]);
        // In the other order.
        let copies = crash_all(dir.path(), &dir.path().join("crash"), &paths);
        let backwards: Vec<_> = copies.iter().rev().cloned().collect();
        assert_eq!(counts(&backwards), vec![4; of]);
        drop(db);
        for path in &paths {
            assert_eq!(files(path), [""]);
            assert_eq!(count(&open_stock(path)), 4);
        }
    }
}

#[test]
fn databases_that_commit_together_commit_alone_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let (db, paths) = open_several(dir.path(), 3);
    let mut expected = [0; 3];
    let alone = |at: usize| {
        let name = if at == 0 { "main".to_owned() } else { format!("d{at}") };
        db.execute_batch(&format!("INSERT INTO {name}.t VALUES(randomblob(100))")).unwrap();
    };
    for round in 0..40_usize {
        match round % 5 {
            0 | 3 => {
                insert_into_all(&db, 3, "COMMIT").unwrap();
                expected.iter_mut().for_each(|rows| *rows += 1);
            }
            1 => {
                alone(round / 5 % 3);
                expected[round / 5 % 3] += 1;
            }
            2 => {
                db.execute_batch(
                    "BEGIN; INSERT INTO d1.t VALUES(1); INSERT INTO d2.t VALUES(1); COMMIT",
                )
                .unwrap();
                expected[1] += 1;
                expected[2] += 1;
            }
            _ => insert_into_all(&db, 3, "ROLLBACK").unwrap(),
        }
        let copies = crash_all(dir.path(), &dir.path().join("crash"), &paths);
        assert_eq!(counts(&copies), expected, "{round}");
    }
    // A second connection that has another database first.
    let two = open(&paths[2]);
    two.execute_batch(&format!(
        "ATTACH 'file:{}?strategy=maw&atomic=log' AS first",
        paths[0].display()
    ))
    .unwrap();
    for _ in 0..5 {
        two.execute_batch("BEGIN; INSERT INTO t VALUES(1); INSERT INTO first.t VALUES(1); COMMIT")
            .unwrap();
        insert_into_all(&db, 3, "COMMIT").unwrap();
        expected = [expected[0] + 2, expected[1] + 1, expected[2] + 2];
        let copies = crash_all(dir.path(), &dir.path().join("crash"), &paths);
        assert_eq!(counts(&copies), expected);
    }
    drop(db);
    drop(two);
    for path in &paths {
        assert_eq!(files(path), [""]);
    }
    assert_eq!(counts(&paths), expected);
}

#[test]
fn a_coordinator_can_be_detached_before_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let (db, paths) = open_several(dir.path(), 3);
    for _ in 0..3 {
        insert_into_all(&db, 3, "COMMIT").unwrap();
    }
    db.execute_batch("DETACH d2").unwrap();
    assert_eq!(files(&paths[2]), [""]);
    db.execute_batch("BEGIN; INSERT INTO t VALUES(1); INSERT INTO d1.t VALUES(1); COMMIT").unwrap();
    let copies = crash_all(dir.path(), &dir.path().join("crash"), &paths);
    assert_eq!(counts(&copies), [4, 4, 3]);
    drop(db);
    assert_eq!(counts(&paths), [4, 4, 3]);
}

#[test]
fn a_transaction_with_a_database_of_another_strategy_goes_by_files() {
    let dir = tempfile::tempdir().unwrap();
    let (db, paths) = open_several(dir.path(), 2);
    insert_into_all(&db, 2, "COMMIT").unwrap();
    let stock = dir.path().join("stock.db");
    open_stock(&stock).execute_batch("CREATE TABLE t(v)").unwrap();
    db.execute_batch(&format!("ATTACH 'file:{}?vfs=unix' AS stock", stock.display())).unwrap();
    for _ in 0..3 {
        db.execute_batch(
            "BEGIN; INSERT INTO t VALUES(1); INSERT INTO d1.t VALUES(1);
             INSERT INTO stock.t VALUES(1); COMMIT",
        )
        .unwrap();
        insert_into_all(&db, 2, "COMMIT").unwrap();
    }
    assert_eq!((counted(&db, "together"), counted(&db, "ordinary")), (4, 3));
    drop(db);
    assert_eq!(counts(&paths), [7, 7]);
    assert_eq!(count(&open_stock(&stock)), 3);
}

#[test]
fn a_database_whose_commits_are_in_a_missing_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (db, paths) = open_several(dir.path(), 2);
    for _ in 0..3 {
        insert_into_all(&db, 2, "COMMIT").unwrap();
    }
    let [moved, broken] =
        ["moved", "broken"].map(|name| crash_all(dir.path(), &dir.path().join(name), &paths));
    drop(db);
    for path in &paths {
        std::fs::remove_file(path).unwrap();
    }
    // The second database is the coordinator. Both were moved: its log is beside it.
    assert_eq!(oneflush_vfs::inspect(&moved[0]).unwrap().unwrap().records, Some(3));
    assert_eq!(counts(&moved), [3, 3]);
    std::fs::remove_file(side(&broken[1], "-maw")).unwrap();
    let before = std::fs::read(&broken[0]).unwrap();
    let refused = open_with(&broken[0], "strategy=maw")
        .and_then(|db| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)));
    assert!(refused.is_err());
    let said = common::take_said(&broken[0]);
    // SQLite cuts its messages off.
    assert!(said.contains("its last commits are in the log of") && said.contains("1.db"), "{said}");
    assert_eq!(std::fs::read(&broken[0]).unwrap(), before);
    let why = oneflush_vfs::inspect(&broken[0]).unwrap_err().to_string();
    assert!(why.contains("[OF-142]"), "{why}");
}

/// SQLite locks every database that a transaction has reserved, changed or not. The log of one has
/// commits of the other, which could not leave it then: the connection was locked out by itself.
#[test]
fn a_database_that_is_reserved_and_not_changed_is_in_nobodys_way() {
    let dir = tempfile::tempdir().unwrap();
    let (db, paths) = open_several(dir.path(), 2);
    let [first, second] = ["main", "d1"].map(|of| format!("INSERT INTO {of}.t VALUES(1);"));
    let mut expected = [0, 0];
    let steps = [
        ("BEGIN", "", [1, 0]),
        ("BEGIN", "", [0, 1]),
        ("BEGIN IMMEDIATE", "", [0, 1]),
        ("BEGIN IMMEDIATE", "", [1, 0]),
        ("BEGIN IMMEDIATE", "", [0, 0]),
        ("BEGIN", "UPDATE main.t SET rowid=1 WHERE 0;", [0, 1]),
        ("BEGIN", "DELETE FROM d1.t WHERE 0;", [1, 0]),
        ("BEGIN", "DELETE FROM d1.t WHERE 0; DELETE FROM main.t WHERE 0;", [0, 0]),
    ];
    for (begin, reserves, changes) in steps {
        insert_into_all(&db, 2, "COMMIT").unwrap();
        let inserts = [(changes[0], &first), (changes[1], &second)].map(|(of, sql)| sql.repeat(of));
        let sql = format!("{begin}; {reserves} {} COMMIT", inserts.concat());
        db.execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        for at in 0..2 {
            expected[at] += 1 + changes[at] as i64;
        }
        let copies = crash_all(dir.path(), &dir.path().join("crash"), &paths);
        assert_eq!(counts(&copies), expected, "{sql}");
    }
    drop(db);
    for (path, expected) in paths.iter().zip(expected) {
        assert_eq!(files(path), [""]);
        assert_eq!(count(&open_stock(path)), expected);
    }
}

/// A link names a database by its path at the time. `cp` copies links, so that of a copy leads to
/// the original.
#[test]
fn databases_that_were_copied_or_moved_together_have_nothing_to_do_with_the_original() {
    let dir = tempfile::tempdir().unwrap();
    let (db, paths) = open_several(dir.path(), 2);
    insert_into_all(&db, 2, "COMMIT").unwrap();
    insert_into_all(&db, 2, "COMMIT").unwrap();
    let copied = dir.path().join("copied");
    crash_all(dir.path(), &copied, &paths);
    insert_into_all(&db, 2, "COMMIT").unwrap();
    let later = dir.path().join("later");
    crash_all(dir.path(), &later, &paths);
    drop(db);
    let contents = || -> Vec<_> {
        let logs = paths.iter().map(|path| side(path, "-maw"));
        paths.iter().cloned().chain(logs).map(std::fs::read).map(Result::ok).collect()
    };
    for backwards in [false, true] {
        for original_is_there in [true, false] {
            let what = format!("backwards: {backwards}, original: {original_is_there}");
            for path in &paths {
                for file in [path.clone(), side(path, "-maw")] {
                    let _ = std::fs::remove_file(&file);
                    if original_is_there {
                        std::fs::copy(later.join(file.file_name().unwrap()), &file).unwrap();
                    }
                }
            }
            let before = contents();
            let mut copies = crash_all(&copied, &dir.path().join("copy"), &paths);
            if backwards {
                copies.reverse();
            }
            assert_eq!(counts(&copies), [2, 2], "{what}");
            assert!(contents() == before, "{what}");
            for copy in &copies {
                assert_eq!(files(copy), [""], "{what}");
            }
            if original_is_there {
                assert_eq!(counts(&paths), [3, 3], "{what}");
            }
        }
    }
}

/// A log that is long ends its epoch, for which the databases with commits there have to leave it.
/// While one of them was in use, each commit got `SQLITE_IOERR_WRITE`.
#[test]
fn a_long_log_goes_on_while_another_database_with_commits_there_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (db, paths) = open_several(dir.path(), 2);
    insert_into_all(&db, 2, "COMMIT").unwrap();
    drop(db);
    let small = |at: usize| open_in(&paths[at], "delete", "log_size=1048576");
    let both = small(0);
    let uri = format!("file:{}?strategy=maw&atomic=log&log_size=1048576", paths[1].display());
    both.execute_batch(&format!("ATTACH '{uri}' AS d1")).unwrap();
    insert_into_all(&both, 2, "COMMIT").unwrap();
    let (user, writer) = (small(0), small(1));
    user.execute_batch("BEGIN EXCLUSIVE; INSERT INTO t VALUES(1)").unwrap();
    let epochs = |db| stats(db)["maw"]["log"]["epochs"].clone();
    let before = epochs(&writer);
    // An eighth of the log is long.
    for rows in 1..=60 {
        writer.execute("INSERT INTO t VALUES(randomblob(4000))", []).unwrap();
        assert_eq!(count(&writer), 2 + rows);
    }
    // A loss of power may leave nothing in place of what this epoch has of the other one.
    assert_eq!(epochs(&writer), before, "{}", stats(&writer));
    let copies = crash_all(dir.path(), &dir.path().join("crash"), &paths);
    assert_eq!(counts(&copies), [2, 62]);
    user.execute_batch("COMMIT").unwrap();
    // It may leave now, and the epoch ends.
    for _ in 0..3 {
        writer.execute("INSERT INTO t VALUES(randomblob(4000))", []).unwrap();
    }
    assert_ne!(epochs(&writer), before, "{}", stats(&writer));
    drop((both, user, writer));
    assert_eq!(counts(&paths), [3, 65]);
}

/// A process that dies while it retires a log, or leaves the one of another database, has had its
/// own only reserved or shared. Who was reading meanwhile got `SQLITE_IOERR_WRITE` at its next
/// commit.
#[test]
fn who_was_reading_while_another_process_died_commits() {
    let (_dir, path) = scratch();
    let db = open(&path);
    insert(&db, 3);
    db.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&db), 3);
    // The word that a dead process leaves: it keeps its place in every layout of the board.
    const BUSY: u64 = 2;
    const BOARD: &str = "-oneflush-shm";
    let board = std::fs::File::options().write(true).open(side(&path, BOARD)).unwrap();
    board.write_all_at(&1u64.to_ne_bytes(), BUSY * 8).unwrap();
    db.execute_batch("INSERT INTO t VALUES (4); COMMIT").unwrap();
    insert(&db, 1);
    assert_eq!((count(&db), integrity(&db)), (5, "ok".to_owned()));
    drop(db);
    assert_eq!((count(&open_stock(&path)), files(&path)), (5, vec![String::new()]));
}
