//! Strategy `maw` where the disk is full, or fails.
//!
//! The full disk is a small ext4 on a loop device. The one that fails is a FUSE file system
//! (`oneflush_testing::flawed`). Both are mounted in a mount namespace of the test's own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use oneflush_testing::flawed::{Flawed, Flaws, Sync, why_not};
use oneflush_testing::{has_programs, in_own_mounts, named, skip};
use rusqlite::{Connection, ErrorCode};

use crate::common::{self, count, files, insert, integrity, open_stock, open_with, stats};

const AT_MOST: Duration = Duration::from_secs(180);

fn may_mount() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let may = is_root && has_programs(&["mkfs.ext4", "mount"]) && Path::new("/dev/loop0").exists();
    if !may {
        skip("a mount needs root, a loop device and mkfs.ext4");
    }
    may
}

/// A small ext4 of its own.
struct Disk {
    at: tempfile::TempDir,
    _image: tempfile::NamedTempFile,
}

impl Disk {
    fn mount(size_bytes: u64) -> Disk {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(size_bytes).unwrap();
        let at = tempfile::tempdir().unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let status = Command::new(program).args(arguments).arg(image.path()).status().unwrap();
            assert!(status.success(), "{program}");
        };
        run("mkfs.ext4", &["-q", "-m", "0"]);
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).arg(image.path()).arg(at.path());
        assert!(mount.status().unwrap().success(), "mount");
        Disk { at, _image: image }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.at.path().join(name)
    }

    fn free_bytes(&self) -> u64 {
        let system = rustix::fs::statvfs(self.at.path()).unwrap();
        system.f_bavail * system.f_frsize
    }

    /// Takes all room but this.
    fn fill(&self, but_bytes: u64) {
        use std::io::Write;
        let mut ballast = File::options().append(true).create(true).open(self.path("ballast"));
        let ballast = ballast.as_mut().unwrap();
        while self.free_bytes() > but_bytes {
            let piece = (self.free_bytes() - but_bytes).clamp(1, 64 << 10);
            if ballast.write_all(&vec![7; piece as usize]).is_err() {
                break;
            }
            ballast.sync_all().unwrap();
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.path("ballast")).unwrap();
        File::open(self.at.path()).unwrap().sync_all().unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.at.path()).status();
    }
}

fn open(path: &Path, mode: &str) -> Connection {
    let db = open_with(path, "strategy=maw&atomic=log").unwrap();
    db.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=full")).unwrap();
    db
}

fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Commits rows of this size until the disk is full. Answers how many were acknowledged.
fn fill(db: &Connection, bytes: u64) -> i64 {
    for rows in 0.. {
        if let Err(error) = db.execute("INSERT INTO t VALUES (randomblob(?1))", [bytes as i64]) {
            assert!(is_full(&error), "{error}");
            return rows;
        }
        assert!(rows < 100_000, "the disk is not full");
    }
    0
}

#[test]
fn a_commit_on_a_full_disk_fails_and_leaves_the_database_as_before() {
    let name = named!(a_commit_on_a_full_disk_fails_and_leaves_the_database_as_before);
    if !may_mount() || !in_own_mounts(name, AT_MOST) {
        return;
    }
    for mode in ["delete", "truncate", "persist"] {
        for bytes in [300, 5000, 60_000] {
            let about = format!("{mode}, {bytes}");
            let disk = Disk::mount(16 << 20);
            let path = disk.path("a.db");
            let db = open(&path, mode);
            db.execute_batch("CREATE TABLE t(v)").unwrap();
            insert(&db, 3);
            disk.fill(1 << 20);
            let mut expected = 3 + fill(&db, bytes);
            for _ in 0..3 {
                // Each meets the full disk elsewhere: behind the end of the file, or in the log.
                expected += fill(&db, bytes / 3) + fill(&db, 10);
                assert_eq!((count(&db), integrity(&db).as_str()), (expected, "ok"), "{about}");
                let other = open(&path, mode);
                assert_eq!((count(&other), integrity(&other).as_str()), (expected, "ok"));
            }
            db.execute_batch("BEGIN; INSERT INTO t VALUES (randomblob(3000000)); ROLLBACK")
                .unwrap();
            disk.make_room();
            insert(&db, 5);
            expected += 5;
            assert_eq!((count(&db), integrity(&db).as_str()), (expected, "ok"), "{about}");
            drop(db);
            let mut left = files(&path);
            left.retain(|suffix| suffix != "-journal");
            assert_eq!(left, [""], "{about}");
            assert_eq!(count(&open_stock(&path)), expected, "{about}");
        }
    }
}

