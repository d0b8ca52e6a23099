//! Databases that commit together, and were copied, moved, renamed or deleted: in part, beside the
//! original, and while the original goes on.
//!
//! `cp` copies UUIDs and links. So a copy once took the original's commits, had the original's
//! files recovered and its log removed, and what was moved in part lost what it had acknowledged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::common::{self, count, files, integrity, open_stock, open_with, side};
use crate::maw::{counts, crash_all, insert_into_all, open, open_several};

/// The names and contents of all files in a folder.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file());
    files.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

/// Copies or moves a database and its log.
fn put(from: &Path, to: &Path, act: fn(&Path, &Path) -> std::io::Result<()>) {
    act(from, to).unwrap();
    act(&side(from, "-maw"), &side(to, "-maw")).unwrap();
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::copy(from, to).map(drop)
}

fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)
}

fn refused(path: &Path) -> String {
    let opened = open_with(path, "strategy=maw")
        .and_then(|db| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)));
    assert!(opened.is_err(), "{path:?}");
    common::take_said(path)
}

/// The logs that were set aside.
fn asides(path: &Path) -> Vec<String> {
    files(path).into_iter().filter(|name| name.starts_with("-maw-")).collect()
}

fn said<'a>(with: Option<&'a Path>, forget: Option<&'a str>) -> oneflush_vfs::Said<'a> {
    oneflush_vfs::Said { with, forget: forget.map(Path::new) }
}

/// A crash after `commits` of two databases, in a folder of its own. The second is the coordinator.
fn crashed(dir: &Path, commits: usize) -> [PathBuf; 2] {
    let original = dir.join("live");
    std::fs::create_dir(&original).unwrap();
    let (db, paths) = open_several(&original, 2);
    for _ in 0..commits {
        insert_into_all(&db, 2, "COMMIT").unwrap();
    }
    let copies = crash_all(&original, &dir.join("one"), &paths);
    drop(db);
    std::fs::remove_dir_all(&original).unwrap();
    // The paths of the crash are not those in the log. They are after a life here.
    let (db, paths) = open_several(&dir.join("one"), 2);
    insert_into_all(&db, 2, "COMMIT").unwrap();
    let copies_again = crash_all(&dir.join("one"), &dir.join("two"), &paths);
    drop(db);
    std::fs::remove_dir_all(dir.join("one")).unwrap();
    std::fs::rename(dir.join("two"), dir.join("one")).unwrap();
    drop(copies_again);
    copies.try_into().unwrap()
}

#[test]
fn a_coordinator_that_was_copied_alone_keeps_its_log_until_the_other_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let [member, coordinator] = crashed(dir.path(), 3);
    let before = contents(&dir.path().join("one"));
    let there = dir.path().join("there");
    std::fs::create_dir(&there).unwrap();
    let copies = [there.join("0.db"), there.join("1.db")];
    put(&coordinator, &copies[1], copy);
    assert_eq!(counts(&copies[1..]), [4]);
    assert_eq!(contents(&dir.path().join("one")), before, "the original was touched");
    assert_eq!(asides(&copies[1]).len(), 1);
    assert!(common::take_said(&copies[1]).contains("this log stays"));
    assert_eq!(count(&open_stock(&copies[1])), 4);

    let (stays, _) = oneflush_vfs::settle_aside(&copies[1], said(None, None), false).unwrap();
    assert!(!stays[0].needed_by[0].found);
    put(&member, &copies[0], copy);
    let (stays, _) = oneflush_vfs::settle_aside(&copies[1], said(None, None), false).unwrap();
    assert!(stays[0].needed_by[0].found);
    assert_eq!(counts(&copies[..1]), [4]);
    // Whoever left it last has removed it.
    assert_eq!(files(&copies[1]), [""]);
    assert_eq!(counts(&[member, coordinator]), [4, 4]);
}

/// A database leaves a log that was set aside at its first commit, long before its last close.
#[test]
fn a_log_that_was_set_aside_goes_after_the_other_database_has_commits_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let [member, coordinator] = crashed(dir.path(), 3);
    let away = dir.path().join("away.db");
    put(&member, &away, rename);
    assert_eq!(counts(std::slice::from_ref(&coordinator)), [4]);
    assert_eq!(asides(&coordinator).len(), 1);
    put(&away, &member, rename);
    let db = open(&member);
    for _ in 0..3 {
        db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
    }
    drop(db);
    assert_eq!(files(&coordinator), [""]);
    assert_eq!(counts(&[member, coordinator]), [7, 4]);
}

