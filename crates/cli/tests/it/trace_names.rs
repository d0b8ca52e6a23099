//! Recordings by `oneflush trace` in which an inode is this file and then that file, against what
//! the program did.
//!
//! The story: on XFS a new name counted for all that the recorder read in the same turn. What was
//! written to the file that had the inode before became transactions of a WAL. On a busy machine a
//! turn was long, and a benchmark's first file was a hundred of them.
//!
//! Needs root, loop devices and tracefs; says so and passes where they are missing.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use oneflush_measure::place::{FsKind, Place};
use oneflush_trace::identify::JournalMode;

use crate::recording::{Folder, Recording, database, insert, record, scratch, scratch_of};

const ROUNDS: usize = 6;
const WRITES: u64 = 40;
const INSERTS: usize = 20;
/// XFS frees an inode in the background, soon after the file is deleted.
const FREED: Duration = Duration::from_millis(10);
/// Two pages, and the block that a commit shares with the one before.
const COMMIT_BYTES_MAX: u64 = 4 * 4096;

/// A file that is synchronized as a WAL is, and deleted. Returns its inode.
fn floor(path: &Path) -> u64 {
    let file = File::create(path).unwrap();
    for number in 0..WRITES {
        file.write_all_at(&[1; 4096], number * 4096).unwrap();
        file.sync_data().unwrap();
    }
    fs::remove_file(path).unwrap();
    file.metadata().unwrap().ino()
}

/// Returns in how many rounds a WAL got the inode of the file before it.
fn rounds(place: &Place) -> usize {
    let mut shared = 0;
    for round in 0..ROUNDS {
        let path = of_round(place, round);
        // The inodes of this WAL are free afterwards, and the next file gets the first one.
        drop(database(&path, "WAL"));
        thread::sleep(FREED);
        let inode = floor(&place.path().join("floor"));
        thread::sleep(FREED);
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA synchronous=FULL;").unwrap();
        insert(&db);
        let wal = fs::metadata(format!("{}-wal", path.display())).unwrap().ino();
        shared += usize::from(wal == inode);
        (1..INSERTS).for_each(|_| insert(&db));
    }
    shared
}

fn of_round(place: &Place, round: usize) -> PathBuf {
    place.path().join(format!("{round}.db"))
}

fn assert_found(place: &Place, recording: &Recording) {
    for round in 0..ROUNDS {
        let found = recording.of(&of_round(place, round));
        let in_wal: Vec<_> =
            found.iter().filter(|found| found.journal_mode == JournalMode::Wal).collect();
        // One more makes the table.
        assert_eq!(in_wal.len(), 1 + INSERTS, "{place:?}, round {round}");
        for found in &in_wal {
            let bytes = found.traffic.journal.bytes;
            assert!((1..=COMMIT_BYTES_MAX).contains(&bytes), "{place:?}, round {round}: {bytes}");
        }
        // On btrfs the change of the mode is no whole transaction.
        assert!(found.len() - in_wal.len() <= 1, "{place:?}, round {round}");
    }
    let floors = ROUNDS as u64 * WRITES * 4096;
    assert!(recording.bytes().other_files >= floors, "{:?}", recording.bytes());
}

#[test]
fn what_was_written_to_the_file_that_had_the_inode_before_is_not_the_wals() {
    if scratch().is_none() {
        return;
    }
    for kind in [FsKind::Ext4, FsKind::Xfs, FsKind::Btrfs] {
        let Some(place) = scratch_of(kind) else { continue };
        let folder = Folder::new();
        let mut shared = 0;
        let recording = record(&place, &folder.file(), |_| shared = rounds(&place));
        eprintln!("{kind:?}: {shared} of {ROUNDS} WALs have the inode of the file before them");
        // Else the test shows nothing. Btrfs gives no number twice.
        assert!(shared > 0 || kind == FsKind::Btrfs, "{kind:?}");
        assert_found(&place, &recording);
    }
}
