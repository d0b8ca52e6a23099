//! A file was put in the place of a database, and the files beside the old one are still there. The
//! first open after that works, or says why not.
//!
//! The case: a program ended without closing a database of `eager`. Its operator put a copy made by
//! `VACUUM INTO` in its place, which is in a rollback mode. The image was there, so SQLite opened
//! it as the WAL before anybody had looked at the header. The first open failed with "unable to
//! open database file", and the second worked.
//!
//! The right answer is what SQLite alone finds, with its own files as they are and without any of
//! ours.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;

use crate::common::{
    self, LOGGED, commits, crash, files, number, open_stock, open_with, side, take_said,
};

/// The content of a database file, and what it is.
struct Put {
    name: &'static str,
    bytes: Vec<u8>,
}

/// Files that lie beside the database, by what follows its name.
struct Beside {
    name: &'static str,
    files: Vec<(&'static str, Vec<u8>)>,
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(next).collect()
}

fn database(dir: &Path, page_bytes: u32, mode: &str, rows: usize) -> Vec<u8> {
    let path = dir.join(format!("{mode}-{page_bytes}.db"));
    let db = open_stock(&path);
    db.execute_batch(&format!(
        "PRAGMA page_size={page_bytes}; PRAGMA journal_mode={mode}; CREATE TABLE t(n)"
    ))
    .unwrap();
    (0..rows).for_each(|n| _ = db.execute("INSERT INTO t VALUES(?1)", [n as i64]).unwrap());
    drop(db);
    fs::read(path).unwrap()
}

fn puts(dir: &Path) -> Vec<Put> {
    let put = |name, bytes| Put { name, bytes };
    vec![
        put("a rollback mode", database(dir, 4096, "delete", 5)),
        put("WAL mode", database(dir, 4096, "wal", 6)),
        put("a rollback mode, other pages", database(dir, 1024, "delete", 7)),
        put("WAL mode, other pages", database(dir, 8192, "wal", 8)),
        put("encrypted", noise(200 << 10)),
        put("too short", noise(50)),
        put("empty", Vec::new()),
    ]
}

fn besides(dir: &Path) -> Vec<Beside> {
    let crashed = |strategy: &str, suffixes: &[&'static str], page_bytes: u32| {
        let path = dir.join(format!("{strategy}-{page_bytes}.db"));
        let _ = fs::remove_file(&path);
        let sql = format!("PRAGMA page_size={page_bytes}; CREATE TABLE t(n)");
        open_stock(&path).execute_batch(&sql).unwrap();
        let db = open_with(&path, &format!("strategy={strategy}")).unwrap();
        db.execute_batch("PRAGMA journal_mode=wal").unwrap();
        (0..30).for_each(|n| _ = db.execute("INSERT INTO t VALUES(?1)", [n]).unwrap());
        let crashed = crash(&path, suffixes);
        let read = |suffix: &&'static str| (*suffix, fs::read(side(&crashed, suffix)).unwrap());
        suffixes.iter().map(read).collect::<Vec<_>>()
    };
    let ours = crashed("eager", &["-oneflush", "-oneflush-wal", "-oneflush-shm"], 4096);
    let waldios = crashed("waldio", &["-waldio", "-oneflush-shm"], 4096);
    let of = |wanted: &[&str]| {
        ours.iter().filter(|(suffix, _)| wanted.contains(suffix)).cloned().collect::<Vec<_>>()
    };
    let wal = crashed("stock", &["-wal", "-shm"], 4096);
    let kept = || {
        let path = dir.join("kept.db");
        let _ = fs::remove_file(&path);
        let db = open_with(&path, "strategy=plain").unwrap();
        db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(n); INSERT INTO t VALUES(1)")
            .unwrap();
        drop(db);
        fs::read(side(&path, "-oneflush-kept")).unwrap()
    };
    let beside = |name, files| Beside { name, files };
    vec![
        beside("nothing", vec![]),
        beside("a log", of(&["-oneflush"])),
        beside("a log and its image", of(&["-oneflush", "-oneflush-wal"])),
        beside("log, image and board", ours.clone()),
        beside("an image", of(&["-oneflush-wal"])),
        beside("a board", of(&["-oneflush-shm"])),
        beside("an image and a board", of(&["-oneflush-wal", "-oneflush-shm"])),
        beside("an empty log", vec![("-oneflush", vec![])]),
        beside("noise for a log", vec![("-oneflush", noise(9000)), ("-oneflush-wal", noise(9000))]),
        beside("noise for a board", vec![("-oneflush-shm", noise(9000))]),
        beside("a log of waldio", vec![waldios[0].clone()]),
        beside("a log of waldio and its board", waldios.clone()),
        beside("an empty log of waldio", vec![("-waldio", vec![])]),
        beside("noise for a log of waldio", vec![("-waldio", noise(90_000))]),
        beside("a log of waldio, other pages", crashed("waldio", &["-waldio"], 1024)),
        beside("two logs", [of(&["-oneflush", "-oneflush-wal"]), waldios.clone()].concat()),
        beside(
            "log and image, other pages",
            crashed("eager", &["-oneflush", "-oneflush-wal"], 1024),
        ),
        beside("a WAL", vec![wal[0].clone()]),
        beside("a WAL and its index", wal.clone()),
        beside("a WAL index", vec![wal[1].clone()]),
        beside("a WAL, other pages", crashed("stock", &["-wal"], 1024)),
        beside("an empty WAL", vec![("-wal", vec![])]),
        beside("noise for a WAL", vec![("-wal", noise(9000))]),
        beside("a WAL of plain's", crashed("plain", &["-wal", "-shm"], 4096)),
        beside("a WAL that plain has kept", vec![("-oneflush-kept", kept())]),
        beside("a kept WAL and another", vec![("-oneflush-kept", kept()), wal[0].clone()]),
        beside("noise for a kept WAL", vec![("-oneflush-kept", noise(9000))]),
        beside("noise for a journal", vec![("-journal", noise(9000))]),
        beside("an empty journal", vec![("-journal", vec![])]),
        beside("all of them", [ours, wal].concat()),
    ]
}

/// How many rows the database has, or why it cannot be read.
fn look(db: rusqlite::Result<Connection>) -> String {
    let count =
        db.and_then(|db| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)));
    count.map_or_else(|error| error.to_string(), |count| count.to_string())
}

