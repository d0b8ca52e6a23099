//! rusqlite with the static form of the drop-in library: databases of LS-MVBT and of SQLite in one
//! program.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rusqlite::backup::Backup;
use rusqlite::{Connection, MAIN_DB, OpenFlags, Result, params};

static COMMITS: AtomicU64 = AtomicU64::new(0);

fn open(path: &str, engine: &str) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{path}?engine={engine}"), flags)
}

fn text(db: &Connection, sql: &str) -> Result<String> {
    db.query_row(sql, [], |row| row.get(0))
}

fn number(db: &Connection, sql: &str) -> Result<i64> {
    db.query_row(sql, [], |row| row.get(0))
}

fn main() -> Result<()> {
    let mut db = open("app.db", "lsmvbt")?;
    assert_eq!(text(&db, "PRAGMA journal_mode")?, "lsmvbt");
    text(&db, "PRAGMA oneflush_retain='100 versions'")?;
    db.commit_hook(Some(|| {
        COMMITS.fetch_add(1, Relaxed);
        false
    }))?;
    db.execute_batch(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE, data BLOB);
         CREATE INDEX td ON t(data);",
    )?;
    let before: i64 = {
        let history = text(&db, "PRAGMA oneflush_history")?;
        let (_, rest) = history.split_once("\"to\":").unwrap();
        rest.split(',').next().unwrap().parse().unwrap()
    };

    let transaction = db.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT INTO t(name, data) VALUES(?1, ?2)")?;
        for n in 0..2000 {
            insert.execute(params![format!("name {n}"), vec![n as u8; n]])?;
        }
    }
    transaction.commit()?;
    let savepoint = db.savepoint()?;
    savepoint.execute("DELETE FROM t", [])?;
    savepoint.finish()?;
    assert!(db.execute("INSERT INTO t(name) VALUES('name 7')", []).is_err());
    assert_eq!(number(&db, "SELECT count(*) FROM t")?, 2000);
    assert!(COMMITS.load(Relaxed) >= 2);
    let length = number(&db, "SELECT length(data) FROM t WHERE name = 'name 1999'")?;
    assert_eq!(length, 1999);
    let mut blob = db.blob_open(MAIN_DB, "t", "data", 2000, true)?;
    let mut bytes = Vec::new();
    blob.read_to_end(&mut bytes).expect("the blob is read");
    assert_eq!(bytes, vec![1999_usize as u8; 1999]);
    drop(blob);

    // An older version, and the newest again.
    text(&db, &format!("PRAGMA oneflush_snapshot={before}"))?;
    assert_eq!(number(&db, "SELECT count(*) FROM t")?, 0);
    text(&db, "PRAGMA oneflush_snapshot=latest")?;

    // Both engines at once, both ways.
    db.execute("ATTACH 'file:stock.db?engine=sqlite' AS stock", [])?;
    db.execute("CREATE TABLE stock.copy AS SELECT * FROM t", [])?;
    assert_eq!(number(&db, "SELECT count(*) FROM stock.copy JOIN t USING(id, data)")?, 2000);
    db.execute("DETACH stock", [])?;
    let mut target = open("backup.db", "sqlite")?;
    Backup::new(&db, &mut target)?.run_to_completion(100, std::time::Duration::ZERO, None)?;
    assert_eq!(number(&target, "SELECT sum(id) FROM t")?, 2000 * 2001 / 2);
    for db in [&db, &target] {
        assert_eq!(text(db, "PRAGMA integrity_check")?, "ok");
    }
    drop(db);
    let head = std::fs::read("app.db").expect("the database is a file");
    assert!(head.starts_with(b"Oneflush mvbt 1\n"));
    println!("rust-lsmvbt: ok (SQLite {}, static library)", rusqlite::version());
    Ok(())
}
