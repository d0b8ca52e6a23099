//! The image of `eager` in the memory of the process, on real files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

fn open_with(path: &Path, parameters: &str) -> Connection {
    oneflush_vfs::register().unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=oneflush&strategy=eager{parameters}", path.display());
    let db = Connection::open_with_flags(uri, flags).unwrap();
    db.busy_timeout(Duration::from_secs(5)).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=wal; PRAGMA synchronous=full; CREATE TABLE IF NOT EXISTS t(v)",
    )
    .unwrap();
    db
}

fn open(path: &Path) -> Connection {
    open_with(path, "")
}

fn insert(db: &Connection, rows: u32) {
    let mut statement = db.prepare("INSERT INTO t VALUES (randomblob(1500))").unwrap();
    for _ in 0..rows {
        statement.execute([]).unwrap();
    }
}

fn sound(db: &Connection, rows: u32) {
    assert_eq!(
        db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u32>(0)).unwrap(),
        rows
    );
    assert_eq!(
        db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap(),
        "ok"
    );
}

fn image(path: &Path) -> PathBuf {
    format!("{}-oneflush-wal", path.display()).into()
}

fn is_mapped(path: &Path) -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().contains(image(path).to_str().unwrap())
}

fn is_on_ext4(path: &Path) -> bool {
    let device = rustix::fs::stat(path).unwrap().st_dev;
    let number = format!(" {}:{} ", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.contains(&number) && line.contains(" - ext4 "))
}

/// Somebody cut the image under a running program. The next store to its memory ended the program
/// by SIGBUS, with all that it had to do besides.
#[test]
fn an_image_that_somebody_has_cut_is_an_error_and_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    for left_bytes in [0, 5000, 100_000] {
        let db = open(&path);
        let before: u32 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        insert(&db, 100);
        if is_on_ext4(&path) {
            assert!(is_mapped(&path));
            let cut = std::fs::OpenOptions::new().write(true).open(image(&path)).unwrap();
            cut.set_len(left_bytes).unwrap();
            for _ in 0..3 {
                let failed = db.execute("INSERT INTO t VALUES (1)", []).unwrap_err();
                assert_eq!(failed.sqlite_error_code(), Some(rusqlite::ErrorCode::SystemIoFailure));
            }
        }
        drop(db);
        sound(&open(&path), before + 100);
    }
}

#[test]
fn the_image_is_mapped_after_some_commits_on_ext4_and_until_the_last_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let db = open(&path);
    insert(&db, 2);
    assert!(!is_mapped(&path));
    insert(&db, 20);
    assert_eq!(is_mapped(&path), is_on_ext4(dir.path()));
    let reader = open(&path);
    sound(&reader, 22);
    drop(db);
    insert(&reader, 20);
    assert_eq!(is_mapped(&path), is_on_ext4(dir.path()));
    drop(reader);
    assert!(!is_mapped(&path));
    sound(&open(&path), 42);
}

/// A store to a page that the file has lost would end this test's process.
#[test]
fn an_image_that_is_cut_and_grows_again_keeps_every_commit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let (one, two) = (open(&path), open(&path));
    let mut rows = 0;
    for db in [&one, &two].into_iter().cycle().take(60) {
        insert(db, 1 + rows % 40);
        rows += 1 + rows % 40;
        match rows % 3 {
            0 => db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap_or_default(),
            1 => db
                .execute_batch("PRAGMA journal_size_limit=20000; PRAGMA wal_checkpoint(RESTART)")
                .unwrap_or_default(),
            _ => db
                .execute_batch("PRAGMA journal_size_limit=0; PRAGMA wal_checkpoint(RESTART)")
                .unwrap_or_default(),
        }
        // Frames of a rolled-back transaction are overwritten by the next one.
        db.execute_batch(
            "BEGIN; PRAGMA cache_size=5; INSERT INTO t SELECT randomblob(3000) FROM t \
            LIMIT 30; ROLLBACK",
        )
        .unwrap();
        sound(&one, rows);
    }
    sound(&two, rows);
    drop((one, two));
    sound(&open(&path), rows);
}

/// Where the image is not extended ahead, there is nothing to store to.
#[test]
fn an_image_that_grows_with_each_write_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let db = open_with(&path, "&prealloc=0");
    insert(&db, 50);
    sound(&db, 50);
    sound(&open(&path), 50);
    drop(db);
    sound(&open(&path), 50);
}
