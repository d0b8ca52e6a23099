//! Files that are removed, replaced or written over while they are in use.

use std::fs;
use std::process::Command;
use std::time::Duration;

use oneflush_testing::has_programs;
use rusqlite::{Connection, ErrorCode};

use super::{BUSY, Other, create, create_in};
use crate::common::{self, commits, open_stock, open_with, scratch, take_said};

/// What may happen to a file that is in use.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Removed,
    Replaced,
}

impl Harm {
    fn to(self, file: &str) {
        match self {
            Harm::Removed => fs::remove_file(file).unwrap(),
            Harm::Replaced => {
                let other = format!("{file}.other");
                fs::copy(file, &other).unwrap();
                fs::rename(other, file).unwrap();
            }
        }
    }
}

#[test]
fn what_was_acknowledged_in_files_that_were_removed_or_replaced_is_saved_and_nothing_follows() {
    let cases: [(&str, &str, &[&str]); 8] = [
        ("plain", "wal", &["", "-shm", "-wal"]),
        ("eager", "wal", &["", "-shm", "-oneflush-wal", "-oneflush"]),
        ("waldio", "wal", &["", "-shm", "-waldio"]),
        ("maw&atomic=log", "delete", &["", "-maw"]),
        ("auto", "wal", &["", "-shm", "-wal"]),
        ("plain", "delete", &[""]),
        ("eager", "truncate", &[""]),
        ("waldio", "persist", &[""]),
    ];
    for (strategy, mode, ends) in cases {
        for (end, harm) in
            ends.iter().flat_map(|end| [Harm::Removed, Harm::Replaced].map(|harm| (*end, harm)))
        {
            let what = format!("{strategy} {mode}: {end:?} {harm:?}");
            let (_dir, path) = scratch();
            let db = create_in(&path, &format!("strategy={strategy}"), mode);
            take_said(&path);
            harm.to(&format!("{}{end}", path.display()));
            let refused = db.execute_batch("UPDATE total SET n = n + 1");
            assert!(refused.is_err(), "{what}: it was acknowledged");
            assert!(db.execute_batch("UPDATE total SET n = n + 1").is_err(), "{what}: the next");
            // A database file that is removed beside a journal is asked for at the close alone.
            drop(db);
            let said = take_said(&path);
            assert_eq!(said.matches("removed or replaced").count(), 1, "{what}: {said}");
            let orphan = path.with_file_name("a.db-orphan-0");
            assert_eq!(commits::check(&open_stock(&orphan)), Ok(3), "{what}");
            if !end.is_empty() {
                // The close neither copied nor deleted what is no file of its own.
                assert_eq!(
                    fs::exists(format!("{}{end}", path.display())).unwrap(),
                    matches!(harm, Harm::Replaced),
                    "{what}"
                );
            }
        }
    }
}

/// No call of the WAL index tells of commits there.
#[test]
fn what_was_acknowledged_in_exclusive_mode_is_saved_as_well() {
    for by_close in [false, true] {
        let (_dir, path) = scratch();
        drop(create(&path, "strategy=plain"));
        let db = open_with(&path, "strategy=plain").unwrap();
        db.execute_batch("PRAGMA locking_mode=exclusive; PRAGMA synchronous=full").unwrap();
        commits::make(&db, 2);
        take_said(&path);
        Harm::Replaced.to(path.to_str().unwrap());
        if !by_close {
            assert!(commits::try_make(&db).is_err());
        }
        drop(db);
        let said = take_said(&path);
        assert!(said.contains("removed or replaced"), "by a close: {by_close}: {said}");
        // Without the index the commit that was refused counts as well.
        let found = commits::check(&open_stock(&path.with_file_name("a.db-orphan-0")));
        let more = i64::from(!by_close);
        assert!((5..=5 + more).contains(&found.clone().unwrap()), "{by_close}: {found:?}");
    }
}

