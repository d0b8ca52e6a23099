//! Workloads: what the connections do while they are measured.
//!
//! ```text
//! Workload ── set_up ──▶ databases with schema and first rows      (not measured)
//!          └─ stream ──▶ one Stream a connection; a step is a unit: transaction, cycle or read
//! ```
//!
//! A latency is the time from the begin of a transaction's first statement to the return of its
//! commit. The waiting for other writers is included. A replayed application may keep a transaction
//! open over reads and computations. Then only its BEGIN and its COMMIT are timed: that is what the
//! database makes it wait for.

pub mod dump;
mod error;
pub mod file_trace;
mod files;
mod long_reader;
mod mobibench;
mod part;
mod reads;
mod reopen;
pub mod replay;
mod stream;
mod table;
mod task;
mod unit;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

pub use error::{FileError, FileTraceError, ReplayError, WorkloadError};
pub use file_trace::FileTrace;
pub use files::Files;
pub use long_reader::LongReader;
pub use mobibench::Mobibench;
use part::Part;
pub use part::share;
pub use reads::{Access, Reads};
pub use replay::Replay;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
pub use stream::{Step, Stream};
pub use table::Operation;
pub use task::Task;
pub use unit::{MB, Unit};
pub(crate) use value::random_value;

use crate::database::{self, DatabaseError};
use crate::mode::{Journal, Mode};

/// Of all connections together, where nobody asked for a number.
const TRANSACTIONS_DEFAULT: u64 = 2000;
/// A growing WAL is measured over a database's first transactions. Each has two frames, and an
/// automatic checkpoint comes at 1,000 frames. The file grows in about the first 490 and is used
/// again in the others, so the figures are a mean of both states.
///
/// On ext4 a transaction that extends the file writes 32 to 38 KB, and one that does not 12.4 KB.
/// The allocation of the WAL costs 5 or 6 blocks of the file system's journal. A likely reason for
/// the sixth is a file in more than 4 pieces, which needs a block for its extents.
const GROWING_TRANSACTIONS_DEFAULT: u64 = 1000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Workload {
    /// One row of one table a transaction.
    Table(Operation),
    /// Opens, commits and closes.
    Reopen,
    Reads(Reads),
    LongReader(LongReader),
    /// What Mobibench's database mode does.
    Mobibench(Mobibench),
    /// Recorded SQL of an application.
    Replay(Replay),
    /// Without SQLite.
    Files(Files),
    /// Recorded file operations of an application.
    FileTrace(FileTrace),
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
        self.part().share()
    }

    fn part(&self) -> Part {
        let WorkerSpec { index, connections, transactions, .. } = *self;
        Part { index, connections, transactions }
    }
}

impl Workload {
    /// Those that need no more than a word. There is `attached=N` besides.
    pub const WORDS: [&str; 20] = [
        "insert",
        "update",
        "delete",
        "mixed",
        "indexed",
        "one-page",
        "reopen",
        "point",
        "point-in-wal",
        "scan",
        "long-reader",
        "append",
        "append-unsynced",
        "overwrite",
        "one-block",
        "stream",
        "synced-stream",
        "cached-read",
        "cold-read",
        "cold-read-random",
    ];

    /// The files of one worker's databases, relative to the run's directory; the first is `main`.
    /// Without SQLite: the worker's file.
    pub fn databases(&self, worker_index: u32) -> Vec<String> {
        match self {
            Workload::Table(_)
            | Workload::Reopen
            | Workload::Reads(_)
            | Workload::LongReader(_) => {
                vec!["bench.db".to_owned()]
            }
            Workload::Mobibench(mobibench) => mobibench.databases(worker_index),
            Workload::Replay(_) => vec!["replay.db".to_owned()],
            Workload::Files(_) => vec![files::name(worker_index)],
            Workload::FileTrace(_) => vec![file_trace::FOLDER.to_owned()],
        }
    }

    /// The names of a worker's databases on its connection.
    pub fn schemas(&self) -> Vec<String> {
        match self {
            Workload::Mobibench(mobibench) => mobibench.schemas().collect(),
            _ => vec!["main".to_owned()],
        }
    }

    /// Whether all connections work on the same database.
    pub fn shares_database(&self) -> bool {
        !matches!(self, Workload::Mobibench(_) | Workload::Files(_))
    }

    /// Whether the databases are closed but for a connection's own opening and closing.
    pub fn reopens(&self) -> bool {
        matches!(self, Workload::Reopen)
    }

    pub fn is_without_sqlite(&self) -> bool {
        matches!(self, Workload::Files(_) | Workload::FileTrace(_))
    }

    /// Whether SQLite takes part: without it, a workload has modes of its own.
    pub fn fits(&self, mode: &Mode) -> bool {
        self.is_without_sqlite() == mode.is_files()
    }

    /// What its figures are counted in.
    pub fn unit(&self) -> Unit {
        match self {
            Workload::Reopen => Unit::Cycle,
            Workload::Reads(_) => Unit::Read,
            Workload::Files(files) => files.unit(),
            Workload::FileTrace(_) => Unit::Sync,
            _ => Unit::Transaction,
        }
    }

