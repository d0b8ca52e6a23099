//! Processes that share a database with a strategy that has a log, and die, are stopped or panic.
//! They do so at each place where another process could see what they do (feature `kill-points`).
//!
//! A worker is this program again, with its task in its environment. It writes rows of its own. It
//! says each number on its standard output when SQLite has acknowledged the commit. At the end
//! every number that was said must be in the database. Of the others, at most one row for each
//! death may be there.
mod deaths;
mod panics;
mod power;
mod soak;
mod stops;
mod unpublished;
mod worker;

use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use oneflush_testing::slowed;
use oneflush_vfs::KillPoint;
use rusqlite::{Connection, ErrorCode, OpenFlags};

/// A victim that has not come to its place by then never will. Where one death must follow another,
/// the two may miss each other, for example because a checkpoint comes between. Then the test tries
/// again.
fn patience() -> Duration {
    slowed(Duration::from_secs(15))
}
const TRIES: usize = 5;

const STRATEGY: &str = "ONEFLUSH_TEST_STRATEGY";

thread_local! {
    /// The strategy of this test, or of this worker.
    static USED: Cell<&'static str> = Cell::new(match std::env::var(STRATEGY).as_deref() {
        Ok("waldio") => "waldio",
        Ok("plain") => "plain",
        _ => "eager",
    });
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    open_with(path, "log_size=1048576")
}

fn open_with(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    open_as(USED.get(), path, parameters)
}

fn open_as(strategy: &str, path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    open_for(Duration::from_secs(20), strategy, path, parameters)
}

fn open_for(
    busy: Duration,
    strategy: &str,
    path: &Path,
    parameters: &str,
) -> rusqlite::Result<Connection> {
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

fn create(path: &Path) {
    let db = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "unix").unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=wal; CREATE TABLE ballast(b);
         CREATE TABLE kept(writer, number, filler, PRIMARY KEY(writer, number));
         CREATE VIEW numbers AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
         SELECT i FROM n;",
    )
    .unwrap();
}

/// Nobody else uses the log then.
fn opens_or_closes(point: KillPoint) -> bool {
    use KillPoint::*;
    matches!(
        point,
        LogMade
            | PageOneLogged
            | Guarded
            | Alone
            | Joined
            | Rebuilt
            | Opened
            | GuardHidden
            | BoardDeleted
    )
}

/// Rows of all writers.
fn count_rows(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM kept", [], |row| row.get(0)).unwrap()
}

/// This program again, running one test: the work of a process of its own.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // A child that panics on purpose reads megabytes of symbols for its backtrace.
    command.args(["--exact", test, "--nocapture"]).env("RUST_BACKTRACE", "0");
    command.env(STRATEGY, USED.get());
    command
}

/// The numbers of the commits that the process was told of.
fn acknowledged(told: &str) -> Vec<i64> {
    told.lines().filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok()).collect()
}

/// Looks again and again until the condition holds. False: it did not hold by the deadline.
fn is_so_by(deadline: Instant, mut is_so: impl FnMut() -> bool) -> bool {
    while Instant::now() < deadline {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}
