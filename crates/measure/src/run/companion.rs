//! A companion: one more connection, which runs beside the workers and is not measured itself.
//!
//! It is a thread of the program, even where the workers are processes. It lasts as long as they
//! do.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use super::failure::Failure;
use super::latency::Latencies;
use super::turn::Turn;
use super::worker::{Arrival, Start};
use crate::clock;
use crate::database;
use crate::interrupt;
use crate::mode::Mode;
use crate::workload::{Task, WorkloadError, random_value};

/// So that the end of the workers, or Ctrl-C, is noticed.
const SLEEP: Duration = Duration::from_millis(5);

/// What a companion did.
#[derive(Clone, Debug, Default)]
pub struct CompanionResult {
    pub elapsed_ns: u64,
    /// Of its commits.
    pub latencies: Latencies,
    pub cpu_ns: u64,
}

/// `turn`: it writes in its turn only.
pub fn run(
    task: Task,
    path: &Path,
    mode: &Mode,
    arrival: &Arrival<'_>,
    stop: &AtomicBool,
    turn: Option<Turn<'_>>,
) -> Result<CompanionResult, Failure> {
    let opened = database::open(path, mode);
    let go = arrival.arrive(opened.is_ok());
    let connection = opened?;
    let mut result = CompanionResult::default();
    if !go {
        return Ok(result);
    }
    let cpu_before_ns = clock::thread_cpu_ns();
    let begin_ns = clock::now_ns();
    let ends = || stop.load(Ordering::Relaxed) || interrupt::requested();
    match task {
        Task::Write { rows, interval } => {
            write(&connection, rows, interval, &ends, turn, &mut result.latencies)?
        }
        Task::KeepSnapshot { from, to } => {
            let at = |since: Duration| begin_ns + since.as_nanos() as u64;
            keep_snapshot(&connection, at(from), at(to), &ends)?;
        }
    }
    result.elapsed_ns = clock::now_ns() - begin_ns;
    drop(connection);
    result.cpu_ns = clock::thread_cpu_ns() - cpu_before_ns;
    Ok(result)
}

fn write(
    connection: &Connection,
    rows: u64,
    interval: Duration,
    ends: &dyn Fn() -> bool,
    turn: Option<Turn<'_>>,
    latencies: &mut Latencies,
) -> Result<(), WorkloadError> {
    let mut random = fastrand::Rng::with_seed(u64::MAX);
    let mut update = connection.prepare("UPDATE t SET v = ?1 WHERE id = ?2")?;
    let mut due_ns = clock::now_ns();
    loop {
        wait_until(due_ns, ends);
        let taken = turn.map(Turn::take);
        if ends() || matches!(taken, Some(None)) {
            return Ok(());
        }
        // What was late is not caught up.
        due_ns = clock::now_ns().max(due_ns + interval.as_nanos() as u64);
        let (value, id) = (random_value(&mut random), random.u64(1..=rows) as i64);
        let begin_ns = clock::now_ns();
        let changed = update.execute((value, id))?;
        latencies.record(clock::now_ns() - begin_ns);
        if changed != 1 {
            return Err(WorkloadError::Contents(format!("row {id} is missing beside the readers")));
        }
    }
}

fn wait_until(due_ns: u64, ends: &dyn Fn() -> bool) {
    while clock::now_ns() < due_ns && !ends() {
        std::thread::sleep(SLEEP.min(Duration::from_nanos(due_ns.saturating_sub(clock::now_ns()))));
    }
}

fn keep_snapshot(
    connection: &Connection,
    from_ns: u64,
    to_ns: u64,
    ends: &dyn Fn() -> bool,
) -> Result<(), WorkloadError> {
    let count = || connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
    wait_until(from_ns, ends);
    connection.execute_batch("BEGIN")?;
    let rows = count()?;
    wait_until(to_ns, ends);
    let rows_later = count()?;
    connection.execute_batch("COMMIT")?;
    if rows == rows_later {
        return Ok(());
    }
    Err(WorkloadError::Contents(format!("a snapshot had {rows} rows first and {rows_later} later")))
}
