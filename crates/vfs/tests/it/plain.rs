//! `PRAGMA journal_mode=WAL` with strategy `plain`, with real SQLite on real files.

use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use oneflush_testing::wait_until;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde_json::Value;

use crate::common::{
    self, count, insert, integrity, open_stock, scratch, side, statistic as number,
};

const MIB: u64 = 1 << 20;

fn open_with(path: &Path, parameters: &str) -> Connection {
    common::setup();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=oneflush&strategy=plain{parameters}", path.display());
    let db = Connection::open_with_flags(uri, flags).unwrap();
    // rusqlite sets a busy timeout of its own.
    db.busy_timeout(Duration::ZERO).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full;").unwrap();
    db
}

fn open(path: &Path) -> Connection {
    open_with(path, "")
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[test]
fn the_wal_is_extended_ahead_and_kept_over_a_close_and_the_database_file_is_complete_alone() {
    let (_dir, path) = scratch();
    let wal = side(&path, "-wal");
    let db = open(&path);
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    insert(&db, 10);
    assert_eq!(size(&wal), MIB / 16, "the first of the space ahead is little");
    insert(&db, 40);
    assert_eq!(size(&wal), MIB / 4);
    drop(db);
    assert!(!wal.exists());
    assert_eq!(size(&side(&path, "-oneflush-kept")), MIB / 4);

    let copy = path.with_file_name("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(count(&open_stock(&copy)), 50);
    assert_eq!(count(&open(&path)), 50);
}

/// A kept WAL was opened again as soon as WAL mode had been left, and the mode came back. `VACUUM`
/// with a new page size, which is for rollback modes only, destroyed the database.
#[test]
fn leaving_wal_mode_deletes_the_wal_and_a_new_page_size_can_follow() {
    for exclusive in [false, true] {
        let (_dir, path) = scratch();
        let wal = side(&path, "-wal");
        let db = open(&path);
        if exclusive {
            db.execute_batch("PRAGMA locking_mode=exclusive").unwrap();
        }
        db.execute_batch("CREATE TABLE t(v)").unwrap();
        insert(&db, 500);
        let mode: String =
            db.query_row("PRAGMA journal_mode=delete", [], |row| row.get(0)).unwrap();
        assert_eq!((mode.as_str(), wal.exists()), ("delete", false));
        db.execute_batch("PRAGMA page_size=512; VACUUM").unwrap();
        assert_eq!(
            (std::fs::read(&path).unwrap()[16..20].to_vec(), wal.exists()),
            (vec![2, 0, 1, 1], false)
        );
        db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
        insert(&db, 1);
        assert_eq!((integrity(&db).as_str(), count(&db)), ("ok", 501));
        drop(db);
        assert!(!wal.exists() && side(&path, "-oneflush-kept").exists(), "a close keeps it");
        assert_eq!(count(&open_stock(&path)), 501);
    }
}

#[test]
fn stock_sqlite_reads_and_writes_a_wal_that_was_extended_ahead() {
    let (_dir, path) = scratch();
    let db = open(&path);
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    insert(&db, 10);
    let stock = open_stock(&path);
    assert_eq!(count(&stock), 10);
    stock.execute("INSERT INTO t VALUES (1)", []).unwrap();
    insert(&db, 1);
    assert_eq!(count(&stock), 12);
    drop(db);
    stock.execute("INSERT INTO t VALUES (1)", []).unwrap();
    assert_eq!(count(&open(&path)), 13);
    assert_eq!(integrity(&stock), "ok");
}

#[test]
fn space_is_made_as_the_options_say() {
    let (_dir, path) = scratch();
    let wal = side(&path, "-wal");
    let db = open_with(&path, "&prealloc=0&keep_wal=off");
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    insert(&db, 1);
    assert!(size(&wal) < 65536);
    drop(db);
    assert!(!wal.exists());
    let db = open_with(&path, "&prealloc=65536");
    insert(&db, 1);
    assert_eq!(size(&wal), 65536);
    assert_eq!(number(&db, "/plain/wal_extensions"), 1);
    insert(&db, 20);
    assert_eq!(size(&wal) % 65536, 0);
    assert!(number(&db, "/plain/wal_extensions") > 1);
    let laid_out = number(&db, "/plain/laid_out_bytes");
    assert!(laid_out <= size(&wal) && size(&wal) - laid_out < 65536, "{laid_out}");
}

#[test]
fn writers_of_many_threads_all_commit_and_share_flushes() {
    let (_dir, path) = scratch();
    let db = open(&path);
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    const WRITERS: usize = 8;
    const ROWS: usize = 200;
    let have_shared = |db: &Connection| {
        number(db, "/plain/flushes") < number(db, "/plain/commits")
            && number(db, "/plain/turns/waits") > 0
    };
    let all_are_there = Barrier::new(WRITERS);
    let rows: usize = std::thread::scope(|scope| {
        let writer = || {
            let db = open(&path);
            db.busy_timeout(Duration::from_secs(60)).unwrap();
            all_are_there.wait();
            let mut rows = 0;
            // Not limited in time: on a busy machine, or where a flush takes no time, each thread
            // may write for long before the next gets a processor.
            wait_until("writers share a flush", || {
                insert(&db, ROWS);
                rows += ROWS;
                have_shared(&db)
            });
            rows
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(writer)).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(count(&db), rows as i64);
    assert_eq!(integrity(&db), "ok");
    assert!(number(&db, "/plain/commits") >= rows as u64);
}

#[test]
fn without_group_commit_every_commit_has_a_flush_of_its_own() {
    let (_dir, path) = scratch();
    let db = open_with(&path, "&group_commit=off");
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let db = open_with(&path, "&group_commit=off");
                db.busy_timeout(Duration::from_secs(60)).unwrap();
                insert(&db, 50);
            });
        }
    });
    assert_eq!(count(&db), 200);
    assert!(number(&db, "/plain/flushes") >= number(&db, "/plain/commits"));
    assert_eq!(number(&db, "/plain/turns/waits"), 0);
}