    /// That are written or read for a unit, where each has as many, or in the mean.
    pub fn bytes_per_unit(&self) -> Option<f64> {
        match self {
            Workload::Files(files) => Some(files.unit_bytes() as f64),
            Workload::FileTrace(trace) => Some(trace.bytes_per_unit()),
            _ => None,
        }
    }

    /// A connection that is there beside the workers.
    pub fn companion(&self) -> Option<Task> {
        match self {
            Workload::Reads(reads) => {
                reads.beside_writer.map(|interval| Task::Write { rows: reads::ROWS, interval })
            }
            Workload::LongReader(long_reader) => Some(long_reader.companion()),
            _ => None,
        }
    }

    /// The ends of the parts of the run that have figures of their own, since its begin. Empty: it
    /// has no parts.
    pub fn phase_ends(&self) -> Vec<Duration> {
        match self {
            Workload::LongReader(long_reader) => long_reader.phase_ends().to_vec(),
            _ => Vec::new(),
        }
    }

    /// How many transactions a measured slice has; `asked` is what the user asked for.
    pub fn transactions(&self, mode: &Mode, connections: u32, asked: Option<u64>) -> u64 {
        match (self, mode.journal) {
            // Limited by time.
            (Workload::LongReader(_), _) => u64::MAX,
            (Workload::FileTrace(trace), _) => trace.totals.syncs,
            (Workload::Reads(reads), _) => asked.unwrap_or(reads.default_count()),
            (Workload::Files(files), _) => {
                asked.or(files.default_count()).unwrap_or(TRANSACTIONS_DEFAULT)
            }
            // As in Mobibench, every thread does the same number; it is part of its meaning.
            (Workload::Mobibench(_), _) => {
                let of_each = asked.unwrap_or(TRANSACTIONS_DEFAULT) / u64::from(connections);
                of_each.max(1) * u64::from(connections)
            }
            (Workload::Table(_), Journal::WalGrowing) => {
                asked.unwrap_or(GROWING_TRANSACTIONS_DEFAULT)
            }
            _ => asked.unwrap_or(TRANSACTIONS_DEFAULT),
        }
    }

    /// Makes schema and first rows through `connection`, which has the databases of worker
    /// `worker_index` attached.
    pub fn set_up(
        &self,
        connection: &Connection,
        connections: u32,
        transactions: u64,
    ) -> Result<BTreeMap<String, u64>, WorkloadError> {
        match self {
            Workload::Table(operation) => {
                operation.set_up(connection, connections, transactions)?
            }
            Workload::Reopen | Workload::LongReader(_) => {
                Operation::Insert.set_up(connection, connections, transactions)?
            }
            Workload::Reads(_) => Reads::set_up(connection)?,
            Workload::Mobibench(mobibench) => mobibench.set_up(connection, transactions)?,
            Workload::Replay(replay) => return replay.set_up(connection),
            // They have no connection.
            Workload::Files(_) | Workload::FileTrace(_) => {}
        }
        Ok(BTreeMap::new())
    }

    /// What has to be in the WAL when the measurement begins, after `database::prepare_wal`.
    pub fn fill_wal(&self, connection: &Connection) -> Result<(), WorkloadError> {
        match self {
            Workload::Reads(reads) => reads.fill_wal(connection),
            _ => Ok(()),
        }
    }

    /// Counts rows after a slice: a benchmark that lost transactions must not report them.
    pub fn verify(
        &self,
        connection: &Connection,
        connections: u32,
        transactions: u64,
    ) -> Result<(), WorkloadError> {
        match self {
            Workload::Table(operation) => operation.verify(connection, connections, transactions),
            Workload::Reopen => reopen::verify(connection, transactions),
            Workload::LongReader(_) => {
                Operation::Insert.verify(connection, connections, transactions)
            }
            Workload::Mobibench(mobibench) => mobibench.verify(connection, transactions),
            // Every read checks what it reads.
            Workload::Reads(_)
            | Workload::Replay(_)
            | Workload::Files(_)
            | Workload::FileTrace(_) => Ok(()),
        }
    }

