//! Options of an open: what is refused, with which message, and that nothing is left behind.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::common::{setup, take_said};

fn open(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    setup();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{}?vfs=oneflush{parameters}", path.display()), flags)
}

#[test]
fn a_refused_option_is_logged_with_its_name_value_and_choices_and_creates_no_file() {
    let dir = tempfile::tempdir().unwrap();
    for (at, (parameters, words)) in [
        ("&strategy=eagre", ["strategy", "\"eagre\"", "auto, stock"]),
        ("&durability=half", ["durability", "\"half\"", "pragma, full"]),
        ("&strategy=stock&durability=full", ["durability=full", "stock", "PRAGMA synchronous"]),
        ("&group_commit=maybe", ["group_commit", "\"maybe\"", "on, off"]),
        ("&log_size=big", ["log_size", "\"big\"", "1 MiB"]),
    ]
    .into_iter()
    .enumerate()
    {
        let path = dir.path().join(format!("refused-{at}.db"));
        let error = open(&path, parameters).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::CannotOpen));
        assert!(!path.exists());
        let line = take_said(&path);
        for word in words {
            assert!(line.contains(word), "{word} not in: {line}");
        }
    }
}

#[test]
fn every_allowed_value_opens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    for parameters in [
        "",
        "&strategy=auto",
        "&strategy=stock",
        "&strategy=plain",
        "&durability=pragma",
        "&durability=full",
        "&prealloc=0",
        "&prealloc=65536",
        "&keep_wal=off",
        "&checkpoints=sqlite",
        "&group_commit=on",
        "&group_commit=off",
        "&log_size=1048576",
        "&cache=private&strategy=stock",
    ] {
        let db = open(&path, parameters).unwrap();
        db.execute_batch("CREATE TABLE IF NOT EXISTS t(v); INSERT INTO t VALUES (1)").unwrap();
    }
}

#[test]
fn an_attached_database_has_options_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("a.db"), "").unwrap();
    let other = dir.path().join("b.db");
    let attach = |strategy: &str| {
        db.execute_batch(&format!(
            "ATTACH 'file:{}?vfs=oneflush&strategy={strategy}' AS b",
            other.display()
        ))
    };
    attach("nonsense").unwrap_err();
    attach("stock").unwrap();
    let strategy: String =
        db.query_row("PRAGMA b.oneflush_strategy", [], |row| row.get(0)).unwrap();
    assert_eq!(strategy, "stock");
}

#[test]
fn temporary_and_in_memory_databases_work() {
    setup();
    for name in ["", ":memory:"] {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let db = Connection::open_with_flags_and_vfs(name, flags, oneflush_vfs::VFS_NAME).unwrap();
        db.execute_batch(
            "PRAGMA cache_size=2; CREATE TABLE t(v); INSERT INTO t VALUES (zeroblob(1000000));",
        )
        .unwrap();
        let size: i64 = db.query_row("SELECT length(v) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(size, 1_000_000);
    }
}