fn busy_after(db: &Connection, statement: &str) -> Duration {
    let began = Instant::now();
    let error = db.execute_batch(statement).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
    began.elapsed()
}

#[test]
fn no_wait_is_longer_than_the_busy_timeout_and_none_is_no_wait() {
    let (_dir, path) = scratch();
    let holder = open(&path);
    holder.execute_batch("CREATE TABLE t(v); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
    // The first times that a connection meets a writer differ from the later ones. Each time the
    // least of several connections counts. A busy machine makes some waits longer; the waits of the
    // code are in all of them.
    let (mut without, mut with) = ([Duration::MAX; 3], [Duration::MAX; 2]);
    for _ in 0..5 {
        let db = open(&path);
        for least in &mut without {
            *least = busy_after(&db, "INSERT INTO t VALUES (2)").min(*least);
        }
        db.busy_timeout(Duration::from_millis(300)).unwrap();
        for least in &mut with {
            *least = busy_after(&db, "INSERT INTO t VALUES (2)").min(*least);
        }
    }
    assert!(without.iter().all(|&least| least < Duration::from_millis(100)), "{without:?}");
    let about_the_timeout = Duration::from_millis(250)..Duration::from_millis(900);
    assert!(with.iter().all(|least| about_the_timeout.contains(least)), "{with:?}");
    holder.execute_batch("COMMIT").unwrap();
    let db = open(&path);
    db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(count(&db), 2);
}

/// The connection wrote before, so it is expected to write again, behind a writer. But it only
/// reads, and in WAL mode nobody keeps it from reading.
#[test]
fn a_read_does_not_wait_for_a_long_transaction_of_another() {
    let (_dir, path) = scratch();
    let (writes, reads) = (open(&path), open(&path));
    reads.busy_timeout(Duration::from_secs(20)).unwrap();
    reads.execute_batch("CREATE TABLE t(b)").unwrap();
    insert(&reads, 3);
    writes.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
    let began = Instant::now();
    assert_eq!(count(&reads), 3);
    let took = began.elapsed();
    writes.execute_batch("COMMIT").unwrap();
    assert!(number(&reads, "/plain/turns/waits") > 0, "it was expected to write");
    // As long as the busy timeout, if the connection waited for the transaction.
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_writer_that_waits_is_woken_when_the_lock_is_released() {
    let (_dir, path) = scratch();
    let holder = open(&path);
    holder.execute_batch("CREATE TABLE t(v)").unwrap();
    let bounced = || number(&holder, "/plain/turns/bounced");
    let wakes_up_in = || {
        holder.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
        let before = bounced();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let db = open(&path);
                db.busy_timeout(Duration::from_secs(60)).unwrap();
                db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
                Instant::now()
            });
            // From the twelfth time on SQLite's own handler sleeps for 100 ms, and such a sleep has
            // just begun.
            wait_until("SQLite sleeps for long", || bounced() >= before + 12);
            let released = Instant::now();
            holder.execute_batch("COMMIT").unwrap();
            waiter.join().unwrap().saturating_duration_since(released)
        })
    };
    // One of several tries is enough, because machines are busy.
    let mut all = Vec::new();
    let is_woken = (0..20).any(|_| {
        all.push(wakes_up_in());
        all.last() < Some(&Duration::from_millis(40))
    });
    assert!(is_woken, "{all:?}");
}

