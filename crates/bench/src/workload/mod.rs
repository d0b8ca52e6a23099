//! Workloads: what the connections do while they are measured.
//!
//! ```text
//! Workload ── set_up ──▶ databases with schema and first rows      (not measured)
//!          └─ stream ──▶ one Stream a connection; each step is one transaction
//! ```
//!
//! What a latency is: the time from the begin of a transaction's first statement to the return of
//! its commit, the waiting for other writers included. Where a replayed application keeps a
//! transaction open over reads and computations, only its BEGIN and its COMMIT are timed: that is
//! what the database makes it wait for.

pub mod dump;
mod mobibench;
pub mod replay;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use mobibench::Mobibench;
pub use replay::{Replay, ReplayError};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
pub use table::{Operation, UnknownOperation};

use crate::mode::{Journal, Mode};
use crate::run::database::{self, DatabaseError};

/// A growing WAL is measured over a database's first transactions. Two frames each and an automatic checkpoint at 1,000
/// frames: the file grows in about the first 490 and is used again in the others, so the figures are a mean of both states.
/// On ext4 a transaction that extends the file writes 32 to 38 KB (the WAL's allocation costs 5 or 6 blocks of the file system's
/// journal; a file in more than 4 pieces, which needs a block for its extents, is the likely reason for the sixth), one that does not 12.4 KB.
const GROWING_TRANSACTIONS_MAX: u64 = 1000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Workload {
    /// One row of one table a transaction.
    Table(Operation),
    /// What Mobibench's database mode does.
    Mobibench(Mobibench),
    /// Recorded SQL of an application.
    Replay(Replay),
}

/// What one connection needs to know. Sent as JSON where the connection is a process of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerSpec {
    pub workload: Workload,
    pub mode: Mode,
    /// Where the databases are.
    pub directory: PathBuf,
    /// From 0 to `connections - 1`.
    pub index: u32,
    pub connections: u32,
    /// Of all connections together, as is the rate.
    pub transactions: u64,
    /// Transactions a second; as fast as possible where it is missing.
    pub rate: Option<f64>,
}

impl WorkerSpec {
    /// This worker's part of the transactions.
    pub fn share(&self) -> u64 {
        share(self.transactions, self.connections, self.index)
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Changed something, and committed it.
    Committed { latency_ns: u64 },
    /// Only read, or failed and was counted.
    NothingWritten,
    /// There are no more.
    Finished,
}

/// The transactions of one connection, one after the other.
pub trait Stream {
    fn step(&mut self) -> Result<Step, DatabaseError>;

    /// What belongs to the measured work but comes after the last transaction.
    fn finish(&mut self) -> Result<(), DatabaseError>;

    /// Statements that failed, by message: only replays go on after a failure.
    fn failures(&self) -> BTreeMap<String, u64>;

    /// Any of the stream's connections, to ask the VFS for its statistics.
    fn connection(&self) -> &Connection;
}

impl Workload {
    /// The files of one worker's databases, relative to the run's directory; the first is `main`.
    pub fn databases(&self, worker_index: u32) -> Vec<String> {
        match self {
            Workload::Table(_) => vec!["bench.db".to_owned()],
            Workload::Mobibench(mobibench) => mobibench.databases(worker_index),
            Workload::Replay(_) => vec!["replay.db".to_owned()],
        }
    }

    /// The names of a worker's databases on its connection.
    pub fn schemas(&self) -> Vec<String> {
        match self {
            Workload::Mobibench(mobibench) => mobibench.schemas().collect(),
            Workload::Table(_) | Workload::Replay(_) => vec!["main".to_owned()],
        }
    }

    /// Whether all connections work on the same database.
    pub fn shares_database(&self) -> bool {
        !matches!(self, Workload::Mobibench(_))
    }

    /// How many transactions a measured slice has, given what the user asked for.
    pub fn transactions(&self, mode: Mode, asked: u64) -> u64 {
        match (self, mode.journal) {
            (Workload::Table(_), Journal::WalGrowing) => asked.min(GROWING_TRANSACTIONS_MAX),
            // Mobibench's count is part of its meaning, and a recording has its own: from a fresh WAL through its checkpoints.
            _ => asked,
        }
    }

    /// Makes schema and first rows through `connection`, which has the databases of worker `worker_index` attached.
    pub fn set_up(
        &self,
        connection: &Connection,
        connections: u32,
        transactions: u64,
    ) -> Result<BTreeMap<String, u64>, DatabaseError> {
        match self {
            Workload::Table(operation) => operation.set_up(connection, connections, transactions)?,
            Workload::Mobibench(mobibench) => mobibench.set_up(connection, transactions)?,
            Workload::Replay(replay) => return replay.set_up(connection),
        }
        Ok(BTreeMap::new())
    }

    /// Counts rows after a slice: a benchmark that lost transactions must not report them.
    pub fn verify(&self, connection: &Connection, connections: u32, transactions: u64) -> Result<(), DatabaseError> {
        match self {
            Workload::Table(operation) => operation.verify(connection, connections, transactions),
            Workload::Mobibench(mobibench) => mobibench.verify(connection, transactions),
            Workload::Replay(_) => Ok(()),
        }
    }

    /// In words, for the report's head.
    pub fn describe(&self) -> String {
        match self {
            Workload::Table(operation) => operation.describe(),
            Workload::Mobibench(mobibench) => mobibench.describe(),
            Workload::Replay(replay) => replay.describe(),
        }
    }
}

/// Opens worker `spec.index`'s connection and prepares its transactions.
pub fn open_stream(spec: &WorkerSpec) -> Result<Box<dyn Stream>, DatabaseError> {
    let connection = open_databases(&spec.workload, &spec.directory, spec.mode, spec.index)?;
    Ok(match &spec.workload {
        Workload::Table(operation) => Box::new(table::TableStream::new(connection, *operation, spec)),
        Workload::Mobibench(mobibench) => {
            Box::new(mobibench::MobibenchStream::new(connection, mobibench.clone(), spec))
        }
        Workload::Replay(replay) => Box::new(replay::ReplayStream::new(connection, replay.statements_of(spec.index)?)),
    })
}

/// Opens the databases of one worker over one connection, in the given mode.
pub fn open_databases(
    workload: &Workload,
    directory: &Path,
    mode: Mode,
    worker_index: u32,
) -> Result<Connection, DatabaseError> {
    let files = workload.databases(worker_index);
    let connection = database::open(&directory.join(&files[0]), mode)?;
    for (at, file) in files.iter().enumerate().skip(1) {
        database::attach(&connection, &directory.join(file), &format!("db{at}"), mode)?;
    }
    Ok(connection)
}

/// Worker `index`'s part of `total`, as even as it gets.
pub fn share(total: u64, connections: u32, index: u32) -> u64 {
    let (connections, index) = (u64::from(connections), u64::from(index));
    total / connections + u64::from(index < total % connections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_differ_by_at_most_one() {
        for (total, connections) in [(10, 3), (2, 4), (0, 1), (1000, 16)] {
            let shares: Vec<u64> = (0..connections).map(|index| share(total, connections, index)).collect();
            assert_eq!(shares.iter().sum::<u64>(), total);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_growing_wal_is_measured_from_its_first_transactions_only() {
        let growing = Mode::new(Journal::WalGrowing);
        assert_eq!(Workload::Table(Operation::Insert).transactions(growing, 2000), 1000);
        assert_eq!(Workload::Table(Operation::Insert).transactions(growing, 100), 100);
        assert_eq!(Workload::Table(Operation::Insert).transactions(Mode::new(Journal::Wal), 2000), 2000);
    }
}
