//! `PRAGMA journal_mode=WAL` with strategy `eager`, with real SQLite on real files. A crash is a
//! copy of the files at that moment.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use oneflush_blocklog::group::Group;
use oneflush_blocklog::{CHUNK_BYTES, DirectFile, Error as LogError, Log};
use oneflush_testing::{skip, wait_until};
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, flock};

use crate::common::damaged::set_format;
use crate::common::{
    self, count, crash, files, insert, integrity, open_stock, scratch, side, statistic as number,
};

fn try_open(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    common::setup();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=oneflush&{parameters}", path.display());
    let db = Connection::open_with_flags(uri, flags)?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.execute_batch(
        "PRAGMA journal_mode=wal; PRAGMA synchronous=full; CREATE TABLE IF NOT EXISTS t(v)",
    )?;
    Ok(db)
}

fn open(path: &Path) -> Connection {
    try_open(path, "strategy=eager").unwrap()
}

#[test]
fn a_one_row_commit_is_one_block_of_the_log_and_nothing_else_is_synced() {
    let (_dir, path) = scratch();
    let db = open(&path);
    insert(&db, 1);
    let (logged, wal_syncs, db_syncs) = (
        number(&db, "/eager/log/logged_bytes"),
        number(&db, "/files/wal/syncs"),
        number(&db, "/files/db/syncs"),
    );
    insert(&db, 50);
    let blocks = (number(&db, "/eager/log/logged_bytes") - logged) / 4096;
    assert!(
        (50..=52).contains(&blocks),
        "{blocks}: one more where a page is full and a new one begins"
    );
    assert_eq!(
        number(&db, "/files/wal/syncs") - wal_syncs,
        50,
        "SQLite's own, which become the log's writes"
    );
    assert_eq!(number(&db, "/files/db/syncs"), db_syncs);
}

/// A short run of the benchmark had the log's space in its bytes a commit, and nothing said how
/// much of them that was.
#[test]
fn the_zeros_that_a_log_is_laid_out_with_are_counted() {
    let (_dir, path) = scratch();
    let db = open(&path);
    // All but the first block.
    let size = || std::fs::metadata(side(&path, "-oneflush")).unwrap().len() - 4096;
    insert(&db, 1);
    let first = size();
    assert_eq!(number(&db, "/eager/log/laid_out_bytes"), first);
    insert(&db, 100);
    assert!(size() > first, "it has grown");
    assert_eq!(number(&db, "/eager/log/laid_out_bytes"), size());
}

#[test]
fn every_commit_comes_back_from_the_log_with_the_image_lost_stale_or_garbage() {
    let (_dir, path) = scratch();
    let db = open(&path);
    for rows in [1, 20, 300] {
        insert(&db, rows);
        let expected = count(&db);
        let lost = crash(&path, &["-oneflush"]);
        let stale = crash(&path, &["-oneflush", "-oneflush-wal"]);
        insert(&db, 1);
        std::fs::copy(side(&path, "-oneflush-wal"), side(&stale, "-oneflush-wal")).unwrap();
        let garbage = crash(&lost, &["-oneflush"]);
        std::fs::write(side(&garbage, "-oneflush-wal"), vec![0x5a; 100_000]).unwrap();
        for crashed in [lost, stale, garbage] {
            let again = open(&crashed);
            assert_eq!((count(&again), integrity(&again).as_str()), (expected, "ok"));
            insert(&again, 5);
            // Once more, before anything was checkpointed.
            let twice = open(&crash(&crashed, &["-oneflush"]));
            assert_eq!((count(&twice), integrity(&twice).as_str()), (expected + 5, "ok"));
        }
    }
}

#[test]
fn a_checkpoint_and_what_follows_it_come_back_too() {
    for locking_mode in ["normal", "exclusive"] {
        checkpoints_come_back(locking_mode);
    }
}

