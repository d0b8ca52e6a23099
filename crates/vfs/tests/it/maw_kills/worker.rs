//! The writers and readers, and what is known of them at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use oneflush_testing::{Running, named};
use oneflush_vfs::KillPoint;
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};

use super::{
    MODES, Pair, again, insist, integrity, is_busy, is_so_by, look, open, paths_in, without_starts,
};

pub const WORKER: &str = "ONEFLUSH_TEST_WORKER";
const COMMITS: &str = "ONEFLUSH_TEST_COMMITS";
const SIGKILL: i32 = 9;

/// Not a test of its own: what a writer does. Writers with an odd number have the databases the
/// other way round.
#[test]
fn writer() {
    let Ok(told) = std::env::var(WORKER) else { return };
    let commits: i64 = std::env::var(COMMITS).unwrap().parse().unwrap();
    let (dir, writer) = told.rsplit_once('#').unwrap();
    let writer: i64 = writer.parse().unwrap();
    let mut paths = paths_in(Path::new(dir));
    if writer % 2 == 1 {
        paths.reverse();
    }
    let [main, other] = paths;
    let mode = MODES[writer as usize / 2 % 3];
    let about = format!("writer {writer}");
    let connect = || insist(&about, || open(&main, &other, mode, ""));
    let mut db = connect();
    let mut number = insist(&about, || last_number(&db, writer));
    for at in 1..=commits {
        number += 1;
        insist(&about, || {
            commit(&db, writer, number, at).inspect_err(|_| {
                let _ = db.execute_batch("ROLLBACK");
            })
        });
        println!("acknowledged {number}");
        if at % 20 == 0 {
            drop(db);
            db = connect();
        } else if at % 9 == 0 {
            db.execute_batch("DETACH other").unwrap();
            drop(std::mem::replace(&mut db, connect()));
        }
    }
}

fn last_number(db: &Connection, writer: i64) -> rusqlite::Result<i64> {
    db.query_row(
        "SELECT coalesce(max(number), 0) FROM
            (SELECT number, writer FROM main.kept UNION ALL SELECT number, writer FROM other.kept)
         WHERE writer = ?1",
        [writer],
        |row| row.get(0),
    )
}

/// One transaction. By its number it goes to the first database, to the second, or to both. At
/// times it has many pages, or makes the file shorter, or goes on as an ordinary one.
pub fn commit(db: &Connection, writer: i64, number: i64, at: i64) -> rusqlite::Result<()> {
    let is_ordinary = at % 13 == 6;
    let is_common = number % 4 > 1;
    // SQLite makes no super-journal for databases without syncs.
    let level = if is_ordinary && !is_common { "off" } else { "full" };
    for of in ["main", "other"] {
        db.execute_batch(&format!("PRAGMA {of}.synchronous={level}"))?;
    }
    let (first, second) = (number % 12, (number * 7 + 5) % 12);
    let move_in = |of: &str, to: &str| {
        format!(
            "UPDATE {of}.balances SET amount = amount + 3, filler = randomblob(600)
                WHERE slot = {first};
             UPDATE {to}.balances SET amount = amount - 3, filler = randomblob(600)
                WHERE slot = {second};"
        )
    };
    let keep = |of: &str, kind: i64| {
        format!("INSERT INTO {of}.kept VALUES ({writer}, {number}, {kind}, randomblob(100));")
    };
    let (of, mut sql) = match number % 4 {
        0 => ("main", move_in("main", "main") + &keep("main", 0)),
        1 => ("other", move_in("other", "other") + &keep("other", 1)),
        _ => (
            "main",
            move_in("main", "other")
                + &keep("main", 2)
                + &keep("other", 2)
                + "UPDATE main.common SET n = n + 1; UPDATE other.common SET n = n + 1;",
        ),
    };
    if at % 11 == 0 {
        // More than the cache holds.
        sql += &format!(
            "INSERT INTO {of}.ballast SELECT randomblob(900) FROM {of}.balances, {of}.balances AS b;
             SAVEPOINT s; DELETE FROM {of}.ballast; ROLLBACK TO s; RELEASE s;"
        );
    } else if at % 5 == 0 {
        sql += &format!("DELETE FROM {of}.ballast;");
    }
    if is_ordinary && is_common {
        let main = Path::new(db.path().unwrap_or_default());
        let stock = main.with_file_name("c.db").display().to_string();
        return with_a_stock_database(db, &stock, &sql);
    }
    db.execute_batch(&format!("BEGIN; {sql} COMMIT"))
}