#[test]
fn a_log_can_be_told_that_a_database_is_gone_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let [member, coordinator] = crashed(dir.path(), 3);
    std::fs::remove_file(&member).unwrap();
    std::fs::remove_file(side(&member, "-maw")).unwrap();
    assert_eq!(counts(std::slice::from_ref(&coordinator)), [4]);
    let settle =
        |forget, dry| oneflush_vfs::settle_aside(&coordinator, said(None, forget), dry).unwrap();
    let (stays, known) = settle(Some("other.db"), false);
    assert_eq!((stays.len(), known), (1, false));
    let (stays, known) = settle(Some("0.db"), true);
    assert_eq!((stays.len(), known, asides(&coordinator).len()), (0, true, 1));
    settle(Some(member.to_str().unwrap()), false);
    assert_eq!(files(&coordinator), [""]);
}

#[test]
fn a_member_that_was_copied_alone_takes_its_commits_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [member, coordinator] = crashed(dir.path(), 3);
    let before = contents(&dir.path().join("one"));
    let there = dir.path().join("there");
    std::fs::create_dir(&there).unwrap();
    let lone = there.join("0.db");
    put(&member, &lone, copy);
    assert_eq!(counts(std::slice::from_ref(&lone)), [4]);
    assert_eq!(files(&lone), [""]);
    assert_eq!(contents(&dir.path().join("one")), before, "the original was touched");

    // Another database of the coordinator's name lies beside the next copy.
    std::fs::create_dir(dir.path().join("third")).unwrap();
    let lone = dir.path().join("third/0.db");
    put(&member, &lone, copy);
    drop(open(&lone.with_file_name("1.db")));
    let why = refused(&lone);
    assert!(why.contains("its last commits are in the log of"), "{why}");
    assert_eq!(counts(&[member, coordinator]), [4, 4]);
}

#[test]
fn a_renamed_copy_resolves_nothing_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [member, coordinator] = crashed(dir.path(), 3);
    let [member_copy, coordinator_copy] =
        ["m.db", "c.db"].map(|name| dir.path().join("one").join(name));
    let before = contents(&dir.path().join("one"));
    put(&member, &member_copy, copy);
    let why = refused(&member_copy);
    assert!(why.contains("knows it as") && why.contains("0.db"), "{why}");
    let why = oneflush_vfs::inspect(&member_copy).unwrap_err().to_string();
    assert!(why.contains("[OF-145]"), "{why}");
    put(&coordinator, &coordinator_copy, copy);
    assert_eq!(counts(std::slice::from_ref(&coordinator_copy)), [4]);
    // The database beside it belongs to the original.
    assert_eq!(asides(&coordinator_copy).len(), 1);
    let now = contents(&dir.path().join("one"));
    assert!(before.iter().all(|(path, bytes)| now.get(path) == Some(bytes)), "it was touched");
    assert_eq!(counts(&[coordinator, member]), [4, 4]);
}

#[test]
fn a_copy_that_is_older_than_the_log_beside_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let [member, coordinator] = crashed(dir.path(), 3);
    let old = dir.path().join("old");
    std::fs::create_dir(&old).unwrap();
    put(&member, &old.join("0.db"), copy);
    put(&coordinator, &old.join("1.db"), copy);
    // The originals go on, in another log, or in another epoch of the same.
    let (db, paths) = open_several(&dir.path().join("one"), 2);
    for _ in 0..30 {
        db.execute_batch(
            "BEGIN; INSERT INTO t VALUES(randomblob(300000));
             INSERT INTO d1.t VALUES(randomblob(300000)); COMMIT",
        )
        .unwrap();
    }
    let copies = crash_all(&dir.path().join("one"), &dir.path().join("later"), &paths);
    drop(db);
    put(&old.join("0.db"), &copies[0], copy);
    let why = refused(&copies[0]);
    assert!(why.contains("its last commits are in the log of"), "{why}");
    assert!(!why.contains("malformed"), "{why}");
    put(&old.join("1.db"), &copies[1], copy);
    assert_eq!(counts(&copies), [4, 4], "both from one backup");
}

