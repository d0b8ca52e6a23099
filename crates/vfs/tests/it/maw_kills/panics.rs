//! A panic in a process that goes on.

use std::process::Stdio;
use std::time::Instant;

use oneflush_testing::named;
use oneflush_vfs::KillPoint;

use super::worker::{Said, WORKER, Worker, commit_until_error};
use super::{GOES_ON, Pair, insist, look, open, paths_in};

/// Not a test of its own: a process that commits until it meets a panic, tries again, and closes.
#[test]
fn panicker() {
    let Ok(told) = std::env::var(WORKER) else { return };
    let (dir, _) = told.rsplit_once('#').unwrap();
    let [main, other] = paths_in(std::path::Path::new(dir));
    let db = insist("panicker", || open(&main, &other, "delete", ""));
    let (done, error) = commit_until_error(&db, 4, 40);
    println!("{}", if error.is_some() { "met it" } else { "met nothing" });
    for number in &done {
        println!("acknowledged {number}");
    }
    if error.is_some() {
        let next = done.len() as i64 + 1;
        let again = super::worker::commit(&db, 4, next, next);
        if again.is_ok() {
            println!("acknowledged {next}");
        }
        let _ = db.execute_batch("ROLLBACK");
    }
    drop(db);
    println!("closed");
}

#[test]
fn a_panic_tears_nothing_and_leaves_nobody_hanging() {
    use KillPoint::*;
    for point in [
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
    ] {
        for count in [1, 3] {
            let about = format!("a panic at {point:?} no. {count}");
            let pair = Pair::new();
            let [main, other] = pair.paths();
            let neighbour = open(&main, &other, "delete", "").unwrap();
            insist(&about, || look(&neighbour)).unwrap();
            let mut command = Worker::command(&pair, named!(panicker), 4, 0);
            command
                .env("ONEFLUSH_PANIC_AT", format!("{}:{count}", point.name()))
                .stderr(Stdio::null());
            let mut worker = Worker::run(4, &mut command);
            assert!(worker.is_dead_by(Instant::now() + GOES_ON), "{about}: it hangs");
            let mut said = Said::default();
            said.add(worker);
            // One may be there that was not acknowledged.
            said.deaths.insert(4, 1);
            let seen = insist(&about, || look(&neighbour));
            assert!(seen.is_ok(), "{about}: {seen:?}");
            drop(neighbour);
            said.check(&pair, &about);
            let after = super::open_alone(&main);
            after.execute_batch("INSERT INTO ballast VALUES (1)").unwrap();
        }
    }
}
