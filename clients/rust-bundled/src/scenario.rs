//! What all Rust clients do once the VFS `oneflush` is registered.

use std::fmt::Debug;
use std::path::Path;
use std::process::{Command, exit};
use std::sync::Mutex;

use rusqlite::{Connection, OpenFlags, params};

const ROWS: i64 = 20;
const SUMMARY: &str = "SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item \
    ORDER BY id)";

static LOG: Mutex<String> = Mutex::new(String::new());

/// Collects SQLite's error log; to be called before anything else of SQLite.
pub fn collect_log() -> rusqlite::Result<()> {
    // SAFETY: no other thread uses SQLite, and the callback does not use it either.
    unsafe { rusqlite::trace::config_log(Some(|_, line| LOG.lock().unwrap().push_str(line))) }
}

/// Loads the extension into a connection that is then closed: the VFS stays.
#[allow(dead_code)]
pub fn load_extension() -> rusqlite::Result<()> {
    let path = std::env::var("ONEFLUSH_EXTENSION_PATH").expect(
        "ONEFLUSH_EXTENSION_PATH is the \
        path of liboneflush.so",
    );
    let loader = Connection::open_in_memory()?;
    // SAFETY: the library is an extension of SQLite; no SQL from elsewhere runs while loading is
    // allowed.
    unsafe {
        loader.load_extension_enable()?;
        loader.load_extension(path, None::<&str>)
    }
}

/// Everything that a client has to show; the line that says so.
pub fn run(client: &str, rusqlite_version: &str) -> rusqlite::Result<()> {
    write_and_read(client, "wal", "wal", "rollback_journal")?;
    write_and_read(client, "delete", "rollback_journal", "wal")?;
    refuse_unknown_strategy(client);
    println!("{client}: ok (SQLite {}, rusqlite {rusqlite_version})", rusqlite::version());
    Ok(())
}

fn write_and_read(client: &str, mode: &str, journal: &str, other: &str) -> rusqlite::Result<()> {
    let check =
        |what: &str, found: String, expected: &str| check(client, what, found, expected.to_owned());
    let words: Vec<String> = (1..=ROWS).map(|n| format!("word {n}")).collect();
    let expected = format!("{ROWS}:{}", words.join(","));
    let file = format!("{client}-{mode}.db");

    let mut db = open(&file, "stock")?;
    check("PRAGMA oneflush_strategy", text(&db, "PRAGMA oneflush_strategy")?, "stock");
    check("PRAGMA journal_mode", text(&db, &format!("PRAGMA journal_mode={mode}"))?, mode);
    db.execute_batch(
        "PRAGMA synchronous=FULL; CREATE TABLE item(id INTEGER PRIMARY KEY, word \
        TEXT)",
    )?;

    let before = text(&db, "PRAGMA oneflush_stats")?;
    for (n, word) in (1..).zip(&words) {
        db.execute("INSERT INTO item VALUES(?, ?)", params![n, word])?;
    }
    let transaction = db.transaction()?;
    transaction.execute("INSERT INTO item VALUES(99, 'rolled back')", [])?;
    let rows =
        transaction.query_row("SELECT count(*) FROM item", [], |row| row.get::<_, i64>(0))?;
    check("rows before the rollback", rows.to_string(), &(ROWS + 1).to_string());
    transaction.rollback()?;
    let after = text(&db, "PRAGMA oneflush_stats")?;
    let growth = |path: &str| {
        let sql = "SELECT json_extract(?2, ?3) - json_extract(?1, ?3)";
        db.query_row(sql, [&before, &after, path], |row| row.get::<_, i64>(0))
    };
    check("commits counted", growth("$.commits.count")?.to_string(), &ROWS.to_string());
    for role in [journal, other] {
        let counted = growth(&format!("$.files.{role}.write_bytes"))? > 0;
        check(
            &format!(
                "{mode}: bytes counted for \
            {role}"
            ),
            counted.to_string(),
            &(role == journal).to_string(),
        );
    }
    check("rows", text(&db, SUMMARY)?, &expected);
    db.close().map_err(|(_, error)| error)?;

    let db = open(&file, "stock")?;
    check("strategy after the reopen", text(&db, "PRAGMA oneflush_strategy")?, "stock");
    check("journal mode after the reopen", text(&db, "PRAGMA journal_mode")?, mode);
    check("rows after the reopen", text(&db, SUMMARY)?, &expected);
    check("PRAGMA integrity_check", text(&db, "PRAGMA integrity_check")?, "ok");
    db.close().map_err(|(_, error)| error)?;

    // Another process, which never heard of Oneflush.
    let shell = std::env::var("SQLITE3").expect("SQLITE3 is the path of SQLite's shell");
    let sql = format!("PRAGMA oneflush_strategy; {SUMMARY}; PRAGMA integrity_check");
    let plain = Command::new(shell).args(["-batch", &file, &sql]).output().expect(
        "SQLite's shell \
        starts",
    );
    let output = [plain.stdout, plain.stderr].concat();
    check("plain SQLite", String::from_utf8_lossy(&output).into(), &format!("{expected}\nok\n"));
    Ok(())
}

fn refuse_unknown_strategy(client: &str) {
    LOG.lock().unwrap().clear();
    let file = format!("{client}-refused.db");
    check(client, "an unknown strategy was accepted", open(&file, "nonsense").is_ok(), false);
    let log = LOG.lock().unwrap();
    for words in ["URI parameter strategy", "\"nonsense\"", "allowed: auto, stock"] {
        check(client, &format!("{words} in SQLite's error log: {log}"), log.contains(words), true);
    }
    check(client, "files left by the refused open", Path::new(&file).exists(), false);
}

fn open(file: &str, strategy: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{file}?vfs=oneflush&strategy={strategy}"), flags)
}

fn text(db: &Connection, sql: &str) -> rusqlite::Result<String> {
    db.query_row(sql, [], |row| row.get(0))
}

fn check<T: PartialEq + Debug>(client: &str, what: &str, found: T, expected: T) {
    if found != expected {
        eprintln!("{client}: {what}: {found:?} instead of {expected:?}");
        exit(1);
    }
}
