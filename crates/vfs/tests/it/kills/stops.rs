//! Processes that are stopped, and others that come meanwhile.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use oneflush_testing::{Running, named};
use oneflush_vfs::KillPoint;
use rusqlite::Connection;

use super::deaths::{Scenario, scenarios};
use super::worker::{Said, Worker, crash, go_on, start_to_stop};
use super::{
    TRIES, USED, acknowledged, again, count_rows, create, is_busy, is_so_by, open, open_for,
    open_with, opens_or_closes, patience,
};

const VISITOR: &str = "ONEFLUSH_TEST_VISITOR";
/// By then a process that comes while another is stopped has all its answers, on any machine.
pub const ANSWERED: Duration = Duration::from_secs(40);

/// Not a test of its own: a visitor opens, reads, commits once and closes, whatever it is told.
#[test]
fn visitor() {
    let Ok(told) = std::env::var(VISITOR) else { return };
    let (path, writer) = told.rsplit_once('#').unwrap();
    let writer: i64 = writer.parse().unwrap();
    let db =
        match open_for(Duration::from_millis(300), USED.get(), Path::new(path), "log_size=1048576")
        {
            Ok(db) => db,
            Err(error) => {
                assert!(is_busy(&error), "{error}");
                return println!("open busy");
            }
        };
    let read = db.query_row(
        "SELECT count(*), coalesce(max(CASE writer WHEN ?1 THEN number END), 0) FROM kept",
        [writer],
        |row| row.get(1),
    );
    match read {
        Err(error) => {
            assert!(is_busy(&error), "{error}");
            println!("read busy");
        }
        Ok(last) => {
            println!("read done");
            let last: i64 = last;
            let write = |db: &Connection| {
                db.execute_batch("BEGIN IMMEDIATE")?;
                db.execute(
                    "INSERT INTO kept VALUES (?1, ?2, randomblob(100))",
                    [writer, last + 1],
                )?;
                db.execute_batch("COMMIT")
            };
            match write(&db) {
                Ok(()) => println!("acknowledged {}", last + 1),
                Err(error) if is_busy(&error) => println!("busy"),
                Err(error) => {
                    // SQLITE_IOERR_FSYNC: the commit may be there or not. No later commit is
                    // accepted.
                    assert_eq!(
                        error.sqlite_error().map(|error| error.extended_code),
                        Some(1034),
                        "{error}"
                    );
                    println!("failed");
                    let _ = db.execute_batch("ROLLBACK");
                    assert!(write(&db).is_err(), "nothing is acknowledged after a failure");
                }
            }
        }
    }
    drop(db);
    println!("closed");
}

/// Runs a visitor. The answer is what it was told.
pub fn visit(path: &Path, writer: i64, said: &mut Said, about: &str) -> String {
    let mut command = again(named!(visitor));
    command
        .env(VISITOR, format!("{}#{writer}", path.display()))
        .env("ONEFLUSH_TEST_PATIENCE_MS", "1500")
        .stdout(Stdio::piped());
    let mut child = Running::start(&mut command);
    if !is_so_by(Instant::now() + ANSWERED, || child.try_wait().unwrap().is_some()) {
        child.kill().unwrap();
        panic!("{about}: a visitor hangs");
    }
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(child.wait().unwrap().success(), "{about}: {told}");
    said.numbers.entry(writer).or_default().extend(acknowledged(&told));
    *said.deaths.entry(writer).or_default() += i64::from(told.contains("failed"));
    told
}

/// How a process that was stopped ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    GoesOn,
    IsKilled,
}

