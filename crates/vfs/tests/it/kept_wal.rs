//! The WAL that `plain` keeps over a close: what the next opener does with it, and what it means to
//! others.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use oneflush_blocklog::record_lock::record_lock_at;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::recorder;

fn open_with(path: &Path, parameters: &str) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=oneflush&strategy=plain{parameters}", path.display());
    let db = Connection::open_with_flags(uri, flags).unwrap();
    db.execute_batch("PRAGMA synchronous=full").unwrap();
    db
}

fn open(path: &Path) -> Connection {
    open_with(path, "")
}

/// SQLite alone, as another program would open the file.
fn open_stock(path: &Path) -> Connection {
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "unix").unwrap()
}

fn side(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn insert(db: &Connection, rows: usize) {
    let mut statement = db.prepare("INSERT INTO t(v) VALUES (randomblob(100))").unwrap();
    for _ in 0..rows {
        statement.execute([]).unwrap();
    }
}

fn count(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

fn assert_sound(db: &Connection, rows: i64) {
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!((integrity.as_str(), count(db)), ("ok", rows));
}

/// How many frames a checkpoint finds.
fn frames(db: &Connection) -> i64 {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1)).unwrap()
}

/// The end of a WAL's name between a close and an open.
const KEPT: &str = "-oneflush-kept";

/// The salts: they identify the generation of the WAL, in use or kept.
fn salts(path: &Path) -> Vec<u8> {
    let wal = [side(path, "-wal"), side(path, KEPT)].into_iter().find(|wal| wal.exists()).unwrap();
    std::fs::read(wal).unwrap()[16..24].to_vec()
}

/// What a copy of the whole directory would have of the WAL.
fn copy(path: &Path, name: &str) -> PathBuf {
    let copy = path.with_file_name(name);
    std::fs::copy(path, &copy).unwrap();
    for suffix in ["-wal", KEPT] {
        if side(path, suffix).exists() {
            std::fs::copy(side(path, suffix), side(&copy, suffix)).unwrap();
        }
    }
    copy
}

/// The names of all files beside the database, without the database's.
fn beside(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|file| {
            Some(file.strip_prefix(name)?.to_owned()).filter(|suffix| !suffix.is_empty())
        })
        .collect();
    names.sort();
    names
}

/// A database that was closed with 3 rows, two tables and a short WAL.
fn closed() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    open_stock(&path)
        .execute_batch(
            "PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE \
                other(v);
             INSERT INTO other VALUES (zeroblob(10000));",
        )
        .unwrap();
    let db = open(&path);
    insert(&db, 3);
    drop(db);
    (dir, path)
}

fn syncs(calls: &[String]) -> usize {
    calls.iter().filter(|call| call.starts_with("xSync")).count()
}

#[test]
fn a_short_wal_is_taken_up_so_that_each_commit_costs_one_flush_and_a_close_another() {
    let _guard = recorder::begin();
    let (_dir, path) = closed();
    let before = salts(&path);
    for session in 1..=3 {
        recorder::take();
        let db = open(&path);
        insert(&db, 3);
        assert_eq!(syncs(&recorder::take()), 3, "session {session}");
        drop(db);
        assert_eq!(syncs(&recorder::take()), 1, "session {session}");
        assert_eq!(beside(&path), [KEPT], "nothing that SQLite would open");
        assert_eq!(salts(&path), before, "session {session}");
        let copied = copy(&path, &format!("copy-{session}.db"));
        let stock = open_stock(&copied);
        assert_eq!(frames(&stock), 0, "to SQLite the WAL is empty");
        assert_sound(&stock, 3 + 3 * session);
    }
}

#[test]
fn after_a_crash_all_frames_of_a_wal_that_was_taken_up_count() {
    let _guard = recorder::begin();
    let (_dir, path) = closed();
    let db = open(&path);
    insert(&db, 2);
    let crashed = copy(&path, "crashed.db");
    let stock = open_stock(&crashed);
    assert_sound(&stock, 5);
    assert!(frames(&stock) >= 5);
}