#[test]
fn databases_in_different_folders_are_recovered_in_any_order_and_leave_nothing() {
    for order in [[0, 1], [1, 0]] {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["a", "b"].map(|name| dir.path().join(name));
        folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let paths = [folders[0].join("x.db"), folders[1].join("y.db")];
        let begin = || {
            let db = open(&paths[0]);
            drop(open(&paths[1]));
            let uri = format!("file:{}?strategy=maw&atomic=log", paths[1].display());
            db.execute_batch(&format!("ATTACH '{uri}' AS d1")).unwrap();
            db
        };
        let db = begin();
        for _ in 0..3 {
            insert_into_all(&db, 2, "COMMIT").unwrap();
        }
        let crash = folders.clone().map(|folder| folder.with_extension("crash"));
        for (from, to) in folders.iter().zip(&crash) {
            crash_all(from, to, &[]);
        }
        drop(db);
        assert_eq!(paths.clone().map(|path| files(&path)), [[""], [""]], "after a clean close");
        for (from, to) in crash.iter().zip(&folders) {
            std::fs::remove_dir_all(to).unwrap();
            std::fs::rename(from, to).unwrap();
        }
        for at in order {
            assert_eq!(counts(&paths[at..=at]), [3], "{order:?}");
        }
        assert_eq!(paths.clone().map(|path| files(&path)), [[""], [""]], "{order:?}");

        // One of them is moved away, the other one recovered.
        let db = begin();
        insert_into_all(&db, 2, "COMMIT").unwrap();
        for (from, to) in folders.iter().zip(&crash) {
            crash_all(from, to, &[]);
        }
        drop(db);
        for (from, to) in crash.iter().zip(&folders) {
            std::fs::remove_dir_all(to).unwrap();
            std::fs::rename(from, to).unwrap();
        }
        let moved = dir.path().join("moved.db");
        put(&paths[0], &moved, rename);
        assert_eq!(counts(&paths[1..]), [4]);
        assert_eq!(asides(&paths[1]).len(), 1);
        put(&moved, &paths[0], rename);
        assert_eq!(counts(&paths[..1]), [4]);
        assert_eq!(paths.clone().map(|path| files(&path)), [[""], [""]], "{order:?}");
    }
}

/// Each log counts its records anew. That a database has left an earlier log says nothing of this
/// one, which has its last commit.
#[test]
fn a_log_is_not_ended_because_its_database_has_left_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let live = dir.path().join("live");
    std::fs::create_dir(&live).unwrap();
    let (db, paths) = open_several(&live, 2);
    let ends_the_log_of_the_coordinator =
        "PRAGMA d1.synchronous=off; INSERT INTO d1.t VALUES(1); PRAGMA d1.synchronous=full";
    for _ in 0..5 {
        insert_into_all(&db, 2, "COMMIT").unwrap();
    }
    db.execute_batch("INSERT INTO main.t VALUES(1)").unwrap();
    db.execute_batch(ends_the_log_of_the_coordinator).unwrap();
    insert_into_all(&db, 2, "COMMIT").unwrap();
    db.execute_batch(ends_the_log_of_the_coordinator).unwrap();
    let copies = crash_all(&live, &dir.path().join("crash"), &paths);
    drop(db);
    assert_eq!(counts(&copies), [7, 8]);
}

#[test]
fn a_database_that_was_closed_and_deleted_is_waited_for_by_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.db");
    // The last database is the coordinator, and each of both roles has its turn.
    for scratch_is_last in [true, false] {
        let scratch = dir.path().join("scratch.db");
        drop(open(&scratch));
        let (first, last) = if scratch_is_last { (&path, &scratch) } else { (&scratch, &path) };
        drop(open(&path));
        let db = Connection::open_in_memory().unwrap();
        for (name, path) in [("a", first), ("b", last)] {
            db.execute_batch(&format!(
                "ATTACH 'file:{}?vfs=oneflush&strategy=maw&atomic=log' AS {name}",
                path.display()
            ))
            .unwrap();
        }
        let (gone, stays) = if scratch_is_last { ("b", "a") } else { ("a", "b") };
        db.execute_batch(&format!(
            "BEGIN; INSERT INTO a.t VALUES(1); INSERT INTO b.t VALUES(1); COMMIT; DETACH {gone}"
        ))
        .unwrap();
        assert_eq!(files(&scratch), [""]);
        std::fs::remove_file(&scratch).unwrap();
        for _ in 0..10 {
            db.execute_batch(&format!("INSERT INTO {stays}.t VALUES(randomblob(500000))")).unwrap();
        }
        drop(db);
        assert_eq!(files(&path), [""], "{scratch_is_last}");
        let stock = open_stock(&path);
        assert_eq!(integrity(&stock), "ok");
        drop(stock);
    }
    assert_eq!(count(&open_stock(&path)), 22);
}
