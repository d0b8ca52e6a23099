//! Processes that share a database with `eager` and die, are stopped, or panic at each place where another could see what they do (feature
//! `kill-points`).
//!
//! A worker is this program again, told by its environment; it writes rows of its own and says each number on its standard output when
//! SQLite has acknowledged the commit. Whatever was said must be there at the end, and of what was not said at most one row a death.
#![cfg(feature = "kill-points")]

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use oneflush_testing::Running;
use oneflush_vfs::KillPoint;
use rusqlite::{Connection, ErrorCode, OpenFlags};

const WORKER: &str = "ONEFLUSH_TEST_WORKER";
const COMMITS: &str = "ONEFLUSH_TEST_COMMITS";
const SYNCHRONOUS: &str = "ONEFLUSH_TEST_SYNCHRONOUS";
const SIGKILL: i32 = 9;
/// A victim that has not come to its place by then never will: where it must follow another's death, the two may miss each other, as when a
/// checkpoint comes between. Then they try again.
const PATIENCE: Duration = Duration::from_secs(15);
const TRIES: usize = 5;

fn open(path: &Path) -> rusqlite::Result<Connection> {
    open_with(path, "log_size=1048576")
}

fn open_with(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    open_as("eager", path, parameters)
}

fn open_as(strategy: &str, path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    open_for(Duration::from_secs(20), strategy, path, parameters)
}

fn open_for(busy: Duration, strategy: &str, path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    oneflush_vfs::register().unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=oneflush&strategy={strategy}&{parameters}", path.display());
    let db = Connection::open_with_flags(uri, flags)?;
    db.busy_timeout(busy)?;
    db.execute_batch("PRAGMA synchronous=full; PRAGMA cache_size=20")?;
    Ok(db)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Not a test of its own: what a worker does.
#[test]
fn worker() {
    let Ok(told) = std::env::var(WORKER) else { return };
    let commits: i64 = std::env::var(COMMITS).unwrap().parse().unwrap();
    let (path, writer) = told.rsplit_once('#').unwrap();
    let writer: i64 = writer.parse().unwrap();
    let open = |path: &str| {
        let db = open(Path::new(path)).unwrap();
        if let Ok(synchronous) = std::env::var(SYNCHRONOUS) {
            db.pragma_update(None, "synchronous", synchronous).unwrap();
        }
        db
    };
    let mut db = open(path);
    let mut number: i64 = db
        .query_row("SELECT coalesce(max(number), 0) FROM kept WHERE writer = ?1", [writer], |row| row.get(0))
        .unwrap();
    for at in 1..=commits {
        number += 1;
        while let Err(error) = commit(&db, writer, number, at) {
            assert!(is_busy(&error), "{error}");
            let _ = db.execute_batch("ROLLBACK");
        }
        println!("acknowledged {number}");
        if at % 7 == 0 {
            let mode = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][(at / 7 + writer) as usize % 4];
            let checkpointed = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
            assert!(checkpointed.as_ref().is_ok() || checkpointed.as_ref().is_err_and(is_busy), "{checkpointed:?}");
        }
        if at % 20 == 0 {
            drop(db);
            db = open(path);
        }
    }
}

/// Mostly one row; at times many pages, more than the cache holds, and than the log.
fn commit(db: &Connection, writer: i64, number: i64, at: i64) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    db.execute("INSERT INTO kept VALUES (?1, ?2, randomblob(100))", [writer, number])?;
    if at % 11 == 0 {
        db.execute_batch("INSERT INTO ballast SELECT randomblob(3000) FROM numbers LIMIT 250; SAVEPOINT s; DELETE FROM ballast; ROLLBACK TO s; RELEASE s")?;
    } else if at % 5 == 0 {
        db.execute_batch("DELETE FROM ballast")?;
    }
    db.execute_batch("COMMIT")
}

struct Worker {
    writer: i64,
    child: Running,
    heard: String,
}

