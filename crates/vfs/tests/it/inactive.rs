//! A strategy that changes nothing says so.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

fn open(path: &Path, strategy: &str) -> Connection {
    oneflush_vfs::register().unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(
        format!("file:{}?vfs=oneflush&strategy={strategy}", path.display()),
        flags,
    )
    .unwrap()
}

fn database(strategy: &str) -> (TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("a.db"), strategy);
    (dir, db)
}

fn text(db: &Connection, sql: &str) -> String {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn strategy(db: &Connection) -> String {
    text(db, "PRAGMA oneflush_strategy")
}

/// `PRAGMA oneflush_strategy` answered "eager" for a database in DELETE mode, where `eager` does
/// nothing.
#[test]
fn in_the_rollback_modes_the_answer_is_inactive_with_the_mode() {
    for name in ["plain", "eager"] {
        let (dir, db) = database(name);
        let inactive = |mode: &str| format!("{name} (inactive: journal_mode={mode})");
        assert_eq!(strategy(&db), inactive("delete"), "a database without a page");
        db.execute_batch("CREATE TABLE t(v)").unwrap();
        for mode in ["delete", "truncate", "persist", "memory", "off", "delete"] {
            assert_eq!(text(&db, &format!("PRAGMA journal_mode={mode}")), mode);
            assert_eq!(strategy(&db), inactive(mode));
        }
        let stats: serde_json::Value =
            serde_json::from_str(&text(&db, "PRAGMA oneflush_stats")).unwrap();
        assert_eq!(stats["strategy"], *name);
        assert_eq!(stats["active"], false);
        assert_eq!(stats["inactive_because"], "journal_mode=delete");

        assert_eq!(text(&db, "PRAGMA journal_mode=wal"), "wal");
        assert_eq!(strategy(&db), name);
        db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        let other = open(&dir.path().join("a.db"), name);
        assert_eq!(strategy(&other), name, "before it has touched the database");
        drop(other);
        let stats: serde_json::Value =
            serde_json::from_str(&text(&db, "PRAGMA oneflush_stats")).unwrap();
        assert_eq!(stats["active"], true);
        assert!(stats.get("inactive_because").is_none());

        assert_eq!(text(&db, "PRAGMA journal_mode=delete"), "delete");
        assert_eq!(strategy(&db), inactive("delete"), "left again");
        drop(db);
        assert_eq!(
            strategy(&open(&dir.path().join("a.db"), name)),
            inactive("delete"),
            "of an older connection"
        );
    }
}

#[test]
fn a_mode_that_sqlite_refused_is_not_believed() {
    let (dir, db) = database("plain");
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    let other = open(&dir.path().join("a.db"), "plain");
    other.execute_batch("SELECT * FROM t").unwrap();
    assert!(
        db.query_row("PRAGMA journal_mode=persist", [], |row| row.get::<_, String>(0)).is_err(),
        "it is locked"
    );
    assert_eq!(strategy(&db), "plain");
}

#[test]
fn stock_is_always_itself() {
    let (_dir, db) = database("stock");
    assert_eq!(strategy(&db), "stock");
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    assert_eq!(strategy(&db), "stock");
}
