//! Databases of all kinds and uses with a strategy that has a log.
//!
//! Whatever SQLite lets an application choose or do beside its commits must come out of the log
//! after a crash as it was. A close must leave what stock SQLite reads.
//!
//! Read-only places, forks and mount points need other users and processes: `compat/run --strategy
//! eager places`.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode};

use crate::common::{
    LOGGED, assert_plain, commits, crash, files, integrity, number, open_stock, open_with, reserve,
    scratch, side, take_said,
};

fn journal_mode(db: &Connection, mode: &str) -> rusqlite::Result<String> {
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0))
}

#[test]
fn every_page_size_encoding_and_vacuum_mode_comes_back_from_the_log() {
    for logged in LOGGED {
        let vacuums = ["none", "full", "incremental"];
        for (at, page_bytes) in
            [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536].into_iter().enumerate()
        {
            let (_dir, path) = scratch();
            let (encoding, vacuum) = (["UTF-8", "UTF-16le", "UTF-16be"][at % 3], vacuums[at % 3]);
            let pragmas = format!(
                "PRAGMA page_size={page_bytes}; PRAGMA encoding='{encoding}'; PRAGMA \
                    auto_vacuum={vacuum}"
            );
            let db = logged.create(&path, &pragmas);
            commits::make(&db, 60);
            db.execute_batch("CREATE TABLE much AS SELECT randomblob(20000); DROP TABLE much")
                .unwrap();
            commits::make(&db, 5);
            let crashed = logged.after_crash(&path);
            assert_eq!(commits::check(&crashed), Ok(65), "{pragmas}");
            assert_eq!(
                crashed.query_row("PRAGMA encoding", [], |row| row.get::<_, String>(0)),
                Ok(encoding.to_owned())
            );
            assert_eq!(number(&crashed, "PRAGMA page_size"), page_bytes);
            assert_eq!(number(&crashed, "PRAGMA auto_vacuum"), (at % 3) as i64);
            db.execute_batch("PRAGMA incremental_vacuum").unwrap();
            commits::make(&db, 1);
            assert_eq!(commits::check(&logged.after_crash(&path)), Ok(66), "{pragmas}");
            drop(db);
            assert_plain(&path, 66);
        }
    }
}

#[test]
fn tables_without_rowid_and_long_rows_come_back_from_the_log() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "");
        db.execute_batch(
            "CREATE TABLE w(a TEXT, b INTEGER, c, PRIMARY KEY(b, a)) WITHOUT ROWID; CREATE UNIQUE \
                INDEX u ON w(a)",
        )
        .unwrap();
        for row in 0..300 {
            db.execute(
                "INSERT INTO w VALUES (hex(randomblob(20)), ?1 * 7919 % 300, zeroblob(?1 * 31))",
                [row],
            )
            .unwrap();
        }
        db.execute_batch("UPDATE w SET c = b WHERE b % 3 = 0; DELETE FROM w WHERE b % 5 = 0")
            .unwrap();
        let content = "SELECT count(*) * 1000000 + sum(length(c)) FROM w";
        let crashed = logged.after_crash(&path);
        assert_eq!(
            (number(&crashed, content), integrity(&crashed)),
            (number(&db, content), "ok".to_owned())
        );
    }
}

#[test]
fn exclusive_locking_mode_comes_back_and_keeps_others_out() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        drop(logged.create(&path, ""));
        let db = logged.open(&path).unwrap();
        db.execute_batch("PRAGMA locking_mode=exclusive; PRAGMA synchronous=full").unwrap();
        commits::make(&db, 20);
        let other = logged.open(&path).unwrap();
        other.busy_timeout(Duration::ZERO).unwrap();
        let refused =
            other.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{refused}");
        assert_eq!(commits::check(&logged.after_crash(&path)), Ok(20));
        drop(db);
        assert_eq!(commits::check(&other), Ok(20));
        // SQLite goes back to normal locking only if it began there.
        other.execute_batch("PRAGMA locking_mode=exclusive").unwrap();
        commits::make(&other, 1);
        other.execute_batch("PRAGMA locking_mode=normal; SELECT count(*) FROM t").unwrap();
        assert_eq!(commits::check(&logged.joined(&path)), Ok(21));
        drop(other);
        assert_plain(&path, 21);
    }
}

#[test]
fn vacuum_comes_back_from_the_log() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "");
        db.execute_batch(
            "CREATE TABLE much AS WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
            LIMIT 500) SELECT randomblob(2000) FROM n",
        )
        .unwrap();
        commits::make(&db, 50);
        db.execute_batch("DROP TABLE much; VACUUM").unwrap();
        let pages = number(&db, "PRAGMA page_count");
        commits::make(&db, 3);
        let crashed = logged.joined(&crash(&path, logged.with_image));
        assert_eq!(commits::check(&crashed), Ok(53));
        assert!(number(&crashed, "PRAGMA page_count") <= pages + 2);
        drop(db);
        assert_plain(&path, 53);
    }
}