/// A transaction with a third database, whose journal is a file. So is the super-journal.
fn with_a_stock_database(db: &Connection, stock: &str, sql: &str) -> rusqlite::Result<()> {
    db.execute("ATTACH ?1 AS stock", [format!("file:{stock}?vfs=unix")])?;
    let done =
        db.execute_batch(&format!("BEGIN; {sql} INSERT INTO stock.ballast VALUES (1); COMMIT"));
    if done.is_err() {
        let _ = db.execute_batch("ROLLBACK");
    }
    db.execute_batch("DETACH stock")?;
    done
}

/// Not a test of its own: what a reader does, until it is killed.
#[test]
fn reader() {
    let Ok(told) = std::env::var(WORKER) else { return };
    let (dir, number) = told.rsplit_once('#').unwrap();
    let [main, other] = paths_in(Path::new(dir));
    let more = if number == "0" { "" } else { "mode=ro" };
    let connect = || insist("a reader", || open(&main, &other, "delete", more));
    let mut db = connect();
    for at in 1.. {
        let seen = insist("a reader", || look(&db));
        println!("seen {}", seen.unwrap());
        if at % 50 == 0 {
            assert_eq!(insist("a reader", || integrity(&db)), "ok");
            drop(db);
            db = connect();
        }
    }
}

pub struct Worker {
    pub number: i64,
    pub child: Running,
    heard: String,
}

impl Worker {
    pub fn command(pair: &Pair, test: &str, number: i64, commits: i64) -> Command {
        let mut command = again(test);
        command
            .env(WORKER, format!("{}#{number}", pair.dir.path().display()))
            .env(COMMITS, commits.to_string())
            .stdout(Stdio::piped());
        command
    }

    pub fn run(number: i64, command: &mut Command) -> Worker {
        let _start = without_starts();
        Worker { number, child: Running::start(command), heard: String::new() }
    }

    /// A writer, which may die at a place.
    pub fn start(pair: &Pair, number: i64, commits: i64, at: Option<(KillPoint, u32)>) -> Worker {
        let mut command = Worker::command(pair, named!(writer), number, commits);
        if let Some((point, count)) = at {
            command.env("ONEFLUSH_KILL_AT", format!("{}:{count}", point.name()));
        }
        Worker::run(number, &mut command)
    }

    pub fn start_to_stop(pair: &Pair, number: i64, (point, count): (KillPoint, u32)) -> Worker {
        let mut command = Worker::command(pair, named!(writer), number, 100_000);
        command.env("ONEFLUSH_STOP_AT", format!("{}:{count}", point.name()));
        Worker::run(number, &mut command)
    }

    /// Waits until it has said that many lines more.
    pub fn hear(&mut self, lines: usize) {
        let mut byte = [0];
        let wanted = self.heard.lines().count() + lines;
        while self.heard.lines().count() < wanted || !self.heard.ends_with('\n') {
            self.child.stdout.as_mut().unwrap().read_exact(&mut byte).expect("it goes on");
            self.heard.push(char::from(byte[0]));
        }
    }

    pub fn heard(&self) -> &str {
        &self.heard
    }

    /// Waits until it has said a line that begins so.
    pub fn hear_until(&mut self, begin: &str, patience: Duration, about: &str) {
        let deadline = Instant::now() + patience;
        let mut stdout = self.child.stdout.take().unwrap();
        let (sender, told) = std::sync::mpsc::channel();
        let wanted = begin.to_owned();
        std::thread::spawn(move || {
            let (mut heard, mut byte) = (String::new(), [0]);
            while stdout.read_exact(&mut byte).is_ok() {
                heard.push(char::from(byte[0]));
                if byte == *b"\n" && heard.lines().any(|line| line.starts_with(&wanted)) {
                    break;
                }
            }
            let _ = sender.send((heard, stdout));
        });
        match told.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((heard, stdout)) => {
                assert!(heard.contains(begin), "{about}: {heard}");
                self.heard += &heard;
                self.child.stdout = Some(stdout);
            }
            Err(_) => {
                let _ = self.child.kill();
                panic!("{about}: it hangs")
            }
        }
    }

    pub fn kill(mut self, said: &mut Said) {
        self.child.kill().unwrap();
        said.add(self);
    }

    pub fn is_dead_by(&mut self, deadline: Instant) -> bool {
        is_so_by(deadline, || self.child.try_wait().unwrap().is_some())
    }

    pub fn is_stopped_by(&self, deadline: Instant) -> bool {
        is_so_by(deadline, || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
            let status = status.unwrap();
            status.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
        })
    }

    pub fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }
}

/// What all writers have said, by writer, and how many of them died.
#[derive(Default)]
pub struct Said {
    pub numbers: BTreeMap<i64, BTreeSet<i64>>,
    pub deaths: BTreeMap<i64, i64>,
    pub seen: usize,
}

