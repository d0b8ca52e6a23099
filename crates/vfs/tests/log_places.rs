//! Databases of all kinds, uses and places with a strategy that has a log.
//!
//! Whatever SQLite lets an application choose or do beside its commits must come out of the log
//! after a crash as it was. A close must leave what stock SQLite reads.
//!
//! Read-only places, forks and mount points need other users and processes: `compat/run --strategy
//! eager places`.

mod common;

use std::fs::File;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{
    LOGGED, Logged, commits, crash, files, integrity, number, open_stock, open_with, side,
    take_said,
};
use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;

fn scratch() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    (dir, path)
}

fn try_open(path: &Path, strategy: &str) -> rusqlite::Result<Connection> {
    let db = open_with(path, &format!("strategy={strategy}"))?;
    db.execute_batch("PRAGMA synchronous=full; SELECT count(*) FROM sqlite_schema")?;
    Ok(db)
}

/// What these tests do with a strategy that has a log.
trait Uses {
    fn joined(&self, path: &Path) -> Connection;
    fn create(&self, path: &Path, pragmas: &str) -> Connection;
    fn after_crash(&self, path: &Path) -> Connection;
}

impl Uses for Logged {
    fn joined(&self, path: &Path) -> Connection {
        try_open(path, self.strategy).unwrap()
    }

    /// A new database in WAL mode, made with these PRAGMAs.
    fn create(&self, path: &Path, pragmas: &str) -> Connection {
        let db = open_with(path, &format!("strategy={}", self.strategy)).unwrap();
        db.execute_batch(&format!("{pragmas}; PRAGMA journal_mode=wal; PRAGMA synchronous=full"))
            .unwrap();
        commits::create(&db);
        db
    }

    /// The files as a crash would leave them, without the image.
    fn after_crash(&self, path: &Path) -> Connection {
        self.joined(&crash(path, self.log))
    }
}

/// After the last close: a plain file, alone, with all commits.
fn assert_plain(path: &Path, expected: i64) {
    assert_eq!(files(path), [""]);
    assert_eq!(commits::check(&open_stock(path)), Ok(expected));
}

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
        let db = open_with(&path, &format!("strategy={}", logged.strategy)).unwrap();
        db.execute_batch("PRAGMA locking_mode=exclusive; PRAGMA synchronous=full").unwrap();
        commits::make(&db, 20);
        let other = open_with(&path, &format!("strategy={}", logged.strategy)).unwrap();
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

/// Each pair of strategies in this order.
const ORDER: [&str; 17] = [
    "eager", "eager", "waldio", "eager", "plain", "eager", "stock", "waldio", "waldio", "plain",
    "waldio", "stock", "plain", "plain", "stock", "stock", "eager",
];

#[test]
fn strategies_follow_each_other_after_a_close_and_after_a_crash() {
    let (_dir, path) = scratch();
    drop(LOGGED[0].create(&path, ""));
    let mut expected = 0;
    for strategy in ORDER {
        let db = try_open(&path, strategy).unwrap();
        commits::make(&db, 11);
        expected += 11;
        assert_eq!(commits::check(&db), Ok(expected), "{strategy}");
    }
    let mut path = path;
    let mut before = "";
    for strategy in ORDER {
        let logged = |name| LOGGED.iter().find(|logged| logged.strategy == name);
        if strategy == "stock" && logged(before).is_some() {
            let refused = try_open(&path, "stock").unwrap_err();
            assert_eq!(
                refused.sqlite_error_code(),
                Some(ErrorCode::NotADatabase),
                "after {before} stock needs a recovery: {refused}"
            );
            drop(try_open(&path, before).unwrap());
        }
        let db = try_open(&path, strategy).unwrap();
        commits::make(&db, 11);
        expected += 11;
        assert_eq!(commits::check(&db), Ok(expected), "{before}, then {strategy}");
        path = crash(&path, logged(strategy).map_or(&["-wal"], |logged| logged.log));
        before = strategy;
    }
    assert_eq!(commits::check(&LOGGED[1].joined(&path)), Ok(expected));
    assert_plain(&path, expected);
}