/// Ends a thread that looks at this flag, also when a test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Every copy is a snapshot. It has the first commits without a gap, and at least those that were
/// acknowledged before it began.
#[test]
fn copies_under_write_load_are_sound_snapshots() {
    for logged in LOGGED {
        let (dir, path) = scratch();
        let db = logged.create(&path, "");
        commits::make(&db, 30);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ends = SetOnDrop(&done);
            let writer = scope.spawn(|| {
                let db = logged.joined(&path);
                let mut made = 0;
                while !done.load(Ordering::Relaxed) {
                    commits::make(&db, 1);
                    made += 1;
                }
                made
            });
            for turn in 0..6 {
                let name = |how: &str| dir.path().join(format!("{how}-{turn}.db"));
                let before = number(&db, "SELECT n FROM total");
                db.execute("VACUUM INTO ?", [name("vacuumed").display().to_string()]).unwrap();
                let mut at_once = open_stock(&name("at-once"));
                Backup::new(&db, &mut at_once)
                    .unwrap()
                    .run_to_completion(i32::MAX, Duration::ZERO, None)
                    .unwrap();
                // The target is also a database of ours, and in use.
                let mut into_ours = logged.create(&name("into-ours"), "");
                Backup::new(&db, &mut into_ours)
                    .unwrap()
                    .run_to_completion(i32::MAX, Duration::ZERO, None)
                    .unwrap();
                commits::make(&into_ours, 1);
                assert!(commits::check(&logged.after_crash(&name("into-ours"))).unwrap() > before);
                // By the connection that writes, so that the steps need not begin again.
                let mut in_steps = open_stock(&name("in-steps"));
                let steps = Backup::new(&db, &mut in_steps).unwrap();
                steps.run_to_completion(500, Duration::from_millis(1), None).unwrap();
                drop(steps);
                for copy in [open_stock(&name("vacuumed")), at_once, in_steps] {
                    assert!(commits::check(&copy).unwrap() >= before);
                }
            }
            done.store(true, Ordering::Relaxed);
            assert!(writer.join().unwrap() > 10);
        });
    }
}

#[test]
fn the_journal_mode_changes_and_comes_back_while_the_database_is_open() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "");
        let mut expected = 0;
        for mode in ["delete", "truncate", "persist", "delete"] {
            commits::make(&db, 7);
            assert_eq!(journal_mode(&db, mode).unwrap(), mode);
            commits::make(&db, 3);
            expected += 10;
            // Without a guard now: SQLite alone reads and writes.
            let stock = open_stock(&path);
            assert_eq!(commits::check(&stock), Ok(expected), "{mode}");
            commits::make(&stock, 1);
            expected += 1;
            drop(stock);
            assert_eq!(journal_mode(&db, "wal").unwrap(), "wal");
            commits::make(&db, 2);
            expected += 2;
            assert_eq!(commits::check(&logged.after_crash(&path)), Ok(expected), "{mode}");
        }
        drop(db);
        assert!(open_stock(&path).query_row("SELECT 1 FROM t", [], |_| Ok(())).is_ok());
    }
}

#[test]
fn the_journal_mode_stays_while_somebody_else_has_the_database_open() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "");
        commits::make(&db, 3);
        let other = logged.joined(&path);
        db.busy_timeout(Duration::ZERO).unwrap();
        let refused = journal_mode(&db, "delete").unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{refused}");
        commits::make(&db, 2);
        commits::make(&other, 2);
        assert_eq!(commits::check(&logged.after_crash(&path)), Ok(7));
        drop(other);
        assert_eq!(journal_mode(&db, "delete").unwrap(), "delete");
        commits::make(&db, 1);
        drop(db);
        assert_plain(&path, 8);
    }
}

#[test]
fn a_symbolic_link_leads_to_the_same_log() {
    for logged in LOGGED {
        let (dir, path) = scratch();
        let link = dir.path().join("link.db");
        symlink("a.db", &link).unwrap();
        let (db, by_link) = (logged.create(&path, ""), logged.joined(&link));
        commits::make(&db, 3);
        commits::make(&by_link, 3);
        assert_eq!((commits::check(&db), commits::check(&by_link)), (Ok(6), Ok(6)));
        assert_eq!(files(&link), [""], "the log is beside the file, not beside the link");
        assert_eq!(commits::check(&logged.after_crash(&path)), Ok(6));
        drop((db, by_link));
        assert_plain(&path, 6);
    }
}

