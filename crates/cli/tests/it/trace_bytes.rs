//! The bytes of a recording, by whose they are, against what the device itself counted.
//!
//! Needs root, a loop device and tracefs; says so and passes where they are missing.

use rusqlite::Connection;

use crate::recording::{self, record, scratch};

const INSERTS: u32 = 1000;

#[test]
fn bytes_by_class_are_those_that_the_device_counts() {
    let Some(place) = scratch() else { return };
    let folder = tempfile::tempdir().unwrap();
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF"] {
        let db = Connection::open(place.path().join(format!("{mode}.db"))).unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER \
                PRIMARY KEY, v);"
        ))
        .unwrap();
        recording::sync(place.path());
        let recording = record(&place, &folder.path().join("t.zst"), |_| {
            let mut insert = db.prepare("INSERT INTO t(v) VALUES(zeroblob(100))").unwrap();
            for _ in 0..INSERTS {
                insert.execute([]).unwrap();
            }
        });
        let (bytes, device) = (recording.bytes(), recording.device);
        eprintln!("{mode}: {bytes:?}, the device {device:?}");
        let counted = device.written_bytes as f64;
        assert!(
            (bytes.total() as f64 - counted).abs() <= counted * 0.01,
            "{mode}: {bytes:?}, {device:?}"
        );
        assert_eq!(bytes.unknown, 0, "{mode}");
        // The WAL's index, when the kernel writes it back.
        assert!(bytes.other_files <= if mode == "WAL" { 64 << 10 } else { 0 }, "{mode}: {bytes:?}");
        // A page of the table at least with each commit, where no log takes it.
        let pages = u64::from(INSERTS) * 4096;
        let (db_least, journal_least) = match mode {
            "WAL" => (4096, pages),
            "MEMORY" | "OFF" => (pages, 0),
            _ => (pages, pages),
        };
        assert!(bytes.db >= db_least && bytes.sqlite_journal >= journal_least, "{mode}: {bytes:?}");
        assert_eq!(bytes.sqlite_journal == 0, journal_least == 0, "{mode}: {bytes:?}");
        // A new journal for each transaction makes the file system log it each time.
        assert!(mode != "DELETE" || bytes.fs_journal >= 4 * pages, "{bytes:?}");
    }
}