impl Worker {
    fn command(path: &Path, writer: i64, commits: i64) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "worker", "--nocapture"])
            .env(WORKER, format!("{}#{writer}", path.display()))
            .env(COMMITS, commits.to_string())
            .stdout(Stdio::piped());
        command
    }

    fn start(path: &Path, writer: i64, commits: i64, kill_at: Option<(KillPoint, u32)>) -> Worker {
        let mut command = Worker::command(path, writer, commits);
        if let Some((point, count)) = kill_at {
            command.env("ONEFLUSH_KILL_AT", format!("{}:{count}", point.name()));
        }
        Worker { writer, child: Running::start(&mut command), heard: String::new() }
    }

    /// Waits until it has said that many lines more.
    fn hear(&mut self, lines: usize) {
        let mut byte = [0];
        let wanted = self.heard.lines().count() + lines;
        while self.heard.lines().count() < wanted || !self.heard.ends_with('\n') {
            self.child.stdout.as_mut().unwrap().read_exact(&mut byte).expect("it goes on");
            self.heard.push(char::from(byte[0]));
        }
    }

    /// Waits for its end; what it said, and whether it was killed.
    fn end(mut self) -> (i64, Vec<i64>, bool) {
        let mut said = self.heard;
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap();
        let killed = status.signal() == Some(SIGKILL);
        assert!(killed || status.success(), "worker {}: {status}", self.writer);
        let numbers = said.lines().filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok()).collect();
        (self.writer, numbers, killed)
    }

    fn is_dead_by(&mut self, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

fn create(path: &Path) {
    let db = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "unix").unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=wal; CREATE TABLE kept(writer, number, filler, PRIMARY KEY(writer, number)); CREATE TABLE ballast(b);
         CREATE VIEW numbers AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;",
    )
    .unwrap();
}

#[derive(Default)]
struct Said {
    numbers: BTreeMap<i64, Vec<i64>>,
    deaths: BTreeMap<i64, i64>,
}

impl Said {
    fn add(&mut self, worker: Worker) -> bool {
        let (writer, numbers, killed) = worker.end();
        self.numbers.entry(writer).or_default().extend(numbers);
        *self.deaths.entry(writer).or_default() += i64::from(killed);
        killed
    }

    fn check(&self, path: &Path, about: &str) {
        let db = open(path).unwrap();
        let rows = |writer: i64| -> Vec<i64> {
            let mut statement = db.prepare("SELECT number FROM kept WHERE writer = ?1 ORDER BY number").unwrap();
            statement.query_map([writer], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        for (&writer, said) in &self.numbers {
            let rows = rows(writer);
            assert_eq!(rows, (1..=rows.len() as i64).collect::<Vec<_>>(), "{about}: writer {writer}");
            assert!(said.iter().all(|number| rows.contains(number)), "{about}: writer {writer} lost one of {said:?}");
            let unsaid = rows.len() - said.len();
            assert!(
                unsaid as i64 <= self.deaths[&writer],
                "{about}: {unsaid} rows of writer {writer} were not acknowledged"
            );
        }
        let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok", "{about}");
        drop(db);
        let left: Vec<PathBuf> =
            std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [path], "{about}: a clean close leaves the database alone");
    }
}

/// Who dies where, one after the other or at once, before the rest goes on.
struct Scenario {
    point: KillPoint,
    count: u32,
    /// Another victim, which makes the first come to its place.
    before: Option<(KillPoint, u32)>,
    /// A crash comes first: the victim finds a log to recover.
    after_crash: bool,
    /// Others use the database when the victim dies.
    in_company: bool,
}

/// What becomes of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Others {
    GoOn,
    Die,
    /// They die, and nothing but the log tells of them, as after a loss of power.
    DieAndTheirBoardIsLost,
}

fn run(scenario: &Scenario, others: Others) {
    let came = (0..TRIES).any(|_| came_to_its_place(scenario, others));
    assert!(came, "{:?} no. {}: the place was not come to", scenario.point, scenario.count);
}

