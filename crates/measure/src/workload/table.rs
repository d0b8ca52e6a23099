//! The plain workload: one table, and one row of 100 bytes a transaction. It has `AUTOINCREMENT`,
//! as most applications' schemas do. Its counter is a second page that every insert changes.
//!
//! `indexed` is the expensive neighbour. It has the same row with five columns of random integers,
//! each with an index, in a table of 100,000 rows. A commit changes seven pages, five of them in
//! random places.
//!
//! `one-page` is the cheap one: the same row in a table without `AUTOINCREMENT`. Its keys are
//! sequential, so a commit changes the last page alone, unless that is full.
//!
//! All connections share the table. Each owns the rows whose id has its remainder. So every update
//! and delete finds its row whatever the others do, and the row count can be checked.

use std::collections::BTreeMap;
use std::fmt;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::{Step, Stream, WorkloadError, random_value};
use crate::clock;

/// Rows before an update or mixed workload. They take some 300 pages, so two in a row seldom meet
/// in one.
const FIRST_ROWS: u64 = 10_000;

/// Rows before `indexed`.
const INDEXED_ROWS: u64 = 100_000;

const INDEXED_TABLE: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT, a INTEGER, b INTEGER, c INTEGER, \
    d INTEGER, e INTEGER);
    CREATE INDEX ia ON t(a); CREATE INDEX ib ON t(b); CREATE INDEX ic ON t(c); CREATE INDEX id ON \
    t(d); CREATE INDEX ie ON t(e);";

const INSERT: &str = "INSERT INTO t(v) VALUES(?1)";
const INSERT_INDEXED: &str = "INSERT INTO t(v, a, b, c, d, e) VALUES(?1, ?2, ?3, ?4, ?5, ?6)";

/// Keys for the five indexes.
fn random_keys(random: &mut fastrand::Rng) -> [i64; 5] {
    std::array::from_fn(|_| random.i64(..))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Insert,
    Update,
    Delete,
    /// Of four transactions, two insert, one updates and one deletes.
    Mixed,
    /// Inserts into a table with five indexes.
    Indexed,
    /// Inserts into a table without `AUTOINCREMENT`.
    OnePage,
}

impl Operation {
    const ALL: [(Operation, &str); 6] = [
        (Operation::Insert, "insert"),
        (Operation::Update, "update"),
        (Operation::Delete, "delete"),
        (Operation::Mixed, "mixed"),
        (Operation::Indexed, "indexed"),
        (Operation::OnePage, "one-page"),
    ];

    /// Rows before the measurement.
    fn first_rows(self, connections: u32, transactions: u64) -> u64 {
        // A worker deletes at most its own rows: an even share each, rounded up.
        let own_rows = |rows: u64| rows.div_ceil(u64::from(connections)) * u64::from(connections);
        match self {
            Operation::Insert | Operation::OnePage => 0,
            Operation::Update => own_rows(FIRST_ROWS),
            Operation::Delete => own_rows(transactions),
            Operation::Mixed => own_rows(FIRST_ROWS.max(transactions)),
            Operation::Indexed => INDEXED_ROWS,
        }
    }