fn checkpoints_come_back(locking_mode: &str) {
    let (_dir, path) = scratch();
    let db = open(&path);
    db.execute_batch(&format!("PRAGMA locking_mode={locking_mode}")).unwrap();
    db.execute_batch("CREATE TABLE u(a, b); CREATE INDEX i ON u(a); CREATE INDEX j ON u(b)")
        .unwrap();
    let insert_indexed = |db: &Connection| {
        for _ in 0..200 {
            db.execute("INSERT INTO u VALUES (randomblob(20), randomblob(20))", []).unwrap();
        }
    };
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE", "PASSIVE", "RESTART"] {
        insert_indexed(&db);
        db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
        let checkpointed = open(&crash(&path, &["-oneflush"]));
        insert_indexed(&db);
        let gone_on = open(&crash(&path, &["-oneflush"]));
        let rows = |db: &Connection| {
            db.query_row("SELECT count(*) FROM u", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!((rows(&checkpointed) + 200, rows(&gone_on)), (rows(&db), rows(&db)), "{mode}");
        assert_eq!(
            (integrity(&checkpointed).as_str(), integrity(&gone_on).as_str()),
            ("ok", "ok"),
            "{mode}"
        );
    }
    let images = number(&db, "/eager/log/page_images");
    assert!(images > 0, "pages with deltas against the database file were logged whole");
}

/// Records of the newest epoch, and how many of them have copies between their pages.
fn records_and_rows(path: &Path) -> (usize, usize) {
    let log = Log::open(DirectFile::open(&side(path, "-oneflush"), false).unwrap()).unwrap();
    let (mut records, mut rows) = (0, 0);
    log.scan(|kind, _, payload| {
        records += 1;
        rows += usize::from(Group::decode(kind, payload)?.pages().any(|page| page.in_row));
        Ok::<(), LogError>(())
    })
    .unwrap();
    (records, rows)
}

/// Writes the newest epoch of a log again, into a log of another version that has the same name.
fn as_an_older_oneflush_left_it(log: &Path, version: u32) {
    let mut header = std::fs::read(log).unwrap()[..4096].to_vec();
    let mut records = Vec::new();
    let new = Log::open(DirectFile::open(log, false).unwrap()).unwrap();
    new.scan(|kind, _, payload| {
        records.push((kind, payload.to_vec()));
        Ok::<(), LogError>(())
    })
    .unwrap();
    drop(new);
    set_format(&mut header, version);
    header.resize(4096 + 2 * CHUNK_BYTES as usize, 0);
    std::fs::write(log, header).unwrap();
    let old = Log::open(DirectFile::open(log, false).unwrap()).unwrap();
    let mut head = old.empty_head().unwrap();
    for (kind, payload) in records {
        head = old.grow(&head, head.position + old.record_bytes(payload.len())).unwrap();
        let begins = head.epoch.0 == 0;
        head = if begins {
            old.begin_epoch(&head, kind, &payload)
        } else {
            old.append(&head, kind, &payload)
        }
        .unwrap();
    }
}

/// Makes a table with two indexes on random keys, in the database file. From then on nothing is
/// checkpointed unless the test asks for it. The indexes are built from the rows, so their pages
/// are full, and the next rows split them.
fn fill_u(db: &Connection, rows: u32) {
    db.execute_batch(&format!(
        "CREATE TABLE u(a INTEGER, b INTEGER);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT {rows}) INSERT INTO u \
         SELECT random(), random() FROM n;
         CREATE INDEX ua ON u(a); CREATE INDEX ub ON u(b);
         PRAGMA wal_autocheckpoint=0; PRAGMA wal_checkpoint(TRUNCATE)"
    ))
    .unwrap();
}

/// Rows, what the columns add up to, and what `integrity_check` says.
fn state_of_u(db: &Connection) -> (i64, i64, String) {
    let sum = "SELECT count(*), sum(a % 1000) + sum(b % 1000) FROM u";
    let (rows, sum) = db.query_row(sum, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    (rows, sum, integrity(db))
}

#[test]
fn cells_that_go_to_other_pages_are_copied_in_the_log_but_not_in_one_of_version_1() {
    let (_dir, path) = scratch();
    let db = try_open(&path, "strategy=eager&checkpoints=sqlite").unwrap();
    fill_u(&db, 20_000);
    let insert_random = |db: &Connection| {
        db.execute_batch("PRAGMA wal_autocheckpoint=0").unwrap();
        (0..300)
            .for_each(|_| _ = db.execute("INSERT INTO u VALUES (random(), random())", []).unwrap());
    };
    let old = crash(&path, &["-oneflush"]);
    assert_eq!(records_and_rows(&old).1, 0);

    insert_random(&db);
    let crashed = crash(&path, &["-oneflush"]);
    let (records, rows) = records_and_rows(&crashed);
    assert!(records >= 300 && rows > 10, "{rows} of {records}");
    assert_eq!(state_of_u(&open(&crashed)), state_of_u(&db));

    as_an_older_oneflush_left_it(&side(&old, "-oneflush"), 1);
    let db = try_open(&old, "strategy=eager&checkpoints=sqlite").unwrap();
    insert_random(&db);
    let crashed = crash(&old, &["-oneflush"]);
    let (records, rows) = records_and_rows(&crashed);
    assert!(records >= 300 && rows == 0, "{rows} of {records}");
    assert_eq!(state_of_u(&open(&crashed)), state_of_u(&db));
}

#[test]
fn what_is_committed_between_the_images_of_a_checkpoint_comes_back_too() {
    let (_dir, path) = scratch();
    let db = try_open(&path, "strategy=eager&checkpoints=sqlite").unwrap();
    fill_u(&db, 40_000);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let db = try_open(&path, "strategy=eager&checkpoints=sqlite").unwrap();
            db.execute_batch("PRAGMA wal_autocheckpoint=0").unwrap();
            while !over.load(Relaxed) {
                db.execute("INSERT INTO u VALUES (random(), random())", []).unwrap();
            }
        });
        let mut checkpoints = 0;
        wait_until("commits between the images of two checkpoints or more", || {
            db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
            checkpoints += 1;
            writer.is_finished() || checkpoints > 1 && number(&db, "/eager/log/page_images") > 200
        });
        over.store(true, Relaxed);
        writer.join().unwrap();
    });
    let again = open(&crash(&path, &["-oneflush"]));
    assert_eq!(state_of_u(&again), state_of_u(&db));
}

