//! diesel, and Oneflush linked into the program.

use diesel::prelude::*;
use diesel::sql_types::Text;

#[derive(QueryableByName)]
struct Answer {
    #[diesel(sql_type = Text)]
    answer: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    oneflush_vfs::register()?;
    let mut db = SqliteConnection::establish("file:app.db?vfs=oneflush")?;
    diesel::sql_query("PRAGMA journal_mode=WAL").execute(&mut db)?;
    diesel::sql_query("CREATE TABLE t(n INTEGER)").execute(&mut db)?;
    diesel::sql_query("INSERT INTO t VALUES (1)").execute(&mut db)?;
    let sql = "SELECT sqlite_version() || ' ' || journal_mode AS answer FROM pragma_journal_mode";
    let answer: Answer = diesel::sql_query(sql).get_result(&mut db)?;
    assert!(answer.answer.ends_with(" wal"), "{}", answer.answer);
    println!("{}", answer.answer.trim_end_matches(" wal"));
    Ok(())
}