#[test]
fn a_reader_that_becomes_a_writer_on_an_old_snapshot_is_told_so_at_once() {
    let (_dir, path) = scratch();
    let (reader, writer) = (open(&path), open(&path));
    writer.execute_batch("CREATE TABLE t(v)").unwrap();
    reader.busy_timeout(Duration::from_secs(60)).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    assert!(busy_after(&reader, "INSERT INTO t VALUES (2)") < Duration::from_secs(5));
    reader.execute_batch("ROLLBACK; INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(count(&writer), 2);
}

#[test]
fn an_automatic_checkpoint_runs_in_the_background_and_the_wal_begins_anew() {
    let (_dir, path) = scratch();
    let db = open(&path);
    db.execute_batch("CREATE TABLE t(v); PRAGMA wal_autocheckpoint=50;").unwrap();
    insert(&db, 100);
    wait_until("a checkpoint", || number(&db, "/plain/checkpoints/count") > 0);
    let mut rows = 100;
    // Each commit has a frame or more. The checkpoint has a thread of its own. A busy machine may
    // keep that thread from its processor for many commits.
    wait_until("the WAL begins anew and does not hold all that was written", || {
        insert(&db, 50);
        rows += 50;
        size(&side(&path, "-wal")) + MIB < rows * 4096
    });
    assert_eq!(number(&db, "/plain/checkpoints/failed"), 0);
    assert!(number(&db, "/plain/checkpoints/time_ns_max") > 0);
    assert_eq!(count(&db), rows as i64);
    assert_eq!(integrity(&db), "ok");
}

#[test]
fn where_sqlite_asks_for_no_checkpoint_none_is_run() {
    let (_dir, path) = scratch();
    let db = open(&path);
    db.execute_batch("CREATE TABLE t(v); PRAGMA wal_autocheckpoint=0;").unwrap();
    insert(&db, 1200);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(number(&db, "/plain/checkpoints/count"), 0);
    assert!(size(&side(&path, "-wal")) > 1200 * 4120);
}

#[test]
fn a_checkpoint_that_is_asked_for_right_after_a_commit_is_run_as_asked() {
    let (_dir, path) = scratch();
    let db = open(&path);
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
        insert(&db, 1);
        let (busy, wal, copied): (i64, i64, i64) = db
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .unwrap();
        assert_eq!((busy, wal), (0, copied), "{mode}");
    }
    assert_eq!(size(&side(&path, "-wal")), 0);
    insert(&db, 1);
    assert_eq!(count(&db), 5);
}