impl Said {
    /// Waits for the end of a writer or reader, and adds what it has said. True: it was killed.
    pub fn add(&mut self, worker: Worker) -> bool {
        let Worker { number, mut child, heard: mut told } = worker;
        child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
        let status = child.wait().unwrap();
        let killed = status.signal() == Some(SIGKILL);
        // With a name that is no test's the program would run nothing, and succeed.
        let worked = status.success() && told.contains("running 1 test");
        assert!(killed || worked, "worker {number}: {status}, {told}");
        self.hear(number, &told);
        *self.deaths.entry(number).or_default() += i64::from(killed);
        killed
    }

    pub fn hear(&mut self, number: i64, told: &str) {
        self.seen += told.lines().filter(|line| line.starts_with("seen ")).count();
        let numbers =
            told.lines().filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<i64>().ok());
        self.numbers.entry(number).or_default().extend(numbers);
    }

    pub fn acknowledged(&self) -> usize {
        self.numbers.values().map(BTreeSet::len).sum()
    }

    /// Checks both databases, and closes them.
    pub fn check(&self, pair: &Pair, about: &str) {
        let _no_start = without_starts();
        let [main, other] = pair.paths();
        let db = insist(about, || open(&main, &other, "delete", ""));
        self.check_with(&db, about);
        // Who only looks leaves what a death in the making of a log has left.
        insist(about, || {
            db.execute_batch(
                "INSERT INTO main.ballast VALUES (1); INSERT INTO other.ballast VALUES (1)",
            )
        });
        drop(db);
        let left: Vec<String> =
            pair.files().into_iter().filter(|name| is_left_by_maw(name)).collect();
        // Invariant 6.
        assert_eq!(left, ["a.db", "b.db"], "{about}");
    }

    pub fn check_with(&self, db: &Connection, about: &str) {
        if let Err(wrong) = insist(about, || look(db)) {
            panic!("{about}: {wrong}");
        }
        for (&writer, said) in &self.numbers {
            let rows = insist(about, || rows_of(db, writer));
            let wanted: BTreeSet<i64> = (1..=rows.len() as i64).collect();
            assert_eq!(rows, wanted, "{about}: writer {writer}");
            let lost: Vec<_> = said.difference(&rows).collect();
            assert!(lost.is_empty(), "{about}: writer {writer} lost {lost:?}");
            let unsaid = rows.len() - said.len();
            let deaths = self.deaths.get(&writer).copied().unwrap_or_default();
            assert!(
                unsaid as i64 <= deaths,
                "{about}: {unsaid} rows of writer {writer} were not acknowledged, {deaths} deaths"
            );
        }
        assert_eq!(insist(about, || integrity(db)), "ok", "{about}");
        let sound: String =
            db.query_row("PRAGMA other.integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok", "{about}");
    }
}

/// False for the database of SQLite alone, the journals that TRUNCATE and PERSIST leave, and
/// super-journals of writers that have died.
fn is_left_by_maw(name: &str) -> bool {
    !name.starts_with("c.db") && !name.ends_with("-journal") && !name.contains("-mj")
}

/// The numbers of this writer. Those of both databases are in both.
fn rows_of(db: &Connection, writer: i64) -> rusqlite::Result<BTreeSet<i64>> {
    let mut statement = db.prepare(
        "SELECT number, kind, 0 FROM main.kept WHERE writer = ?1
         UNION ALL SELECT number, kind, 1 FROM other.kept WHERE writer = ?1",
    )?;
    let (mut numbers, mut common) = (BTreeSet::new(), [BTreeSet::new(), BTreeSet::new()]);
    let mut rows = statement.query([writer])?;
    while let Some(row) = rows.next()? {
        let (number, kind, at): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let is_new = numbers.insert(number);
        if kind == 2 {
            common[at as usize].insert(number);
        } else {
            assert!(is_new, "writer {writer}: {number} is there twice");
        }
    }
    assert_eq!(common[0], common[1], "writer {writer}");
    Ok(numbers)
}

/// Waits for a process that reads to have seen something.
pub fn start_reader(pair: &Pair, number: i64) -> Worker {
    Worker::run(-1 - number, &mut Worker::command(pair, named!(reader), number, 0))
}

/// Commits until it meets an error that is not "busy". The answer: how many were acknowledged.
pub fn commit_until_error(
    db: &Connection,
    writer: i64,
    most: i64,
) -> (Vec<i64>, Option<rusqlite::Error>) {
    let mut done = Vec::new();
    let until = Instant::now() + Duration::from_secs(20);
    for number in 1..=most {
        loop {
            match commit(db, writer, number, number) {
                Ok(()) => break,
                Err(error) => {
                    let _ = db.execute_batch("ROLLBACK");
                    if !is_busy(&error) || Instant::now() > until {
                        return (done, Some(error));
                    }
                }
            }
        }
        done.push(number);
    }
    (done, None)
}