/// Without room for a log, and in the middle of a transaction that goes on as an ordinary one.
#[test]
fn a_disk_without_room_for_a_log_or_a_journal_fails_the_commit() {
    let name = named!(a_disk_without_room_for_a_log_or_a_journal_fails_the_commit);
    if !may_mount() || !in_own_mounts(name, AT_MOST) {
        return;
    }
    for but_bytes in [0, 8 << 10, 40 << 10, 72 << 10, 200 << 10] {
        let disk = Disk::mount(48 << 20);
        let path = disk.path("a.db");
        open_stock(&path).execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES (1)").unwrap();
        disk.fill(but_bytes);
        let db = open(&path, "delete");
        let mut expected = 1 + fill(&db, 20_000);
        assert_eq!((count(&db), integrity(&db).as_str()), (expected, "ok"), "{but_bytes}");
        disk.make_room();
        insert(&db, 5);
        expected += 5;
        assert!(stats(&db)["maw"]["atomic"].as_u64().unwrap() > 0, "{}", stats(&db));
        // More than the memory that a transaction may take, and more than the disk has.
        db.execute_batch("PRAGMA cache_size=5").unwrap();
        disk.fill((18 << 20) + 10 * but_bytes);
        let large = db.execute_batch(
            "BEGIN; UPDATE t SET v = v || 'x'; INSERT INTO t SELECT randomblob(4000) FROM
             (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 6000)
             SELECT i FROM n); COMMIT",
        );
        assert!(is_full(&large.unwrap_err()));
        let _ = db.execute_batch("ROLLBACK");
        assert_eq!((count(&db), integrity(&db).as_str()), (expected, "ok"), "{but_bytes}");
        disk.make_room();
        insert(&db, 5);
        expected += 5;
        assert_eq!((count(&db), integrity(&db).as_str()), (expected, "ok"), "{but_bytes}");
        drop(db);
        assert_eq!(files(&path), [""]);
    }
}

fn open_both(disk: &Path) -> (Connection, [PathBuf; 2]) {
    let paths = [disk.join("a.db"), disk.join("b.db")];
    let db = open(&paths[0], "delete");
    let uri = format!("file:{}?strategy=maw&atomic=log", paths[1].display());
    db.execute("ATTACH ?1 AS other", [uri]).unwrap();
    db.execute_batch("PRAGMA other.synchronous=full; CREATE TABLE IF NOT EXISTS main.t(v)")
        .unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS other.t(v)").unwrap();
    (db, paths)
}

const INTO_BOTH: &str = "BEGIN; INSERT INTO main.t VALUES (randomblob(9000));
     INSERT INTO other.t SELECT randomblob(9000) FROM main.t LIMIT 3; COMMIT";

fn counts(db: &Connection) -> (i64, i64) {
    let count = |of: &str| common::number(db, &format!("SELECT count(*) FROM {of}.t"));
    assert_eq!(integrity(db), "ok");
    (count("main"), count("other"))
}