/// SQLite copies nothing when it closes such a database.
#[test]
fn what_was_acknowledged_beside_a_database_file_that_was_replaced_is_saved_by_a_close() {
    for strategy in ["plain", "eager", "waldio"] {
        let (_dir, path) = scratch();
        let db = create(&path, &format!("strategy={strategy}"));
        take_said(&path);
        Harm::Replaced.to(path.to_str().unwrap());
        drop(db);
        let said = take_said(&path);
        assert!(said.contains("removed or replaced"), "{strategy}: {said}");
        let orphan = path.with_file_name("a.db-orphan-0");
        assert_eq!(commits::check(&open_stock(&orphan)), Ok(3), "{strategy}");
    }
}

/// By it a writer would write over frames of acknowledged commits.
#[test]
fn an_older_index_that_another_program_writes_over_the_one_in_use_is_made_anew() {
    for strategy in ["plain", "eager", "waldio"] {
        for by_another in [false, true] {
            let what = format!("{strategy}, the next commit is another process's: {by_another}");
            let options = format!("strategy={strategy}");
            let (_dir, path) = scratch();
            let db = create(&path, &options);
            let mut other = Other::begin(&path, &options);
            let index = format!("{}-shm", path.display());
            let older = fs::read(&index).unwrap();
            commits::make(&db, 2);
            assert!(other.does("UPDATE total SET n = n + 0").starts_with("ok"), "{what}");
            commits::make(&db, 2);
            take_said(&path);
            fs::write(&index, &older).unwrap();
            if by_another {
                // Without a busy handler it is told "busy" once.
                let answers = [(); 2].map(|()| other.does("UPDATE total SET n = n + 0"));
                assert_eq!(answers, [BUSY, "ok"], "{what}");
            }
            db.busy_timeout(Duration::from_secs(2)).unwrap();
            commits::make(&db, 2);
            let said = take_said(&path);
            assert_eq!(said.contains("[OF-243]"), !by_another, "{what}: {said}");
            drop((db, other));
            let again = open_with(&path, &options).unwrap();
            assert_eq!(commits::check(&again), Ok(9), "{what}");
        }
    }
}

/// Another life of the WAL has other salts, and they need not be the next ones.
#[test]
fn an_older_index_of_a_wal_that_was_cut_since_loses_nothing() {
    for commits_since in [0, 2] {
        let (_dir, path) = scratch();
        let db = create(&path, "strategy=plain");
        db.busy_timeout(Duration::from_secs(2)).unwrap();
        let index = format!("{}-shm", path.display());
        let older = fs::read(&index).unwrap();
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        commits::make(&db, commits_since);
        fs::write(&index, &older).unwrap();
        // By that index SQLite may read frames of the WAL that are not there, and fail.
        let more = (0..2).filter(|_| commits::try_make(&db).is_ok()).count();
        drop(db);
        let all = 3 + commits_since + more;
        assert_eq!(commits::check(&open_stock(&path)), Ok(all as i64), "{commits_since}");
    }
}

/// As with SQLite alone. What is acknowledged after that is saved as well, where the file moves
/// again.
#[test]
fn a_database_file_that_gets_its_name_back_takes_commits_again_outside_wal_mode() {
    for strategy in ["plain", "maw&atomic=log"] {
        let (_dir, path) = scratch();
        let options = format!("strategy={strategy}");
        let one = create_in(&path, &options, "delete");
        let mut other = Other::begin(&path, &options);
        assert_eq!(other.does("CREATE TABLE mine(v)"), "ok", "{strategy}");
        take_said(&path);
        let away = path.with_file_name("away.db");
        // Whoever has saved before, the first to hear of it saves.
        let two = open_with(&path, &options).unwrap();
        assert!(commits::try_make(&two).is_ok());
        for (number, rows, db) in [(0, 4, &one), (1, 5, &two)] {
            fs::rename(&path, &away).unwrap();
            // Another file with this name makes no difference.
            fs::write(&path, "").unwrap();
            let refused = commits::try_make(db).unwrap_err();
            assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly), "{strategy}");
            assert!(take_said(&path).contains("removed or replaced"), "{strategy}");
            fs::rename(&away, &path).unwrap();
            assert!(commits::try_make(db).is_ok(), "{strategy}");
            let orphan = path.with_file_name(format!("a.db-orphan-{number}"));
            assert_eq!(commits::check(&open_stock(&orphan)), Ok(rows), "{strategy}");
        }
        fs::rename(&path, &away).unwrap();
        assert_ne!(other.does("INSERT INTO mine VALUES(1)"), "ok", "{strategy}");
        fs::rename(&away, &path).unwrap();
        let orphan = path.with_file_name("a.db-orphan-2");
        assert_eq!(commits::check(&open_stock(&orphan)), Ok(6), "{strategy}");
        assert_eq!(commits::check(&one), Ok(6), "{strategy}");
    }
}

