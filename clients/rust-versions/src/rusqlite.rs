//! rusqlite, with Oneflush linked into the program.

use rusqlite::Connection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    oneflush_vfs::register()?;
    let db = Connection::open("file:app.db?vfs=oneflush")?;
    let text = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0));
    assert_eq!(text("PRAGMA journal_mode=WAL")?, "wal");
    assert_eq!(text("PRAGMA oneflush_strategy")?, "plain");
    db.execute_batch("CREATE TABLE t(n INTEGER); INSERT INTO t VALUES (1)")?;
    println!("{}", rusqlite::version());
    Ok(())
}
