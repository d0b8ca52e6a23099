//! Writers that die at each place where another process could see what they do.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use oneflush_testing::named;
use oneflush_vfs::KillPoint;
use rusqlite::Connection;

use super::Pair;
use super::worker::{Said, Worker, start_reader};

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

/// Who is there beside the victim.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Company {
    Nobody,
    /// A connection that keeps the logs in use and does nothing.
    Idle,
    /// Writers and a reader.
    AtWork,
}

#[derive(Clone, Copy, Debug)]
struct Scenario {
    point: KillPoint,
    count: u32,
    /// Another victim dies first.
    before: Option<(KillPoint, u32)>,
    company: Company,
}

/// The places that `maw` comes to.
pub const PLACES: [KillPoint; 23] = {
    use KillPoint::*;
    [
        Busy,
        Recorded,
        HalfShown,
        Durable,
        HalfInPlace,
        InPlace,
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
    let of = |point| Scenario { point, count: 1, before: None, company: Company::Nobody };
    PLACES
        .iter()
        .flat_map(|&point| match point {
            LogMade | PageOneLogged | Guarded | Alone | GuardHidden | BoardDeleted => {
                [1, 2, 5].map(|count| Scenario { count, ..of(point) }).to_vec()
            }
            Joined | Rebuilt | Opened => [Recorded, HalfShown, HalfInPlace]
                .map(|first| Scenario { before: Some((first, 5)), ..of(point) })
                .to_vec(),
            Repairing => [Recorded, HalfShown, HalfInPlace]
                .map(|first| Scenario {
                    before: Some((first, 6)),
                    company: Company::Idle,
                    ..of(point)
                })
                .to_vec(),
            // A process joins so while another one has a board's lock.
            Seen | Using => Vec::new(),
            _ => [1, 4, 9]
                .map(|count| Scenario { count, company: Company::AtWork, ..of(point) })
                .to_vec(),
        })
        .collect()
}

/// True if the victim came to its place. In any case all that must hold does.
fn came_to_its_place(scenario: Scenario, others: Others) -> bool {
    let Scenario { point, count, before, company } = scenario;
    let about = format!("{scenario:?}, others: {others:?}");
    let pair = Pair::new();
    let mut said = Said::default();
    let idle = (company == Company::Idle).then(|| {
        let [main, other] = pair.paths();
        let db = super::open(&main, &other, "delete", "").unwrap();
        // Both logs are made.
        super::insist(&about, || super::worker::commit(&db, 8, 1, 1));
        super::insist(&about, || super::worker::commit(&db, 8, 2, 2));
        said.hear(8, "acknowledged 1\nacknowledged 2");
        db
    });
    if let Some(at) = before {
        let mut first = Worker::start(&pair, 5, 100_000, Some(at));
        assert!(first.is_dead_by(Instant::now() + PATIENCE), "{about}");
        said.add(first);
    }
    let mut at_work = Vec::new();
    if company == Company::AtWork {
        at_work.extend([1, 2].map(|number| Worker::start(&pair, number, 100_000, None)));
        at_work.push(start_reader(&pair, 0));
    }
    let mut victim = Worker::start(&pair, 4, 100_000, Some((point, count)));
    let died = victim.is_dead_by(Instant::now() + PATIENCE);
    if others == Others::GoOn {
        // They do after it.
        for worker in &mut at_work {
            worker.hear(3);
        }
    }
    for worker in at_work.into_iter().chain([victim]) {
        worker.kill(&mut said);
    }
    drop(idle);
    if others == Others::DieAndTheirBoardsAreLost {
        for path in pair.paths() {
            let _ = std::fs::remove_file(format!("{}-oneflush-shm", path.display()));
        }
    }
    // Another process comes later, and works as usual.
    assert!(!said.add(Worker::start(&pair, 7, 12, None)), "{about}");
    said.check(&pair, &about);
    died
}

/// Each place meets each fate of the others, at another count.
#[test]
fn nothing_is_lost_or_torn_wherever_a_writer_dies() {
    let fates = [Others::GoOn, Others::Die, Others::DieAndTheirBoardsAreLost];
    for (at, scenario) in scenarios().into_iter().enumerate() {
        let others = fates[(at + at / fates.len()) % fates.len()];
        let came = (0..TRIES).any(|_| came_to_its_place(scenario, others));
        assert!(came, "{scenario:?}: the place was not come to");
    }
}

/// After a death either database may be opened first, used and closed, before anybody looks at the
/// other one.
#[test]
fn databases_that_committed_together_are_recovered_in_any_order() {
    use KillPoint::*;
    for point in [Linked, Busy, Recorded, HalfShown, Durable, HalfInPlace, InPlace] {
        for count in [1, 4] {
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
                let db = super::open_alone(&pair.paths()[first]);
                assert_eq!(super::integrity(&db).unwrap(), "ok", "{about}");
                db.execute_batch("CREATE TABLE more(x)").unwrap();
                drop(db);
                said.check(&pair, &about);
            }
        }
    }
}

const ROWS: &str = "ONEFLUSH_TEST_ROWS";

