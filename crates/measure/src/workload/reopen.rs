//! An application that opens its database, commits a few rows, each for itself, and closes it
//! again, over and over. It measures what opening and closing cost, with the share of the first
//! commit and of the last checkpoint.
//!
//! Nobody else has the database open, so every close is the last one. There stock SQLite
//! checkpoints and deletes the WAL.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;

use super::part::Part;
use super::{Step, Stream, WorkloadError, random_value};
use crate::clock;
use crate::database;
use crate::mode::Mode;

/// One row each.
pub const COMMITS_PER_CYCLE: u64 = 3;

pub(super) fn verify(connection: &Connection, cycles: u64) -> Result<(), WorkloadError> {
    let rows =
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))? as u64;
    if rows == cycles * COMMITS_PER_CYCLE {
        return Ok(());
    }
    Err(WorkloadError::Contents(format!(
        "table t has {rows} rows after {cycles} times {COMMITS_PER_CYCLE} commits"
    )))
}

pub struct ReopenStream {
    path: PathBuf,
    mode: Mode,
    random: fastrand::Rng,
    left: u64,
}

impl ReopenStream {
    pub fn new(path: PathBuf, mode: Mode, part: Part) -> ReopenStream {
        let random = fastrand::Rng::with_seed(u64::from(part.index));
        ReopenStream { path, mode, random, left: part.share() }
    }
}

impl Stream for ReopenStream {
    /// One cycle.
    fn step(&mut self) -> Result<Step, WorkloadError> {
        if self.left == 0 {
            return Ok(Step::Finished);
        }
        self.left -= 1;
        let begin_ns = clock::now_ns();
        let connection = database::open(&self.path, &self.mode)?;
        let mut insert = connection.prepare("INSERT INTO t(v) VALUES(?1)")?;
        for _ in 0..COMMITS_PER_CYCLE {
            insert.execute([random_value(&mut self.random)])?;
        }
        drop(insert);
        connection.close().map_err(|(_, error)| error)?;
        Ok(Step::Done { latency_ns: clock::now_ns() - begin_ns })
    }

    fn finish(&mut self) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn failures(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    fn connection(&self) -> Option<&Connection> {
        None
    }
}
