//! `oneflush try`: what it leaves as it was, what it says, what it refuses, and how it ends.

mod ends;
mod kinds;
mod live;
mod places;
mod refused;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::common::{Sandbox, stderr, stdout};

fn open(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    Connection::open_with_flags_and_vfs(path, flags, "unix").unwrap()
}

/// A database of this journal mode with `rows` rows, each of about 120 bytes, and an index.
fn make(path: &Path, journal_mode: &str, rows: u32) {
    open(path)
        .execute_batch(&format!(
            "PRAGMA journal_mode = {journal_mode};
            CREATE TABLE messages(id INTEGER PRIMARY KEY, v TEXT UNIQUE);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
            INSERT INTO messages SELECT i, hex(randomblob(50)) FROM n"
        ))
        .unwrap();
}

/// All that a folder holds: bytes, and what `stat` says but for the time of the last reading.
type Look = BTreeMap<PathBuf, (Vec<u8>, [i64; 6])>;

fn look(folder: &Path) -> Look {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| {
        let file = path.symlink_metadata().unwrap();
        let facts = [
            file.mtime(),
            file.mtime_nsec(),
            file.ctime(),
            file.ctime_nsec(),
            i64::from(file.mode()),
            file.ino() as i64,
        ];
        let bytes = if file.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        (path, (bytes, facts))
    };
    entries.map(of).collect()
}

/// As short as it gets: one round.
fn command(sandbox: &Sandbox, path: &Path) -> Command {
    let mut command = sandbox.oneflush();
    command.args(["try", "--seconds", "1"]).arg("--").arg(path);
    command
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Tries a database in `folder` and returns what was found. All in the folder is as it was.
#[track_caller]
fn tried(sandbox: &Sandbox, database: &Path) -> Value {
    let folder = database.parent().unwrap();
    let before = look(folder);
    let output = sandbox
        .oneflush()
        .args(["try", "--seconds", "1", "--json", "--"])
        .arg(database)
        .output()
        .unwrap();
    assert!(look(folder) == before, "{}: something was changed beside it", database.display());
    sandbox.assert_nothing_left(&[]);
    json(&output)
}

/// The modes, in the order of the answer, without repetition.
fn modes(found: &Value) -> Vec<&str> {
    let measured = found["measured"].as_array().unwrap();
    let mut modes: Vec<&str> = measured.iter().map(|one| one["mode"].as_str().unwrap()).collect();
    modes.dedup();
    modes
}

fn with_suffix(database: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The database and what is beside it, as a loss of power or a kill would leave it.
fn copy_of_live(live: &Path, to: &Path, suffixes: &[&str]) {
    for suffix in [""].iter().chain(suffixes) {
        fs::copy(with_suffix(live, suffix), with_suffix(to, suffix)).unwrap();
    }
}
