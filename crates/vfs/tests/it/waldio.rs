//! `PRAGMA journal_mode=WAL` with strategy `waldio`, with real SQLite on real files. A crash is a
//! copy of the files at that moment.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use oneflush_testing::wait_until;
use rusqlite::{Connection, OpenFlags};

use crate::common::{
    self, count, crash, files, insert, integrity, number, open_stock, open_with, reserve, scratch,
    side, statistic,
};

const LAYOUTS: [&str; 4] = ["embed", "pad512", "pad4k", "pad8k"];

fn try_open(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    let db = open_with(path, &format!("strategy=waldio&{parameters}"))?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.execute_batch(
        "PRAGMA journal_mode=wal; PRAGMA synchronous=full; CREATE TABLE IF NOT EXISTS t(v)",
    )?;
    Ok(db)
}

fn open(path: &Path) -> Connection {
    try_open(path, "").unwrap()
}

#[test]
fn every_commit_comes_back_from_the_log_with_every_layout_and_page_size() {
    for layout in LAYOUTS {
        for page_size in [512, 1024, 4096, 16_384, 65_536] {
            let (_dir, path) = scratch();
            let db = open_with(&path, &format!("strategy=waldio&layout={layout}")).unwrap();
            db.execute_batch(&format!("PRAGMA page_size={page_size}")).unwrap();
            drop(db);
            let db = open_with(&path, &format!("strategy=waldio&layout={layout}")).unwrap();
            db.execute_batch(&format!(
                "PRAGMA page_size={page_size}; PRAGMA journal_mode=wal; CREATE TABLE t(v)"
            ))
            .unwrap();
            for rows in [1, 20, 300] {
                insert(&db, rows);
                let expected = count(&db);
                let again = open(&crash(&path, &["-waldio"]));
                assert_eq!(
                    (count(&again), integrity(&again).as_str()),
                    (expected, "ok"),
                    "{layout}, {page_size}"
                );
                assert_eq!(number(&again, "PRAGMA page_size"), page_size);
            }
        }
    }
}

#[test]
fn pages_without_any_gap_come_back_by_the_lane() {
    let (_dir, path) = scratch();
    // SQLite alone makes databases without reserved bytes.
    open_stock(&path).execute_batch("CREATE TABLE t(v)").unwrap();
    let db = open(&path);
    db.execute_batch(
        "CREATE TABLE full(v); PRAGMA wal_autocheckpoint=0;
         INSERT INTO full SELECT randomblob(4000) FROM (WITH RECURSIVE n(i) AS (SELECT 1 \
         UNION ALL SELECT i+1 FROM n LIMIT 3000) SELECT * FROM n)",
    )
    .unwrap();
    for _ in 0..300 {
        db.execute("UPDATE full SET v = randomblob(16000) WHERE rowid = abs(random()) % 3000", [])
            .unwrap();
    }
    assert_eq!(common::stats(&db)["waldio"]["slots"]["used_lane"], true);
    let sum = |db: &Connection| number(db, "SELECT sum(unicode(hex(v)) + length(v)) FROM full");
    let again = open(&crash(&path, &["-waldio"]));
    assert_eq!((sum(&again), integrity(&again).as_str()), (sum(&db), "ok"));
}

#[test]
fn a_transaction_larger_than_the_cache_writes_pages_and_headers_anew() {
    for layout in LAYOUTS {
        let (_dir, path) = scratch();
        let db = try_open(&path, &format!("layout={layout}&checkpoints=sqlite")).unwrap();
        db.execute_batch(
            "PRAGMA cache_size=10; PRAGMA wal_autocheckpoint=0; CREATE TABLE u(a, b);
             CREATE INDEX ua ON u(a); BEGIN",
        )
        .unwrap();
        for _ in 0..3000 {
            db.execute("INSERT INTO u VALUES (randomblob(20), randomblob(60))", []).unwrap();
        }
        db.execute_batch("SAVEPOINT s; UPDATE u SET b = 'x'; ROLLBACK TO s; COMMIT").unwrap();
        let rows = |db: &Connection| number(db, "SELECT count(*) + sum(length(b)) FROM u");
        let again = open(&crash(&path, &["-waldio"]));
        assert_eq!((rows(&again), integrity(&again).as_str()), (rows(&db), "ok"), "{layout}");
    }
}

