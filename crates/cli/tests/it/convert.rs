//! `oneflush convert`: what it leaves as it was, what it refuses, and how it ends in the middle.

mod ends;
mod kinds;
mod refused;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use rusqlite::{Connection, OpenFlags};

use crate::common::{Sandbox, stderr, stdout};

fn open(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    Connection::open_with_flags_and_vfs(path, flags, "unix").unwrap()
}

/// A database of this journal mode with `rows` rows, each of about 120 bytes.
fn make(path: &Path, journal_mode: &str, rows: u32) {
    open(path)
        .execute_batch(&format!(
            "PRAGMA journal_mode = {journal_mode};
            CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);
            CREATE INDEX by_v ON t(v);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
            INSERT INTO t SELECT i, hex(randomblob(50)) FROM n;
            PRAGMA user_version = 7"
        ))
        .unwrap();
}

fn reserved(path: &Path) -> u8 {
    let mut byte = [0];
    fs::File::open(path).unwrap().read_exact_at(&mut byte, 20).unwrap();
    byte[0]
}

/// Everything that SQL sees of table `t`, as one number would be enough to tell it apart.
fn content(path: &Path) -> (i64, String, i64) {
    let db = open(path);
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let version = db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let sql = "SELECT count(*), coalesce(max(v || id), '') || coalesce(min(v || id), '') FROM t";
    let (rows, values) = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    (rows, values, version)
}

fn convert(sandbox: &Sandbox, database: &Path, arguments: &[&str]) -> Output {
    sandbox.oneflush().arg("convert").arg(database).args(arguments).output().unwrap()
}

#[track_caller]
fn converted(sandbox: &Sandbox, database: &Path, arguments: &[&str]) -> String {
    let output = convert(sandbox, database, arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// The files in the folder whose names begin with the database's, without it.
fn beside(database: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(database.parent().unwrap()).unwrap();
    let all = entries.map(|entry| entry.unwrap().path()).filter(|path| path != database);
    let name = database.as_os_str().as_encoded_bytes();
    all.filter(|path| path.as_os_str().as_encoded_bytes().starts_with(name)).collect()
}
