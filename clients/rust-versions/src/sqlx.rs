//! sqlx with a pool, and Oneflush linked into the program.

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    oneflush_vfs::register()?;
    let options = SqliteConnectOptions::new()
        .filename("app.db")
        .create_if_missing(true)
        .vfs("oneflush");
    let options = options.journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePoolOptions::new().max_connections(2).connect_with(options).await?;
    let strategy: String = sqlx::query_scalar("PRAGMA oneflush_strategy").fetch_one(&pool).await?;
    assert_eq!(strategy, "plain");
    sqlx::query("CREATE TABLE t(n INTEGER)").execute(&pool).await?;
    sqlx::query("INSERT INTO t VALUES (?)").bind(1).execute(&pool).await?;
    let version: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&pool).await?;
    pool.close().await;
    println!("{version}");
    Ok(())
}
