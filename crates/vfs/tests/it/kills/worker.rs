//! The worker: a process that commits, and what is known of it at the end.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use oneflush_testing::{Running, named};
use oneflush_vfs::KillPoint;
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};

use super::{USED, acknowledged, again, is_busy, is_so_by, open};

pub const WORKER: &str = "ONEFLUSH_TEST_WORKER";
const COMMITS: &str = "ONEFLUSH_TEST_COMMITS";
pub const SYNCHRONOUS: &str = "ONEFLUSH_TEST_SYNCHRONOUS";
const SIGKILL: i32 = 9;

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
        .query_row("SELECT coalesce(max(number), 0) FROM kept WHERE writer = ?1", [writer], |row| {
            row.get(0)
        })
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
            let checkpointed =
                db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
            assert!(
                checkpointed.as_ref().is_ok() || checkpointed.as_ref().is_err_and(is_busy),
                "{checkpointed:?}"
            );
        }
        if at % 20 == 0 {
            drop(db);
            db = open(path);
        }
    }
}

/// Mostly one row. At times many pages: more than the cache holds, and more than the log holds.
pub fn commit(db: &Connection, writer: i64, number: i64, at: i64) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    db.execute("INSERT INTO kept VALUES (?1, ?2, randomblob(100))", [writer, number])?;
    if at % 11 == 0 {
        db.execute_batch(
            "INSERT INTO ballast SELECT randomblob(3000) FROM numbers LIMIT 250;
             SAVEPOINT s; DELETE FROM ballast; ROLLBACK TO s; RELEASE s",
        )?;
    } else if at % 5 == 0 {
        db.execute_batch("DELETE FROM ballast")?;
    }
    db.execute_batch("COMMIT")
}

pub struct Worker {
    pub writer: i64,
    pub child: Running,
    heard: String,
}

impl Worker {
    pub fn command(path: &Path, writer: i64, commits: i64) -> Command {
        let mut command = again(named!(worker));
        command
            .env(WORKER, format!("{}#{writer}", path.display()))
            .env(COMMITS, commits.to_string())
            .stdout(Stdio::piped());
        command
    }

    pub fn run(writer: i64, command: &mut Command) -> Worker {
        Worker { writer, child: Running::start(command), heard: String::new() }
    }

    pub fn start(
        path: &Path,
        writer: i64,
        commits: i64,
        kill_at: Option<(KillPoint, u32)>,
    ) -> Worker {
        let mut command = Worker::command(path, writer, commits);
        if let Some((point, count)) = kill_at {
            command.env("ONEFLUSH_KILL_AT", format!("{}:{count}", point.name()));
        }
        Worker::run(writer, &mut command)
    }

    /// Waits until the worker has said that many lines more.
    pub fn hear(&mut self, lines: usize) {
        let mut byte = [0];
        let wanted = self.heard.lines().count() + lines;
        while self.heard.lines().count() < wanted || !self.heard.ends_with('\n') {
            self.child.stdout.as_mut().unwrap().read_exact(&mut byte).expect("it goes on");
            self.heard.push(char::from(byte[0]));
        }
    }

    /// Waits for the worker's end. The answer is what it said, and whether it was killed.
    pub fn end(mut self) -> (i64, Vec<i64>, bool) {
        let mut said = self.heard;
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap();
        let killed = status.signal() == Some(SIGKILL);
        // With a name that is no test's the program would run nothing, and succeed.
        let worked = status.success() && said.contains("running 1 test");
        assert!(killed || worked, "worker {}: {status}, {said}", self.writer);
        (self.writer, acknowledged(&said), killed)
    }

    pub fn is_dead_by(&mut self, deadline: Instant) -> bool {
        is_so_by(deadline, || self.child.try_wait().unwrap().is_some())
    }

    pub fn is_stopped_by(&self, deadline: Instant) -> bool {
        is_so_by(deadline, || is_stopped(&self.child))
    }
}

pub fn is_stopped(child: &Running) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    status.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
}

pub fn go_on(child: &Running) {
    kill_process(Pid::from_child(child), Signal::CONT).unwrap();
}

/// A worker that is stopped when it comes to this place.
pub fn start_to_stop(path: &Path, writer: i64, point: KillPoint, count: u32) -> Worker {
    let mut command = Worker::command(path, writer, 100_000);
    command.env("ONEFLUSH_STOP_AT", format!("{}:{count}", point.name()));
    Worker::run(writer, &mut command)
}

/// What all workers of a database have said, by writer, and how many of them were killed.
#[derive(Default)]
pub struct Said {
    pub numbers: BTreeMap<i64, Vec<i64>>,
    pub deaths: BTreeMap<i64, i64>,
}

impl Said {
    /// Adds what a worker has said, at its end. True: it was killed.
    pub fn add(&mut self, worker: Worker) -> bool {
        let (writer, numbers, killed) = worker.end();
        self.numbers.entry(writer).or_default().extend(numbers);
        *self.deaths.entry(writer).or_default() += i64::from(killed);
        killed
    }

    pub fn check(&self, path: &Path, about: &str) {
        let db = open(path).unwrap();
        let rows = |writer: i64| -> Vec<i64> {
            let mut statement =
                db.prepare("SELECT number FROM kept WHERE writer = ?1 ORDER BY number").unwrap();
            statement.query_map([writer], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        for (&writer, said) in &self.numbers {
            let rows = rows(writer);
            assert_eq!(
                rows,
                (1..=rows.len() as i64).collect::<Vec<_>>(),
                "{about}: writer {writer}"
            );
            assert!(
                said.iter().all(|number| rows.contains(number)),
                "{about}: writer {writer} lost one of {said:?}"
            );
            let unsaid = rows.len() - said.len();
            assert!(
                unsaid as i64 <= self.deaths[&writer],
                "{about}: {unsaid} rows of writer {writer} were not acknowledged"
            );
        }
        let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok", "{about}");
        drop(db);
        let left = || -> Vec<PathBuf> {
            let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
            // `plain` keeps the WAL's file under another name.
            let is_kept = |path: &PathBuf| path.to_string_lossy().ends_with("-oneflush-kept");
            entries.map(|entry| entry.unwrap().path()).filter(|path| !is_kept(path)).collect()
        };
        // A child that another test starts has the locks of this process until it runs its program.
        // A close in that moment is not the last one.
        for _ in 0..3 {
            if left().len() > 1 {
                drop(open(path).unwrap());
            }
        }
        assert_eq!(left(), [path], "{about}: a clean close leaves the database alone");
    }
}

/// A worker dies, and leaves the files as after a loss of power.
pub fn crash(path: &Path, said: &mut Said, about: &str) {
    let point = match USED.get() {
        "waldio" => KillPoint::FramesWritten,
        _ => KillPoint::Durable,
    };
    assert!(said.add(Worker::start(path, 9, 100, Some((point, 15)))), "{about}");
    std::fs::remove_file(format!("{}-oneflush-shm", path.display())).unwrap();
}