#[test]
fn a_checkpoint_and_what_follows_it_come_back_too() {
    for locking_mode in ["normal", "exclusive"] {
        let (_dir, path) = scratch();
        let db = open(&path);
        db.execute_batch(&format!("PRAGMA locking_mode={locking_mode}")).unwrap();
        for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE", "PASSIVE", "RESTART"] {
            insert(&db, 200);
            db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
            let checkpointed = open(&crash(&path, &["-waldio"]));
            insert(&db, 200);
            let gone_on = open(&crash(&path, &["-waldio"]));
            assert_eq!(
                (count(&checkpointed) + 200, count(&gone_on)),
                (count(&db), count(&db)),
                "{mode}"
            );
            assert_eq!(
                (integrity(&checkpointed).as_str(), integrity(&gone_on).as_str()),
                ("ok", "ok"),
                "{mode}"
            );
        }
    }
}

#[test]
fn a_new_database_has_reserved_bytes_unless_the_application_wants_others() {
    let (_dir, path) = scratch();
    let reserved = |path: &Path| std::fs::read(path).unwrap()[20];
    let db = open(&path);
    db.execute_batch(&format!(
        "ATTACH 'file:{}-b?vfs=oneflush&strategy=waldio' AS b",
        path.display()
    ))
    .unwrap();
    db.execute_batch("CREATE TABLE b.u(v); PRAGMA b.journal_mode=wal").unwrap();
    insert(&db, 100);
    assert_eq!(common::stats(&db)["waldio"]["slots"]["used_lane"], false);
    db.execute_batch("VACUUM").unwrap();
    drop(db);
    assert_eq!((reserved(&path), reserved(&side(&path, "-b"))), (24, 24));

    let (_dir, path) = scratch();
    let db = open_with(&path, "strategy=waldio").unwrap();
    reserve(&db, 8);
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    drop(db);
    assert_eq!(reserved(&path), 8);
    let (_dir, plain) = scratch();
    for (path, parameters) in [(&plain, "strategy=plain"), (&plain, "strategy=waldio")] {
        let db = open_with(path, parameters).unwrap();
        db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE IF NOT EXISTS t(v)").unwrap();
        insert(&db, 10);
    }
    assert_eq!(reserved(&plain), 0, "a database that is there stays as it is");
    let (_dir, padded) = scratch();
    drop(try_open(&padded, "layout=pad4k").unwrap());
    assert_eq!(reserved(&padded), 0);
}

/// Counts of `PRAGMA oneflush_stats`.
fn flushes(db: &Connection) -> (u64, u64) {
    (statistic(db, "/waldio/commits"), statistic(db, "/waldio/flushes"))
}

#[test]
fn a_group_acknowledges_commits_before_they_are_written_and_writes_them_soon() {
    for sync in ["fs", "pd", "ns"] {
        let (_dir, path) = scratch();
        let db = try_open(&path, &format!("sync={sync}&group=4&interval=50ms")).unwrap();
        let (_, before) = flushes(&db);
        for n in 0..100 {
            db.execute("INSERT INTO t VALUES (?)", [n]).unwrap();
            assert_eq!(count(&db), n + 1, "a reader finds what is buffered");
        }
        assert_eq!(flushes(&db).1, before, "no commit is flushed by itself");
        let other = try_open(&path, &format!("sync={sync}&group=4&interval=50ms")).unwrap();
        assert_eq!(count(&other), 100);
        std::thread::sleep(Duration::from_millis(300));
        let again = open(&crash(&path, &["-waldio"]));
        assert_eq!((count(&again), integrity(&again).as_str()), (100, "ok"), "{sync}");
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        insert(&db, 7);
        drop((db, other));
        assert_eq!(files(&path), [""]);
        assert_eq!(count(&open_stock(&path)), 107);
    }
}

#[test]
fn a_crash_takes_what_is_in_the_buffer_and_no_more() {
    let (_dir, path) = scratch();
    let db = try_open(&path, "group=4&interval=1000ms").unwrap();
    db.execute_batch("CREATE TABLE n(i INTEGER PRIMARY KEY)").unwrap();
    for n in 0..50 {
        db.execute("INSERT INTO n VALUES (?)", [n]).unwrap();
        let again = open(&crash(&path, &["-waldio"]));
        let rows = number(&again, "SELECT count(*) FROM n");
        assert!((n - 3..=n + 1).contains(&rows), "{rows} of {}", n + 1);
        assert_eq!(integrity(&again), "ok");
    }
}

