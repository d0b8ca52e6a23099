//! What a loss of power leaves, after a process has died.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use oneflush_vfs::KillPoint;
use rusqlite::{Connection, OpenFlags};

use super::worker::{Said, Worker, commit};
use super::{create, open_as, patience};

/// Words of the board.
const BUSY: usize = 2;
const RECORDS: usize = 13;
const COMMITTED: usize = 18;

fn word(board: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(board[at * 8..at * 8 + 8].try_into().unwrap())
}

/// A device is pulled out and put back with an older state. The files have the same names and
/// numbers, and some of them are older than the log.
#[test]
fn an_old_version_of_the_board_is_not_gone_on_with() {
    // On a busy machine the worker may be dead before its board is read the first time.
    while !goes_on_from_an_old_board() {}
}

/// False: the board that was read is the last one.
fn goes_on_from_an_old_board() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    create(&path);
    let board = PathBuf::from(format!("{}-oneflush-shm", path.display()));
    let image = PathBuf::from(format!("{}-oneflush-wal", path.display()));
    let mut said = Said::default();
    // Short of the 20 commits after which a worker opens the database anew.
    let mut worker = Worker::start(&path, 1, 100_000, Some((KillPoint::Durable, 17)));
    let deadline = Instant::now() + patience();
    let (old_board, mut old_image) = loop {
        assert!(Instant::now() < deadline);
        match (std::fs::read(&board), std::fs::read(&image)) {
            (Ok(board), Ok(image))
                if board.len() > 512 && word(&board, BUSY) == 0 && word(&board, RECORDS) >= 3 =>
            {
                break (board, image);
            }
            _ => {}
        }
    };
    assert!(worker.is_dead_by(deadline));
    assert!(said.add(worker));
    let last = std::fs::read(&board).unwrap();
    if last[..512] == old_board[..512] {
        return false;
    }
    old_image[32 + word(&old_board, COMMITTED) as usize * (24 + 4096)..].fill(0);
    std::fs::write(&board, old_board).unwrap();
    std::fs::write(&image, old_image).unwrap();
    said.check(&path, "an old board");
    true
}

/// The header that the database has while the worker uses it. None: the worker has ended, and the
/// header was not seen.
fn guarded_header(path: &Path, worker: &mut Worker) -> Option<Vec<u8>> {
    loop {
        let has_ended = worker.child.try_wait().unwrap().is_some();
        let header = std::fs::read(path).unwrap()[..100].to_vec();
        if header[18] == 3 {
            return Some(header);
        }
        if has_ended {
            return None;
        }
    }
}

/// The process dies in its last close, and SQLite alone goes on with the plain file. Then power is
/// lost. The write that took the guard away has not reached the device by then.
#[test]
fn what_sqlite_alone_commits_behind_a_close_that_power_undoes_is_found_by_each_strategy() {
    // What the WAL of SQLite alone is like when power is lost.
    type Wal = fn(&Connection, &Path);
    let with_commits: Wal = |alone, _| {
        for number in 1..=5 {
            commit(alone, 8, number, number).unwrap();
        }
    };
    let header_alone: Wal = |alone, wal| {
        alone.execute_batch("INSERT INTO ballast VALUES (1)").unwrap();
        std::fs::File::options().write(true).open(wal).unwrap().set_len(32).unwrap();
    };
    // The database file then begins with the guard, or with what a write under way has made of the
    // first sector.
    let noise: Vec<u8> = (0..512).map(|at: usize| (at * 31 + at / 7) as u8).collect();
    for (about, wal, there) in [("commits", with_commits, 5), ("a header", header_alone, 0)] {
        for (strategy, garbled) in
            [("eager", false), ("plain", false), ("eager", true), ("plain", true)]
        {
            let about = format!("{about} in the WAL, then {strategy}; header garbled: {garbled}");
            let deadline = Instant::now() + patience();
            // On a busy machine the process may have come and gone between two looks.
            let (dir, path, mut worker, guarded) = loop {
                assert!(Instant::now() < deadline);
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("a.db");
                create(&path);
                let mut worker = Worker::start(&path, 1, 100, Some((KillPoint::GuardHidden, 1)));
                if let Some(guarded) = guarded_header(&path, &mut worker) {
                    break (dir, path, worker, guarded);
                }
            };
            assert!(worker.is_dead_by(deadline));
            let mut said = Said::default();
            assert!(said.add(worker));
            assert_eq!(std::fs::read(&path).unwrap()[18], 2);

            let alone =
                Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), "unix").unwrap();
            wal(&alone, &dir.path().join("a.db-wal"));
            let crashed = tempfile::tempdir().unwrap();
            let path = crashed.path().join("a.db");
            for suffix in ["", "-wal", "-oneflush"] {
                let name = format!("a.db{suffix}");
                std::fs::copy(dir.path().join(&name), crashed.path().join(&name)).unwrap();
            }
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            if garbled {
                file.write_all_at(&noise, 0).unwrap();
            } else {
                file.write_all_at(&guarded[18..20], 18).unwrap();
                file.write_all_at(&guarded[72..92], 72).unwrap();
            }

            said.numbers.insert(8, (1..=there).collect());
            said.deaths.insert(8, 0);
            drop(open_as(strategy, &path, "").unwrap());
            said.check(&path, &about);
        }
    }
}
