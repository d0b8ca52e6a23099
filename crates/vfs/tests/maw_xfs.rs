//! Strategy `maw` with XFS's exchange, on a real XFS. Its file is a plain one at all times.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::own_xfs::on_xfs;
use common::{
    commits, count, files, insert, integrity, number, open_stock, open_with, scratch, stats,
    take_said,
};
use oneflush_testing::dies_with_test;
use rusqlite::{Connection, ErrorCode};

const MODES: [&str; 3] = ["delete", "truncate", "persist"];

/// The database that a child of a test reads.
const READS: &str = "ONEFLUSH_TEST_READS";
/// The database that a child of a test commits to.
const COMMITS: &str = "ONEFLUSH_TEST_COMMITS";

fn open_in(path: &Path, mode: &str) -> Connection {
    let db = open_with(path, "strategy=maw&atomic=xfs").unwrap();
    db.busy_timeout(Duration::from_secs(20)).unwrap();
    db.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=full")).unwrap();
    db
}

fn create(path: &Path, mode: &str) -> Connection {
    let db = open_in(path, mode);
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    db
}

fn counted(db: &Connection, what: &str) -> u64 {
    stats(db)["maw"][what].as_u64().unwrap_or_else(|| panic!("{what}: {}", stats(db)))
}

fn assert_stock_reads(path: &Path, expected: i64) {
    let stock = open_stock(path);
    assert_eq!((count(&stock), integrity(&stock).as_str()), (expected, "ok"), "{path:?}");
}

#[test]
fn all_page_sizes_commit_by_exchange_and_stock_sqlite_reads_each_commit() {
    on_xfs("all_page_sizes_commit_by_exchange_and_stock_sqlite_reads_each_commit", true, |xfs| {
        for (at, page_size) in
            [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536].into_iter().enumerate()
        {
            let (mode, path) = (MODES[at % 3], xfs.path().join(format!("{page_size}.db")));
            let db = open_with(&path, "strategy=maw&atomic=xfs").unwrap();
            db.execute_batch(&format!("PRAGMA page_size={page_size}")).unwrap();
            db.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(v)")).unwrap();
            assert_eq!(stats(&db)["maw"]["provider"], "xfs");
            for rows in [1, 20, 60] {
                insert(&db, rows);
                assert_stock_reads(&path, count(&db));
            }
            assert_eq!(counted(&db, "atomic"), 81, "{page_size}");
            assert_eq!(counted(&db, "ordinary"), 1, "the first transaction of the file");
            // Much growth at once, and a cut.
            db.execute_batch("CREATE TABLE much AS SELECT randomblob(300000)").unwrap();
            assert_stock_reads(&path, 81);
            db.execute_batch("DROP TABLE much; VACUUM").unwrap();
            assert_stock_reads(&path, 81);
            let pages = number(&db, "PRAGMA page_count") as u64;
            assert_eq!(std::fs::metadata(&path).unwrap().len(), pages * page_size);
            insert(&db, 5);
            assert_stock_reads(&path, 86);
            drop(db);
            let others: Vec<_> =
                files(&path).into_iter().filter(|name| name != "-journal").collect();
            assert_eq!(others, [""], "{page_size}");
            assert_stock_reads(&path, 86);
        }
    });
}