/// A worker dies, and what it has left is as after a loss of power.
fn crash(path: &Path, said: &mut Said, about: &str) {
    assert!(said.add(Worker::start(path, 9, 100, Some((KillPoint::Durable, 15)))), "{about}");
    std::fs::remove_file(format!("{}-oneflush-shm", path.display())).unwrap();
}

/// Whatever comes of it, nothing that was acknowledged is lost.
fn came_to_its_place(scenario: &Scenario, others: Others) -> bool {
    let Scenario { point, count, before, after_crash, in_company } = *scenario;
    let about = format!("{point:?} no. {count}, before it {before:?}, in company: {in_company}, others: {others:?}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    create(&path);
    let mut said = Said::default();
    if after_crash {
        crash(&path, &mut said, &about);
    }
    let deadline = Instant::now() + PATIENCE;
    let company: Vec<Worker> =
        (1..=2).filter(|_| in_company).map(|writer| Worker::start(&path, writer, 120, None)).collect();
    // Somebody who only reads keeps what the first victim leaves from being recovered by whoever finds himself alone.
    let reader = before.map(|_| open(&path).unwrap());
    if let Some(reader) = &reader {
        reader.query_row("SELECT count(*) FROM kept", [], |_| Ok(())).unwrap();
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
        // Whoever has no end of his own, and was not killed yet, goes on for a while.
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
    // Somebody comes later, and works as if nothing had been.
    assert!(!said.add(Worker::start(&path, 5, 30, None)), "{about}");
    said.check(&path, &about);
    died
}

fn scenarios() -> Vec<Scenario> {
    use KillPoint::*;
    let alone = |point| Scenario { point, count: 1, before: None, after_crash: false, in_company: false };
    KillPoint::ALL
        .iter()
        .flat_map(|&point| match point {
            LogMade | PageOneLogged | Guarded | Alone | GuardHidden | BoardDeleted => vec![alone(point)],
            // Where somebody has the board's lock for long; and in a thread of the process. They have tests of their own.
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

/// As with SQLite alone: `synchronous` is about losses of power.
#[test]
fn commits_that_asked_for_no_durability_outlive_their_process() {
    for synchronous in ["normal", "off"] {
        for _ in 0..3 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.db");
            create(&path);
            let mut said = Said::default();
            for _ in 0..3 {
                let mut command = Worker::command(&path, 1, 100_000);
                let child = Running::start(command.env(SYNCHRONOUS, synchronous));
                let mut worker = Worker { writer: 1, child, heard: String::new() };
                worker.hear(50);
                worker.child.kill().unwrap();
                assert!(said.add(worker));
            }
            assert!(said.numbers[&1].len() > 10, "{synchronous}: it got to work");
            said.check(&path, synchronous);
        }
    }
}

/// Words of the board.
const BUSY: usize = 2;
const RECORDS: usize = 13;
const COMMITTED: usize = 18;

fn word(board: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(board[at * 8..at * 8 + 8].try_into().unwrap())
}

/// As where a device is pulled out and put back: the files are the same by name and number, and some of them older than the log.
#[test]
fn an_old_version_of_the_board_is_not_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    create(&path);
    let board = PathBuf::from(format!("{}-oneflush-shm", path.display()));
    let image = PathBuf::from(format!("{}-oneflush-wal", path.display()));
    let mut said = Said::default();
    // Short of the 20 commits after which a worker opens the database anew.
    let mut worker = Worker::start(&path, 1, 100_000, Some((KillPoint::Durable, 17)));
    let deadline = Instant::now() + PATIENCE;
    let (old_board, mut old_image) = loop {
        assert!(Instant::now() < deadline);
        match (std::fs::read(&board), std::fs::read(&image)) {
            (Ok(board), Ok(image)) if board.len() > 512 && word(&board, BUSY) == 0 && word(&board, RECORDS) >= 3 => {
                break (board, image);
            }
            _ => {}
        }
    };
    assert!(worker.is_dead_by(deadline));
    assert!(said.add(worker));
    let last = std::fs::read(&board).unwrap();
    assert_ne!(last[..512], old_board[..512], "the log went on after the copy");
    old_image[32 + word(&old_board, COMMITTED) as usize * (24 + 4096)..].fill(0);
    std::fs::write(&board, old_board).unwrap();
    std::fs::write(&image, old_image).unwrap();
    said.check(&path, "an old board");
}

/// The header that the database has while the worker uses it; None: the worker has ended without that it was seen.
fn guarded_header(path: &Path, worker: &mut Worker) -> Option<Vec<u8>> {
    loop {
        let has_ended = worker.child.try_wait().unwrap().is_some();
        let header = std::fs::read(path).unwrap()[..100].to_vec();
        if header[18] == 3 {
            return Some(header);
        }
        if has_ended {
            return None;
        }
    }
}

/// The process dies in its last close, SQLite alone goes on with the plain file, and then power is lost, before the write that took the guard away
/// has reached the device.
#[test]
fn what_sqlite_alone_commits_behind_a_close_that_power_undoes_is_found_by_each_strategy() {
    // What the WAL of SQLite alone is like then.
    type Wal = fn(&Connection, &Path);
    let with_commits: Wal = |alone, _| {
        for number in 1..=5 {
            commit(alone, 8, number, number).unwrap();
        }
    };
    let header_alone: Wal = |alone, wal| {
        alone.execute_batch("INSERT INTO ballast VALUES (1)").unwrap();
        std::fs::File::options().write(true).open(wal).unwrap().set_len(32).unwrap();
    };
    // What the database file begins with then: the guard, or what a write that was under way has made of the first sector.
    let noise: Vec<u8> = (0..512).map(|at: usize| (at * 31 + at / 7) as u8).collect();
    for (about, wal, there) in [("commits", with_commits, 5), ("a header", header_alone, 0)] {
        for (strategy, garbled) in [("eager", false), ("plain", false), ("eager", true), ("plain", true)] {
            let about = format!("{about} in the WAL, then {strategy}; header garbled: {garbled}");
            let deadline = Instant::now() + PATIENCE;
            // On a busy machine the process may have come and gone between two looks.
            let (dir, path, mut worker, guarded) = loop {
                assert!(Instant::now() < deadline);
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("a.db");
                create(&path);
                let mut worker = Worker::start(&path, 1, 100, Some((KillPoint::GuardHidden, 1)));
                if let Some(guarded) = guarded_header(&path, &mut worker) {
                    break (dir, path, worker, guarded);
                }
            };
            assert!(worker.is_dead_by(deadline));
            let mut said = Said::default();
            assert!(said.add(worker));
            assert_eq!(std::fs::read(&path).unwrap()[18], 2);

            let alone = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), "unix").unwrap();
            wal(&alone, &dir.path().join("a.db-wal"));
            let crashed = tempfile::tempdir().unwrap();
            let path = crashed.path().join("a.db");
            for suffix in ["", "-wal", "-oneflush"] {
                let name = format!("a.db{suffix}");
                std::fs::copy(dir.path().join(&name), crashed.path().join(&name)).unwrap();
            }
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            if garbled {
                file.write_all_at(&noise, 0).unwrap();
            } else {
                file.write_all_at(&guarded[18..20], 18).unwrap();
                file.write_all_at(&guarded[72..92], 72).unwrap();
            }

            said.numbers.insert(8, (1..=there).collect());
            said.deaths.insert(8, 0);
            drop(open_as(strategy, &path, "").unwrap());
            said.check(&path, &about);
        }
    }
}

const SQL: &str = "ONEFLUSH_TEST_SQL";

/// Not a test of its own: a process that runs some SQL.
#[test]
fn sql_worker() {
    let Ok(sql) = std::env::var(SQL) else { return };
    // With group commit it would publish before it is durable.
    let parameters = "checkpoints=sqlite&group_commit=off";
    let db = open_with(Path::new(&std::env::var(WORKER).unwrap()), parameters).unwrap();
    db.execute_batch(&sql).unwrap();
}

/// A process that runs some SQL and is stopped at this place.
struct Stopped(Running);

impl Stopped {
    fn at(point: KillPoint, path: &Path, sql: &str) -> Stopped {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "sql_worker"]).env(WORKER, path).env(SQL, sql);
        command.env("ONEFLUSH_STOP_AT", format!("{}:1", point.name()));
        let mut child = Running::start(command.stdout(Stdio::null()));
        let deadline = Instant::now() + PATIENCE;
        let is_stopped = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            status.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
        };
        while !is_stopped() {
            assert!(Instant::now() < deadline, "{point:?} was not come to");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(child.try_wait().unwrap().is_none());
        Stopped(child)
    }

    fn go_on(mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

/// A checkpoint that sees all that is published cuts the file to the size of the last commit there.
#[test]
fn a_commit_that_is_not_published_yet_comes_back_though_a_checkpoint_cuts_off_the_pages_that_it_was_logged_against() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let stock = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), "unix").unwrap();
    stock
        .execute_batch("PRAGMA auto_vacuum=full; PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        .unwrap();
    drop(stock);
    let insert = |first: u32| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < 100)
             INSERT INTO t SELECT i, printf('%.*c', 3000, 'x') FROM n"
        )
    };
    let db = open_with(&path, "checkpoints=sqlite").unwrap();
    db.execute_batch(&format!("PRAGMA wal_autocheckpoint=0; {}; PRAGMA wal_checkpoint(RESTART)", insert(1))).unwrap();
    let size = || std::fs::metadata(&path).unwrap().len();
    let whole = size();
    db.execute_batch("DELETE FROM t WHERE id > 50").unwrap();

    let checkpoint = Stopped::at(KillPoint::Prepared, &path, "PRAGMA wal_checkpoint(PASSIVE)");
    let commit = Stopped::at(KillPoint::Durable, &path, &insert(51));
    checkpoint.go_on();
    assert!(size() < whole);

    let crashed = dir.path().join("crashed.db");
    for suffix in ["", "-oneflush"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(name(&path), name(&crashed)).unwrap();
    }
    let check = |db: &Connection| {
        let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!((sound.as_str(), db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))), ("ok", Ok(100)));
    };
    check(&open(&crashed).unwrap());
    commit.go_on();
    check(&db);
}