/// Writers that share a flush keep frames in memory for a moment. A reader by another way once met
/// slots without them.
#[test]
fn a_connection_that_only_reads_never_meets_a_frame_that_is_in_memory_alone() {
    for parameters in ["", "group=4&interval=2ms"] {
        let (_dir, path) = scratch();
        drop(open(&path));
        let (over, open_writers) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let db = try_open(&path, parameters).unwrap();
                        insert(&db, 1);
                        open_writers.fetch_add(1, Relaxed);
                        while !over.load(Relaxed) {
                            insert(&db, 1);
                        }
                    })
                })
                .collect();
            // A reader that came first would read as with SQLite alone, and keep writers away.
            wait_until("the writers", || open_writers.load(Relaxed) == 3);
            std::thread::sleep(Duration::from_millis(200));
            let mut last = 0;
            for _ in 0..40 {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                let uri = format!("file:{}?vfs=oneflush&strategy=waldio", path.display());
                let reader = Connection::open_with_flags(uri, flags).unwrap();
                reader.busy_timeout(Duration::from_secs(5)).unwrap();
                for _ in 0..5 {
                    assert_eq!(integrity(&reader), "ok", "{parameters}");
                    let rows = count(&reader);
                    assert!(rows >= last, "{parameters}: {rows} after {last}");
                    last = rows;
                }
            }
            over.store(true, Relaxed);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            assert!(last > 0);
        });
    }
}

/// Frames stay in memory for so long.
const HOLDS: &str = "group=64&interval=1000ms";

/// SQLite reads the checksum of the frame in front, from which it goes on. Without space ahead the
/// log's file has no slot for that frame yet.
#[test]
fn a_frame_in_memory_is_read_before_the_log_has_its_slot() {
    let (_dir, path) = scratch();
    let db = try_open(&path, &format!("{HOLDS}&prealloc=0")).unwrap();
    db.execute_batch("PRAGMA cache_size=1").unwrap();
    insert(&db, 1);
    // Pages that were spilled are written again, so SQLite makes all checksums anew.
    db.execute_batch("BEGIN").unwrap();
    insert(&db, 300);
    db.execute_batch("UPDATE t SET v = randomblob(100); COMMIT").unwrap();
    assert_eq!((count(&db), integrity(&db).as_str()), (301, "ok"));
}

/// A read of one page reads the frames behind it too. Those that are in memory stand before
/// something else in the file: here what was rolled back.
#[test]
fn what_is_rolled_back_does_not_take_the_place_of_a_frame_in_memory() {
    let (_dir, path) = scratch();
    let before = open(&path);
    insert(&before, 300);
    before.execute_batch("CREATE TABLE u(v)").unwrap();
    for n in 0..20 {
        before.execute("INSERT INTO u VALUES (?1)", [n]).unwrap();
    }
    // The cache of its log is empty.
    let path = crash(&path, &["-waldio"]);
    let (db, reader) = (try_open(&path, HOLDS).unwrap(), try_open(&path, HOLDS).unwrap());
    db.execute_batch("PRAGMA cache_size=1; BEGIN").unwrap();
    // More than a transaction keeps in memory.
    db.execute_batch("UPDATE t SET v = NULL; INSERT INTO t VALUES (zeroblob(12000000)); ROLLBACK")
        .unwrap();
    db.execute_batch("UPDATE t SET v = 7 WHERE rowid > 290").unwrap();
    // The newest page of `u` is in the frame in front of those.
    assert_eq!(number(&reader, "SELECT count(*) FROM u"), 20);
    assert_eq!(number(&reader, "SELECT count(*) FROM t WHERE v = 7"), 10);
    assert_eq!((count(&reader), integrity(&reader).as_str()), (300, "ok"));
}

#[test]
fn promises_that_cannot_be_kept_together_are_refused() {
    let (_dir, path) = scratch();
    for (parameters, code) in [("sync=ns", "OF-413"), ("group=4", "OF-414")] {
        let parameters = format!("durability=full&{parameters}");
        assert!(try_open(&path, &parameters).is_err(), "{parameters}");
        assert!(common::take_said(&path).contains(code));
        assert!(!path.exists());
    }
}

#[test]
fn a_one_row_commit_is_one_sync_and_the_log_grows_by_chunks() {
    let (_dir, path) = scratch();
    let db = open(&path);
    insert(&db, 1);
    let (syncs, extensions) =
        (statistic(&db, "/files/wal/syncs"), statistic(&db, "/waldio/wal_extensions"));
    insert(&db, 50);
    assert_eq!(statistic(&db, "/files/wal/syncs") - syncs, 50);
    assert!(statistic(&db, "/waldio/wal_extensions") - extensions <= 2);
    let length = std::fs::metadata(side(&path, "-waldio")).unwrap().len();
    assert!(length.is_multiple_of(4096) && length < 1 << 20, "{length}");
    let [written, laid_out] =
        ["written", "laid_out"].map(|name| statistic(&db, &format!("/waldio/{name}_bytes")));
    assert!(laid_out > length / 2 && laid_out <= length, "{laid_out} of {length}");
    assert!(written >= laid_out + 51 * 4096, "{written}: a frame a commit");
}