/// More pages than a recovery keeps in memory.
#[test]
fn a_recovery_of_many_pages_finds_them_and_leaves_the_image_alone_where_it_fails() {
    let (_dir, path) = scratch();
    let db = try_open(&path, "strategy=eager&checkpoints=sqlite").unwrap();
    db.execute_batch(
        "CREATE TABLE w(id INTEGER PRIMARY KEY, n INTEGER, filling BLOB);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 1500) INSERT INTO w \
         SELECT i, 0, randomblob(3000) FROM n;
         PRAGMA wal_autocheckpoint=0; PRAGMA wal_checkpoint(TRUNCATE)",
    )
    .unwrap();
    for digit in 1..=2 {
        let update = "UPDATE w SET n = n * 10 + ?1 WHERE id = ?2";
        (1..=1500).for_each(|id| _ = db.execute(update, (digit, id)).unwrap());
    }
    let state = |db: &Connection| {
        let sum =
            db.query_row("SELECT sum(n = 12) FROM w", [], |row| row.get::<_, i64>(0)).unwrap();
        (sum, integrity(db))
    };
    assert_eq!(state(&db), (1500, "ok".to_owned()));
    let without_image = open(&crash(&path, &["-oneflush"]));
    assert!(number(&without_image, "/eager/log/recovered/pages") >= 1500);
    assert_eq!(state(&without_image), state(&db));
    let crashed = crash(&path, &["-oneflush", "-oneflush-wal"]);
    assert_eq!(state(&open(&crashed)), state(&db));

    // The database file has another last page. The recovery needs that page.
    let crashed = crash(&path, &["-oneflush", "-oneflush-wal"]);
    let file = File::options().write(true).open(&crashed).unwrap();
    let last_page = file.metadata().unwrap().len() - 4096;
    file.write_all_at(&[0xee; 4096], last_page).unwrap();
    let image = std::fs::read(side(&crashed, "-oneflush-wal")).unwrap();
    assert!(image.len() > 3000 * 4096);
    assert!(try_open(&crashed, "strategy=eager").is_err());
    assert!(std::fs::read(side(&crashed, "-oneflush-wal")).unwrap() == image);
}

