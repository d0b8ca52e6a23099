//! Recordings of real SQLite in all its modes, with the truth beside: which transactions `identify`
//! finds in them, and their modes.
//!
//! Needs root, loop devices and tracefs; each test says so and passes where they are missing.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use oneflush_measure::place::Place;
use oneflush_trace::identify::{JournalMode, Outcome, Phases, Synchronous, Transaction};
use rusqlite::Connection;

use crate::recording::{
    self, Folder, Marker, Recording, Score, noted, path, record, scratch, truth,
};

/// Of each database.
const TRANSACTIONS: u32 = 60;
const LEAST: f64 = 0.995;

const ROLLBACK_MODES: [(&str, JournalMode); 3] = [
    ("DELETE", JournalMode::Delete),
    ("TRUNCATE", JournalMode::Truncate),
    ("PERSIST", JournalMode::Persist),
];
const SYNCS: [(&str, Synchronous); 2] =
    [("FULL", Synchronous::Full), ("NORMAL", Synchronous::Normal)];

fn open(path: &Path, mode: &str, sync: &str) -> Connection {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(Duration::from_secs(10)).unwrap();
    db.execute_batch(&format!(
        "PRAGMA journal_mode={mode}; PRAGMA synchronous={sync}; PRAGMA cache_size=12; PRAGMA \
            wal_autocheckpoint=60;
         CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v);"
    ))
    .unwrap();
    db
}

fn insert(rows: u32, bytes: u32) -> String {
    format!(
        "WITH RECURSIVE c(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM c WHERE i<{rows})
         INSERT INTO t(v) SELECT zeroblob({bytes}) FROM c;"
    )
}

/// More than the cache takes.
fn spilling() -> String {
    format!("UPDATE t SET v = zeroblob(length(v)); {}", insert(40, 3000))
}

/// Commits of one and several rows, transactions that spill, and rollbacks of both kinds. A
/// rollback is a transaction on the device where it writes: in a rollback mode after a spill, and
/// with PERSIST always.
fn work(db: &Connection, mode: &str, name: &str, marker: &Marker) {
    let sql = |text: &str| db.execute_batch(text).unwrap();
    for n in 0..TRANSACTIONS {
        match n % 20 {
            4 | 14 if mode == "PERSIST" => {
                noted(marker, name, || sql(&format!("BEGIN; {} ROLLBACK;", insert(2, 100))))
            }
            4 | 14 => sql(&format!("BEGIN; {} ROLLBACK;", insert(2, 100))),
            9 if mode == "WAL" => sql(&format!("BEGIN; {} ROLLBACK;", spilling())),
            9 => noted(marker, name, || sql(&format!("BEGIN; {} ROLLBACK;", spilling()))),
            7 | 17 => noted(marker, name, || sql(&format!("BEGIN; {} COMMIT;", spilling()))),
            n => noted(marker, name, || sql(&insert(1 + n % 3, 100))),
        }
    }
}

/// Records `count` databases that work at the same time, each with a thread of its own.
fn recorded(
    place: &Place,
    count: usize,
    mode: &str,
    sync: &str,
) -> (Recording, Vec<String>, Folder) {
    let folder = Folder::new();
    let names: Vec<String> = (0..count).map(|n| format!("{mode}-{sync}-{count}-{n}.db")).collect();
    let databases: Vec<Connection> =
        names.iter().map(|name| open(&place.path().join(name), mode, sync)).collect();
    recording::sync(place.path());
    let recording = record(place, &folder.file(), |marker| {
        thread::scope(|scope| {
            for (db, name) in databases.into_iter().zip(&names) {
                scope.spawn(move || work(&db, mode, name, marker));
            }
        });
    });
    assert_eq!(recording.counts.unknown_bytes, 0);
    (recording, names, folder)
}

fn assert_found(place: &Place, count: usize, mode: (&str, JournalMode), sync: (&str, Synchronous)) {
    let (recording, names, _folder) = recorded(place, count, mode.0, sync.0);
    let what = format!("{} {} {count}", mode.0, sync.0);
    let mut score = Score::default();
    for name in &names {
        let found = recording.of(&path(place, name));
        for found in &found {
            assert_eq!(
                (found.journal_mode, found.synchronous),
                (mode.1, sync.1),
                "{what}: {found:?}"
            );
        }
        score.add(&found, &truth(&recording, name));
    }
    eprintln!("{what}: {score:?}");
    assert!(score.precision() >= LEAST && score.recall() >= LEAST, "{what}: {score:?}");
}

#[test]
fn rollback_modes_are_found_with_one_database_and_with_four_at_once() {
    let Some(place) = scratch() else { return };
    for mode in ROLLBACK_MODES {
        for sync in SYNCS {
            for count in [1, 4] {
                assert_found(&place, count, mode, sync);
            }
        }
    }
}