/// A backup, or a new database, was put in the place of a database that has crashed.
#[test]
fn a_log_in_the_way_that_may_hold_commits_is_set_aside() {
    for logged in LOGGED {
        for in_its_place in ["backup", "empty"] {
            for damaged in [false, true] {
                let (dir, path) = scratch();
                let db = logged.create(&path, "");
                let backup = dir.path().join("backup.db");
                db.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
                commits::make(&db, 3);
                let crashed = crash(&path, logged.log);
                let log = side(&crashed, logged.log[0]);
                let (its_database, mut its_log) =
                    (std::fs::read(&crashed).unwrap(), std::fs::read(&log).unwrap());
                if damaged {
                    its_log[..4096].fill(0);
                    std::fs::write(&log, &its_log).unwrap();
                }
                std::fs::write(
                    &crashed,
                    if in_its_place == "empty" {
                        Vec::new()
                    } else {
                        std::fs::read(&backup).unwrap()
                    },
                )
                .unwrap();
                let db = try_open(&crashed, logged.strategy).unwrap();
                db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE new(x)").unwrap();
                drop(db);
                let aside: Vec<String> =
                    files(&crashed).into_iter().filter(|name| !name.is_empty()).collect();
                assert!(
                    aside.len() == 1 && aside[0].starts_with(&format!("{}-", logged.log[0])),
                    "{aside:?}"
                );
                let said = take_said(&crashed);
                assert!(said.contains(&aside[0]) && said.contains("in the way"), "{said}");
                let aside = side(&crashed, &aside[0]);
                assert!(std::fs::read(&aside).unwrap() == its_log);
                if !damaged {
                    std::fs::write(&crashed, its_database).unwrap();
                    std::fs::rename(aside, log).unwrap();
                    let db = logged.joined(&crashed);
                    assert_eq!(commits::check(&db), Ok(3));
                    drop(db);
                    assert_plain(&crashed, 3);
                }
            }
        }
    }
}

/// The process was killed between the write that takes the guard away and its sync. SQLite alone
/// went on, and then power was lost.
#[test]
fn what_sqlite_alone_has_committed_after_a_close_that_was_undone_is_not_passed_over() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "");
        commits::make(&db, 20);
        let before_close = crash(&path, logged.log);
        drop(db);
        let alone = open_stock(&path);
        commits::make(&alone, 7);
        let wal = side(&before_close, "-wal");
        std::fs::copy(side(&path, "-wal"), &wal).unwrap();
        let files_then = files(&before_close);

        try_open(&before_close, logged.strategy).unwrap_err();
        let said = take_said(&before_close);
        assert!(said.contains("SQLite's own") && said.contains("oneflush recover"), "{said}");
        assert_eq!(files(&before_close), files_then);

        let aside = side(&before_close, ".moved-away");
        std::fs::rename(&wal, &aside).unwrap();
        assert_eq!(commits::check(&logged.joined(&before_close)), Ok(20));
        std::fs::rename(&aside, &wal).unwrap();
        assert_eq!(commits::check(&logged.joined(&before_close)), Ok(27));
        assert_plain(&before_close, 27);
    }
}

#[test]
fn a_wal_put_beside_a_database_that_is_in_use_goes_nowhere() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "");
        commits::make(&db, 3);
        let stray = side(&path, "-wal");
        std::fs::copy(side(&path, logged.with_image[logged.with_image.len() - 1]), &stray).unwrap();
        let put = std::fs::read(&stray).unwrap();

        let second = logged.joined(&path);
        commits::make(&second, 2);
        assert_eq!(commits::check(&db), Ok(5));
        assert_eq!(std::fs::read(&stray).unwrap(), put);
        std::fs::remove_file(stray).unwrap();
        drop((db, second));
        assert_plain(&path, 5);
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

/// The log of the other name is another file. Commits could get lost between the two.
#[test]
fn a_second_hard_link_is_refused_while_the_first_is_in_use_and_loses_nothing_after_a_crash() {
    for logged in LOGGED {
        let (dir, path) = scratch();
        let link = dir.path().join("link.db");
        let db = logged.create(&path, "");
        std::fs::hard_link(&path, &link).unwrap();
        commits::make(&db, 5);
        for strategy in [logged.strategy, "plain", "stock"] {
            take_said(&link);
            let refused = try_open(&link, strategy).unwrap_err();
            let said = take_said(&link);
            assert!(
                strategy == "stock" || said.contains("the log is missing"),
                "{strategy}: {refused}, {said}"
            );
            assert_eq!(commits::check(&db), Ok(5));
        }
        commits::make(&db, 1);
        let crashed = crash(&path, logged.log);
        let other_name = dir.path().join("other-name.db");
        std::fs::hard_link(&crashed, &other_name).unwrap();
        assert!(try_open(&other_name, logged.strategy).is_err());
        assert_eq!(commits::check(&logged.joined(&crashed)), Ok(6));
        assert_eq!(
            commits::check(&logged.joined(&other_name)),
            Ok(6),
            "recovered and closed, either name will do"
        );
        drop(db);
        assert_plain(&path, 6);
        let by_link = logged.joined(&link);
        commits::make(&by_link, 1);
        assert!(try_open(&path, logged.strategy).is_err());
        drop(by_link);
        assert_eq!(
            (commits::check(&open_stock(&path)), commits::check(&open_stock(&link))),
            (Ok(7), Ok(7))
        );
    }
}

