//! Connections that only read: beside a live database, after a crash, and after a writer has died
//! in the middle of a commit.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use oneflush_testing::{Running, named};
use oneflush_vfs::KillPoint;

use super::worker::{Said, Worker, commit};
use super::{GOES_ON, Pair, insist, is_busy, look, open, paths_in, without_starts};

const NOBODY: u32 = 65_534;
const READS: &str = "ONEFLUSH_TEST_READS";

#[test]
fn a_reader_sees_each_commit_of_a_live_database_and_is_no_obstacle_to_its_close() {
    let pair = Pair::new();
    let [main, other] = pair.paths();
    // The first one comes before any log is there.
    let early = open(&main, &other, "delete", "mode=ro").unwrap();
    assert_eq!(look(&early).unwrap(), Ok(0));
    let writer = open(&main, &other, "delete", "").unwrap();
    let late = open(&main, &other, "delete", "mode=ro").unwrap();
    let mut common = 0;
    for number in 1..=40 {
        commit(&writer, 1, number, number).unwrap();
        common += i64::from(number % 4 > 1);
        for reader in [&early, &late] {
            assert_eq!(look(reader).unwrap(), Ok(common), "{number}");
        }
        assert!(late.execute("DELETE FROM kept", []).is_err());
    }
    drop(writer);
    for reader in [&early, &late] {
        assert_eq!(look(reader).unwrap(), Ok(common));
    }
    let _no_start = without_starts();
    drop(early);
    drop(late);
    assert_eq!(pair.files(), ["a.db", "b.db", "c.db"]);
}

/// The writer dies, and a reader comes: it recovers what it may write, or says why not. A reader
/// that was there before goes on.
#[test]
fn a_reader_after_a_writer_that_died_in_the_middle_sees_whole_transactions() {
    use KillPoint::*;
    for point in [
        Busy,
        Recorded,
        HalfShown,
        Durable,
        HalfInPlace,
        InPlace,
        Announced,
        Linked,
        JournalWritten,
    ] {
        for others in ["none", "a reader", "a writer"] {
            let about = format!("{point:?}, others: {others}");
            let pair = Pair::new();
            let [main, other] = pair.paths();
            let mode = if others == "a writer" { "" } else { "mode=ro" };
            let keeps = (others != "none").then(|| {
                let db = open(&main, &other, "delete", mode).unwrap();
                insist(&about, || look(&db)).unwrap();
                db
            });
            let mut said = Said::default();
            let mut victim = Worker::start(&pair, 4, 100_000, Some((point, 6)));
            assert!(victim.is_dead_by(Instant::now() + GOES_ON), "{about}");
            said.add(victim);
            let reader = open(&main, &other, "delete", "mode=ro");
            match reader.and_then(|reader| look(&reader)) {
                Ok(seen) => drop(seen.unwrap()),
                // A hot journal of SQLite's own, which a reader may not play back.
                Err(error) => assert!(
                    point == JournalWritten && error.to_string().contains("readonly")
                        || is_busy(&error),
                    "{about}: {error}"
                ),
            }
            if let Some(keeps) = &keeps
                && point != JournalWritten
            {
                insist(&about, || look(keeps)).unwrap();
            }
            drop(keeps);
            said.check(&pair, &about);
        }
    }
}

/// A log that no guard names was left to the next commit, and so was its board. A program that
/// only reads makes none: the files stayed for ever.
#[test]
fn a_reader_alone_leaves_nothing_of_a_writer_that_died_while_it_made_a_log() {
    use KillPoint::*;
    for point in [LogMade, PageOneLogged, Guarded] {
        for more in ["", "mode=ro"] {
            let about = format!("{point:?}, {more}");
            let pair = Pair::new();
            let [main, other] = pair.paths();
            let mut victim = Worker::start(&pair, 4, 100_000, Some((point, 2)));
            assert!(victim.is_dead_by(Instant::now() + GOES_ON), "{about}");
            let mut said = Said::default();
            said.add(victim);
            assert_ne!(pair.files(), ["a.db", "b.db", "c.db"], "{about}");
            let _no_start = without_starts();
            let reader = insist(&about, || open(&main, &other, "delete", more));
            insist(&about, || look(&reader)).unwrap();
            drop(reader);
            assert_eq!(pair.files(), ["a.db", "b.db", "c.db"], "{about}");
        }
    }
}