/// A process is stopped at a place, others come, and it goes on or is killed.
fn stopped_at_its_place(scenario: &Scenario, then: Then) -> bool {
    use KillPoint::*;
    let Scenario { point, before, after_crash, .. } = *scenario;
    let count = scenario.count.min(4);
    let about = format!("stopped at {point:?} no. {count}, before it {before:?}, then {then:?}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    create(&path);
    let mut said = Said::default();
    if after_crash {
        crash(&path, &mut said, &about);
    }
    let is_alone = opens_or_closes(point) || point == ExclusivelyLocked;
    let reader = (!is_alone).then(|| open(&path).unwrap());
    if let Some(reader) = &reader {
        count_rows(reader);
    }
    let deadline = Instant::now() + patience();
    // A process awaits a batch only if other processes commit too. Those are killed before any of
    // them can be told that its commit failed.
    let has_first = before.is_some() || point == BatchAwaited;
    let mut first = has_first.then(|| Worker::start(&path, 3, 100_000, before));
    let mut victim = start_to_stop(&path, 4, point, count);
    let stopped = victim.is_stopped_by(deadline);
    if let Some(first) = &mut first {
        let _ = first.child.kill();
    }
    if let Some(first) = first {
        said.add(first);
    }
    if stopped {
        let told = visit(&path, 6, &mut said, &about);
        if let Some(reader) = &reader {
            assert!(told.contains("read done"), "{about}: who only reads is not held up: {told}");
            count_rows(reader);
        }
        assert!(told.contains("closed") || told.contains("open busy"), "{about}: {told}");
    }
    if stopped && then == Then::GoesOn {
        go_on(&victim.child);
        std::thread::sleep(Duration::from_millis(300));
        assert!(victim.child.try_wait().unwrap().is_none(), "{about}: it did not go on");
    }
    victim.child.kill().unwrap();
    said.add(victim);
    if let Some(reader) = &reader {
        count_rows(reader);
    }
    drop(reader);
    assert!(!said.add(Worker::start(&path, 5, 30, None)), "{about}");
    said.check(&path, &about);
    stopped
}

fn stop_at_each_place(then: Then) {
    let mut done: Vec<KillPoint> = Vec::new();
    for scenario in scenarios() {
        if done.contains(&scenario.point) && scenario.count != 4 {
            continue;
        }
        done.push(scenario.point);
        let came = (0..TRIES).any(|_| stopped_at_its_place(&scenario, then));
        assert!(came, "{:?}: the place was not come to", scenario.point);
    }
}

/// A process was stopped while it had the board's lock. It kept everybody from opening and from
/// writing the database, for ever.
#[test]
fn wherever_a_process_is_stopped_others_open_read_and_are_answered_and_it_goes_on() {
    stop_at_each_place(Then::GoesOn);
}

#[test]
fn wherever_a_process_is_stopped_others_open_read_and_are_answered_and_it_is_killed() {
    stop_at_each_place(Then::IsKilled);
}

/// A dashboard opens the database for reading only. It waited two seconds for the board's lock,
/// which the stopped process had, and was then refused.
#[test]
fn a_reader_opens_and_reads_beside_a_process_stopped_in_an_append_and_goes_on_when_it_is_killed() {
    use KillPoint::*;
    for point in [Locked, Busy, Recorded, HalfShown, Unlocking] {
        let about = format!("{point:?}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        create(&path);
        let mut said = Said::default();
        let mut appends = start_to_stop(&path, 1, point, 8);
        assert!(appends.is_stopped_by(Instant::now() + patience()), "{about}");
        let reader = open_with(&path, "mode=ro").unwrap_or_else(|error| panic!("{about}: {error}"));
        let before = count_rows(&reader);
        assert!(before > 0, "{about}");
        appends.child.kill().unwrap();
        said.add(appends);
        assert!(!said.add(Worker::start(&path, 5, 30, None)), "{about}");
        assert!(count_rows(&reader) >= before + 30, "{about}");
        drop(reader);
        said.check(&path, &about);
    }
}

/// Two processes are stopped: one that appends, and one that joins beside it without the lock. If
/// one of them dies, nobody recovers while the other lives.
#[test]
fn who_joins_beside_a_stopped_process_may_be_stopped_itself() {
    for (point, kills) in [
        (KillPoint::Seen, false),
        (KillPoint::Using, false),
        (KillPoint::Seen, true),
        (KillPoint::Using, true),
    ] {
        let about = format!("{point:?}, the one that appends is killed: {kills}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        create(&path);
        let mut said = Said::default();
        let mut appends = start_to_stop(&path, 1, KillPoint::Recorded, 8);
        assert!(appends.is_stopped_by(Instant::now() + patience()), "{about}");
        let mut joins = start_to_stop(&path, 2, point, 1);
        assert!(joins.is_stopped_by(Instant::now() + patience()), "{about}");
        let told = visit(&path, 6, &mut said, &about);
        assert!(told.contains("read done"), "{about}: {told}");
        if kills {
            appends.child.kill().unwrap();
            said.add(appends);
            assert!(visit(&path, 6, &mut said, &about).contains("closed"), "{about}");
            go_on(&joins.child);
        } else {
            go_on(&joins.child);
            std::thread::sleep(Duration::from_millis(100));
            go_on(&appends.child);
            std::thread::sleep(Duration::from_millis(200));
            assert!(appends.child.try_wait().unwrap().is_none(), "{about}");
            appends.child.kill().unwrap();
            said.add(appends);
        }
        std::thread::sleep(Duration::from_millis(300));
        assert!(joins.child.try_wait().unwrap().is_none(), "{about}: it did not go on");
        joins.child.kill().unwrap();
        said.add(joins);
        assert!(!said.add(Worker::start(&path, 5, 30, None)), "{about}");
        said.check(&path, &about);
    }
}
