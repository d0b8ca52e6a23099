//! What else may lie or run beside a database with a log: SQLite alone, other strategies and
//! versions, other names of the file, and logs and WALs of other databases.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use oneflush_testing::named;
use rusqlite::ErrorCode;

use crate::common::{
    self, LOGGED, assert_plain, commits, crash, files, open_stock, open_with, scratch, side, stats,
    take_said, try_open,
};

#[test]
fn a_close_leaves_one_plain_database_file_and_nothing_else() {
    for logged in LOGGED {
        let layouts: &[&str] = match logged.strategy {
            "waldio" => &["embed", "pad512", "pad4k", "pad8k"],
            _ => &[""],
        };
        for layout in layouts {
            let (_dir, path) = scratch();
            let uri = match *layout {
                "" => format!("strategy={}", logged.strategy),
                layout => format!("strategy={}&layout={layout}", logged.strategy),
            };
            let db = open_with(&path, &uri).unwrap();
            db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full").unwrap();
            commits::create(&db);
            commits::make(&db, 10);
            let mut expected = [logged.all, &["", "-shm"]].concat();
            expected.sort_unstable();
            assert_eq!(files(&path), expected, "{uri}");
            if !layout.is_empty() {
                assert_eq!(stats(&db)["waldio"]["slots"]["layout"], *layout);
            }
            drop(db);
            let header = std::fs::read(&path).unwrap();
            assert_eq!((&header[18..20], &header[72..92]), (&[2, 2][..], &[0; 20][..]), "{uri}");
            assert_plain(&path, 10);
        }
    }
}

#[test]
fn plain_sqlite_is_refused_while_the_database_is_in_use() {
    for logged in LOGGED {
        let (_dir, path) = scratch();
        let db = logged.create(&path, "");
        commits::make(&db, 10);
        let refused = open_stock(&path)
            .query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
            .unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::NotADatabase), "{refused}");
        commits::make(&db, 1);
        assert_eq!(commits::check(&db), Ok(11));
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
        .args(["--exact", named!(opens_as_another_process), "--nocapture"])
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
fn a_process_with_plain_or_stock_is_refused_beside_a_log_and_the_strategies_are_named() {
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
fn a_log_is_refused_beside_a_process_with_plain_or_stock_and_the_strategies_are_named() {
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