fn lay_out(put: &Put, beside: &Beside, with: impl Fn(&str) -> bool) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    fs::write(&path, &put.bytes).unwrap();
    for (suffix, bytes) in beside.files.iter().filter(|(suffix, _)| with(suffix)) {
        fs::write(side(&path, suffix), bytes).unwrap();
    }
    (dir, path)
}

#[test]
fn the_first_open_after_a_file_was_put_there_is_as_the_second_and_as_with_sqlite_alone() {
    common::setup();
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for put in puts(dir.path()) {
        for beside in besides(dir.path()) {
            let (_alone, path) = lay_out(&put, &beside, |suffix| {
                !suffix.contains("-oneflush") && suffix != "-waldio"
            });
            let expected = look(Ok(open_stock(&path)));
            // SQLite alone takes a WAL with pages of another size, and then finds the database
            // damaged.
            let is_left_alone = fs::read(&path).unwrap() == put.bytes;
            let is_sound = goes_on(&path, "stock", &expected).is_ok();
            for strategy in ["stock", "plain", "eager", "waldio"] {
                let about = format!("{strategy}: {}, beside it {}", put.name, beside.name);
                let (_dir, path) = lay_out(&put, &beside, |_| true);
                let mut found = Vec::new();
                for _ in 0..2 {
                    take_said(&path);
                    let first = look(open_with(&path, &format!("strategy={strategy}")));
                    found.push((first, take_said(&path)));
                }
                for (found, said) in found {
                    // The codes may differ where a reason is given: one is refused at the open, the
                    // other at the first look.
                    let is_refused = (expected.parse::<i64>().is_err() || !is_sound)
                        && found.parse::<i64>().is_err();
                    if found != expected && (said.is_empty() || !is_refused) {
                        wrong.push(format!(
                            "{about}: {found}, with SQLite alone {expected}; {said}"
                        ));
                    }
                }
                if expected.parse::<i64>().is_err()
                    && is_left_alone
                    && fs::read(&path).unwrap() != put.bytes
                {
                    wrong.push(format!("{about}: refused, and the file was changed"));
                }
                if is_sound && let Err(error) = goes_on(&path, strategy, &expected) {
                    wrong.push(format!("{about}: {error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells\n{}", wrong.len(), wrong.join("\n"));
}

/// A database that can be read can be written, and SQLite alone reads what was written.
fn goes_on(path: &Path, strategy: &str, expected: &str) -> Result<(), String> {
    let Ok(rows) = expected.parse::<i64>() else { return Ok(()) };
    let write = || {
        let db = open_with(path, &format!("strategy={strategy}"))?;
        db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(()))?;
        db.execute("INSERT INTO t VALUES(1000)", [])?;
        db.close().map_err(|(_, error)| error)
    };
    write().map_err(|error| format!("a write: {error}, {}", take_said(path)))?;
    let alone = look(Ok(open_stock(path)));
    if alone == (rows + 1).to_string() {
        Ok(())
    } else {
        Err(format!("then SQLite alone finds {alone}"))
    }
}

/// `VACUUM INTO` makes a copy in a rollback mode.
#[test]
fn the_log_of_a_database_that_a_copy_was_put_in_the_place_of_is_set_aside_at_the_first_open() {
    for logged in LOGGED {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let db = logged.open(&path).unwrap();
        db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
        commits::create(&db);
        commits::make(&db, 10);
        let copy = dir.path().join("copy.db");
        db.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
        commits::make(&db, 3);
        let crashed = crash(&path, logged.with_image);
        let guarded = fs::read(&crashed).unwrap();
        fs::copy(copy, &crashed).unwrap();
        for _ in 0..2 {
            assert_eq!(commits::check(&logged.open(&crashed).unwrap()), Ok(10));
        }
        let said = take_said(&crashed);
        assert!(said.contains("in the way"), "{said}");
        let left = files(&crashed);
        assert!(
            left.len() == 1 + logged.with_image.len()
                && left[1].starts_with(&format!("{}-", logged.log[0]))
                && left.get(2).is_none_or(|image| *image == format!("{}-wal", left[1])),
            "{left:?}"
        );
        // Nothing is lost of what the log has.
        fs::write(&crashed, guarded).unwrap();
        for (from, to) in left[1..].iter().zip(logged.with_image) {
            fs::rename(side(&crashed, from), side(&crashed, to)).unwrap();
        }
        assert_eq!(commits::check(&logged.open(&crashed).unwrap()), Ok(13));
    }
}

/// The log's first page was once written over that of any file without the beginning of a database.
#[test]
fn an_encrypted_file_beside_a_log_is_not_written_to_and_one_whose_first_page_is_garbled_is_mended()
{
    for (logged, strategy) in LOGGED.iter().flat_map(|one| [(one, one.strategy), (one, "plain")]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let db = logged.open(&path).unwrap();
        db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
        commits::create(&db);
        commits::make(&db, 20);
        db.execute_batch("CREATE TABLE filler(x); INSERT INTO filler VALUES (zeroblob(200000))")
            .unwrap();
        drop(db);
        let db = logged.open(&path).unwrap();
        // The log has the first page only of commits that change it.
        commits::try_make_with(&db, "CREATE TABLE u(x)").unwrap();
        let crashed = crash(&path, logged.with_image);
        let pages = number(&db, "PRAGMA page_count") as usize;
        assert!(pages > 32);
        let database = fs::read(&crashed).unwrap();

        let other = noise(database.len());
        fs::write(&crashed, &other).unwrap();
        let refused = look(open_with(&crashed, &format!("strategy={strategy}")));
        let said = take_said(&crashed);
        assert!(refused.contains("not a database"), "{strategy}: {refused}; {said}");
        assert!(fs::read(&crashed).unwrap() == other, "{strategy}");
        assert!(said.contains("move the log away"), "{strategy}: {said}");

        let mut garbled = database;
        garbled[..4096].copy_from_slice(&noise(4096));
        fs::write(&crashed, garbled).unwrap();
        let db = open_with(&crashed, &format!("strategy={strategy}")).unwrap();
        assert_eq!(commits::check(&db), Ok(21), "{strategy}");
    }
}
