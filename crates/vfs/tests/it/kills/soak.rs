//! Several writer processes, each killed again and again, beside a reader that checks every row.

use std::time::{Duration, Instant};

use oneflush_vfs::KillPoint;

use super::worker::{Said, Worker, start_to_stop};
use oneflush_testing::slowed;

use super::{USED, count_rows, create, open, open_with, patience};

/// So long it goes on. `compat/soak` does the same for longer, with other programs.
const LASTS: Duration = Duration::from_secs(8);

#[test]
fn with_waldio_writers_that_are_killed_at_any_time_lose_nothing_beside_readers() {
    USED.set("waldio");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    create(&path);
    // With the guard set at all times. A reader without it would keep writers from being the first.
    let keeps = open(&path).unwrap();
    count_rows(&keeps);
    let mut said = Said::default();
    let mut writers: Vec<Worker> =
        (1..=4).map(|writer| Worker::start(&path, writer, 100_000, None)).collect();
    let (began, mut kills, mut reads) = (Instant::now(), 0, 0);
    let mut reader = open_with(&path, "mode=ro").ok();
    while began.elapsed() < slowed(LASTS) {
        std::thread::sleep(Duration::from_millis(20 + kills * 37 % 130));
        let victim = kills as usize % writers.len();
        writers[victim].child.kill().unwrap();
        let number = writers[victim].writer;
        said.add(std::mem::replace(
            &mut writers[victim],
            Worker::start(&path, number, 100_000, None),
        ));
        kills += 1;
        let sound = reader.as_ref().and_then(|db| {
            db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).ok()
        });
        if let Some(sound) = sound {
            assert_eq!(sound, "ok");
            reads += 1;
        }
        if kills % 5 == 0 {
            reader = open_with(&path, "mode=ro").ok();
        }
    }
    for mut writer in writers {
        writer.child.kill().unwrap();
        said.add(writer);
    }
    drop((reader, keeps));
    assert!(kills > 20 && reads > 10, "{kills} kills, {reads} reads");
    assert!(said.numbers.values().all(|numbers| !numbers.is_empty()), "{:?}", said.deaths);
    said.check(&path, "soak");
}

/// A process that joins has read the salts of the WAL and is stopped. Others begin the WAL anew. It
/// read their frames by the salts before: rows that nobody had written.
#[test]
fn who_joins_while_the_wal_begins_anew_reads_what_was_written() {
    USED.set("waldio");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    create(&path);
    let db = open(&path).unwrap();
    // Pages whose last bytes are in use, so that a frame's header displaces them.
    let insert = "INSERT INTO kept SELECT 7, i, hex(randomblob(900)) FROM numbers LIMIT 40 OFFSET";
    db.execute_batch(&format!("{insert} 0")).unwrap();
    let mut joins = start_to_stop(&path, 2, KillPoint::LogOpened, 1);
    assert!(joins.is_stopped_by(Instant::now() + patience()));
    db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
    db.execute_batch(&format!("{insert} 40; UPDATE kept SET filler = hex(randomblob(901))"))
        .unwrap();
    super::worker::go_on(&joins.child);
    joins.hear(12);
    joins.child.kill().unwrap();
    let (_, numbers, _) = joins.end();
    assert!(numbers.len() >= 10);
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    assert!(count_rows(&db) >= 90);
    assert_eq!(
        db.query_row("SELECT sum(length(filler)) FROM kept WHERE writer = 7", [], |row| row.get(0)),
        Ok(80 * 1802)
    );
}