/// SQLite tells only the main database of a PRAGMA. The attached database took this checkpoint for
/// an automatic one.
#[test]
fn a_checkpoint_that_is_asked_for_covers_attached_databases_right_after_their_commit() {
    let (dir, path) = scratch();
    let attached = dir.path().join("b.db");
    let db = open(&path);
    db.execute("ATTACH ? AS b", [attached.display().to_string()]).unwrap();
    db.execute_batch("PRAGMA b.journal_mode=wal; CREATE TABLE t(v); CREATE TABLE b.t(v)").unwrap();
    let empty = size(&attached);
    db.execute_batch("INSERT INTO b.t VALUES (randomblob(100000))").unwrap();
    db.query_row("PRAGMA wal_checkpoint", [], |_| Ok(())).unwrap();
    assert!(size(&attached) > empty + 100_000);
}

#[test]
fn oneflush_checkpoint_copies_the_wal_and_says_what_it_did() {
    let (_dir, path) = scratch();
    let db = open(&path);
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    insert(&db, 5);
    let checkpoint = || -> Value {
        let json: String =
            db.query_row("PRAGMA oneflush_checkpoint", [], |row| row.get(0)).unwrap();
        serde_json::from_str(&json).unwrap()
    };
    let done = checkpoint();
    assert_eq!(done["held_up"], false, "{done}");
    assert_eq!(done["wal_frames"], done["copied_frames"]);
    assert!(done["wal_frames"].as_u64().unwrap() > 5);
    let reader = open(&path);
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    insert(&db, 5);
    assert_eq!(checkpoint()["held_up"], true);
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(checkpoint()["held_up"], false);
}

#[test]
fn durability_full_flushes_every_commit_whatever_the_pragma_says() {
    for (synchronous, asked) in [("normal", 0), ("off", 0), ("full", 1)] {
        for durability in ["pragma", "full"] {
            let (_dir, path) = scratch();
            let db = open_with(&path, &format!("&durability={durability}"));
            db.execute_batch(&format!("CREATE TABLE t(v); PRAGMA synchronous={synchronous};"))
                .unwrap();
            insert(&db, 1);
            let before = number(&db, "/plain/flushes");
            insert(&db, 10);
            let flushes = number(&db, "/plain/flushes") - before;
            let wanted = if durability == "full" { 10 } else { 10 * asked };
            assert_eq!(flushes, wanted, "synchronous={synchronous}, durability={durability}");
        }
    }
}

#[test]
fn two_databases_in_one_transaction_and_many_connections_in_one_thread_work() {
    let (_dir, path) = scratch();
    let other = path.with_file_name("b.db");
    let connections: Vec<_> = (0..5).map(|_| open(&path)).collect();
    connections[0].execute_batch("CREATE TABLE t(v)").unwrap();
    drop(open(&other));
    for (at, db) in connections.iter().enumerate() {
        db.execute_batch(&format!(
            "ATTACH 'file:{}?vfs=oneflush&strategy=plain' AS b; CREATE TABLE IF NOT EXISTS b.t(v);
             BEGIN; INSERT INTO main.t VALUES ({at}); INSERT INTO b.t VALUES ({at}); COMMIT;",
            other.display()
        ))
        .unwrap();
    }
    assert_eq!(count(&connections[0]), 5);
    assert_eq!(count(&open(&other)), 5);
}

#[test]
fn a_checkpoint_that_readers_hold_up_for_ten_seconds_is_counted_as_starved() {
    let (_dir, path) = scratch();
    let db = open(&path);
    db.execute_batch("CREATE TABLE t(v); PRAGMA wal_autocheckpoint=10;").unwrap();
    let reader = open(&path);
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    let began = Instant::now();
    wait_until("it is counted", || {
        insert(&db, 50);
        number(&db, "/plain/checkpoints/starved") > 0
    });
    assert!(began.elapsed() > Duration::from_secs(10));
    assert!(number(&db, "/plain/checkpoints/held_up_ns") > 10_000_000_000);
    // Once, and not for each try.
    let tries = number(&db, "/plain/checkpoints/held_up");
    wait_until("it is tried again", || {
        insert(&db, 50);
        number(&db, "/plain/checkpoints/held_up") > tries
    });
    assert_eq!(number(&db, "/plain/checkpoints/starved"), 1);
    reader.execute_batch("COMMIT").unwrap();
    wait_until("the checkpoint", || {
        insert(&db, 1);
        number(&db, "/plain/checkpoints/held_up_ns") == 0
    });
}
