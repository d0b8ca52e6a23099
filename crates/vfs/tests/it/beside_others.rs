//! A connection a request: it is opened and closed while others have the database open.
//!
//! The story: a web application with a connection a request served fewer requests with `eager` than
//! with `plain`. The first commit of each connection flushed more than once, and an opener waited
//! for a lock that those who commit hardly ever leave free.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use oneflush_testing::{has_programs, named, run};
use rusqlite::Connection;

use crate::common::{commits, files, number, open_stock, open_with, scratch};

/// Cycles that are counted, and those before them, which are not.
const CYCLES: u32 = 10;
const BEFORE: u32 = 2;

/// (strategy, journal mode, system calls of an open and a close for one of SQLite alone)
const STRATEGIES: [(&str, &str, f64); 4] =
    [("plain", "wal", 1.9), ("eager", "wal", 2.8), ("waldio", "wal", 2.5), ("maw", "delete", 3.8)];

/// One that stays while others come and go.
fn keeper(strategy: &str, mode: &str) -> (tempfile::TempDir, PathBuf, Connection) {
    let (dir, path) = scratch();
    let db = open_with(&path, &format!("strategy={strategy}")).unwrap();
    db.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=full")).unwrap();
    commits::create(&db);
    commits::make(&db, 20);
    (dir, path, db)
}

fn request(path: &Path, strategy: &str, commits: bool) {
    let db = open_with(path, &format!("strategy={strategy}")).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db.execute_batch("PRAGMA synchronous=full; SELECT n FROM total").unwrap();
    if commits {
        db.execute_batch("UPDATE total SET n = n + 1").unwrap();
    }
    db.close().unwrap();
}

/// This program again. It makes so many requests.
#[test]
fn is_one_that_comes_and_goes() {
    let Ok(task) = std::env::var("ONEFLUSH_TEST_REQUESTS") else { return };
    let [path, strategy, count, commits] = task.split('|').collect::<Vec<_>>()[..] else {
        panic!("{task}")
    };
    for _ in 0..count.parse().unwrap() {
        request(Path::new(path), strategy, commits == "true");
    }
}

fn task(path: &Path, strategy: &str, count: u32, commits: bool) -> String {
    format!("{}|{strategy}|{count}|{commits}", path.display())
}

/// What a process with so many requests asks of the system: all of it, and flushes.
fn asked(path: &Path, strategy: &str, count: u32, commits: bool) -> (BTreeMap<String, u32>, u32) {
    let trace = path.with_extension("strace");
    run(Command::new("strace")
        .args(["-f", "-o", trace.to_str().unwrap()])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", named!(is_one_that_comes_and_goes), "--nocapture"])
        .env("ONEFLUSH_TEST_REQUESTS", task(path, strategy, count, commits)));
    let (mut calls, mut flushes) = (BTreeMap::new(), 0);
    for line in std::fs::read_to_string(trace).unwrap().lines() {
        let Some((name, arguments)) = line.split_once('(') else { continue };
        let name = name.split_whitespace().last().unwrap_or_default();
        // The second part of a call, and what is asked for memory and threads.
        let memory = ["brk", "mmap", "munmap", "mprotect", "madvise", "futex", "getpid"];
        if name.starts_with("resumed") || memory.contains(&name) {
            continue;
        }
        *calls.entry(name.to_owned()).or_insert(0) += 1;
        let is_sync = ["fsync", "fdatasync", "sync_file_range", "syncfs"].contains(&name);
        flushes += u32::from(is_sync || arguments.contains("RWF_DSYNC"));
    }
    (calls, flushes)
}

/// The same of one request, and flushes of all that are counted.
fn of_a_request(path: &Path, strategy: &str, commits: bool) -> (f64, u32) {
    let (before, flushes_before) = asked(path, strategy, BEFORE, commits);
    let (calls, flushes) = asked(path, strategy, BEFORE + CYCLES, commits);
    let sum = |calls: &BTreeMap<String, u32>| f64::from(calls.values().sum::<u32>());
    ((sum(&calls) - sum(&before)) / f64::from(CYCLES), flushes.saturating_sub(flushes_before))
}

#[test]
fn an_open_and_a_close_beside_others_flush_nothing_and_a_commit_between_them_flushes_once() {
    if !has_programs(&["strace"]) {
        return;
    }
    for (strategy, mode, factor) in STRATEGIES {
        let (_dir, stock, _keeper) = keeper("stock", mode);
        let (calls_of_stock, _) = of_a_request(&stock, "stock", false);
        let (_dir, path, _keeper) = keeper(strategy, mode);
        let (calls, flushes) = of_a_request(&path, strategy, false);
        assert_eq!(flushes, 0, "{strategy}: {CYCLES} times an open and a close");
        assert!(
            calls <= calls_of_stock * factor,
            "{strategy}: an open and a close are {calls} calls, SQLite's {calls_of_stock}"
        );
        let (_, flushes) = of_a_request(&path, strategy, true);
        // The WAL may have to be made longer once.
        assert!(
            (CYCLES..=CYCLES + 1).contains(&flushes),
            "{strategy}: {flushes} flushes of {CYCLES} commits"
        );
    }
}

#[test]
fn nothing_is_lost_where_eight_processes_open_commit_and_close_and_the_last_leaves_a_plain_file() {
    const REQUESTS: u32 = 12;
    for (strategy, mode, _) in STRATEGIES {
        for has_keeper in [true, false] {
            let (_dir, path, db) = keeper(strategy, mode);
            let db = has_keeper.then_some(db);
            let processes: Vec<_> = (0..8)
                .map(|_| {
                    let mut command = Command::new(std::env::current_exe().unwrap());
                    command
                        .args(["--exact", named!(is_one_that_comes_and_goes), "--nocapture"])
                        .env("ONEFLUSH_TEST_REQUESTS", task(&path, strategy, REQUESTS, true))
                        .stdout(std::process::Stdio::null());
                    oneflush_testing::dies_with_test(&mut command).spawn().unwrap()
                })
                .collect();
            for mut process in processes {
                assert!(process.wait().unwrap().success(), "{strategy}, {mode}");
            }
            drop(db);
            let left: Vec<_> =
                files(&path).into_iter().filter(|file| file != "-oneflush-kept").collect();
            assert_eq!(left, [""], "{strategy}, with one that stays: {has_keeper}");
            let committed = number(&open_stock(&path), "SELECT n FROM total");
            assert_eq!(committed, i64::from(20 + 8 * REQUESTS), "{strategy}");
        }
    }
}