/// This program again, as another process. `ONEFLUSH_TEST_OPENS` names a database and a strategy.
/// The process says how the open went, and what the error log said.
#[test]
fn opens_as_another_process() {
    let Ok(task) = std::env::var("ONEFLUSH_TEST_OPENS") else { return };
    let (path, strategy) = task.split_once('|').unwrap();
    let path = Path::new(path);
    common::setup();
    match try_open(path, strategy).and_then(|db| commits::try_make(&db)) {
        Ok(()) => println!("opened"),
        Err(error) => println!("refused: {error}\n{}", take_said(path)),
    }
}

fn in_another_process(path: &Path, strategy: &str) -> String {
    let task = format!("{}|{strategy}", path.display());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "opens_as_another_process", "--nocapture"])
        .env("ONEFLUSH_TEST_OPENS", task)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && (said.contains("opened") || said.contains("refused: ")),
        "{said}"
    );
    said
}

#[test]
fn a_process_with_plain_or_stock_is_refused_beside_eager_and_the_strategies_are_named() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "");
        commits::make(&db, 2);
        assert!(
            in_another_process(&path, logged.strategy).contains("opened"),
            "the same strategy shares"
        );
        let said = in_another_process(&path, "plain");
        assert!(
            said.contains("strategy plain was asked for")
                && said.contains(&format!("strategy {}", logged.strategy)),
            "{said}"
        );
        // The pragma changes nothing, so SQLite answers.
        let said = in_another_process(&path, "stock");
        assert!(said.contains("refused: file is not a database"), "{said}");
        commits::make(&db, 1);
        assert_eq!(commits::check(&db), Ok(4));
        drop(db);
        assert_plain(&path, 4);
    }
}

/// The refusal was once "database is locked" after the whole busy timeout, with no reason in the
/// error log. SQLite's `xAccess` says of a WAL that was cut to nothing that it does not exist.
#[test]
fn eager_is_refused_beside_a_process_with_plain_or_stock_and_the_strategies_are_named() {
    for logged in LOGGED {
        for strategy in ["plain", "stock"] {
            let (_dir, path) = scratch();
            drop(logged.create(&path, ""));
            let db = try_open(&path, strategy).unwrap();
            commits::make(&db, 1);
            let said = in_another_process(&path, logged.strategy);
            commits::make(&db, 1);
            assert_eq!(commits::check(&db), Ok(2));
            drop(db);
            assert_eq!(commits::check(&logged.joined(&path)), Ok(2));
            assert_plain(&path, 2);
            assert!(
                said.contains(&format!("strategy {} was asked for", logged.strategy))
                    && said.contains("stock or plain"),
                "{strategy}: {said}"
            );
        }
    }
}

/// The word of the board that says how it is laid out.
const LAYOUT_AT: u64 = 26 * 8;

#[test]
fn processes_of_another_version_do_not_share_a_log_and_their_board_is_made_anew_after_a_crash() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "");
        commits::make(&db, 2);
        assert!(in_another_process(&path, logged.strategy).contains("opened"));
        let board = File::options().write(true).open(side(&path, "-oneflush-shm")).unwrap();
        board.write_all_at(&[200], LAYOUT_AT).unwrap();
        let said = in_another_process(&path, logged.strategy);
        assert!(said.contains("refused") && said.contains("another version of Oneflush"), "{said}");
        commits::make(&db, 1);
        let crashed = crash(&path, logged.all);
        assert_eq!(commits::check(&logged.joined(&crashed)), Ok(4));
        assert_plain(&crashed, 4);
        drop(db);
        assert_plain(&path, 4);
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

/// `SQLITE_FCNTL_RESERVE_BYTES`: for a database without content.
fn reserve(db: &Connection, reserved: u8) {
    let mut bytes = std::ffi::c_int::from(reserved);
    // SAFETY: the connection is open, and the number lives during the call.
    let code = unsafe {
        rusqlite::ffi::sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            rusqlite::ffi::SQLITE_FCNTL_RESERVE_BYTES,
            (&raw mut bytes).cast(),
        )
    };
    assert_eq!(code, rusqlite::ffi::SQLITE_OK);
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
