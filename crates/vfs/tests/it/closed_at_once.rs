//! Several processes, with several threads each, close a database at the same moment. One of them
//! is the last, and leaves a plain file.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use oneflush_testing::named;

use crate::common::{self, commits, files, open_stock, open_with, scratch};

const PROCESSES: usize = 3;
const THREADS: usize = 2;

/// How a process ends its use of the database.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Closes,
    Exits,
    IsKilled,
}

struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Process {
    fn begin(path: &Path, strategy: &str, end: End) -> Process {
        let task = format!(
            "{}|{strategy}|{}",
            path.display(),
            if end == End::Closes { "closes" } else { "" }
        );
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", named!(is_one_of_several), "--nocapture"])
            .env("ONEFLUSH_TEST_CLOSES", task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The test harness finds its output closed when this test ends.
            .stderr(Stdio::null());
        let mut child = oneflush_testing::dies_with_test(&mut command).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Process { child, said }
    }

    fn goes_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"on\n").unwrap();
    }

    fn until_says(&mut self, word: &str) {
        let mut line = String::new();
        while line.trim() != word {
            line.clear();
            assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "{word}: the process has ended");
        }
    }
}

/// This program again, as one of several processes. It takes a step for each line that it reads.
#[test]
fn is_one_of_several() {
    let Ok(task) = std::env::var("ONEFLUSH_TEST_CLOSES") else { return };
    let [path, strategy, end] = task.split('|').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let path = Path::new(path);
    common::setup();
    let mut lines = std::io::stdin().lines();
    while lines.next().is_some() {
        let all = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let db = open_with(path, &format!("strategy={strategy}")).unwrap();
                    db.busy_timeout(Duration::from_secs(60)).unwrap();
                    commits::make(&db, 3);
                    all.wait();
                    all.wait();
                    match end {
                        "closes" => db.close().unwrap(),
                        _ => std::mem::forget(db),
                    }
                });
            }
            all.wait();
            println!("ready");
            lines.next();
            all.wait();
        });
        if end != "closes" {
            std::process::exit(0);
        }
        println!("closed");
    }
}

fn rounds(of_a_commit: usize) -> usize {
    let asked = std::env::var("ONEFLUSH_TEST_ROUNDS").ok();
    asked.map_or(of_a_commit, |asked| asked.parse().unwrap())
}

fn created(strategy: &str) -> (tempfile::TempDir, PathBuf) {
    let (dir, path) = scratch();
    let db = open_with(&path, &format!("strategy={strategy}")).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full").unwrap();
    commits::create(&db);
    drop(db);
    (dir, path)
}

/// What is left but for the database and a WAL that `plain` keeps.
fn left(path: &Path) -> Vec<String> {
    files(path).into_iter().filter(|suffix| !["", "-oneflush-kept"].contains(&&**suffix)).collect()
}

/// `at_last`: how the last of the processes ends.
fn end_together(strategy: &str, rounds: usize, end: End, at_last: End) {
    let (_dir, path) = created(strategy);
    let begin = |number| Process::begin(&path, strategy, if number == 0 { at_last } else { end });
    let mut processes: Vec<_> = (0..PROCESSES).map(begin).collect();
    let mut expected = 0;
    for round in 1..=rounds {
        processes.iter_mut().for_each(Process::goes_on);
        processes.iter_mut().for_each(|process| process.until_says("ready"));
        expected += (PROCESSES * THREADS * 3) as i64;
        for process in &mut processes[1..] {
            process.goes_on();
        }
        match at_last {
            End::IsKilled => processes[0].child.kill().unwrap(),
            _ => processes[0].goes_on(),
        }
        for (number, process) in processes.iter_mut().enumerate() {
            if end == End::Closes && (number > 0 || at_last == End::Closes) {
                process.until_says("closed");
            } else {
                process.child.wait().unwrap();
                *process = begin(number);
            }
        }
        if at_last == End::IsKilled {
            // It may have shared the database when the others closed. The next close is clean.
            let db = open_with(&path, &format!("strategy={strategy}")).unwrap();
            assert_eq!(commits::check(&db), Ok(expected), "{strategy}, round {round}");
        }
        assert_eq!(left(&path), [""; 0], "{strategy}, round {round} of {rounds}");
        assert_eq!(commits::check(&open_stock(&path)), Ok(expected), "{strategy}, {round}");
    }
}

#[test]
fn who_closes_at_the_same_moment_as_others_leaves_a_plain_file() {
    for strategy in ["plain", "eager", "waldio"] {
        end_together(strategy, rounds(40), End::Closes, End::Closes);
    }
}

#[test]
fn processes_that_exit_at_the_same_moment_leave_a_plain_file() {
    // The end of a process makes a plain file of what is guarded.
    for strategy in ["eager", "waldio"] {
        end_together(strategy, rounds(8), End::Exits, End::Exits);
    }
}

#[test]
fn a_process_that_is_killed_meanwhile_does_not_hinder_a_later_close() {
    for strategy in ["plain", "eager", "waldio"] {
        end_together(strategy, rounds(8), End::Closes, End::IsKilled);
    }
}