#[test]
fn rollbacks_savepoints_and_spills_work() {
    on_xfs("rollbacks_savepoints_and_spills_work", true, |xfs| {
        for mode in MODES {
            let path = xfs.path().join(format!("{mode}.db"));
            let db = create(&path, mode);
            insert(&db, 50);
            for cache in [5, 2000] {
                let before = std::fs::read(&path).unwrap();
                db.execute_batch(&format!("PRAGMA cache_size={cache}")).unwrap();
                db.execute_batch(
                    "BEGIN; INSERT INTO t SELECT randomblob(3000) FROM t, t AS u; UPDATE t SET v=1",
                )
                .unwrap();
                assert!(std::fs::read(&path).unwrap() == before, "nothing is in place");
                db.execute_batch("ROLLBACK").unwrap();
                assert!(std::fs::read(&path).unwrap() == before, "{mode}, {cache}");
                db.execute_batch(
                    "BEGIN; INSERT INTO t VALUES('gone'); SAVEPOINT s; UPDATE t SET v='wrong';
                     ROLLBACK TO s; DELETE FROM t WHERE v='gone'; COMMIT",
                )
                .unwrap();
                assert_stock_reads(&path, 50);
            }
            db.execute_batch(
                "PRAGMA cache_size=5; CREATE TABLE u(v); INSERT INTO u SELECT randomblob(2000) FROM t",
            )
            .unwrap();
            assert_eq!(number(&open_stock(&path), "SELECT count(*) FROM u"), 50);
            assert_stock_reads(&path, 50);
        }
    });
}

#[test]
fn stock_sqlite_may_write_in_between() {
    on_xfs("stock_sqlite_may_write_in_between", true, |xfs| {
        let path = xfs.path().join("a.db");
        let (db, stock) = (create(&path, "persist"), open_stock(&path));
        for round in 1..=20 {
            insert(&db, 3);
            insert(&stock, 3);
            assert_eq!((count(&db), count(&stock)), (6 * round, 6 * round));
            if round % 7 == 0 {
                stock.execute_batch("CREATE TABLE u AS SELECT randomblob(50000)").unwrap();
                insert(&db, 1);
                db.execute_batch(
                    "DROP TABLE u; VACUUM; DELETE FROM t WHERE rowid=(SELECT max(rowid) FROM t)",
                )
                .unwrap();
            }
        }
        assert_eq!((integrity(&db), integrity(&stock)), ("ok".to_owned(), "ok".to_owned()));
        // A connection with the log, too: it ends the plain file, and the next exchange restores it.
        let logs = open_with(&path, "strategy=maw&atomic=log").unwrap();
        for round in 1..=5 {
            insert(&logs, 2);
            insert(&db, 2);
            assert_stock_reads(&path, 120 + 4 * round);
            assert_eq!(count(&logs), 120 + 4 * round);
        }
    });
}

#[test]
fn several_connections_and_an_attached_database_commit() {
    on_xfs("several_connections_and_an_attached_database_commit", true, |xfs| {
        let (path, other) = (xfs.path().join("a.db"), xfs.path().join("b.db"));
        let (one, two) = (create(&path, "delete"), open_in(&path, "persist"));
        drop(create(&other, "delete"));
        for _ in 0..20 {
            insert(&one, 1);
            insert(&two, 1);
        }
        one.execute_batch(&format!(
            "ATTACH 'file:{}?strategy=maw&atomic=xfs' AS b",
            other.display()
        ))
        .unwrap();
        one.execute_batch("BEGIN; INSERT INTO t VALUES(1); INSERT INTO b.t VALUES(2); COMMIT")
            .unwrap();
        assert!(counted(&one, "ordinary") >= 1);
        drop(two);
        insert(&one, 1);
        assert_stock_reads(&path, 42);
        assert_stock_reads(&other, 1);
    });
}

#[test]
fn a_full_file_system_refuses_the_commit_and_with_room_it_goes_on() {
    on_xfs("a_full_file_system_refuses_the_commit_and_with_room_it_goes_on", true, |xfs| {
        for mode in MODES {
            let path = xfs.path().join(format!("{mode}.db"));
            let db = create(&path, mode);
            insert(&db, 20);
            let ballast = xfs.path().join("ballast");
            fill(&ballast);
            let mut acknowledged = 20;
            let refused = loop {
                match db.execute("INSERT INTO t VALUES(randomblob(100000))", []) {
                    Ok(_) => acknowledged += 1,
                    Err(error) => break error,
                }
                assert!(acknowledged < 5000, "the file system is not full");
            };
            assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused}");
            assert_eq!((count(&db), integrity(&db).as_str()), (acknowledged, "ok"), "{mode}");
            assert_stock_reads(&path, acknowledged);
            std::fs::remove_file(&ballast).unwrap();
            insert(&db, 5);
            assert_stock_reads(&path, acknowledged + 5);
            assert_eq!(take_said(&path), "");
            drop(db);
            std::fs::remove_file(&path).unwrap();
        }
    });
}