#[test]
fn a_large_transaction_goes_through_the_image_and_comes_back_with_it() {
    let (_dir, path) = scratch();
    // A checkpoint might end before the files are copied. Then the image would not be needed.
    let db = try_open(&path, "strategy=eager&checkpoints=sqlite").unwrap();
    db.execute_batch("PRAGMA wal_autocheckpoint=0").unwrap();
    insert(&db, 3);
    let syncs = number(&db, "/eager/log/image_syncs");
    db.execute_batch(
        "INSERT INTO t SELECT randomblob(4000) FROM (WITH RECURSIVE n(i) AS (SELECT 1 \
        UNION ALL SELECT i+1 FROM n LIMIT 3000) SELECT * FROM n)",
    )
    .unwrap();
    assert_eq!(number(&db, "/eager/log/image_syncs") - syncs, 1);
    insert(&db, 7);
    let with_image = open(&crash(&path, &["-oneflush", "-oneflush-wal"]));
    assert_eq!((count(&with_image), integrity(&with_image).as_str()), (3010, "ok"));
    // The log says that the image is synced. Without the image commits are missing, so nobody may
    // see the rest.
    let without = crash(&path, &["-oneflush"]);
    assert!(try_open(&without, "strategy=eager").is_err());
    std::fs::copy(side(&path, "-oneflush-wal"), side(&without, "-oneflush-wal")).unwrap();
    assert_eq!(count(&open(&without)), 3010);
}

#[test]
fn a_log_that_is_full_goes_on_through_the_image() {
    let (_dir, path) = scratch();
    let db = try_open(&path, "strategy=eager&log_size=1048576").unwrap();
    let reader = try_open(&path, "strategy=eager").unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    assert_eq!(count(&reader), 0);
    insert(&db, 500);
    assert!(number(&db, "/eager/log/image_syncs") >= 2);
    let again = open(&crash(&path, &["-oneflush", "-oneflush-wal"]));
    assert_eq!((count(&again), integrity(&again).as_str()), (500, "ok"));
    assert_eq!(count(&reader), 0);
}

/// With `wal_autocheckpoint=0`, `sqlite3_wal_checkpoint_v2` right after a commit copied nothing.
/// The call was taken for SQLite's automatic checkpoint, which is left for later.
#[test]
fn a_checkpoint_that_is_asked_for_by_the_c_interface_is_run_where_sqlite_runs_none_by_itself() {
    let (_dir, path) = scratch();
    let db = open(&path);
    db.execute_batch("PRAGMA wal_autocheckpoint=0").unwrap();
    let began = Instant::now();
    insert(&db, 1);
    // From 1,000 frames on SQLite would run its own checkpoint. From 1,024 commits on the log
    // has so much that a checkpoint is due.
    for _ in 0..1010 {
        db.execute_batch("UPDATE t SET v = randomblob(100)").unwrap();
    }
    // One checkpoint comes by the age of the first commit, and the WAL begins anew after it.
    if began.elapsed() >= Duration::from_secs(4) {
        return skip("1,010 commits take 4 s or more here, and a checkpoint comes by their age");
    }
    let (mut frames, mut copied) = (0, 0);
    // SAFETY: an open connection, and places for two numbers.
    let code = unsafe {
        rusqlite::ffi::sqlite3_wal_checkpoint_v2(
            db.handle(),
            std::ptr::null(),
            rusqlite::ffi::SQLITE_CHECKPOINT_PASSIVE,
            &mut frames,
            &mut copied,
        )
    };
    assert_eq!((code, frames), (0, copied));
    assert!(frames > 1000, "{frames}");
}

/// Waits until a reader finds the pages in the database file.
fn wait_for_a_checkpoint(db: &Connection) {
    wait_until("a checkpoint", || number(db, "/eager/checkpoints/count") > 0);
}

#[test]
fn a_large_transaction_is_checkpointed_at_once_and_small_ones_when_there_are_no_more() {
    let (_dir, path) = scratch();
    let db = open(&path);
    db.execute_batch("BEGIN").unwrap();
    insert(&db, 50_000);
    db.execute_batch("COMMIT").unwrap();
    wait_for_a_checkpoint(&db);
    drop(db);

    // A checkpoint comes 2 s after the last commit, or 5 s after the first one because of its age.
    // If the machine takes that long for the commits, the case says nothing and is tried again.
    let was_in_time = (0..20).any(|_| {
        let db = open(&path);
        let began = Instant::now();
        insert(&db, 100);
        std::thread::sleep(Duration::from_secs(3));
        let checkpoints = number(&db, "/eager/checkpoints/count");
        let is_in_time = began.elapsed() < Duration::from_secs(5);
        assert!(checkpoints == 0 || !is_in_time, "100 commits are not worth it");
        is_in_time
    });
    assert!(was_in_time, "100 commits always took 2 s or more");

    let db = open(&path);
    insert(&db, 1100);
    wait_for_a_checkpoint(&db);
}

