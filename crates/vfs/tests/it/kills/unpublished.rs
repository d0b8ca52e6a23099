//! A commit that is durable and not published, while a checkpoint goes on.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use oneflush_testing::{Running, named};
use oneflush_vfs::KillPoint;
use rusqlite::{Connection, OpenFlags};

use super::worker::{WORKER, go_on, is_stopped};
use super::{again, is_so_by, open, open_with, patience};

const SQL: &str = "ONEFLUSH_TEST_SQL";

/// Not a test of its own: a process that runs some SQL.
#[test]
fn sql_worker() {
    let Ok(sql) = std::env::var(SQL) else { return };
    // With group commit it would publish before the commit is durable.
    let parameters = "checkpoints=sqlite&group_commit=off";
    let db = open_with(Path::new(&std::env::var(WORKER).unwrap()), parameters).unwrap();
    db.execute_batch(&sql).unwrap();
}

/// A process that runs some SQL and is stopped at this place.
struct Stopped(Running);

impl Stopped {
    fn at(point: KillPoint, path: &Path, sql: &str) -> Stopped {
        let mut command = again(named!(sql_worker));
        command.env(WORKER, path).env(SQL, sql);
        command.env("ONEFLUSH_STOP_AT", format!("{}:1", point.name()));
        let mut child = Running::start(command.stdout(Stdio::null()));
        let came = is_so_by(Instant::now() + patience(), || is_stopped(&child));
        assert!(came, "{point:?} was not come to");
        assert!(child.try_wait().unwrap().is_none());
        Stopped(child)
    }

    fn go_on(mut self) {
        go_on(&self.0);
        assert!(self.0.wait().unwrap().success());
    }
}

/// A checkpoint copies all that is published, and cuts the file to the size of the last commit
/// there.
#[test]
fn an_unpublished_commit_comes_back_though_a_checkpoint_cuts_off_the_pages_it_was_logged_against() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let stock = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), "unix").unwrap();
    stock
        .execute_batch(
            "PRAGMA auto_vacuum=full; PRAGMA journal_mode=wal; CREATE TABLE t(id \
            INTEGER PRIMARY KEY, v)",
        )
        .unwrap();
    drop(stock);
    let insert = |first: u32| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < 100)
             INSERT INTO t SELECT i, printf('%.*c', 3000, 'x') FROM n"
        )
    };
    let db = open_with(&path, "checkpoints=sqlite").unwrap();
    db.execute_batch(&format!(
        "PRAGMA wal_autocheckpoint=0; {}; PRAGMA wal_checkpoint(RESTART)",
        insert(1)
    ))
    .unwrap();
    let size = || std::fs::metadata(&path).unwrap().len();
    let whole = size();
    db.execute_batch("DELETE FROM t WHERE id > 50").unwrap();

    let checkpoint = Stopped::at(KillPoint::Prepared, &path, "PRAGMA wal_checkpoint(PASSIVE)");
    let commit = Stopped::at(KillPoint::Durable, &path, &insert(51));
    checkpoint.go_on();
    assert!(size() < whole);

    let crashed = dir.path().join("crashed.db");
    for suffix in ["", "-oneflush"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(name(&path), name(&crashed)).unwrap();
    }
    let check = |db: &Connection| {
        let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(
            (sound.as_str(), db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))),
            ("ok", Ok(100))
        );
    };
    check(&open(&crashed).unwrap());
    commit.go_on();
    check(&db);
}
