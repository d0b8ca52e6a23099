//! Databases of LS-MVBT, and commands that meet them.

mod commands;
mod copies;
mod ends;
mod refused;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

// Both B-trees, for the tests' own connections.
use oneflush_sqlite as _;
use rusqlite::{Connection, OpenFlags};

use crate::common::{Sandbox, stderr, stdout};

fn open(path: &Path) -> Connection {
    of_engine(path, "sqlite")
}

/// A new database gets this engine.
fn of_engine(path: &Path, engine: &str) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let name = format!("file:{}?engine={engine}", path.display());
    Connection::open_with_flags_and_vfs(name, flags, "unix").unwrap()
}

/// Some rows of each kind of table.
const SOME: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); CREATE INDEX by_v ON t(v);
    CREATE TABLE \"a b\"(k PRIMARY KEY, v) WITHOUT ROWID; INSERT INTO \"a b\" VALUES (1, 2);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
    INSERT INTO t SELECT i * 2, hex(randomblob(50)) FROM n";

fn is_lsmvbt(path: &Path) -> bool {
    fs::read(path).unwrap().starts_with(b"Oneflush mvbt 1\n")
}

fn oneflush(sandbox: &Sandbox, command: &str, database: &Path, arguments: &[&str]) -> Output {
    sandbox.oneflush().arg(command).arg(database).args(arguments).output().unwrap()
}

#[track_caller]
fn said(sandbox: &Sandbox, command: &str, database: &Path, arguments: &[&str]) -> String {
    let output = oneflush(sandbox, command, database, arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// To the other engine.
#[track_caller]
fn convert(sandbox: &Sandbox, from: &Path, to: &Path, engine: &str) -> String {
    said(sandbox, "convert", from, &[to.to_str().unwrap(), "--engine", engine])
}

/// What lies in the folder with a name that begins so.
fn beginning_with(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let all = entries.map(|entry| entry.unwrap().path());
    let name = path.as_os_str().as_encoded_bytes();
    all.filter(|path| path.as_os_str().as_encoded_bytes().starts_with(name)).collect()
}