    pub(super) fn set_up(
        self,
        connection: &Connection,
        connections: u32,
        transactions: u64,
    ) -> Result<(), WorkloadError> {
        let (table, insert) = match self {
            Operation::Indexed => (INDEXED_TABLE, INSERT_INDEXED),
            Operation::OnePage => ("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", INSERT),
            _ => ("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)", INSERT),
        };
        connection.execute_batch(table)?;
        let rows = self.first_rows(connections, transactions);
        if rows > 0 {
            let mut random = fastrand::Rng::with_seed(u64::MAX);
            connection.execute_batch("BEGIN")?;
            let mut insert = connection.prepare(insert)?;
            for _ in 0..rows {
                let value = random_value(&mut random);
                if self == Operation::Indexed {
                    let [a, b, c, d, e] = random_keys(&mut random);
                    insert.execute((value, a, b, c, d, e))?;
                } else {
                    insert.execute([value])?;
                }
            }
            connection.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    pub(super) fn verify(
        self,
        connection: &Connection,
        connections: u32,
        transactions: u64,
    ) -> Result<(), WorkloadError> {
        let count = "SELECT count(*) FROM t";
        let rows = connection.query_row(count, [], |row| row.get::<_, i64>(0))? as u64;
        let first = self.first_rows(connections, transactions);
        let expected = match self {
            Operation::Insert | Operation::OnePage => transactions..=transactions,
            Operation::Update => first..=first,
            Operation::Delete => first - transactions..=first - transactions,
            // The draw decides; it never deletes more than it can.
            Operation::Mixed => first.saturating_sub(transactions)..=first + transactions,
            Operation::Indexed => first + transactions..=first + transactions,
        };
        if expected.contains(&rows) {
            return Ok(());
        }
        Err(WorkloadError::Contents(format!(
            "table t has {rows} rows after {transactions} {self} transactions; {} were expected",
            expected.start()
        )))
    }

    pub(super) fn describe(self) -> String {
        match self {
            Operation::Insert => "insert one row of 100 bytes a transaction",
            Operation::OnePage => {
                "insert one row of 100 bytes a transaction, which changes one page"
            }
            Operation::Update => "update one row of 100 bytes a transaction",
            Operation::Delete => "delete one row of 100 bytes a transaction",
            Operation::Mixed => "insert (1/2), update (1/4) or delete (1/4) one row a transaction",
            Operation::Indexed => {
                "insert one row with five random index keys a transaction, 100,000 rows before"
            }
        }
        .to_owned()
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            Self::ALL.iter().find(|(operation, _)| operation == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

pub struct TableStream {
    connection: Connection,
    operation: Operation,
    random: fastrand::Rng,
    left: u64,
    /// The rows that this worker may update or delete.
    own: Vec<i64>,
}

impl TableStream {
    pub fn new(connection: Connection, operation: Operation, part: Part) -> TableStream {
        let rows = operation.first_rows(part.connections, part.transactions);
        let is_own = |id: &i64| {
            operation != Operation::Indexed
                && id % i64::from(part.connections) == i64::from(part.index)
        };
        let own = (1..=rows as i64).filter(is_own).collect();
        TableStream {
            connection,
            operation,
            random: fastrand::Rng::with_seed(u64::from(part.index)),
            left: part.share(),
            own,
        }
    }

    fn draw(&mut self) -> Operation {
        match self.operation {
            Operation::Mixed => match self.random.u32(0..4) {
                0 if !self.own.is_empty() => Operation::Delete,
                1 if !self.own.is_empty() => Operation::Update,
                _ => Operation::Insert,
            },
            operation => operation,
        }
    }
}

impl Stream for TableStream {
    fn step(&mut self) -> Result<Step, WorkloadError> {
        if self.left == 0 {
            return Ok(Step::Finished);
        }
        self.left -= 1;
        let operation = self.draw();
        let value = random_value(&mut self.random);
        let own_at = if self.own.is_empty() { 0 } else { self.random.usize(0..self.own.len()) };
        let begin_ns;
        let changed = match operation {
            Operation::Update => {
                let mut update =
                    self.connection.prepare_cached("UPDATE t SET v = ?1 WHERE id = ?2")?;
                begin_ns = clock::now_ns();
                update.execute((value, self.own[own_at]))?
            }
            Operation::Delete => {
                let id = self.own.swap_remove(own_at);
                let mut delete = self.connection.prepare_cached("DELETE FROM t WHERE id = ?1")?;
                begin_ns = clock::now_ns();
                delete.execute([id])?
            }
            Operation::Insert | Operation::OnePage | Operation::Mixed => {
                let mut insert = self.connection.prepare_cached(INSERT)?;
                begin_ns = clock::now_ns();
                insert.execute([value])?
            }
            Operation::Indexed => {
                let [a, b, c, d, e] = random_keys(&mut self.random);
                let mut insert = self.connection.prepare_cached(INSERT_INDEXED)?;
                begin_ns = clock::now_ns();
                insert.execute((value, a, b, c, d, e))?
            }
        };
        let latency_ns = clock::now_ns() - begin_ns;
        if operation == Operation::Insert && self.operation == Operation::Mixed {
            self.own.push(self.connection.last_insert_rowid());
        }
        if changed != 1 {
            return Err(WorkloadError::Contents(format!(
                "a {operation} changed {changed} rows instead of 1"
            )));
        }
        Ok(Step::Done { latency_ns })
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