#[test]
fn a_session_that_only_reads_writes_to_no_file_what_it_did_not_take_back_and_syncs_nothing() {
    let _guard = recorder::begin();
    let (_dir, path) = closed();
    let before = [std::fs::read(&path).unwrap(), std::fs::read(side(&path, KEPT)).unwrap()];
    // A clock tick, by which later changes of the database file would show.
    std::thread::sleep(Duration::from_millis(50));
    for is_touched in [false, true] {
        recorder::take();
        let db = open(&path);
        assert_eq!(count(&db), 3);
        if is_touched {
            // A process began a checkpoint, and was killed.
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(SystemTime::now())
                .unwrap();
        }
        drop(db);
        assert_eq!(syncs(&recorder::take()), usize::from(is_touched));
        assert_eq!(
            [std::fs::read(&path).unwrap(), std::fs::read(side(&path, KEPT)).unwrap()],
            before
        );
    }
}

/// Such a connection could not make the WAL empty again.
#[test]
fn a_connection_that_may_only_read_leaves_the_wal_as_it_is() {
    let _guard = recorder::begin();
    let (_dir, path) = closed();
    let before = std::fs::read(side(&path, KEPT)).unwrap();
    let uri = format!("file:{}?vfs=oneflush&strategy=plain", path.display());
    let db = Connection::open_with_flags(
        uri,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
    )
    .unwrap();
    assert_eq!(count(&db), 3);
    drop(db);
    assert_eq!(std::fs::read(side(&path, KEPT)).unwrap(), before);
}

#[test]
fn a_long_wal_is_begun_anew() {
    let _guard = recorder::begin();
    let (_dir, path) = closed();
    let db = open(&path);
    insert(&db, 40);
    drop(db);
    let before = salts(&path);
    recorder::take();
    let db = open(&path);
    let reads = recorder::take();
    assert!(
        !reads.iter().any(|call| call.starts_with("xRead") && call.contains(" 4120@4152")),
        "{reads:?}"
    );
    recorder::take();
    insert(&db, 3);
    assert_eq!(syncs(&recorder::take()), 4, "one for the header");
    assert_ne!(salts(&path), before);
    assert_sound(&db, 46);
    recorder::take();
    drop(db);
    assert_eq!(
        syncs(&recorder::take()),
        1,
        "frames of the generation before are no reason to sync the WAL"
    );
}

/// A reader keeps the WAL from beginning anew, so it grows to any size.
#[test]
fn a_very_long_wal_is_cut_once_its_mark_is_durable() {
    const MIB: u64 = 1 << 20;
    let _guard = recorder::begin();
    let (_dir, path) = closed();
    let size_bytes = |suffix| std::fs::metadata(side(&path, suffix)).unwrap().len();
    let (db, reader) = (open(&path), open(&path));
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    let rows = count(&db);
    db.execute_batch("CREATE TABLE large AS SELECT zeroblob(20 << 20)").unwrap();
    assert!(size_bytes("-wal") > 20 * MIB);
    drop(reader);
    recorder::take();
    drop(db);
    let calls = recorder::take();
    let last = |wanted: &str| calls.iter().rposition(|call| call.starts_with(wanted)).unwrap();
    // The last write is the mark.
    assert!(last("xWrite") < last("xSync"), "{calls:?}");
    assert!(last("xSync") < last("xTruncate"), "{calls:?}");
    assert_eq!(size_bytes(KEPT), 8 * MIB);
    let db = open(&path);
    insert(&db, 3);
    assert_sound(&db, rows + 3);
    drop(db);
    assert!(size_bytes(KEPT) <= 8 * MIB);
    assert_sound(&open_stock(&path), rows + 3);
}

/// The promise: a WAL that was closed means nothing to another database file.
/// A process that dies loses its lock on the database, and a moment later that on the WAL, by which
/// it shows that the WAL's name is durable. A WAL that got another name and its own again meanwhile
/// would be taken for durable.
#[test]
fn a_wal_that_another_process_still_shows_is_not_kept() {
    let (_dir, path) = closed();
    let db = open(&path);
    insert(&db, 1);
    let shown = File::options().read(true).write(true).open(side(&path, "-wal")).unwrap();
    let byte = 0x4000_0000 + i64::from(std::process::id()) + 1;
    record_lock_at(&shown, libc::F_OFD_SETLK, libc::F_WRLCK, byte).unwrap();
    drop(db);
    assert!(!side(&path, KEPT).exists() && !side(&path, "-wal").exists(), "{:?}", beside(&path));
    drop(shown);
    let db = open(&path);
    insert(&db, 1);
    drop(db);
    assert!(side(&path, KEPT).exists());
}