/// The file may have half a transaction then, which another process has left.
#[test]
fn no_orphan_is_made_of_a_file_beside_a_hot_journal() {
    let (_dir, path) = scratch();
    let db = create_in(&path, "strategy=plain", "delete");
    take_said(&path);
    fs::write(format!("{}-journal", path.display()), [0xd9; 512]).unwrap();
    Harm::Replaced.to(path.to_str().unwrap());
    drop(db);
    let said = take_said(&path);
    assert!(said.contains("removed or replaced"), "{said}");
    assert!(!fs::exists(path.with_file_name("a.db-orphan-0")).unwrap(), "{said}");
}

/// Who has only read has acknowledged nothing. A restored backup is none of its business.
#[test]
fn a_reader_saves_nothing_where_the_database_file_was_replaced() {
    for mode in ["truncate", "delete"] {
        let (_dir, path) = scratch();
        drop(create_in(&path, "strategy=plain", mode));
        let db = open_with(&path, "strategy=plain").unwrap();
        assert_eq!(commits::check(&db), Ok(3));
        Harm::Replaced.to(path.to_str().unwrap());
        drop(db);
        assert!(!fs::exists(path.with_file_name("a.db-orphan-0")).unwrap(), "{mode}");
    }
}

/// A close and a checkpoint go by the index alone.
#[test]
fn a_wal_is_neither_copied_nor_deleted_by_an_older_index() {
    for by_close in [false, true] {
        let (_dir, path) = scratch();
        let db = create(&path, "strategy=plain");
        let index = format!("{}-shm", path.display());
        let older = fs::read(&index).unwrap();
        commits::make(&db, 4);
        fs::write(&index, &older).unwrap();
        if !by_close {
            for _ in 0..2 {
                let _ = db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
            }
        }
        drop(db);
        assert_eq!(commits::check(&open_stock(&path)), Ok(7), "by a close: {by_close}");
    }
}

/// Pages of two databases must not become one.
#[test]
fn a_database_of_maw_that_another_program_writes_over_takes_no_commit() {
    // Of the epoch, whose pages the log writes back, or from before it.
    for is_of_epoch in [true, false] {
        let (_dir, path) = scratch();
        let db = create_in(&path, "strategy=maw&atomic=log&log_size=1048576", "delete");
        let older = fs::read(&path).unwrap();
        if !is_of_epoch {
            let epochs =
                |db: &Connection| common::stats(db)["maw"]["log"]["epochs"].as_u64().unwrap();
            let before = epochs(&db);
            while epochs(&db) < before + 2 {
                commits::make(&db, 1);
            }
        }
        commits::make(&db, 2);
        let made = db.query_row("SELECT n FROM total", [], |row| row.get::<_, i64>(0)).unwrap();
        take_said(&path);
        fs::write(&path, &older).unwrap();
        for _ in 0..2 {
            assert!(db.execute_batch("UPDATE total SET n = n + 1").is_err());
        }
        let said = take_said(&path);
        assert!(said.contains("another program has written over the database file"), "{said}");
        drop(db);
        let again = open_with(&path, "strategy=maw").map(|db| commits::check(&db));
        if is_of_epoch {
            assert_eq!(again.unwrap(), Ok(made));
        } else {
            assert!(!again.is_ok_and(|found| found.is_ok()), "it has pages of both");
            assert!(take_said(&path).contains("[OF-314]"));
        }
    }
}

