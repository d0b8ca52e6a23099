//! `rusqlite` on the library with both B-trees.

use oneflush_sqlite as _;
use rusqlite::Connection;

#[test]
fn rusqlite_has_both_engines() {
    let folder = tempfile::tempdir().unwrap();
    for (engine, mode) in [("lsmvbt", "lsmvbt"), ("sqlite", "delete")] {
        let path = folder.path().join(engine);
        let uri = format!("file:{}?engine={engine}", path.display());
        let db = Connection::open(&uri).unwrap();
        db.execute_batch(
            "CREATE TABLE t(a, b); CREATE INDEX i ON t(b); INSERT INTO t VALUES(1, 2)",
        )
        .unwrap();
        let answer: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(answer, mode);
        drop(db);
        let db = Connection::open(&path).unwrap();
        let sum: i64 =
            db.query_row("SELECT a + b FROM t WHERE b = 2", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 3);
        let begins_as_sqlite = std::fs::read(&path).unwrap().starts_with(b"SQLite format 3\0");
        assert_eq!(begins_as_sqlite, engine == "sqlite");
    }
}