const VISITOR: &str = "ONEFLUSH_TEST_VISITOR";
/// Whoever comes while another is stopped has answers to all he asks by then, on whatever machine.
const ANSWERED: Duration = Duration::from_secs(40);

/// Not a test of its own: somebody who opens, reads, commits once and closes, whatever he is told.
#[test]
fn visitor() {
    let Ok(told) = std::env::var(VISITOR) else { return };
    let (path, writer) = told.rsplit_once('#').unwrap();
    let writer: i64 = writer.parse().unwrap();
    let db = match open_for(Duration::from_millis(300), "eager", Path::new(path), "log_size=1048576") {
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
                db.execute("INSERT INTO kept VALUES (?1, ?2, randomblob(100))", [writer, last + 1])?;
                db.execute_batch("COMMIT")
            };
            match write(&db) {
                Ok(()) => println!("acknowledged {}", last + 1),
                Err(error) if is_busy(&error) => println!("busy"),
                Err(error) => {
                    // SQLITE_IOERR_FSYNC: a commit that may be there or not, and no other is taken after it.
                    assert_eq!(error.sqlite_error().map(|error| error.extended_code), Some(1034), "{error}");
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

/// Runs a visitor and says what he was told.
fn visit(path: &Path, writer: i64, said: &mut Said, about: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "visitor", "--nocapture"])
        .env(VISITOR, format!("{}#{writer}", path.display()))
        .env("ONEFLUSH_TEST_PATIENCE_MS", "1500")
        .stdout(Stdio::piped());
    let mut child = Running::start(&mut command);
    let deadline = Instant::now() + ANSWERED;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= deadline {
            child.kill().unwrap();
            panic!("{about}: a visitor hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(child.wait().unwrap().success(), "{about}: {told}");
    let numbers = told.lines().filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
    said.numbers.entry(writer).or_default().extend(numbers.collect::<Vec<i64>>());
    *said.deaths.entry(writer).or_default() += i64::from(told.contains("failed"));
    told
}

fn signal(worker: &Worker, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(&worker.child), signal).unwrap();
}

fn start_to_stop(path: &Path, writer: i64, point: KillPoint, count: u32) -> Worker {
    let mut command = Worker::command(path, writer, 100_000);
    command.env("ONEFLUSH_STOP_AT", format!("{}:{count}", point.name()));
    Worker { writer, child: Running::start(&mut command), heard: String::new() }
}

impl Worker {
    fn is_stopped_by(&self, deadline: Instant) -> bool {
        let is_stopped = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
            status.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
        };
        while Instant::now() < deadline {
            if is_stopped() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

/// How a process that was stopped ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    GoesOn,
    IsKilled,
}

/// Somebody is stopped at a place, others come, and he goes on or is killed.
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
    let opens_or_closes = matches!(
        point,
        LogMade | PageOneLogged | Guarded | Alone | Joined | Rebuilt | Opened | GuardHidden | BoardDeleted
    );
    let reader = (!opens_or_closes).then(|| open(&path).unwrap());
    let count_all =
        |db: &Connection| db.query_row("SELECT count(*) FROM kept", [], |row| row.get::<_, i64>(0)).unwrap();
    if let Some(reader) = &reader {
        count_all(reader);
    }
    let deadline = Instant::now() + PATIENCE;
    // Who gathers does so for company, which is killed before anybody can be told that its commit failed.
    let has_first = before.is_some() || point == Gathered;
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
            count_all(reader);
        }
        assert!(told.contains("closed") || told.contains("open busy"), "{about}: {told}");
    }
    if stopped && then == Then::GoesOn {
        signal(&victim, rustix::process::Signal::CONT);
        std::thread::sleep(Duration::from_millis(300));
        assert!(victim.child.try_wait().unwrap().is_none(), "{about}: it did not go on");
    }
    victim.child.kill().unwrap();
    said.add(victim);
    if let Some(reader) = &reader {
        count_all(reader);
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

// A process that was stopped while it had the board's lock kept everybody from opening the database, and from writing, for ever.
#[test]
fn wherever_a_process_is_stopped_others_open_read_and_are_answered_and_it_goes_on() {
    stop_at_each_place(Then::GoesOn);
}

#[test]
fn wherever_a_process_is_stopped_others_open_read_and_are_answered_and_it_is_killed() {
    stop_at_each_place(Then::IsKilled);
}

/// A dashboard that opens the database for reading only waited two seconds for the board's lock, which the stopped process had, and was refused then.
#[test]
fn who_only_reads_opens_and_reads_beside_a_process_that_is_stopped_in_an_append_and_goes_on_when_it_is_killed() {
    use KillPoint::*;
    for point in [Locked, Busy, Recorded, HalfShown, Unlocking] {
        let about = format!("{point:?}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        create(&path);
        let mut said = Said::default();
        let mut appends = start_to_stop(&path, 1, point, 8);
        assert!(appends.is_stopped_by(Instant::now() + PATIENCE), "{about}");
        let count =
            |db: &Connection| db.query_row("SELECT count(*) FROM kept", [], |row| row.get::<_, i64>(0)).unwrap();
        let reader = open_with(&path, "mode=ro").unwrap_or_else(|error| panic!("{about}: {error}"));
        let before = count(&reader);
        assert!(before > 0, "{about}");
        appends.child.kill().unwrap();
        said.add(appends);
        assert!(!said.add(Worker::start(&path, 5, 30, None)), "{about}");
        assert!(count(&reader) >= before + 30, "{about}");
        drop(reader);
        said.check(&path, &about);
    }
}

/// Two are stopped: one that appends, and one that joins beside it without the lock. Whoever dies, nobody recovers while the other lives.
#[test]
fn who_joins_beside_a_stopped_process_may_be_stopped_itself() {
    for (point, kills) in
        [(KillPoint::Seen, false), (KillPoint::Using, false), (KillPoint::Seen, true), (KillPoint::Using, true)]
    {
        let about = format!("{point:?}, the one that appends is killed: {kills}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        create(&path);
        let mut said = Said::default();
        let mut appends = start_to_stop(&path, 1, KillPoint::Recorded, 8);
        assert!(appends.is_stopped_by(Instant::now() + PATIENCE), "{about}");
        let mut joins = start_to_stop(&path, 2, point, 1);
        assert!(joins.is_stopped_by(Instant::now() + PATIENCE), "{about}");
        let told = visit(&path, 6, &mut said, &about);
        assert!(told.contains("read done"), "{about}: {told}");
        if kills {
            appends.child.kill().unwrap();
            said.add(appends);
            assert!(visit(&path, 6, &mut said, &about).contains("closed"), "{about}");
            signal(&joins, rustix::process::Signal::CONT);
        } else {
            signal(&joins, rustix::process::Signal::CONT);
            std::thread::sleep(Duration::from_millis(100));
            signal(&appends, rustix::process::Signal::CONT);
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

const PANICKER: &str = "ONEFLUSH_TEST_PANICKER";

/// Not a test of its own: somebody who commits until he meets a panic, then tries again, and closes.
#[test]
fn panicker() {
    let Ok(path) = std::env::var(PANICKER) else { return };
    let db = open(Path::new(&path)).unwrap();
    let mut number = 0;
    let mut met_error = false;
    for at in 1..=120 {
        match commit(&db, 1, number + 1, at) {
            Ok(()) => {
                number += 1;
                println!("acknowledged {number}");
                if met_error {
                    println!("went on");
                    break;
                }
            }
            Err(_) => {
                met_error = true;
                let _ = db.execute_batch("ROLLBACK");
            }
        }
        if at % 7 == 0 {
            met_error |= db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).is_err();
            met_error |= db.query_row("PRAGMA oneflush_checkpoint", [], |_| Ok(())).is_err();
        }
    }
    println!("{}", if met_error { "met it" } else { "met nothing" });
    drop(db);
    println!("closed");
}

// A panic that was stopped at a callback left flags up and the board's lock held: whoever committed next, in any process, hung.
#[test]
fn a_panic_at_a_callback_ends_acknowledgements_and_leaves_nobody_hanging() {
    use KillPoint::*;
    let under_the_lock =
        [Locked, Gathered, Busy, Recorded, HalfShown, Shown, Unlocking, Durable, ImageSynced, RestartNoted, Forgotten];
    let others = [Noted, Prepared, CheckpointBegun];
    for point in under_the_lock.into_iter().chain(others) {
        let about = format!("a panic at {point:?}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        create(&path);
        let neighbour = open(&path).unwrap();
        neighbour.query_row("SELECT count(*) FROM kept", [], |_| Ok(())).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "panicker", "--nocapture"])
            .env(PANICKER, &path)
            .env("ONEFLUSH_PANIC_AT", format!("{}:1", point.name()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = Running::start(&mut command);
        let mut told = String::new();
        let (sender, ended) = std::sync::mpsc::channel();
        let mut stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let _ = stdout.read_to_string(&mut told);
            sender.send(told)
        });
        let told = ended.recv_timeout(ANSWERED).unwrap_or_else(|_| {
            child.kill().unwrap();
            panic!("{about}: it hangs")
        });
        assert!(child.wait().unwrap().success(), "{about}: {told}");
        assert!(told.contains("closed"), "{about}: {told}");
        // Gathering is for commits in company.
        if !matches!(point, Gathered | Noted) || told.contains("met it") {
            assert!(told.contains("met it") || point == CheckpointBegun, "{about}: {told}");
            assert!(!under_the_lock.contains(&point) || !told.contains("went on"), "{about}: {told}");
        }
        let mut said = Said::default();
        let numbers = told.lines().filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
        said.numbers.insert(1, numbers.collect());
        said.deaths.insert(1, 1);
        visit(&path, 6, &mut said, &about);
        drop(neighbour);
        said.check(&path, &about);
    }
}
