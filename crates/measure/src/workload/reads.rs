//! Reads: single rows by their key, or whole tables, each in a transaction of its own, alone or
//! beside a writer.
//!
//! The table is some five times as large as SQLite's page cache. So reads also go through the VFS
//! to the page cache of the kernel, as in an application whose data outgrew its cache. Beside a
//! writer, every commit makes readers drop their cached pages.
//!
//! `point-in-wal` reads rows whose pages are in the WAL, from where SQLite has to fetch them. They
//! are twice as many as its page cache holds, and fewer than an automatic checkpoint waits for.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::value::VALUE_BYTES;
use super::{Step, Stream, WorkloadError};
use crate::clock;

pub(super) const ROWS: u64 = 100_000;
/// They have some 820 pages; a checkpoint comes at 1,000 frames.
const ROWS_IN_WAL: u64 = 30_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// One row by its key.
    Point,
    /// The same, of a page that is in the WAL.
    PointInWal,
    /// All rows.
    Scan,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Reads {
    pub access: Access,
    /// One more connection updates rows, one a transaction. A transaction begins this long after
    /// the begin of the one before, or at its end if that is later.
    pub beside_writer: Option<Duration>,
}

impl Reads {
    /// Of all connections together in a slice: about a second.
    pub(super) fn default_count(self) -> u64 {
        match self.access {
            Access::Point | Access::PointInWal => 300_000,
            Access::Scan => 60,
        }
    }

    /// So many are one turn where modes read in turns: 5 to 10 ms.
    pub(crate) fn turn(self) -> u64 {
        match self.access {
            Access::Point | Access::PointInWal => 2_000,
            Access::Scan => 1,
        }
    }

    pub(super) fn set_up(connection: &Connection) -> Result<(), WorkloadError> {
        // 50 random bytes are 100 digits.
        connection.execute_batch(&format!(
            "BEGIN;
             CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);
             WITH RECURSIVE counter(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM counter WHERE n < \
             {ROWS})
             INSERT INTO t SELECT n, hex(randomblob({})) FROM counter;
             COMMIT;",
            VALUE_BYTES / 2
        ))?;
        Ok(())
    }

    /// After the WAL was brought to where the measurement begins.
    pub(super) fn fill_wal(self, connection: &Connection) -> Result<(), WorkloadError> {
        if self.access == Access::PointInWal {
            let values = format!("hex(randomblob({}))", VALUE_BYTES / 2);
            connection
                .execute_batch(&format!("UPDATE t SET v = {values} WHERE id <= {ROWS_IN_WAL}"))?;
        }
        Ok(())
    }

    /// The rows that are read are the first ones, up to this.
    fn rows(self) -> u64 {
        match self.access {
            Access::PointInWal => ROWS_IN_WAL,
            Access::Point | Access::Scan => ROWS,
        }
    }

    pub(super) fn describe(self) -> String {
        let what = match self.access {
            Access::Point => format!("read one row of {VALUE_BYTES} bytes by its key"),
            Access::PointInWal => {
                format!("read one row of {VALUE_BYTES} bytes by its key, from a page in the WAL")
            }
            Access::Scan => "read all rows".to_owned(),
        };
        let beside = match self.beside_writer {
            None => String::new(),
            Some(Duration::ZERO) => ", beside a writer that commits all the time".to_owned(),
            Some(interval) => {
                format!(
                    ", beside a writer that commits {:.0} times a second",
                    1.0 / interval.as_secs_f64()
                )
            }
        };
        format!("{what}, table of {ROWS} rows{beside}")
    }
}

pub struct ReadsStream {
    connection: Connection,
    access: Access,
    rows: u64,
    random: fastrand::Rng,
    left: u64,
}

impl ReadsStream {
    /// The first read fills the caches before the measurement.
    pub fn new(
        connection: Connection,
        reads: Reads,
        part: Part,
    ) -> Result<ReadsStream, WorkloadError> {
        let random = fastrand::Rng::with_seed(u64::from(part.index));
        let (rows, left) = (reads.rows(), part.share());
        let mut stream = ReadsStream { connection, access: Access::Scan, rows, random, left };
        stream.read()?;
        stream.access = reads.access;
        Ok(stream)
    }

    /// Reads, checks and tells how long the reading took.
    fn read(&mut self) -> Result<u64, WorkloadError> {
        let (sql, expected) = match self.access {
            Access::Point | Access::PointInWal => {
                ("SELECT length(v) FROM t WHERE id = ?1", VALUE_BYTES as u64)
            }
            Access::Scan => {
                ("SELECT sum(length(v)) FROM t WHERE id > -?1", ROWS * VALUE_BYTES as u64)
            }
        };
        let id = self.random.u64(1..=self.rows) as i64;
        let mut select = self.connection.prepare_cached(sql)?;
        let begin_ns = clock::now_ns();
        let bytes: i64 = select.query_row([id], |row| row.get(0))?;
        let latency_ns = clock::now_ns() - begin_ns;
        if bytes as u64 == expected {
            return Ok(latency_ns);
        }
        Err(WorkloadError::Contents(format!("a read found {bytes} bytes instead of {expected}")))
    }
}

impl Stream for ReadsStream {
    fn step(&mut self) -> Result<Step, WorkloadError> {
        if self.left == 0 {
            return Ok(Step::Finished);
        }
        self.left -= 1;
        Ok(Step::Done { latency_ns: self.read()? })
    }

    fn finish(&mut self) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn failures(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    fn connection(&self) -> Option<&Connection> {
        Some(&self.connection)
    }
}