#[test]
fn writers_that_wait_share_a_write_of_the_log() {
    let (_dir, path) = scratch();
    let db = open(&path);
    let counts = || (number(&db, "/eager/commits"), number(&db, "/eager/log/records"));
    let mut rows = 0;
    // On a busy machine one thread may end before the next begins. Then it has nobody to share a
    // flush with.
    wait_until("a third of the writes is saved", || {
        let before = counts();
        let all_are_there = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let db = open(&path);
                    all_are_there.wait();
                    insert(&db, 100);
                });
            }
        });
        rows += 800;
        let after = counts();
        let (commits, records) = (after.0 - before.0, after.1 - before.1);
        assert!(commits >= 800, "{commits}");
        records * 3 < commits * 2
    });
    assert_eq!((count(&db), integrity(&db).as_str()), (rows, "ok"));
    let again = open(&crash(&path, &["-oneflush"]));
    assert_eq!((count(&again), integrity(&again).as_str()), (rows, "ok"));
}

#[test]
fn strategies_follow_each_other_without_losing_a_commit() {
    let (_dir, path) = scratch();
    // A WAL of SQLite's own that a crash has left.
    let stock = open_stock(&path);
    stock
        .execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES (1)")
        .unwrap();
    let crashed = crash(&path, &["-wal"]);
    let db = open(&crashed);
    insert(&db, 1);
    assert_eq!(count(&db), 2);
    // A log of `eager` that a crash has left.
    let crashed = crash(&crashed, &["-oneflush"]);
    let plain = try_open(&crashed, "strategy=plain").unwrap();
    insert(&plain, 1);
    assert_eq!((count(&plain), integrity(&plain).as_str()), (3, "ok"));
    assert!(!side(&crashed, "-oneflush").exists());
    // A WAL that `plain` has kept.
    drop(plain);
    assert_eq!(files(&crashed), ["", "-oneflush-kept"]);
    let db = open(&crashed);
    insert(&db, 1);
    assert!(!files(&crashed).iter().any(|file| file == "-wal" || file == "-oneflush-kept"));
    db.query_row("PRAGMA journal_mode=delete", [], |_| Ok(())).unwrap();
    insert(&db, 1);
    assert_eq!(files(&crashed), [""]);
    assert_eq!(count(&open_stock(&crashed)), 5);
    db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    insert(&db, 1);
    drop(db);
    assert_eq!((files(&crashed), count(&open_stock(&crashed))), (vec![String::new()], 6));
}

#[test]
fn who_has_the_database_open_otherwise_keeps_it() {
    let (_dir, path) = scratch();
    let plain = try_open(&path, "strategy=plain").unwrap();
    insert(&plain, 1);
    assert!(try_open(&path, "strategy=eager").is_err(), "plain in this process");
    insert(&plain, 1);
    drop(plain);
    let stock = open_stock(&path);
    insert(&stock, 1);
    assert!(try_open(&path, "strategy=eager").is_err(), "SQLite alone");
    insert(&stock, 1);
    drop(stock);
    let eager = open(&path);
    assert!(try_open(&path, "strategy=plain").is_err(), "eager in this process");
    insert(&eager, 1);
    let crashed = crash(&path, &["-oneflush"]);
    let elsewhere = File::open(side(&crashed, "-oneflush")).unwrap();
    flock(&elsewhere, FlockOperation::LockExclusive).unwrap();
    for strategy in ["strategy=eager", "strategy=plain"] {
        assert!(
            try_open(&crashed, strategy).is_err(),
            "another process has the log open, {strategy}"
        );
    }
    drop(elsewhere);
    assert_eq!(count(&open(&crashed)), 5);
}

