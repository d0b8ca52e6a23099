//! A panic in a process that goes on.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use oneflush_testing::{Scenes, named};
use oneflush_vfs::KillPoint;
use rusqlite::Connection;

use super::worker::{Said, WORKER, Worker, commit, commit_until_error};
use super::{GOES_ON, Pair, insist, is_busy, look, open, paths_in};

/// Whoever waits for a lock that a panic has left waits for longer.
const ANSWERED: Duration = Duration::from_secs(8);

/// Not a test of its own: a process that commits until it meets a panic, and tries again. It closes
/// when its standard input ends.
#[test]
fn panicker() {
    let Ok(told) = std::env::var(WORKER) else { return };
    let (dir, _) = told.rsplit_once('#').unwrap();
    let [main, other] = paths_in(std::path::Path::new(dir));
    let mut tries = (0..3).map(|_| {
        open(&main, &other, "delete", "").inspect_err(|error| println!("opening met it: {error}"))
    });
    let db = tries.find_map(Result::ok).expect("a panic is met once");
    let (done, error) = commit_until_error(&db, 4, 40);
    for number in &done {
        println!("acknowledged {number}");
    }
    if error.is_some() {
        let next = done.len() as i64 + 1;
        for at in 0..4 {
            // The first number goes to both databases or to one of them. It may be the other one
            // that has met it.
            let again = commit(&db, 4, next, next + at);
            let _ = db.execute_batch("ROLLBACK");
            if again.is_ok() {
                println!("acknowledged {next}");
                break;
            }
        }
    }
    println!("{}", if error.is_some() { "met it" } else { "met nothing" });
    let _ = std::io::stdin().read(&mut [0]);
    drop(db);
    println!("closed");
}

/// Where it is, for which time, and whether another process died before with the log in use.
fn places() -> Vec<(KillPoint, u32, bool)> {
    use KillPoint::*;
    let in_use = [
        Busy,
        Recorded,
        HalfShown,
        Announced,
        Durable,
        HalfInPlace,
        InPlace,
        Linked,
        JournalWritten,
        Materialised,
        LogMade,
        PageOneLogged,
        Guarded,
        Alone,
        GuardHidden,
        BoardDeleted,
        Closing,
    ];
    let after_a_death = [Joined, Rebuilt, Opened, LogOpened];
    let mut all: Vec<_> = in_use.map(|point| (point, 1, false)).to_vec();
    all.extend(in_use.map(|point| (point, 3, false)));
    all.extend(after_a_death.map(|point| (point, 1, true)));
    all
}

#[test]
fn a_panic_tears_nothing_and_leaves_nobody_hanging() {
    let mut scenes = Scenes::default();
    for (point, count, is_after_a_death) in places() {
        let about = format!("a panic at {point:?} no. {count}");
        scenes.play(&about, || panics_at(point, count, is_after_a_death, &about));
    }
    scenes.end();
}

fn panics_at(point: KillPoint, count: u32, is_after_a_death: bool, about: &str) {
    let pair = Pair::new();
    let [main, other] = pair.paths();
    let mut said = Said::default();
    if is_after_a_death {
        assert!(said.add(Worker::start(&pair, 2, 100, Some((KillPoint::InPlace, 12)))), "{about}");
    }
    let neighbour = (!is_after_a_death).then(|| open(&main, &other, "delete", "").unwrap());
    let mut command = Worker::command(&pair, named!(panicker), 4, 0);
    command
        .env("ONEFLUSH_PANIC_AT", format!("{}:{count}", point.name()))
        .stdin(Stdio::piped())
        .stderr(Stdio::null());
    let mut worker = Worker::run(4, &mut command);
    worker.hear_until("met ", GOES_ON, about);
    // While it lives, everybody reads. Commits fail until it has closed, or work.
    let neighbour =
        neighbour.unwrap_or_else(|| insist(about, || open(&main, &other, "delete", "")));
    let seen = insist(about, || look(&neighbour));
    assert!(seen.is_ok(), "{about}: {seen:?}");
    let mut numbers = 0;
    for at in 1..5 {
        let began = Instant::now();
        let done = commits(&neighbour, numbers + 1, at);
        assert!(began.elapsed() < ANSWERED, "{about}: {:?} for {done:?}", began.elapsed());
        numbers += i64::from(done.is_ok());
        if done.is_err_and(|error| !is_busy(&error)) {
            said.deaths.insert(6, 1);
            break;
        }
    }
    said.numbers.insert(6, (1..=numbers).collect());
    drop(worker.child.stdin.take());
    assert!(worker.is_dead_by(Instant::now() + GOES_ON), "{about}: it hangs");
    let is_there = worker.heard().contains("met it");
    let closes =
        matches!(point, KillPoint::GuardHidden | KillPoint::BoardDeleted | KillPoint::Closing);
    assert!(is_there || closes || count > 1, "{about}: never there");
    said.add(worker);
    // One may be there that was not acknowledged.
    said.deaths.insert(4, 1);
    drop(neighbour);
    said.check(&pair, about);
    let after = super::open_alone(&main);
    after.execute_batch("INSERT INTO ballast VALUES (1)").unwrap();
}

fn commits(db: &Connection, number: i64, at: i64) -> rusqlite::Result<()> {
    commit(db, 6, number, at).inspect_err(|_| {
        let _ = db.execute_batch("ROLLBACK");
    })
}