#[test]
fn a_database_file_that_another_program_writes_over_takes_no_commit_and_is_saved() {
    for strategy in ["plain", "eager", "waldio"] {
        let (_dir, path) = scratch();
        let db = create(&path, &format!("strategy={strategy}"));
        let backup = path.with_file_name("backup.db");
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        fs::copy(&path, &backup).unwrap();
        commits::make(&db, 1);
        // The WAL stays, and no later commit changes this page: there is something to compare.
        db.execute_batch("CREATE TABLE more(x)").unwrap();
        let reader = open_with(&path, &format!("strategy={strategy}")).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").unwrap();
        db.execute_batch("PRAGMA wal_checkpoint").unwrap();
        commits::make(&db, 1);
        take_said(&path);
        // The content is what it was, whoever has touched and read it.
        assert!(Command::new("touch").arg(&path).status().unwrap().success());
        fs::read(&path).unwrap();
        commits::make(&db, 1);
        assert_eq!(take_said(&path), "", "{strategy}: touched");

        fs::copy(&backup, &path).unwrap();
        for _ in 0..2 {
            assert!(db.execute_batch("UPDATE total SET n = n + 1").is_err(), "{strategy}");
            assert!(db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").is_err(), "{strategy}");
        }
        let said = take_said(&path);
        assert!(said.contains("another program has written over it"), "{strategy}: {said}");
        assert_eq!(said.matches("has written over it").count(), 1, "{strategy}: said once");
        let orphan = path.with_file_name("a.db-orphan-0");
        assert_eq!(commits::check(&open_stock(&orphan)), Ok(6), "{strategy}");
        drop((reader, db));
        assert_eq!(fs::read(&path).unwrap(), fs::read(&backup).unwrap(), "{strategy}: copied into");
    }
}

/// SQLite leaves out pages that have a newer frame, where a reader lets it copy a part only.
#[test]
fn a_page_that_a_checkpoint_has_left_out_is_no_other_programs() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let reader = open_with(&path, "strategy=plain").unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").unwrap();
    commits::make(&db, 1);
    db.execute_batch("PRAGMA wal_checkpoint").unwrap();
    for _ in 0..2 {
        commits::make(&db, 1);
        assert!(Command::new("touch").arg(&path).status().unwrap().success());
    }
    commits::make(&db, 1);
    drop(reader);
    assert_eq!(commits::check(&db), Ok(7));
}

/// The WAL has begun anew, and only the header is there to be compared.
#[test]
fn a_database_file_whose_time_changes_is_told_or_refused_by_its_header() {
    for (change, is_refused) in [("", false), ("CREATE TABLE more(x)", true)] {
        let (_dir, path) = scratch();
        let db = create(&path, "strategy=plain");
        let backup = path.with_file_name("backup.db");
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        fs::copy(&path, &backup).unwrap();
        db.execute_batch(change).unwrap();
        commits::make(&db, 1);
        db.execute_batch("PRAGMA wal_checkpoint").unwrap();
        commits::make(&db, 1);
        take_said(&path);
        fs::copy(&backup, &path).unwrap();
        let committed = db.execute_batch("UPDATE total SET n = n + 1");
        let said = take_said(&path);
        assert_eq!(committed.is_err(), is_refused, "{change}: {said}");
        let told = if is_refused { "has written over it" } else { "no checkpoint did that" };
        assert!(said.contains(told), "{change}: {said}");
    }
}

