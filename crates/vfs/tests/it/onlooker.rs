//! Connections with a strategy that has a log and that only read: a dashboard, `sqlite3 -readonly`,
//! `mode=ro`, a user who may only read the files.
//!
//! The case: Datasette was the first to open a database of a service that uses `eager`. It got
//! "unable to open database file", because a connection that may not write could not mark the
//! database as in use.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::RwLock;

use oneflush_testing::named;
use tempfile::TempDir;

use crate::common::{
    self, LOGGED, Logged, commits, crash, files, open_stock, open_with, side, take_said,
};

const NOBODY: u32 = 65534;

/// Between fork and exec a child has the locks of this process. A last close at that moment leaves
/// the log to the next opener. So no test forks while another closes for the last time.
static FORKS: RwLock<()> = RwLock::new(());

fn look(logged: Logged, path: &Path) -> Result<i64, String> {
    logged.read_only(path).map_err(|error| error.to_string()).and_then(|db| commits::check(&db))
}

fn scratch(count: usize) -> (TempDir, PathBuf) {
    let (dir, path) = common::scratch_with("wal", count);
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    (dir, path)
}

#[test]
fn a_reader_may_be_the_first_and_a_writer_that_comes_is_told_who_is_in_the_way() {
    let _no_forks = FORKS.read();
    for logged in LOGGED {
        let (_dir, path) = scratch(3);
        let reader = logged.read_only(&path).unwrap();
        assert_eq!(commits::check(&reader), Ok(3));
        let said = take_said(&path);
        assert!(
            said.contains(&format!("so strategy {} is not in force", logged.strategy)),
            "{said}"
        );
        assert_eq!(look(logged, &path), Ok(3));
        assert_eq!(take_said(&path), "", "it is said once");

        // SQLite alone writes beside it, and the connection reads that.
        let alone = open_stock(&path);
        commits::make(&alone, 1);
        assert_eq!(commits::check(&reader), Ok(4));
        drop(alone);

        let refused = logged.open(&path).map(|db| commits::check(&db));
        assert!(matches!(refused, Err(_) | Ok(Err(_))));
        let said = take_said(&path);
        assert!(said.contains("open elsewhere with SQLite's own WAL"), "{said}");
        assert_eq!(commits::check(&reader), Ok(4));
        drop(reader);
        let writer = logged.open(&path).unwrap();
        commits::make(&writer, 1);
        assert_eq!(look(logged, &path), Ok(5));
        drop(writer);
        assert_eq!(
            (files(&path), commits::check(&open_stock(&path))),
            (vec![String::new()], Ok(5))
        );
    }
}

#[test]
fn a_reader_of_a_rollback_mode_sees_what_a_writer_makes_of_it() {
    let _no_forks = FORKS.read();
    for logged in LOGGED {
        let (_dir, path) = scratch(3);
        open_stock(&path).query_row("PRAGMA journal_mode=delete", [], |_| Ok(())).unwrap();
        let reader = logged.read_only(&path).unwrap();
        assert_eq!(commits::check(&reader), Ok(3));
        let writer = logged.open(&path).unwrap();
        writer.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
        commits::make(&writer, 2);
        // The guard is set, and the image has what the reader sees.
        assert!(files(&path).contains(&logged.log[0].to_owned()));
        assert_eq!(commits::check(&reader), Ok(5));
        commits::make(&writer, 1);
        assert_eq!(commits::check(&reader), Ok(6));
        drop((reader, writer));
        assert_eq!(
            (files(&path), commits::check(&open_stock(&path))),
            (vec![String::new()], Ok(6))
        );
    }
}

#[test]
fn a_reader_beside_a_writer_reads_its_commits_and_leaves_a_plain_file_if_it_is_the_last() {
    let _no_forks = FORKS.read();
    for logged in LOGGED {
        let (_dir, path) = scratch(0);
        let writer = logged.open(&path).unwrap();
        commits::make(&writer, 3);
        let reader = logged.read_only(&path).unwrap();
        assert_eq!(commits::check(&reader), Ok(3));
        commits::make(&writer, 2);
        assert_eq!(commits::check(&reader), Ok(5));
        drop(writer);
        assert_eq!(commits::check(&reader), Ok(5));
        let again = logged.open(&path).unwrap();
        commits::make(&again, 1);
        assert_eq!(commits::check(&reader), Ok(6));
        drop(again);
        drop(reader);
        assert_eq!(
            (files(&path), commits::check(&open_stock(&path))),
            (vec![String::new()], Ok(6))
        );
    }
}

#[test]
fn a_reader_that_comes_first_after_a_crash_recovers_where_it_may() {
    for logged in LOGGED {
        let (_dir, path) = scratch(0);
        let writer = logged.open(&path).unwrap();
        commits::make(&writer, 4);
        for left in [logged.log, logged.all] {
            let crashed = crash(&path, left);
            assert_eq!(look(logged, &crashed), Ok(4), "{left:?}: {}", take_said(&crashed));
            assert_eq!(commits::check(&open_stock(&crashed)), Ok(4));
        }
    }
}