#[test]
fn a_log_that_is_missing_of_another_database_or_damaged_is_refused_and_the_files_stay_as_they_are()
{
    let (_dir, path) = scratch();
    let db = open(&path);
    insert(&db, 20);
    let other = path.with_file_name("other.db");
    let other_db = open(&other);
    insert(&other_db, 1);

    let missing = crash(&path, &[]);
    let foreign = crash(&path, &[]);
    std::fs::copy(side(&other, "-oneflush"), side(&foreign, "-oneflush")).unwrap();
    let newer = crash(&path, &["-oneflush"]);
    let cut = crash(&path, &["-oneflush"]);
    File::options().write(true).open(side(&cut, "-oneflush")).unwrap().set_len(0).unwrap();
    // Damage in the middle of the records: valid ones lie behind it.
    let damaged = crash(&path, &["-oneflush"]);
    let log = side(&damaged, "-oneflush");
    let bytes = std::fs::read(&log).unwrap();
    let records: Vec<usize> =
        (4096..bytes.len()).step_by(4096).filter(|&at| bytes[at..at + 4] == *b"1FLR").collect();
    let file = File::options().write(true).open(&log).unwrap();
    file.write_all_at(
        &[bytes[records[records.len() / 2] + 70] ^ 1],
        records[records.len() / 2] as u64 + 70,
    )
    .unwrap();
    // The checksum of the header is wrong too.
    File::options()
        .write(true)
        .open(side(&newer, "-oneflush"))
        .unwrap()
        .write_all_at(&[0xff; 64], 256)
        .unwrap();

    for (what, path) in [
        ("missing", missing),
        ("foreign", foreign),
        ("header", newer),
        ("cut", cut),
        ("damaged", damaged),
    ] {
        let before = (std::fs::read(&path).unwrap(), std::fs::read(side(&path, "-oneflush")).ok());
        for strategy in ["strategy=eager", "strategy=plain"] {
            assert!(try_open(&path, strategy).is_err(), "{what}, {strategy}");
            let after =
                (std::fs::read(&path).unwrap(), std::fs::read(side(&path, "-oneflush")).ok());
            assert!(before == after, "{what}, {strategy}");
        }
    }
}

#[test]
fn vacuum_into_and_backup_read_through_the_vfs() {
    let (dir, path) = scratch();
    let db = open(&path);
    insert(&db, 100);
    let copy = dir.path().join("copy.db");
    db.execute("VACUUM INTO ?", [copy.display().to_string()]).unwrap();
    assert_eq!(count(&open_stock(&copy)), 100);
    let mut backup = open_stock(&dir.path().join("backup.db"));
    rusqlite::backup::Backup::new(&db, &mut backup)
        .unwrap()
        .run_to_completion(100, Duration::ZERO, None)
        .unwrap();
    assert_eq!((count(&backup), integrity(&backup).as_str()), (100, "ok"));
    db.execute_batch("VACUUM; PRAGMA mmap_size=1000000").unwrap();
    insert(&db, 1);
    assert_eq!((count(&db), integrity(&db).as_str()), (101, "ok"));
}

#[test]
fn every_page_size_comes_back() {
    for page_bytes in [512, 1024, 65536] {
        let (_dir, path) = scratch();
        open_stock(&path)
            .execute_batch(&format!("PRAGMA page_size={page_bytes}; CREATE TABLE t(v)"))
            .unwrap();
        let db = open(&path);
        insert(&db, 300);
        let again = open(&crash(&path, &["-oneflush"]));
        assert_eq!((count(&again), integrity(&again).as_str()), (300, "ok"), "{page_bytes}");
        drop(db);
        assert_eq!(
            (files(&path), count(&open_stock(&path))),
            (vec![String::new()], 300),
            "{page_bytes}"
        );
    }
}

#[test]
fn inspecting_says_what_the_log_holds_and_changes_nothing() {
    let (_dir, path) = scratch();
    let db = open(&path);
    insert(&db, 30);
    assert!(
        oneflush_vfs::inspect(&path).unwrap_err().to_string().contains("has the database open"),
        "in use"
    );
    let crashed = crash(&path, &["-oneflush"]);
    let before = std::fs::read(&crashed).unwrap();
    for _ in 0..2 {
        let contents = oneflush_vfs::inspect(&crashed).unwrap().unwrap();
        assert!(contents.records >= Some(30) && contents.pages >= 2, "{contents:?}");
        assert!(std::fs::read(&crashed).unwrap() == before);
    }
    drop(open(&crashed));
    assert!(oneflush_vfs::inspect(&crashed).unwrap().is_none());
    let missing = oneflush_vfs::inspect(&crash(&path, &[])).unwrap_err().to_string();
    assert!(missing.contains("its log is missing"), "{missing}");
    let text = path.with_extension("txt");
    std::fs::write(&text, "no database, and longer than the header of one".repeat(9)).unwrap();
    assert!(
        oneflush_vfs::inspect(&text).unwrap_err().to_string().contains("not a SQLite database")
    );
}