/// Takes all room of the file system.
fn fill(ballast: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(ballast).unwrap();
    for bytes in [1 << 20, 4096] {
        while file.write_all(&vec![7; bytes]).is_ok() {}
    }
    // Room that was reserved for blocks to come is settled.
    let _ = file.sync_all();
    while file.write_all(&[7; 4096]).is_ok() {}
}

#[test]
fn what_was_acknowledged_is_on_the_device() {
    on_xfs("what_was_acknowledged_is_on_the_device", true, |xfs| {
        let path = xfs.path().join("a.db");
        let db = open_in(&path, "delete");
        commits::create(&db);
        for round in 1..=3 {
            commits::make(&db, 40);
            if round == 2 {
                db.execute_batch(
                    "CREATE TABLE much AS SELECT randomblob(500000); DROP TABLE much; VACUUM",
                )
                .unwrap();
                commits::make(&db, 1);
            }
            let copy = xfs.after_crash(&format!("crash{round}")).join("a.db");
            let expected = 40 * round + i64::from(round >= 2);
            assert_eq!(commits::check(&open_stock(&copy)), Ok(expected));
            assert_eq!(files(&copy), [""]);
        }
    });
}

/// The child of a test: reads until it is ended.
#[test]
fn reads_in_a_child() {
    let Some(path) = std::env::var_os(READS) else { return };
    let stock = open_stock(Path::new(&path));
    stock.busy_timeout(Duration::from_secs(20)).unwrap();
    let (mut last, until) = (0, Instant::now() + Duration::from_secs(30));
    while Instant::now() < until {
        let now = commits::check(&stock).unwrap();
        assert!(now >= last, "{now} after {last}");
        last = now;
        if last == 300 {
            println!("saw all");
            return;
        }
    }
    panic!("saw {last}");
}

/// The child of a test: commits, and says so, until it is killed.
#[test]
fn commits_in_a_child() {
    let Some(path) = std::env::var_os(COMMITS) else { return };
    let db = open_in(Path::new(&path), "delete");
    loop {
        commits::make(&db, 1);
        eprintln!("commit");
    }
}

fn child(test: &str, variable: &str, path: &Path) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(variable, path);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    dies_with_test(&mut command).spawn().unwrap()
}

#[test]
fn readers_of_other_processes_see_whole_commits() {
    on_xfs("readers_of_other_processes_see_whole_commits", true, |xfs| {
        let path = xfs.path().join("a.db");
        let db = open_in(&path, "persist");
        commits::create(&db);
        let readers = [0, 1].map(|_| child("reads_in_a_child", READS, &path));
        for _ in 0..300 {
            commits::make(&db, 1);
        }
        for reader in readers {
            let output = reader.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.contains("saw all"), "{said}{errors}");
        }
        assert!(counted(&db, "atomic") >= 300);
    });
}

#[test]
fn the_death_of_a_process_leaves_a_plain_file_with_all_its_commits() {
    on_xfs("the_death_of_a_process_leaves_a_plain_file_with_all_its_commits", true, |xfs| {
        let path = xfs.path().join("a.db");
        commits::create(&open_in(&path, "delete"));
        for round in 0..12 {
            let mut running = child("commits_in_a_child", COMMITS, &path);
            std::thread::sleep(Duration::from_millis(150 + 37 * round));
            running.kill().unwrap();
            let said = running.wait_with_output().unwrap().stderr;
            let acknowledged = String::from_utf8_lossy(&said).matches("commit\n").count() as i64;
            let before = number(&open_stock(&path), "SELECT n FROM total");
            assert_eq!(commits::check(&open_stock(&path)), Ok(before));
            assert!(before >= acknowledged && files(&path).len() <= 2, "{:?}", files(&path));
        }
        assert!(number(&open_stock(&path), "SELECT n FROM total") > 12);
    });
}

