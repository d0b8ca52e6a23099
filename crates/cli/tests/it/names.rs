//! Databases whose names are not UTF-8, for the commands that look at files. Both replaced what is
//! no UTF-8 by U+FFFD. So `a\xff.db` was looked for, and repaired, by the files of another database
//! that has this character in its name; and JSON was refused.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::common::crashed::{ROWS, crashed, side};
use crate::common::{Sandbox, assert_refused, stdout};

fn named(sandbox: &Sandbox, name: &[u8]) -> PathBuf {
    sandbox.path().join(OsStr::from_bytes(name))
}

fn said(sandbox: &Sandbox, command: &str, database: &Path, options: &[&str]) -> String {
    let output = sandbox.oneflush().arg(command).arg(database).args(options).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    stdout(&output)
}

fn json(sandbox: &Sandbox, command: &str, database: &Path, options: &[&str]) -> Value {
    serde_json::from_str(&said(sandbox, command, database, &[options, &["--json"]].concat()))
        .unwrap()
}

fn rows(database: &Path) -> i64 {
    let db =
        Connection::open_with_flags_and_vfs(database, OpenFlags::SQLITE_OPEN_READ_ONLY, "unix")
            .unwrap();
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// The loss of one was accepted, and the log of the other was removed.
#[test]
fn a_loss_is_accepted_for_one_database_and_the_one_whose_name_looks_alike_keeps_its_log() {
    let sandbox = Sandbox::new();
    let (damaged, other) = (named(&sandbox, b"a\xff.db"), sandbox.path().join("a\u{fffd}.db"));
    crashed(&damaged, &[]);
    crashed(&other, &["-oneflush-wal", "-oneflush-shm"]);
    let log = fs::read(side(&damaged, "-oneflush")).unwrap();
    fs::write(side(&damaged, "-oneflush"), &log[..4096 * 3]).unwrap();
    let before: Vec<_> = ["", "-oneflush", "-oneflush-wal"]
        .map(|suffix| fs::read(side(&other, suffix)).unwrap())
        .into();

    let dry = json(&sandbox, "recover", &damaged, &["--accept-loss", "--dry-run"]);
    assert!(dry["database"].as_str().unwrap().ends_with("a\\xff.db"), "{dry}");
    let said = said(&sandbox, "recover", &damaged, &["--accept-loss"]);
    assert!(
        said.contains("a\\xff.db-oneflush") && said.contains("is a plain database file now"),
        "{said}"
    );
    let name = |entry: fs::DirEntry| entry.file_name();
    let copies = fs::read_dir(sandbox.path()).unwrap().map(|entry| name(entry.unwrap()));
    let copies: Vec<_> =
        copies.filter(|name| name.as_bytes().starts_with(b"a\xff.db-before-recovery-")).collect();
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert!(
        fs::read(sandbox.path().join(&copies[0]).join(OsStr::from_bytes(b"a\xff.db-oneflush")))
            .is_ok()
    );

    assert!(!side(&damaged, "-oneflush").exists() && rows(&damaged) < ROWS as i64);
    for (suffix, before) in ["", "-oneflush", "-oneflush-wal"].iter().zip(before) {
        assert!(fs::read(side(&other, suffix)).unwrap() == before, "{suffix}");
    }
    self::said(&sandbox, "recover", &other, &[]);
    assert_eq!(rows(&other), ROWS as i64);
}

/// A database that only SQLite can open under its name: no log of `eager` is applied by another
/// name, and the way out is said.
#[test]
fn a_recovery_that_needs_eager_is_refused_with_a_way_out_that_leads_out() {
    let sandbox = Sandbox::new();
    let folder = named(&sandbox, b"folder\xff");
    fs::create_dir(&folder).unwrap();
    for database in [named(&sandbox, b"b\xfe.db"), folder.join("b.db")] {
        let made = sandbox.path().join("made.db");
        crashed(&made, &[]);
        for suffix in ["", "-oneflush"] {
            fs::rename(side(&made, suffix), side(&database, suffix)).unwrap();
        }
        assert!(
            json(&sandbox, "recover", &database, &["--dry-run"])["log"]["records"]
                .as_u64()
                .unwrap()
                > 0
        );
        let refused = sandbox.oneflush().arg("recover").arg(&database).output().unwrap();
        assert_refused(
            &refused,
            3,
            &["is not UTF-8", "Rename the database, and the files beside it alike"],
        );
        let renamed = sandbox.path().join("renamed.db");
        for suffix in ["", "-oneflush"] {
            fs::rename(side(&database, suffix), side(&renamed, suffix)).unwrap();
        }
        said(&sandbox, "recover", &renamed, &[]);
        assert_eq!(rows(&renamed), ROWS as i64);
    }
}

/// "Put it back" named the log of the other, which is there.
#[test]
fn a_log_that_is_missing_is_named_as_that_of_its_own_database() {
    let sandbox = Sandbox::new();
    let (path, other) = (named(&sandbox, b"d\xff.db"), sandbox.path().join("d\u{fffd}.db"));
    crashed(&path, &[]);
    crashed(&other, &[]);
    fs::remove_file(side(&path, "-oneflush")).unwrap();
    let refused = sandbox.oneflush().arg("recover").arg(&path).output().unwrap();
    assert_refused(
        &refused,
        3,
        &["d\\xff.db: ", "its log is missing: ", "d\\xff.db-oneflush, ", "Put it back"],
    );
    // With the guard in the header, and a WAL that is not its log.
    fs::write(side(&path, "-wal"), "commits").unwrap();
    let refused =
        sandbox.oneflush().arg("recover").arg(&path).arg("--accept-loss").output().unwrap();
    assert_refused(&refused, 1, &["d\\xff.db-wal: a WAL of SQLite's own is beside the database"]);
}

/// Its WAL, its log and its users were those of the other, or none.
#[test]
fn the_files_beside_a_database_are_its_own_and_so_are_its_users() {
    let sandbox = Sandbox::new();
    let (path, other) = (named(&sandbox, b"c\xff.db"), sandbox.path().join("c\u{fffd}.db"));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let db = Connection::open_with_flags_and_vfs(&path, flags, "unix").unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES (1)")
        .unwrap();
    crashed(&other, &["-oneflush-wal"]);
    fs::write(side(&path, "-\u{fffd}"), "").unwrap();

    let (stats, others) =
        (json(&sandbox, "stats", &path, &[]), json(&sandbox, "stats", &other, &[]));
    let suffixes = |json: &Value| -> Vec<String> {
        let files = json["side_files"].as_array().unwrap();
        files.iter().map(|file| file["suffix"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(suffixes(&stats), ["-shm", "-wal", "-\u{fffd}"]);
    assert_eq!(suffixes(&others), ["-oneflush", "-oneflush-wal"]);
    assert!(
        stats["wal_frames"].as_u64().unwrap() > 0 && others["wal_frames"].is_null(),
        "{stats} {others}"
    );
    assert_eq!(
        (&stats["users"][0]["pid"], &others["users"][0]),
        (&std::process::id().into(), &Value::Null)
    );
    assert_eq!(
        (stats["guarded"].as_bool(), others["guarded"].as_bool()),
        (Some(false), Some(true))
    );
    assert!(stats["database"].as_str().unwrap().ends_with("c\\xff.db"), "{stats}");
    assert!(said(&sandbox, "stats", &path, &[]).contains("c\\xff.db\n"));
    drop(db);
}
