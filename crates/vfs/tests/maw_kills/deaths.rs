//! Writers that die at each place where another process could see what they do.

use std::time::{Duration, Instant};

use oneflush_vfs::KillPoint;

use crate::Pair;
use crate::worker::{Said, Worker, start_reader};

/// A victim that has not come to its place by then never will.
const PATIENCE: Duration = Duration::from_secs(20);
const TRIES: usize = 5;

/// What becomes of the other processes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Others {
    GoOn,
    Die,
    /// They die, and only the logs tell of them, as after a loss of power.
    DieAndTheirBoardsAreLost,
}

#[derive(Clone, Copy, Debug)]
struct Scenario {
    point: KillPoint,
    count: u32,
    /// Another victim. Its death makes the first one come to its place.
    before: Option<(KillPoint, u32)>,
    in_company: bool,
}

/// The places that `maw` comes to.
pub const PLACES: [KillPoint; 24] = {
    use KillPoint::*;
    [
        Busy,
        Recorded,
        HalfShown,
        Durable,
        HalfInPlace,
        InPlace,
        Announced,
        Announced,
        Linked,
        JournalWritten,
        Materialised,
        LogMade,
        PageOneLogged,
        Guarded,
        Alone,
        Seen,
        Using,
        Joined,
        LogOpened,
        Rebuilt,
        Opened,
        Repairing,
        GuardHidden,
        BoardDeleted,
    ]
};

fn scenarios() -> Vec<Scenario> {
    use KillPoint::*;
    let of = |point| Scenario { point, count: 1, before: None, in_company: false };
    PLACES
        .iter()
        .flat_map(|&point| match point {
            LogMade | PageOneLogged | Guarded | Alone | GuardHidden | BoardDeleted => {
                [1, 2, 5].map(|count| Scenario { count, ..of(point) }).to_vec()
            }
            Joined | Rebuilt | Opened => [Recorded, HalfInPlace]
                .map(|first| Scenario { before: Some((first, 3)), ..of(point) })
                .to_vec(),
            Repairing => [Recorded, HalfShown, HalfInPlace, InPlace]
                .map(|first| Scenario { before: Some((first, 3)), in_company: true, ..of(point) })
                .to_vec(),
            // A process joins so while another one has a board's lock.
            Seen | Using => Vec::new(),
            _ => [1, 4, 9].map(|count| Scenario { count, in_company: true, ..of(point) }).to_vec(),
        })
        .collect()
}

fn run(scenario: Scenario, others: Others) {
    let came = (0..TRIES).any(|_| came_to_its_place(scenario, others));
    assert!(came, "{scenario:?}: the place was not come to");
}

/// True if the victim came to its place. In any case all that must hold does.
fn came_to_its_place(scenario: Scenario, others: Others) -> bool {
    let Scenario { point, count, before, in_company } = scenario;
    let about = format!("{scenario:?}, others: {others:?}");
    let pair = Pair::new();
    let mut said = Said::default();
    let first = before.map(|at| {
        let mut first = Worker::start(&pair, 5, 100_000, Some(at));
        // Without company the victim finds a log that nobody uses.
        assert!(in_company || first.is_dead_by(Instant::now() + PATIENCE), "{about}");
        first
    });
    let mut company = Vec::new();
    if in_company {
        company.extend([1, 2].map(|number| Worker::start(&pair, number, 100_000, None)));
        company.push(start_reader(&pair, 0));
    }
    let mut victim = Worker::start(&pair, 4, 100_000, Some((point, count)));
    let died = victim.is_dead_by(Instant::now() + PATIENCE);
    if others == Others::GoOn && in_company {
        // They do after it.
        for worker in &mut company {
            worker.hear(3);
        }
    }
    for worker in company.into_iter().chain([victim]).chain(first) {
        worker.kill(&mut said);
    }
    if others == Others::DieAndTheirBoardsAreLost {
        for path in pair.paths() {
            let _ = std::fs::remove_file(format!("{}-oneflush-shm", path.display()));
        }
    }
    if others != Others::GoOn {
        // The one that looks first may be any.
        said.check(&pair, &about);
    }
    // Another process comes later, and works as usual.
    assert!(!said.add(Worker::start(&pair, 7, 12, None)), "{about}");
    said.check(&pair, &about);
    died
}

#[test]
fn nothing_is_lost_or_torn_wherever_a_writer_dies_and_the_others_go_on() {
    scenarios().into_iter().for_each(|scenario| run(scenario, Others::GoOn));
}

#[test]
fn nothing_is_lost_or_torn_wherever_a_writer_dies_and_the_others_die_with_it() {
    scenarios().into_iter().for_each(|scenario| run(scenario, Others::Die));
}

#[test]
fn nothing_is_lost_or_torn_wherever_a_writer_dies_and_only_the_logs_tell_of_it() {
    scenarios().into_iter().for_each(|scenario| run(scenario, Others::DieAndTheirBoardsAreLost));
}

/// After a death either database may be opened first, used and closed, before anybody looks at the
/// other one.
#[test]
fn databases_that_committed_together_are_recovered_in_any_order() {
    use KillPoint::*;
    for point in [Linked, Busy, Recorded, HalfShown, Durable, HalfInPlace, InPlace] {
        for count in [1, 2, 3, 6] {
            for (boards_lost, first) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
                let about = format!("{point:?} no. {count}, {boards_lost}, {first} first");
                let pair = Pair::new();
                let mut said = Said::default();
                let mut victim = Worker::start(&pair, 4, 100_000, Some((point, count)));
                assert!(victim.is_dead_by(Instant::now() + PATIENCE), "{about}");
                said.add(victim);
                for path in pair.paths().iter().filter(|_| boards_lost) {
                    let _ = std::fs::remove_file(format!("{}-oneflush-shm", path.display()));
                }
                let db = crate::open_alone(&pair.paths()[first]);
                assert_eq!(crate::integrity(&db).unwrap(), "ok", "{about}");
                db.execute_batch("CREATE TABLE more(x)").unwrap();
                drop(db);
                said.check(&pair, &about);
            }
        }
    }
}
