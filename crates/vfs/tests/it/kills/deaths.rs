//! Processes that die.

use std::path::Path;
use std::time::Instant;

use oneflush_vfs::KillPoint;

use super::worker::{SYNCHRONOUS, Said, Worker, crash};
use super::{TRIES, USED, count_rows, create, open, patience};

/// Which process dies where. Several victims die one after the other or at once, before the others
/// go on.
pub struct Scenario {
    pub point: KillPoint,
    pub count: u32,
    /// Another victim. Its death makes the first one come to its place.
    pub before: Option<(KillPoint, u32)>,
    /// A crash comes first, so the victim finds a log to recover.
    pub after_crash: bool,
    /// Others use the database when the victim dies.
    in_company: bool,
}

/// What becomes of the other processes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Others {
    GoOn,
    Die,
    /// They die, and only the log tells of them, as after a loss of power.
    DieAndTheirBoardIsLost,
}

fn run(scenario: &Scenario, others: Others) {
    let came = (0..TRIES).any(|_| came_to_its_place(scenario, others));
    assert!(came, "{:?} no. {}: the place was not come to", scenario.point, scenario.count);
}

/// True if the victim came to its place. In any case nothing that was acknowledged is lost.
fn came_to_its_place(scenario: &Scenario, others: Others) -> bool {
    let Scenario { point, count, before, after_crash, in_company } = *scenario;
    let about = format!(
        "{point:?} no. {count}, before it {before:?}, in company: {in_company}, others: {others:?}"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    create(&path);
    let mut said = Said::default();
    if after_crash {
        crash(&path, &mut said, &about);
    }
    let deadline = Instant::now() + patience();
    let company: Vec<Worker> = (1..=2)
        .filter(|_| in_company)
        .map(|writer| Worker::start(&path, writer, 120, None))
        .collect();
    // A process that finds itself alone would recover what the first victim leaves. So this one
    // keeps the database open and only reads.
    let reader = before.map(|_| open(&path).unwrap());
    if let Some(reader) = &reader {
        count_rows(reader);
    }
    let first = before.map(|kill_at| Worker::start(&path, 3, 100_000, Some(kill_at)));
    let mut victim = Worker::start(&path, 4, 100_000, Some((point, count)));
    let died = victim.is_dead_by(deadline);
    if !died {
        victim.child.kill().unwrap();
    }
    drop(reader);
    for mut worker in company.into_iter().chain(first) {
        if others != Others::GoOn {
            worker.child.kill().unwrap();
        }
        // A process without an end of its own that was not killed yet goes on for a while.
        let endless = worker.writer == 3;
        if endless && !worker.is_dead_by(deadline) {
            worker.child.kill().unwrap();
        }
        said.add(worker);
    }
    said.add(victim);
    let board = format!("{}-oneflush-shm", path.display());
    if others == Others::DieAndTheirBoardIsLost && Path::new(&board).exists() {
        std::fs::remove_file(board).unwrap();
    }
    // Another process comes later, and works as usual.
    assert!(!said.add(Worker::start(&path, 5, 30, None)), "{about}");
    said.check(&path, &about);
    died
}

pub fn scenarios() -> Vec<Scenario> {
    use KillPoint::*;
    let alone =
        |point| Scenario { point, count: 1, before: None, after_crash: false, in_company: false };
    KillPoint::ALL
        .iter()
        .flat_map(|&point| match point {
            LogMade | PageOneLogged | Guarded | Alone | GuardHidden | BoardDeleted => {
                vec![alone(point)]
            }
            // Those of `waldio`, and those of `maw` (`maw_kills`).
            FramesWritten | LaneWritten | HeaderWritten | LogOpened => Vec::new(),
            HalfInPlace | InPlace | Announced | Linked | JournalWritten | Materialised => {
                Vec::new()
            }
            // Other tests are for places where a process has the board's lock for long, or where a
            // thread of the process runs.
            Seen | Using | CheckpointBegun => Vec::new(),
            Joined | Rebuilt | Opened => vec![Scenario { after_crash: true, ..alone(point) }],
            Repairing => [Recorded, HalfShown, RestartNoted, Forgotten]
                .map(|first| Scenario { before: Some((first, 3)), ..alone(point) })
                .into(),
            ImageSynced => vec![Scenario { in_company: true, ..alone(point) }],
            TakenBack => vec![Scenario { before: Some((Noted, 3)), ..alone(point) }],
            _ => [1, 4, 9].map(|count| Scenario { count, in_company: true, ..alone(point) }).into(),
        })
        .collect()
}

/// The same for `waldio`. Its board has no lock that commits take.
fn scenarios_of_waldio() -> Vec<Scenario> {
    use KillPoint::*;
    let alone =
        |point| Scenario { point, count: 1, before: None, after_crash: false, in_company: false };
    let mut all: Vec<Scenario> =
        [LogMade, PageOneLogged, Guarded, Alone, GuardHidden, BoardDeleted].map(alone).into();
    all.push(Scenario { after_crash: true, ..alone(Joined) });
    all.push(Scenario { in_company: true, ..alone(LogOpened) });
    for point in [FramesWritten, LaneWritten, HeaderWritten] {
        all.extend([1, 4, 9].map(|count| Scenario { count, in_company: true, ..alone(point) }));
        all.push(Scenario { after_crash: true, ..alone(point) });
    }
    all
}

fn with_waldio(others: Others) {
    USED.set("waldio");
    scenarios_of_waldio().iter().for_each(|scenario| run(scenario, others));
}

#[test]
fn with_waldio_nothing_acknowledged_is_lost_and_the_others_go_on() {
    with_waldio(Others::GoOn);
}

#[test]
fn with_waldio_nothing_acknowledged_is_lost_and_the_others_die_too() {
    with_waldio(Others::Die);
}

#[test]
fn with_waldio_nothing_acknowledged_is_lost_and_the_board_is_lost_too() {
    with_waldio(Others::DieAndTheirBoardIsLost);
}

#[test]
fn nothing_acknowledged_is_lost_wherever_a_process_dies_and_the_others_go_on() {
    scenarios().iter().for_each(|scenario| run(scenario, Others::GoOn));
}

#[test]
fn nothing_acknowledged_is_lost_wherever_a_process_dies_and_the_others_die_with_it() {
    scenarios().iter().for_each(|scenario| run(scenario, Others::Die));
}

#[test]
fn nothing_acknowledged_is_lost_wherever_a_process_dies_and_only_the_log_tells_of_it() {
    scenarios().iter().for_each(|scenario| run(scenario, Others::DieAndTheirBoardIsLost));
}

/// As with SQLite alone, a process's death loses nothing: `synchronous` is about losses of power.
#[test]
fn commits_that_asked_for_no_durability_outlive_their_process() {
    let both = ["eager", "waldio"].into_iter().flat_map(|one| [(one, "normal"), (one, "off")]);
    for (strategy, synchronous) in both {
        USED.set(strategy);
        for _ in 0..3 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.db");
            create(&path);
            let mut said = Said::default();
            for _ in 0..3 {
                let mut command = Worker::command(&path, 1, 100_000);
                let mut worker = Worker::run(1, command.env(SYNCHRONOUS, synchronous));
                worker.hear(50);
                worker.child.kill().unwrap();
                assert!(said.add(worker));
            }
            assert!(said.numbers[&1].len() > 10, "{synchronous}: it got to work");
            said.check(&path, synchronous);
        }
    }
}