/// Not a test of its own: one transaction over both databases. One of them gets so many rows of
/// nearly a page. Without rows its journal is hot, and stays open after it was played back.
#[test]
fn common_writer() {
    let Ok(told) = std::env::var(super::worker::WORKER) else { return };
    let rows = std::env::var(ROWS).unwrap();
    let [main, other] = super::paths_in(Path::new(&told));
    let db = match rows.as_str() {
        "0" => {
            super::setup();
            let uri = |path: &Path| {
                format!("file:{}?vfs=oneflush&strategy=maw&atomic=log", path.display())
            };
            let db = Connection::open(uri(&main)).unwrap();
            db.execute_batch("PRAGMA locking_mode=exclusive").unwrap();
            db.execute("ATTACH ?1 AS other", [uri(&other)]).unwrap();
            for of in ["main", "other"] {
                let modes =
                    format!("PRAGMA {of}.journal_mode=truncate; PRAGMA {of}.synchronous=full");
                db.execute_batch(&modes).unwrap();
            }
            db
        }
        _ => super::open(&main, &other, "delete", "log_size=1048576").unwrap(),
    };
    println!("it begins");
    db.execute_batch(&format!(
        "BEGIN; UPDATE main.common SET n = n + 1; UPDATE other.common SET n = n + 1;
         INSERT INTO main.ballast SELECT randomblob(900) FROM main.balances,
             main.balances AS b, main.balances AS c LIMIT {rows}; COMMIT"
    ))
    .unwrap();
}

/// True if both have it.
fn is_there_after_a_death(rows: u32, point: KillPoint, count: u32) -> bool {
    let pair = Pair::new();
    let [main, other] = pair.paths();
    if rows == 0 {
        make_hot(&main);
    }
    let about = format!("{rows} rows, {point:?} {count}");
    let mut command = super::again(named!(common_writer));
    command.env(super::worker::WORKER, pair.dir.path()).env(ROWS, rows.to_string());
    command.env("ONEFLUSH_KILL_AT", format!("{}:{count}", point.name()));
    let _start = super::without_starts();
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("it begins"), "{about}: {said}");
    let db = super::insist(&about, || super::open(&main, &other, "delete", ""));
    let number = |sql: &str| -> i64 { db.query_row(sql, [], |row| row.get(0)).unwrap() };
    let counted = ["main", "other"].map(|of| number(&format!("SELECT n FROM {of}.common")));
    assert_eq!(counted[0], counted[1], "{about}");
    assert_eq!(number("SELECT count(*) FROM ballast"), counted[0] * i64::from(rows), "{about}");
    assert_eq!(super::integrity(&db).unwrap(), "ok", "{about}");
    counted[0] > 0
}

/// A process with SQLite alone has died in a transaction that did not fit in its cache.
fn make_hot(path: &Path) {
    let files = [path.to_owned(), path.with_file_name("a.db-journal")];
    let db = Connection::open_with_flags_and_vfs(path, Default::default(), "unix").unwrap();
    db.execute_batch(
        "PRAGMA cache_size=5; BEGIN;
         INSERT INTO ballast SELECT randomblob(900) FROM balances, balances AS b",
    )
    .unwrap();
    let left = files.each_ref().map(|file| std::fs::read(file).unwrap());
    drop(db);
    files.iter().zip(left).for_each(|(file, bytes)| std::fs::write(file, bytes).unwrap());
}

/// Its journal is a file before the commit, or would become one while SQLite writes what it has in
/// its cache.
#[test]
fn a_large_part_of_a_common_transaction_is_there_with_the_other_part_or_not_at_all() {
    use KillPoint::*;
    for point in [Busy, Recorded, Durable, JournalWritten, Materialised] {
        for count in 1..4 {
            is_there_after_a_death(1600, point, count);
        }
    }
    // A mebibyte is the limit, and the cache has 20 pages.
    for rows in (980..1025).step_by(4) {
        is_there_after_a_death(rows, Busy, 1);
    }
    assert!(is_there_after_a_death(1600, Materialised, 9));
}

/// SQLite keeps a journal open that it has played back, and uses it for the next transaction under
/// the same lock. That journal is a file, of which the strategy knows nothing else.
#[test]
fn a_common_transaction_with_a_journal_that_was_played_back_is_there_whole_or_not_at_all() {
    use KillPoint::*;
    for point in [LogMade, Guarded, Busy, Recorded, Durable, InPlace, JournalWritten, Materialised]
    {
        for count in 1..3 {
            is_there_after_a_death(0, point, count);
        }
    }
    assert!(is_there_after_a_death(0, Materialised, 9));
}

/// Not a test of its own: one transaction over a database and one whose name is not UTF-8, which
/// SQLite's own VFS has.
#[test]
fn writer_beside_a_name_that_is_no_text() {
    let Ok(told) = std::env::var(super::worker::WORKER) else { return };
    super::setup();
    let db =
        Connection::open(format!("file:{told}/a.db?vfs=oneflush&strategy=maw&atomic=log")).unwrap();
    db.execute("ATTACH ?1 AS other", [format!("file:{told}/%FF.db?vfs=unix")]).unwrap();
    println!("it begins");
    db.execute_batch(
        "PRAGMA main.synchronous=full; PRAGMA other.synchronous=full;
         BEGIN; UPDATE main.common SET n = n + 1; UPDATE other.common SET n = n + 1; COMMIT",
    )
    .unwrap();
}

#[test]
fn a_database_whose_name_is_no_text_has_its_part_with_the_others_or_not_at_all() {
    use KillPoint::*;
    for point in [LogMade, Busy, Recorded, Durable, JournalWritten, Materialised] {
        let pair = Pair::new();
        let other = pair.dir.path().join(OsStr::from_bytes(b"\xff.db"));
        super::create(&other);
        let mut command = super::again(named!(writer_beside_a_name_that_is_no_text));
        command.env(super::worker::WORKER, pair.dir.path());
        command.env("ONEFLUSH_KILL_AT", format!("{}:1", point.name()));
        let _start = super::without_starts();
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("it begins"), "{point:?}: {said}");
        let stock =
            Connection::open_with_flags_and_vfs(&other, Default::default(), "unix").unwrap();
        let counted = [super::open_alone(&pair.paths()[0]), stock].map(|db| -> i64 {
            db.query_row("SELECT n FROM common", [], |row| row.get(0)).unwrap()
        });
        assert_eq!(counted[0], counted[1], "{point:?}");
    }
}