#[test]
fn another_database_file_in_the_place_of_the_old_one_is_what_counts() {
    let _guard = recorder::begin();
    let (_dir, path) = closed();
    let backup = std::fs::read(&path).unwrap();
    let db = open(&path);
    insert(&db, 2);
    drop(db);
    std::fs::write(&path, &backup).unwrap();
    let db = open(&path);
    assert_sound(&db, 3);
    insert(&db, 1);
    assert_sound(&db, 4);
    drop(db);
    assert_sound(&open_stock(&path), 4);
}

/// Only pages that the WAL does not have differ, or only the size does.
#[test]
fn a_database_file_that_was_changed_elsewhere_keeps_its_changes() {
    let _guard = recorder::begin();
    for change in [
        "UPDATE other SET v = zeroblob(10000) || 'x'",
        "INSERT INTO other VALUES (zeroblob(20000))",
        "VACUUM",
    ] {
        let (_dir, path) = closed();
        let elsewhere = path.with_file_name("elsewhere.db");
        std::fs::copy(&path, &elsewhere).unwrap();
        let db = open_stock(&elsewhere);
        db.execute_batch(&format!(
            "PRAGMA journal_mode=delete; {change}; PRAGMA journal_mode=wal;"
        ))
        .unwrap();
        drop(db);
        std::fs::copy(&elsewhere, &path).unwrap();
        let db = open(&path);
        insert(&db, 1);
        assert_sound(&db, 4);
        let other = |db: &Connection| -> i64 {
            db.query_row("SELECT sum(length(v)) FROM other", [], |row| row.get(0)).unwrap()
        };
        let after = other(&db);
        drop(db);
        assert_eq!(after, other(&open_stock(&elsewhere)), "{change}");
        assert_sound(&open_stock(&path), 4);
    }
}

#[test]
fn what_stock_sqlite_wrote_into_a_wal_of_its_own_counts_and_the_kept_one_goes() {
    let _guard = recorder::begin();
    let (_dir, path) = closed();
    let stock = open_stock(&path);
    insert(&stock, 1);
    // As if the process had been killed.
    let killed = copy(&path, "killed.db");
    assert_eq!(beside(&killed), [KEPT, "-wal"]);
    let db = open(&killed);
    assert_sound(&db, 4);
    assert_eq!(beside(&killed), ["-shm", "-wal"]);
    insert(&db, 1);
    assert_sound(&db, 5);
}

#[test]
fn every_page_size_and_a_wal_that_is_cut_at_the_close_work() {
    let _guard = recorder::begin();
    for page_bytes in [512, 1024, 4096, 65536] {
        for limit in [-1, 0, 5000] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.db");
            let db = open(&path);
            db.execute_batch(&format!(
                "PRAGMA page_size={page_bytes}; PRAGMA journal_mode=wal; CREATE TABLE t(id, v);"
            ))
            .unwrap();
            drop(db);
            for session in 1..=12 {
                let db = open(&path);
                db.execute_batch(&format!("PRAGMA journal_size_limit={limit}")).unwrap();
                insert(&db, 1);
                assert_sound(&db, session);
            }
            assert_sound(&open_stock(&path), 12);
        }
    }
}

#[test]
fn in_exclusive_locking_mode_the_wal_is_begun_anew() {
    let _guard = recorder::begin();
    let (_dir, path) = closed();
    let db = open(&path);
    db.execute_batch("PRAGMA locking_mode=exclusive").unwrap();
    insert(&db, 1);
    drop(db);
    assert_sound(&open(&path), 4);
    assert_sound(&open_stock(&path), 4);
}

/// SQLite takes new salts only for a WAL whose header counts no checkpoints.
#[test]
fn frames_of_before_the_close_do_not_come_back_behind_the_same_frames_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let db = open(&path);
    db.execute_batch(
        "PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES (0); PRAGMA \
            wal_checkpoint(RESTART);
         UPDATE t SET v = 1; UPDATE t SET v = 0;",
    )
    .unwrap();
    drop(db);
    let db = open_stock(&path);
    db.execute_batch("PRAGMA synchronous=full; UPDATE t SET v = 1").unwrap();
    // As after a kill.
    let crashed = copy(&path, "b.db");
    let value: i64 =
        open_stock(&crashed).query_row("SELECT v FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(value, 1);
}