/// The reader keeps the writer from retiring its log. At its own close it looked after a log only
/// where that was its WAL, and `maw` has none: the guard stayed on a database that nobody used.
#[test]
fn a_reader_that_goes_last_leaves_a_plain_file() {
    let pair = Pair::new();
    let [main, other] = pair.paths();
    let writer = open(&main, &other, "delete", "").unwrap();
    commit(&writer, 1, 1, 1).unwrap();
    let reader = open(&main, &other, "delete", "mode=ro").unwrap();
    reader.execute_batch("BEGIN; SELECT n FROM main.common; SELECT n FROM other.common").unwrap();
    let _no_start = without_starts();
    drop(writer);
    assert_ne!(pair.files(), ["a.db", "b.db", "c.db"], "the reader is in the way");
    reader.execute_batch("COMMIT").unwrap();
    drop(reader);
    assert_eq!(pair.files(), ["a.db", "b.db", "c.db"]);
}

/// This program again, as a user who may only read.
#[test]
fn reads_as_another_user() {
    let Ok(dir) = std::env::var(READS) else { return };
    let [main, other] = paths_in(Path::new(&dir));
    for more in ["mode=ro", ""] {
        let db = open(&main, &other, "delete", more);
        let seen = db
            .map_err(|error| error.to_string())
            .and_then(|db| look(&db).map_err(|error| error.to_string()).map(|seen| seen.unwrap()));
        println!("answer: {seen:?}");
    }
}

fn as_nobody(pair: &Pair, program: &Path) -> Vec<String> {
    let mut command = Command::new(program);
    command
        .args(["--exact", named!(reads_as_another_user), "--nocapture"])
        .env(READS, pair.dir.path());
    command.current_dir("/").uid(NOBODY).gid(NOBODY);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = without_starts();
    let running = Running::start(&mut command);
    drop(start);
    let output = running.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let answers = told.lines().filter_map(|line| line.split_once("answer: "));
    answers.map(|(_, answer)| answer.to_owned()).collect()
}

#[test]
fn a_user_who_may_only_read_sees_whole_transactions_or_is_refused() {
    if !rustix::process::geteuid().is_root() {
        oneflush_testing::skip("only root can act for another user");
        return;
    }
    let programs = tempfile::tempdir().unwrap();
    std::fs::set_permissions(programs.path(), Permissions::from_mode(0o755)).unwrap();
    let program = programs.path().join("program");
    oneflush_testing::copy_program(&program);
    use KillPoint::*;
    for point in [None, Some(Busy), Some(Recorded), Some(HalfInPlace), Some(InPlace)] {
        let about = format!("{point:?}");
        let pair = Pair::new();
        std::fs::set_permissions(pair.dir.path(), Permissions::from_mode(0o755)).unwrap();
        let [main, other] = pair.paths();
        let mut said = Said::default();
        let Some(point) = point else {
            let db = open(&main, &other, "delete", "").unwrap();
            (1..=6).for_each(|number| commit(&db, 1, number, number).unwrap());
            assert_eq!(as_nobody(&pair, &program), ["Ok(3)", "Ok(3)"]);
            continue;
        };
        let mut victim = Worker::start(&pair, 4, 100_000, Some((point, 6)));
        assert!(victim.is_dead_by(Instant::now() + GOES_ON), "{about}");
        said.add(victim);
        let before: Vec<_> = pair.paths().iter().map(|path| std::fs::read(path).unwrap()).collect();
        for answer in as_nobody(&pair, &program) {
            assert!(answer.starts_with("Err("), "{about}: {answer}");
        }
        let after: Vec<_> = pair.paths().iter().map(|path| std::fs::read(path).unwrap()).collect();
        assert!(before == after, "{about}");
        said.check(&pair, &about);
    }
}