/// Bytes and flushes of a commit against SQLite's own modes, and into how many extents a file falls.
#[test]
fn a_commit_flushes_less_than_those_of_sqlite() {
    on_xfs("a_commit_flushes_less_than_those_of_sqlite", true, |xfs| {
        const COMMITS: u64 = 200;
        let mut flushes_of = Vec::new();
        for (name, mode) in [("maw", "delete"), ("stock", "delete"), ("stock", "persist")] {
            let path = xfs.path().join(format!("{name}-{mode}.db"));
            let db = match name {
                "maw" => open_in(&path, mode),
                _ => open_stock(&path),
            };
            db.execute_batch(&format!(
                "PRAGMA journal_mode={mode}; PRAGMA synchronous=full;
                 CREATE TABLE t(id INTEGER PRIMARY KEY, v)"
            ))
            .unwrap();
            let fill = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 4000)
                        INSERT INTO t(v) SELECT randomblob(200) FROM n";
            db.execute_batch(fill).unwrap();
            let (bytes, flushes) = xfs.written();
            let began = Instant::now();
            for at in 0..COMMITS {
                db.execute(
                    "UPDATE t SET v=randomblob(200) WHERE id=?1",
                    [(at * 7919 % 4000 + 1) as i64],
                )
                .unwrap();
            }
            let took = began.elapsed();
            let (bytes, flushes) = (xfs.written().0 - bytes, xfs.written().1 - flushes);
            println!(
                "{name} {mode}: {} bytes, {:.2} flushes, {} us a commit; {}",
                bytes / COMMITS,
                flushes as f64 / COMMITS as f64,
                took.as_micros() / u128::from(COMMITS),
                extents(&path)
            );
            flushes_of.push(flushes);
            assert_eq!(integrity(&db), "ok");
        }
        assert!(flushes_of[1..].iter().all(|flushes| flushes_of[0] < *flushes), "{flushes_of:?}");
    });
}

fn extents(path: &Path) -> String {
    let output = Command::new("filefrag").arg(path).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    said.ok().and_then(|said| Some(said.rsplit_once(": ")?.1.to_owned())).unwrap_or_default()
}

fn refused(path: &Path, atomic: &str) -> String {
    let opened = open_with(path, &format!("strategy=maw&atomic={atomic}"))
        .and_then(|db| db.execute_batch("CREATE TABLE t(v)"));
    assert_eq!(opened.unwrap_err().sqlite_error_code(), Some(ErrorCode::CannotOpen));
    take_said(path)
}

#[test]
fn an_xfs_without_the_feature_refuses_it_and_says_why() {
    on_xfs("an_xfs_without_the_feature_refuses_it_and_says_why", false, |xfs| {
        let path = xfs.path().join("a.db");
        let said = refused(&path, "xfs");
        assert!(
            said.contains("made without the feature exchange") && said.contains("OF-415"),
            "{said}"
        );
        let said = refused(&path, "f2fs");
        assert!(said.contains("here is XFS, and only F2FS has"), "{said}");
    });
}

#[test]
fn another_file_system_refuses_both_by_name() {
    let (_dir, path) = scratch();
    for (atomic, only) in [("f2fs", "only F2FS has this atomic write"), ("xfs", "only XFS has")] {
        let said = refused(&path, atomic);
        assert!(said.contains(&format!("atomic={atomic}: the file system here is ")), "{said}");
        assert!(said.contains(only) && said.contains("[OF-415]"), "{said}");
        assert_eq!(said.matches('\n').count(), 0, "{said}");
    }
}