/// A page size cannot be changed in WAL mode. In a rollback mode `VACUUM` changes it, and the next
/// log is for pages of the new size. Reserved bytes are kept.
#[test]
fn vacuum_changes_the_page_size_between_two_logs() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "PRAGMA page_size=4096");
        let mut expected = 0;
        for page_bytes in [1024, 65_536, 512, 8192] {
            commits::make(&db, 20);
            db.execute_batch(&format!("PRAGMA page_size={page_bytes}; VACUUM")).unwrap();
            assert_ne!(number(&db, "PRAGMA page_size"), page_bytes, "not in WAL mode");
            assert_eq!(journal_mode(&db, "delete").unwrap(), "delete");
            db.execute_batch(&format!("PRAGMA page_size={page_bytes}; VACUUM")).unwrap();
            assert_eq!(journal_mode(&db, "wal").unwrap(), "wal");
            assert_eq!(number(&db, "PRAGMA page_size"), page_bytes);
            commits::make(&db, 20);
            expected += 40;
            assert_eq!(commits::check(&logged.after_crash(&path)), Ok(expected), "{page_bytes}");
        }
        drop(db);
        assert_plain(&path, expected);
    }
}

/// Reserved bytes of a page are an extension's own: cksumvfs has checksums there, SQLCipher more.
#[test]
fn pages_with_reserved_bytes_and_pages_that_are_full_come_back_from_the_log() {
    for logged in LOGGED {
        for (page_bytes, reserved) in
            [(4096, 0), (4096, 8), (4096, 24), (4096, 32), (4096, 80), (512, 24), (65_536, 24)]
        {
            let (_dir, path) = scratch();
            let stock = open_stock(&path);
            reserve(&stock, reserved);
            let sql = format!("PRAGMA page_size={page_bytes}; CREATE TABLE full(v)");
            stock.execute_batch(&sql).unwrap();
            drop(stock);
            let db = logged.open(&path).unwrap();
            db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full").unwrap();
            assert_eq!(std::fs::read(&path).unwrap()[20], reserved);
            commits::create(&db);
            for _ in 0..8 {
                // Overflow pages without a byte that is zero for sure.
                commits::try_make_with(&db, "INSERT INTO full VALUES (randomblob(90000))").unwrap();
            }
            let sum = "SELECT sum(unicode(hex(v)) + length(v)) FROM full";
            let crashed = logged.after_crash(&path);
            let about = format!("{}, {page_bytes}, {reserved}", logged.strategy);
            assert_eq!(commits::check(&crashed), Ok(8), "{about}");
            assert_eq!(number(&crashed, sum), number(&db, sum), "{about}");
            drop(crashed);
            drop(db);
            assert_plain(&path, 8);
        }
    }
}

/// A transaction over two databases in WAL mode is atomic in each of them.
#[test]
fn attached_databases_each_have_their_log() {
    for logged in LOGGED {
        let (dir, path) = scratch();
        let second = dir.path().join("second.db");
        drop(logged.create(&second, ""));
        let db = logged.create(&path, "");
        let uri = format!("file:{}?vfs=oneflush&strategy={}", second.display(), logged.strategy);
        db.execute("ATTACH ?1 AS other", [uri]).unwrap();
        db.execute_batch("PRAGMA other.synchronous=full").unwrap();
        for _ in 0..9 {
            let also = "UPDATE other.total SET n = n + 1;
                INSERT INTO other.t SELECT n, (SELECT v FROM main.t AS one WHERE one.n = total.n) \
                FROM other.total";
            commits::try_make_with(&db, also).unwrap();
        }
        for of in [&path, &second] {
            assert_eq!(commits::check(&logged.after_crash(of)), Ok(9), "{}", of.display());
        }
        drop(db);
        assert_plain(&path, 9);
        assert_eq!(commits::check(&open_stock(&second)), Ok(9));
        assert_eq!(files(&second), [""]);
    }
}

/// A commit that nobody would find again is not acknowledged. The folder of a database may be moved
/// with all its files.
#[test]
fn a_log_that_is_deleted_or_replaced_acknowledges_nothing_more() {
    let of_maw = ("maw", "-maw", "delete");
    for (strategy, log, mode) in
        [("eager", "-oneflush", "wal"), ("waldio", "-waldio", "wal"), of_maw]
    {
        for done in ["deleted", "replaced", "moved"] {
            if done == "moved" && mode == "delete" {
                // In a rollback mode SQLite itself does not write to a file that was moved.
                continue;
            }
            let (dir, _) = scratch();
            let folder = dir.path().join("folder");
            fs::create_dir(&folder).unwrap();
            let path = folder.join("a.db");
            let parameters = format!("strategy={strategy}&atomic=log");
            let db = open_with(&path, &parameters).unwrap();
            db.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=full"))
                .unwrap();
            commits::create(&db);
            commits::make(&db, 3);
            let (log, other) = (side(&path, log), dir.path().join("other"));
            take_said(&path);
            match done {
                "deleted" => fs::remove_file(log).unwrap(),
                "replaced" => {
                    fs::copy(&log, &other).unwrap();
                    fs::rename(other, log).unwrap();
                }
                _ => fs::rename(folder, other).unwrap(),
            }
            let what = format!("{strategy}, {done}");
            for attempt in 1..=2 {
                let made = commits::try_make(&db);
                assert_eq!(made.is_ok(), done == "moved", "{what}, {attempt}: {made:?}");
            }
            let said = take_said(&path);
            assert_eq!(said.contains("deleted or replaced"), done != "moved", "{what}: {said}");
        }
    }
}