    /// In words, for the report's head.
    pub fn describe(&self) -> String {
        match self {
            Workload::Table(operation) => operation.describe(),
            Workload::Reopen => {
                format!(
                    "open, commit {} rows one by one, close, nobody else there",
                    reopen::COMMITS_PER_CYCLE
                )
            }
            Workload::Reads(reads) => reads.describe(),
            Workload::LongReader(long_reader) => long_reader.describe(),
            Workload::Mobibench(mobibench) => mobibench.describe(),
            Workload::Replay(replay) => replay.describe(),
            Workload::Files(files) => files.describe(),
            Workload::FileTrace(trace) => trace.describe(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error(
    "unknown workload \"{word}\"; it is one of: {}, attached=N with N from 2 to {ATTACHED_MAX}",
    Workload::WORDS.join(", ")
)]
pub struct UnknownWorkload {
    word: String,
}

/// `main` and the ten that SQLite attaches at most.
const ATTACHED_MAX: u32 = 11;

impl FromStr for Workload {
    type Err = UnknownWorkload;

    fn from_str(word: &str) -> Result<Workload, UnknownWorkload> {
        let reads = |access| Workload::Reads(Reads { access, beside_writer: None });
        Ok(match word.to_ascii_lowercase().as_str() {
            "insert" => Workload::Table(Operation::Insert),
            "update" => Workload::Table(Operation::Update),
            "delete" => Workload::Table(Operation::Delete),
            "mixed" => Workload::Table(Operation::Mixed),
            "indexed" => Workload::Table(Operation::Indexed),
            "one-page" => Workload::Table(Operation::OnePage),
            "reopen" => Workload::Reopen,
            "point" => reads(Access::Point),
            "point-in-wal" => reads(Access::PointInWal),
            "scan" => reads(Access::Scan),
            "long-reader" => Workload::LongReader(LongReader { hold: LongReader::DEFAULT_HOLD }),
            other => match (attached(other), Files::find(other)) {
                (Some(databases), _) => Workload::Mobibench(Mobibench::of_databases(databases)),
                (None, Some(files)) => Workload::Files(files),
                (None, None) => return Err(UnknownWorkload { word: word.to_owned() }),
            },
        })
    }
}

/// The number in `attached=5`: so many databases in each transaction.
fn attached(word: &str) -> Option<u32> {
    let databases = word.strip_prefix("attached=")?.parse().ok()?;
    (2..=ATTACHED_MAX).contains(&databases).then_some(databases)
}

/// Opens worker `spec.index`'s connection and prepares its transactions.
pub fn open_stream(spec: &WorkerSpec) -> Result<Box<dyn Stream>, WorkloadError> {
    let part = spec.part();
    let open = || open_databases(&spec.workload, &spec.directory, &spec.mode, spec.index);
    Ok(match &spec.workload {
        Workload::Reopen => {
            let path = spec.directory.join(&spec.workload.databases(spec.index)[0]);
            Box::new(reopen::ReopenStream::new(path, spec.mode.clone(), part))
        }
        Workload::Reads(reads) => Box::new(reads::ReadsStream::new(open()?, *reads, part)?),
        Workload::LongReader(long_reader) => {
            Box::new(long_reader::LongReaderStream::new(open()?, *long_reader, part))
        }
        Workload::Table(operation) => Box::new(table::TableStream::new(open()?, *operation, part)),
        Workload::Mobibench(mobibench) => Box::new(mobibench::MobibenchStream::new(
            open()?,
            mobibench.clone(),
            spec.mode.clone(),
            part,
        )),
        Workload::Replay(replay) => {
            Box::new(replay::ReplayStream::new(open()?, replay.statements_of(spec.index)?))
        }
        Workload::Files(files) => {
            let path = spec.directory.join(files::name(spec.index));
            Box::new(files::FilesStream::new(path, *files, part)?)
        }
        Workload::FileTrace(trace) => {
            let folder = spec.directory.join(file_trace::FOLDER);
            Box::new(file_trace::PlayStream::new(trace, &folder)?)
        }
    })
}

/// Opens the databases of one worker over one connection, in the given mode.
pub fn open_databases(
    workload: &Workload,
    directory: &Path,
    mode: &Mode,
    worker_index: u32,
) -> Result<Connection, DatabaseError> {
    let files = workload.databases(worker_index);
    let connection = database::open(&directory.join(&files[0]), mode)?;
    for (at, file) in files.iter().enumerate().skip(1) {
        database::attach(&connection, &directory.join(file), &format!("db{at}"), mode)?;
    }
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_differ_by_at_most_one() {
        for (total, connections) in [(10, 3), (2, 4), (0, 1), (1000, 16)] {
            let shares: Vec<u64> =
                (0..connections).map(|index| share(total, connections, index)).collect();
            assert_eq!(shares.iter().sum::<u64>(), total);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_growing_wal_is_measured_over_its_first_thousand_transactions_or_as_many_as_asked() {
        let (growing, insert) =
            (Mode::new(Journal::WalGrowing), Workload::Table(Operation::Insert));
        assert_eq!(insert.transactions(&growing, 1, None), 1000);
        assert_eq!(insert.transactions(&growing, 1, Some(10_000)), 10_000);
        assert_eq!(insert.transactions(&Mode::new(Journal::Wal), 1, None), 2000);
    }

    #[test]
    fn every_word_of_a_workload_is_understood_and_another_is_answered_with_all_of_them() {
        for word in Workload::WORDS {
            assert!(word.parse::<Workload>().is_ok(), "{word}");
        }
        for databases in [2, 5, 11] {
            let workload: Workload = format!("attached={databases}").parse().unwrap();
            assert_eq!(workload.databases(0).len(), databases);
        }
        for wrong in ["attached", "attached=1", "attached=12", "attached=two"] {
            let message = wrong.parse::<Workload>().unwrap_err().to_string();
            assert!(message.contains("from 2 to 11"), "{message}");
        }
        let message = "select".parse::<Workload>().unwrap_err().to_string();
        assert!(
            message.contains("\"select\"")
                && message.contains("reopen, point, point-in-wal, scan, long-reader"),
            "{message}"
        );
    }
}