#[test]
fn a_commit_of_two_databases_on_a_full_disk_changes_neither() {
    let name = named!(a_commit_of_two_databases_on_a_full_disk_changes_neither);
    if !may_mount() || !in_own_mounts(name, AT_MOST) {
        return;
    }
    for warm in [false, true] {
        for but_bytes in [0, 16 << 10, 100 << 10, 1 << 20] {
            let disk = Disk::mount(24 << 20);
            let (db, paths) = open_both(disk.at.path());
            let mut expected = (0, 0);
            let mut note = || {
                expected.0 += 1;
                expected.1 += 3_i64.min(expected.0);
                expected
            };
            let mut now = (0, 0);
            if warm {
                db.execute_batch(INTO_BOTH).unwrap();
                now = note();
            }
            disk.fill(but_bytes);
            for _ in 0..1000 {
                match db.execute_batch(INTO_BOTH) {
                    Ok(()) => now = note(),
                    Err(error) => {
                        assert!(is_full(&error), "{error}");
                        let _ = db.execute_batch("ROLLBACK");
                        break;
                    }
                }
            }
            assert_eq!(counts(&db), now, "{warm}, {but_bytes}");
            let (other, _) = open_both(disk.at.path());
            assert_eq!(counts(&other), now, "{warm}, {but_bytes}");
            drop(other);
            disk.make_room();
            for _ in 0..3 {
                db.execute_batch(INTO_BOTH).unwrap();
                now = note();
            }
            assert_eq!(counts(&db), now, "{warm}, {but_bytes}");
            drop(db);
            for path in paths {
                assert_eq!(files(&path), [""], "{warm}, {but_bytes}");
            }
            assert!(
                !fs::read_dir(disk.at.path())
                    .unwrap()
                    .any(|entry| { entry.unwrap().file_name().to_string_lossy().contains("-mj") })
            );
        }
    }
}

fn may_be_flawed() -> bool {
    why_not().map(|why| skip(&why)).is_none()
}

/// The device takes syncs again after one has failed. The kernel may have thrown away what it could
/// not write.
#[test]
fn after_a_failed_sync_nothing_is_acknowledged_until_all_have_closed_and_reads_go_on() {
    let name =
        named!(after_a_failed_sync_nothing_is_acknowledged_until_all_have_closed_and_reads_go_on);
    if !may_be_flawed() || !in_own_mounts(name, AT_MOST) {
        return;
    }
    for together in [false, true] {
        let flawed = Flawed::mount("oneflush", Flaws::default()).unwrap();
        let (db, paths) = open_both(flawed.path());
        for _ in 0..4 {
            db.execute_batch("INSERT INTO main.t VALUES (1)").unwrap();
            db.execute_batch("INSERT INTO other.t VALUES (1)").unwrap();
        }
        let (reader, _) = open_both(flawed.path());
        flawed.set_sync(Sync::Fails);
        let commit = |db: &Connection| {
            let sql = if together { INTO_BOTH } else { "INSERT INTO main.t VALUES (2)" };
            let done = db.execute_batch(sql);
            let _ = db.execute_batch("ROLLBACK");
            done
        };
        let error = commit(&db).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure), "{error}");
        flawed.set_sync(Sync::Kept);
        for by in [&db, &reader] {
            for _ in 0..2 {
                commit(by).unwrap_err();
            }
            let seen = counts(by);
            assert!([(4, 4), (5, 4), (5, 7)].contains(&seen), "{seen:?}");
        }
        drop((db, reader));
        let (db, _) = open_both(flawed.path());
        let (main, other) = counts(&db);
        assert!([(4, 4), (5, 4), (5, 7)].contains(&(main, other)), "{main}, {other}");
        commit(&db).unwrap();
        assert_eq!(counts(&db).0, main + 1);
        drop(db);
        for path in paths {
            assert_eq!(files(&path), [""]);
        }
    }
}

/// With `synchronous=NORMAL` SQLite cuts its journal to nothing without a sync. After a loss of
/// power the journal would have been hot, below the commits of a log.
#[test]
fn an_old_journal_is_durably_finished_before_a_log_is_made() {
    let name = named!(an_old_journal_is_durably_finished_before_a_log_is_made);
    if !may_be_flawed() || !in_own_mounts(name, AT_MOST) {
        return;
    }
    let flawed = Flawed::mount("oneflush", Flaws::default()).unwrap();
    let path = flawed.path().join("a.db");
    let stock = open_stock(&path);
    stock
        .execute_batch("PRAGMA journal_mode=truncate; PRAGMA synchronous=normal; CREATE TABLE t(v)")
        .unwrap();
    insert(&stock, 3);
    drop(stock);
    let journal = PathBuf::from("a.db-journal");
    assert!(flawed.unsynced().contains(&journal), "{:?}", flawed.unsynced());
    let db = open(&path, "truncate");
    insert(&db, 1);
    assert!(!flawed.unsynced().contains(&journal), "{:?}", flawed.unsynced());
    assert_eq!(stats(&db)["maw"]["atomic"], 1);
}
