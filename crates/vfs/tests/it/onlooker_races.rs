//! Connections that only read, while other processes open the database, commit and close it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{self, commits, open_with, take_said};

use oneflush_testing::named;

/// Names the database of [`opens_commits_and_closes`].
const COMES_AND_GOES: &str = "ONEFLUSH_TEST_COMES_AND_GOES";

/// This program again, which makes a log and retires it, again and again.
#[test]
fn opens_commits_and_closes() {
    let Ok(path) = std::env::var(COMES_AND_GOES) else { return };
    common::setup();
    let strategy = std::env::var("ONEFLUSH_TEST_STRATEGY").unwrap();
    let begin = Instant::now();
    let mut made = 0;
    while made < 50 {
        let seconds = begin.elapsed().as_secs();
        assert!(seconds < 60, "{strategy}: {made} commits in {seconds} s");
        // While a reader was the first, it is refused.
        let Ok(db) = open_with(Path::new(&path), &format!("strategy={strategy}")) else { continue };
        db.busy_timeout(Duration::from_secs(5)).unwrap();
        made += usize::from(commits::try_make(&db).is_ok());
    }
}

/// A reader read a guard, and then looked for the log beside the database. Meanwhile another
/// process had retired that log and made the next one. The reader got "unable to open".
#[test]
fn a_reader_that_opens_while_logs_come_and_go_is_not_refused() {
    for (strategy, mode) in [("maw", "delete"), ("eager", "wal"), ("waldio", "wal")] {
        let (dir, path) = common::scratch_with(mode, 1);
        let program = dir.path().join("program");
        oneflush_testing::copy_program(&program);
        let mut child = Command::new(program)
            .args(["--exact", named!(opens_commits_and_closes)])
            .env(COMES_AND_GOES, &path)
            .env("ONEFLUSH_TEST_STRATEGY", strategy)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut looks = 0;
        while child.try_wait().unwrap().is_none() {
            looks += 1;
            let seen = open_with(&path, &format!("strategy={strategy}&mode=ro"))
                .map_err(|error| error.to_string())
                .and_then(|db| commits::check(&db));
            let is_fine = match &seen {
                Ok(commits) => *commits > 0,
                Err(error) => error.contains("locked"),
            };
            assert!(is_fine, "{strategy}, look {looks}: {seen:?}: {}", take_said(&path));
        }
        assert!(child.wait().unwrap().success());
        let last = open_with(&path, &format!("strategy={strategy}")).unwrap();
        assert!(commits::check(&last).unwrap() > 50, "{strategy}");
    }
}