/// Who closes last copies without a lock of the index, and what is kept of the WAL has its salts.
#[test]
fn a_look_at_the_database_file_does_not_outlive_the_last_wal() {
    for strategy in ["plain", "eager", "waldio"] {
        let (_dir, path) = scratch();
        let options = format!("strategy={strategy}");
        let db = create(&path, &options);
        commits::make(&db, 60);
        let idle = open_with(&path, &options).unwrap();
        drop(db);
        let mut other = Other::begin(&path, &options);
        assert_eq!(other.does("SELECT n FROM total"), "ok 63", "{strategy}");
        commits::make(&idle, 1);
        assert_eq!(commits::check(&idle), Ok(64), "{strategy}");
    }
}

#[test]
fn an_orphan_is_not_put_beside_a_wal_that_is_there() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let orphan = |number| path.with_file_name(format!("a.db-orphan-{number}"));
    fs::write(path.with_file_name("a.db-orphan-0-wal"), "another").unwrap();
    fs::remove_file(format!("{}-wal", path.display())).unwrap();
    assert!(db.execute_batch("UPDATE total SET n = n + 1").is_err());
    assert!(!orphan(0).exists());
    assert_eq!(commits::check(&open_stock(&orphan(1))), Ok(3));
}

/// A checkpoint would copy whatever lies where the index says that there are frames.
#[test]
fn nothing_is_copied_from_a_wal_that_another_program_has_written_over() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let wal = format!("{}-wal", path.display());
    let older = fs::read(&wal).unwrap();
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    commits::make(&db, 5);
    let before = fs::read(&path).unwrap();
    take_said(&path);
    // As `cp` does: the length and what was there are gone.
    fs::write(&wal, &older).unwrap();
    assert!(db.execute_batch("PRAGMA wal_checkpoint").is_err());
    let said = take_said(&path);
    assert!(said.contains("another program has written over its WAL"), "{said}");
    drop(db);
    assert!(fs::read(&path).unwrap() == before, "it was copied into the database file");
}

/// It is all that is left of acknowledged commits, and power may be lost after it is told.
#[test]
fn an_orphan_is_durable_file_by_file_and_in_its_folder() {
    if !has_programs(&["strace"]) {
        return;
    }
    let (dir, path) = scratch();
    let trace = path.with_extension("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-o", trace.to_str().unwrap()]);
    strace.arg(std::env::current_exe().unwrap());
    let mut other = Other::begin_by(strace, &path, "strategy=plain");
    for sql in ["PRAGMA journal_mode=wal", "CREATE TABLE t(n)", "INSERT INTO t VALUES(1)"] {
        assert!(other.does(sql).starts_with("ok"), "{sql}");
    }
    fs::remove_file(format!("{}-wal", path.display())).unwrap();
    assert!(other.does("INSERT INTO t VALUES(2)").starts_with("error"));
    drop(other.child.stdin.take());
    assert!(other.child.wait().unwrap().success());
    let trace = fs::read_to_string(trace).unwrap();
    let orphan = format!("{}-orphan-0", path.display());
    for synced in [orphan.clone(), format!("{orphan}-wal"), dir.path().display().to_string()] {
        // SQLite itself syncs by fdatasync.
        let is_synced = |line: &str| {
            line.contains(" fsync(")
                && line.contains(&format!("<{synced}>)"))
                && line.ends_with("= 0")
        };
        assert!(trace.lines().any(is_synced), "{synced}: {trace}");
    }
}

/// The reader is the first to see it, at its close, and may not write.
#[test]
fn a_reader_that_closes_leaves_it_to_a_writer_to_save_what_was_acknowledged() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let reader = open_with(&path, "strategy=plain&mode=ro").unwrap();
    assert_eq!(commits::check(&reader), Ok(3));
    fs::remove_file(format!("{}-wal", path.display())).unwrap();
    drop(reader);
    assert!(db.execute_batch("UPDATE total SET n = n + 1").is_err());
    assert_eq!(commits::check(&open_stock(&path.with_file_name("a.db-orphan-0"))), Ok(3));
}
