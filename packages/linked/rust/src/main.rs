//! The program of `app.c`, in Rust: app DB STRATEGY COUNT [FORM].

use rusqlite::Connection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, name, strategy, count, form @ ..] = &arguments[..] else {
        return Err("usage: app DB STRATEGY COUNT [FORM]".into());
    };
    let rows: u64 = count.parse()?;
    let uri = if form == ["default"] {
        oneflush_vfs::register_default()?;
        format!("file:{name}?strategy={strategy}")
    } else {
        oneflush_vfs::register()?;
        format!("file:{name}?vfs=oneflush&strategy={strategy}")
    };
    let db = Connection::open(uri)?;
    db.execute_batch(
        "PRAGMA busy_timeout=5000; PRAGMA journal_mode=WAL;
         CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY)",
    )?;
    let ask = |sql: &str| db.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0));
    let shown = |value: rusqlite::types::Value| match value {
        rusqlite::types::Value::Text(text) => text,
        rusqlite::types::Value::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    println!("strategy {}", shown(ask("PRAGMA oneflush_strategy")?));
    for _ in 0..rows {
        db.execute("INSERT INTO t DEFAULT VALUES", [])?;
        println!("committed {}", db.last_insert_rowid());
    }
    println!("rows {}", shown(ask("SELECT count(*) FROM t")?));
    println!("integrity {}", shown(ask("PRAGMA integrity_check")?));
    db.close().map_err(|(_, error)| error)?;
    Ok(())
}