#[test]
fn wal_with_full_is_found_with_one_database_and_with_four_at_once() {
    let Some(place) = scratch() else { return };
    for count in [1, 4] {
        assert_found(&place, count, ("WAL", JournalMode::Wal), SYNCS[0]);
    }
}

/// The device sees what a checkpoint makes durable; the single commits are told by SQLite's lock.
#[test]
fn wal_with_normal_is_found_though_nobody_synchronizes_it() {
    let Some(place) = scratch() else { return };
    for count in [1, 4] {
        assert_found(&place, count, ("WAL", JournalMode::Wal), SYNCS[1]);
    }
}

fn checkpoint_bytes(found: &Transaction) -> u64 {
    match found.phases {
        Phases::Append { checkpoint, .. } => checkpoint.bytes(),
        Phases::Rollback { .. } => 0,
    }
}

#[test]
fn a_checkpoint_is_found_in_the_commit_that_made_it() {
    let Some(place) = scratch() else { return };
    let (recording, names, _folder) = recorded(&place, 1, "WAL", "FULL");
    let found = recording.of(&path(&place, &names[0]));
    let with_checkpoint = found.iter().filter(|found| checkpoint_bytes(found) > 0).count();
    // 40 pages in each that spills, and 60 are due.
    assert!((3..=12).contains(&with_checkpoint), "{with_checkpoint}");
    for found in found.iter().filter(|found| checkpoint_bytes(found) > 0) {
        assert_eq!(found.traffic.db.bytes, checkpoint_bytes(found) - fs_bytes(found), "{found:?}");
    }
}

/// What of a checkpoint is no data.
fn fs_bytes(found: &Transaction) -> u64 {
    match found.phases {
        Phases::Append { checkpoint, .. } => {
            checkpoint.fs_journal.bytes + checkpoint.metadata.bytes
        }
        Phases::Rollback { .. } => 0,
    }
}

#[test]
fn a_rollback_that_reaches_the_device_is_told_as_one() {
    let Some(place) = scratch() else { return };
    let folder = Folder::new();
    let db = open(&place.path().join("a.db"), "PERSIST", "FULL");
    let recording = record(&place, &folder.file(), |marker| {
        for n in 0..20 {
            let end = if n % 4 == 2 { "ROLLBACK" } else { "COMMIT" };
            noted(marker, end, || {
                db.execute_batch(&format!("BEGIN; {} {end};", insert(1, 100))).unwrap()
            });
        }
    });
    let found = recording.of(&path(&place, "a.db"));
    for (note, outcome, count) in
        [("COMMIT", Outcome::Committed, 15), ("ROLLBACK", Outcome::RolledBack, 5)]
    {
        let truth = truth(&recording, note);
        let of = found.iter().filter(|found| truth.iter().any(|truth| truth.holds(found)));
        let outcomes: Vec<Outcome> = of.map(|found| found.outcome).collect();
        assert_eq!(outcomes, vec![outcome; count]);
    }
}

#[test]
fn a_transaction_over_two_attached_databases_is_one() {
    let Some(place) = scratch() else { return };
    for (mode, expected) in ROLLBACK_MODES {
        let folder = Folder::new();
        let paths: Vec<PathBuf> =
            ["one", "two"].map(|name| path(&place, &format!("{mode}-{name}.db"))).to_vec();
        drop(open(&paths[1], mode, "FULL"));
        let db = open(&paths[0], mode, "FULL");
        db.execute_batch(&format!(
            "ATTACH '{}' AS two; PRAGMA two.journal_mode={mode}; PRAGMA two.synchronous=FULL;",
            paths[1].display()
        ))
        .unwrap();
        recording::sync(place.path());
        let recording = record(&place, &folder.file(), |marker| {
            for n in 0..TRANSACTIONS {
                let both = "INSERT INTO t(v) VALUES(zeroblob(100)); INSERT INTO two.t(v) \
                    VALUES(zeroblob(100));";
                let one = "INSERT INTO t(v) VALUES(zeroblob(100));";
                let (note, text) = if n % 3 == 0 { ("one", one) } else { ("both", both) };
                noted(marker, note, || {
                    db.execute_batch(&format!("BEGIN; {text} COMMIT;")).unwrap()
                });
            }
        });
        let (alone, both) = (truth(&recording, "one"), truth(&recording, "both"));
        let mut score = Score::default();
        for (truth, others_count) in [(&alone, 0), (&both, 1)] {
            let found: Vec<&Transaction> = recording
                .transactions
                .iter()
                .filter(|found| found.others.len() == others_count)
                .collect();
            score.add(&found, truth);
        }
        eprintln!("{mode}, attached: {score:?}");
        assert!(score.precision() >= LEAST && score.recall() >= LEAST, "{mode}: {score:?}");
        // PERSIST empties its journals where there are several.
        if expected != JournalMode::Persist {
            assert!(
                recording.transactions.iter().all(|found| found.journal_mode == expected),
                "{mode}"
            );
        }
    }
}