/// This program again, as a user who may only read. `ONEFLUSH_TEST_READS` names the database.
#[test]
fn reads_as_another_user() {
    let Ok(path) = std::env::var("ONEFLUSH_TEST_READS") else { return };
    let path = Path::new(&path);
    common::setup();
    let strategy = std::env::var("ONEFLUSH_TEST_STRATEGY").unwrap();
    for parameters in [format!("strategy={strategy}&mode=ro"), format!("strategy={strategy}")] {
        let found = open_with(path, &parameters)
            .map_err(|error| error.to_string())
            .and_then(|db| commits::check(&db));
        println!("answer: {found:?} {}", take_said(path).replace('\n', "; "));
    }
}

fn as_nobody(dir: &Path, path: &Path, strategy: &str) -> Vec<String> {
    let program = dir.join("program");
    if !program.exists() {
        let _alone = FORKS.write();
        oneflush_testing::copy_program(&program);
    }
    let mut command = Command::new(program);
    command
        .args(["--exact", named!(reads_as_another_user), "--nocapture"])
        .env("ONEFLUSH_TEST_READS", path)
        .env("ONEFLUSH_TEST_STRATEGY", strategy);
    let child = {
        let _alone = FORKS.write();
        command.current_dir("/").uid(NOBODY).gid(NOBODY).stdout(Stdio::piped()).spawn().unwrap()
    };
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let answers = said
        .lines()
        .filter_map(|line| line.split_once("answer: "))
        .map(|(_, answer)| answer.to_owned());
    answers.collect()
}

#[test]
fn a_user_who_may_only_read_reads_beside_a_writer_and_is_told_the_way_out_after_a_crash() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can act for another user");
        return;
    }
    for logged in LOGGED {
        let (dir, path) = scratch(0);
        let writer = logged.open(&path).unwrap();
        commits::make(&writer, 4);
        for answer in as_nobody(dir.path(), &path, logged.strategy) {
            assert!(answer.starts_with("Ok(4)"), "{answer}");
        }
        let crashed = crash(&path, logged.all);
        let before: Vec<Vec<u8>> =
            ["", logged.log[0]].map(|suffix| fs::read(side(&crashed, suffix)).unwrap()).into();
        let answers = as_nobody(dir.path(), &crashed, logged.strategy);
        assert_eq!(answers.len(), 2);
        for answer in answers {
            assert!(
                answer.starts_with("Err(") && answer.contains("`oneflush recover`"),
                "{answer}"
            );
        }
        let after: Vec<Vec<u8>> =
            ["", logged.log[0]].map(|suffix| fs::read(side(&crashed, suffix)).unwrap()).into();
        assert!(before == after);
        assert_eq!(commits::check(&logged.open(&crashed).unwrap()), Ok(4));
    }
}

/// The reader knows frames by the salts of the WAL's header. A writer begins the WAL anew again and
/// again, and the reader's cache is too small to hide it.
#[test]
fn a_reader_follows_a_wal_that_begins_anew_and_frames_of_every_layout() {
    let _no_forks = FORKS.read();
    for layout in ["embed", "pad512", "pad4k", "pad8k"] {
        let (_dir, path) = scratch(0);
        let writer = open_with(&path, &format!("strategy=waldio&layout={layout}")).unwrap();
        writer.execute_batch("CREATE TABLE full(v)").unwrap();
        commits::make(&writer, 1);
        let reader = LOGGED[1].read_only(&path).unwrap();
        reader.execute_batch("PRAGMA cache_size=2").unwrap();
        for (round, mode) in
            ["PASSIVE", "RESTART", "TRUNCATE", "RESTART", "FULL", "TRUNCATE"].iter().enumerate()
        {
            // Pages without a gap for a header, too.
            commits::try_make_with(&writer, "INSERT INTO full VALUES (randomblob(20000))").unwrap();
            let expected = commits::check(&writer);
            assert_eq!(commits::check(&reader), expected, "{layout}, {mode}, before");
            let open = reader.unchecked_transaction().unwrap();
            assert_eq!(commits::check(&open), expected);
            commits::make(&writer, 3);
            assert_eq!(commits::check(&open), expected, "{layout}, {mode}: a snapshot");
            drop(open);
            writer.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
            commits::make(&writer, 2);
            assert_eq!(commits::check(&reader), commits::check(&writer), "{layout}, {mode}, after");
            assert_eq!(commits::check(&reader), Ok(7 + 6 * round as i64), "{layout}, {mode}");
            let refused = reader.query_row("PRAGMA wal_checkpoint", [], |row| row.get::<_, i64>(0));
            assert!(!matches!(refused, Ok(0)), "a reader checkpoints nothing: {refused:?}");
        }
        drop((writer, reader));
        assert_eq!(files(&path), [""], "{layout}");
    }
}
