//! `oneflush recover --accept-loss` and a loss of power while it works: of each state that may be
//! left, either the original and its log are there, or the new database is. Copies of the original
//! are there before anything of it changes. The command once more ends as it would have ended.
//!
//! Needs root and FUSE; each test says so and passes where they are missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use oneflush_testing::flawed::{Flawed, Flaws, Loss};
use oneflush_testing::{in_own_mounts, named, seed};
use rusqlite::{Connection, OpenFlags};

use crate::common::crashed::{EAGER, Logged, MAW, WALDIO, records, side};
use crate::common::{Sandbox, may_mount, stderr};

const NAME: &str = "app.db";

/// The files of a database whose log is damaged, by what follows the database's name.
type Damaged = BTreeMap<&'static str, Vec<u8>>;

fn damaged(logged: &Logged, more: &[&'static str], damage: impl FnOnce(&mut [u8])) -> Damaged {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join(NAME);
    logged.crashed_after(&database, more, |_| {});
    let suffixes = ["", logged.log].into_iter().chain(more.iter().copied());
    let read = |suffix| (suffix, fs::read(side(&database, suffix)).unwrap());
    let mut files: Damaged = suffixes.map(read).collect();
    damage(files.get_mut(logged.log).unwrap());
    files
}

fn put(files: &Damaged, folder: &Path) {
    for (suffix, bytes) in files {
        fs::write(side(&folder.join(NAME), suffix), bytes).unwrap();
    }
}

fn recover(sandbox: &Sandbox, folder: &Path, when: &str) {
    let mut command = sandbox.oneflush();
    let output =
        command.args(["recover", "--accept-loss"]).arg(folder.join(NAME)).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{when}: {}", stderr(&output));
}

/// Rows of a sound database without a log.
fn rows(folder: &Path, when: &str) -> i64 {
    let database = folder.join(NAME);
    for suffix in [EAGER.log, WALDIO.log, MAW.log, "-oneflush-wal"] {
        assert!(!side(&database, suffix).exists(), "{when}: {suffix}");
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let db = Connection::open_with_flags_and_vfs(&database, flags, "unix").unwrap();
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok", "{when}");
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// Whether the folder has all of the original.
fn holds(loss: &Loss, folder: &Path, original: &Damaged) -> bool {
    original.iter().all(|(suffix, bytes)| {
        loss.files.get(&side(&folder.join(NAME), suffix)).and_then(Option::as_ref) == Some(bytes)
    })
}

fn assert_losses(test: &str, original: impl FnOnce() -> Damaged) {
    if !may_mount() || !in_own_mounts(test, Duration::from_secs(300)) {
        return;
    }
    let (sandbox, original) = (Sandbox::new(), original());
    let plain = tempfile::tempdir().unwrap();
    put(&original, plain.path());
    recover(&sandbox, plain.path(), "undisturbed");
    let expected = rows(plain.path(), "undisturbed");

    let place = Flawed::mount("power", Flaws::default()).unwrap();
    put(&original, place.lower());
    place.begin_history().unwrap();
    recover(&sandbox, place.path(), "recorded");
    let losses = place.end_history().unwrap().losses(seed());
    assert!(losses.len() > 20, "{} states", losses.len());
    // A third of them, which follows from the seed, and all behind the end.
    let is_in_turn = |n: usize| n as u64 % 3 == seed() % 3;
    let chosen = losses.iter().enumerate().filter(|(n, loss)| loss.is_at_end || is_in_turn(*n));
    for (_, loss) in chosen {
        let when = format!("after step {}: {:?}", loss.steps, loss.files.keys());
        let mut folders = loss.files.iter().filter(|(_, bytes)| bytes.is_none());
        let is_there = holds(loss, Path::new(""), &original)
            || folders.any(|(folder, _)| holds(loss, folder, &original));
        assert!(is_there, "neither the original nor its copies {when}");
        let left = tempfile::tempdir_in("/dev/shm").unwrap();
        loss.put(left.path()).unwrap();
        if loss.is_at_end {
            assert_eq!(rows(left.path(), &when), expected, "ended well, {when}");
        }
        recover(&sandbox, left.path(), &when);
        assert_eq!(rows(left.path(), &when), expected, "{when}");
    }
    eprintln!("{} states, {expected} rows", losses.len());
}

#[test]
fn of_eager_the_image_has_what_the_damaged_log_lacks() {
    assert_losses(named!(of_eager_the_image_has_what_the_damaged_log_lacks), || {
        damaged(&EAGER, &["-oneflush-wal"], |log| log[records(log)[9] + 60] ^= 1)
    });
}

#[test]
fn of_eager_the_records_before_the_damage_are_kept() {
    assert_losses(named!(of_eager_the_records_before_the_damage_are_kept), || {
        damaged(&EAGER, &[], |log| log[records(log)[20] + 60] ^= 1)
    });
}

#[test]
fn of_waldio_the_frames_of_a_log_without_its_first_block_are_kept() {
    assert_losses(named!(of_waldio_the_frames_of_a_log_without_its_first_block_are_kept), || {
        damaged(&WALDIO, &[], |log| log[..512].fill(0xff))
    });
}

#[test]
fn of_maw_the_records_before_the_damage_are_kept() {
    assert_losses(named!(of_maw_the_records_before_the_damage_are_kept), || {
        damaged(&MAW, &[], |log| log[records(log)[20] + 60] ^= 1)
    });
}
