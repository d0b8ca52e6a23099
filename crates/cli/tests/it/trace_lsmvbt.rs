//! Recordings of LS-MVBT by SQL, with the truth beside: `identify` finds each transaction, and
//! takes nothing of SQLite's own engine for one.
//!
//! Needs root, loop devices and tracefs; each test says so and passes where they are missing.

use std::path::Path;
use std::thread;

use oneflush_measure::place::Place;
// Both B-trees, for the tests' own connections.
use oneflush_sqlite as _;
use oneflush_trace::identify::{JournalMode, Synchronous, Transaction};
use rusqlite::{Connection, OpenFlags};

use crate::recording::{self, Folder, Marker, Score, noted, path, record, scratch, truth};

const TRANSACTIONS: u32 = 60;
const LEAST: f64 = 0.995;

fn open(path: &Path, engine: &str) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let name = format!("file:{}?engine={engine}", path.display());
    let db = Connection::open_with_flags_and_vfs(name, flags, "unix").unwrap();
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v); PRAGMA cache_size=12",
    )
    .unwrap();
    db
}

fn insert(rows: u32, bytes: u32) -> String {
    format!(
        "WITH RECURSIVE c(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM c WHERE i<{rows})
         INSERT INTO t(v) SELECT randomblob({bytes}) FROM c;"
    )
}

/// Commits of one page and of several, commits that make the file grow, rollbacks, and now and then
/// a new connection, which writes anchors.
fn work(place: &Place, name: &str, marker: &Marker) {
    let at = place.path().join(name);
    let mut db = open(&at, "lsmvbt");
    for n in 0..TRANSACTIONS {
        match n % 20 {
            4 | 14 => {
                db.execute_batch(&format!("BEGIN; {} ROLLBACK;", insert(2, 100))).unwrap();
            }
            9 => {
                drop(db);
                db = open(&at, "lsmvbt");
            }
            7 | 17 => noted(marker, name, || db.execute_batch(&insert(200, 3000)).unwrap()),
            n => noted(marker, name, || db.execute_batch(&insert(1 + n % 3, 100)).unwrap()),
        }
    }
}

fn assert_found(found: &[&Transaction], truth: &[recording::Truth], what: &str) {
    for found in found {
        assert_eq!(
            (found.journal_mode, found.synchronous),
            (JournalMode::Lsmvbt, Synchronous::Full),
            "{what}: {found:?}"
        );
        assert_eq!(found.traffic.journal.bytes, 0, "{what}: {found:?}");
    }
    let mut score = Score::default();
    score.add(found, truth);
    eprintln!("{what}: {score:?}");
    assert!(score.precision() >= LEAST && score.recall() >= LEAST, "{what}: {score:?}");
}

#[test]
fn every_commit_is_found_with_one_database_and_with_four_at_once() {
    let Some(place) = scratch() else { return };
    for count in [1, 4] {
        let folder = Folder::new();
        let names: Vec<String> = (0..count).map(|n| format!("{count}-{n}.db")).collect();
        names.iter().for_each(|name| drop(open(&place.path().join(name), "lsmvbt")));
        recording::sync(place.path());
        let recording = record(&place, &folder.file(), |marker| {
            thread::scope(|scope| {
                for name in &names {
                    let place = &place;
                    scope.spawn(move || work(place, name, marker));
                }
            });
        });
        for name in &names {
            let found = recording.of(&path(&place, name));
            assert_found(&found, &truth(&recording, name), name);
        }
    }
}

/// The file is made, under another name, while the recorder looks on.
#[test]
fn a_database_that_is_made_meanwhile_is_known_and_its_name_may_be_any() {
    let Some(place) = scratch() else { return };
    let folder = Folder::new();
    let recording = record(&place, &folder.file(), |marker| work(&place, "notes.data", marker));
    let found = recording.of(&path(&place, "notes.data"));
    let truth = truth(&recording, "notes.data");
    let of_truth: Vec<&Transaction> = found
        .iter()
        .copied()
        .filter(|found| truth.iter().any(|truth| truth.holds(found)))
        .collect();
    assert_found(&of_truth, &truth, "made meanwhile");
    // What makes the file and the table.
    assert!(found.len() - of_truth.len() <= 4, "{} and {}", found.len(), of_truth.len());
}

#[test]
fn nothing_of_sqlites_own_engine_is_taken_for_one() {
    let Some(place) = scratch() else { return };
    let folder = Folder::new();
    let modes = ["delete", "truncate", "persist", "wal", "off", "memory"];
    let recording = record(&place, &folder.file(), |marker| {
        thread::scope(|scope| {
            scope.spawn(|| work(&place, "of-lsmvbt.db", marker));
            for mode in modes {
                let at = place.path().join(format!("{mode}.db"));
                scope.spawn(move || {
                    let db = open(&at, "sqlite");
                    db.pragma_update(None, "journal_mode", mode).unwrap();
                    (0..20).for_each(|n| db.execute_batch(&insert(1 + n % 5, 100)).unwrap());
                });
            }
        });
    });
    for mode in modes {
        let found = recording.of(&path(&place, &format!("{mode}.db")));
        // Without a journal a commit looks like the end of a transaction that was seen in part.
        let has_journal = !matches!(mode, "off" | "memory");
        assert!(!has_journal || found.len() >= 20, "{mode}: {}", found.len());
        for found in found {
            assert_ne!(found.journal_mode, JournalMode::Lsmvbt, "{mode}: {found:?}");
        }
    }
    let found = recording.of(&path(&place, "of-lsmvbt.db"));
    assert!(found.iter().all(|found| found.journal_mode == JournalMode::Lsmvbt));
}
