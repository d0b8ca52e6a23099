//! Mobibench's database mode, so that results compare with the literature's.
//!
//! Every worker has databases of its own, `test.dbT_D`, and attaches all but the first. A
//! transaction is one text, `BEGIN; … COMMIT;`, with one statement for each table of each database.
//! WAL databases are checkpointed at the end, inside the measured time.
//!
//! Differences to Mobibench: an update always hits a row (its ids start at 1 there, the rows' at
//! 0), and rows are never left from an earlier run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::{Operation, Step, Stream, WorkloadError};
use crate::clock;
use crate::database;
use crate::mode::Mode;

/// As in Mobibench, the ten letters from `a` and from `f`, each ten times.
const INSERT_LETTERS: &str = "abcdefghij";
const UPDATE_LETTERS: &str = "fghijabcde";
/// Rows that fill the smallest table which updates and deletes work on: 8 pages of 37 rows.
const FIRST_ROWS_MIN: u64 = 8 * 37;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mobibench {
    /// `-d`: update, delete, or any other for insert.
    pub operation: Operation,
    /// `-T`, 1 to 20.
    pub tables: u32,
    /// `-D`, 1 to 20, for each worker.
    pub databases: u32,
    /// `-i`: the wait after each transaction.
    pub interval_ms: u64,
    /// `-R`: ids of inserted rows in random order.
    pub random_insert: bool,
}

impl Mobibench {
    /// Inserts of a row into one table of each of so many databases.
    pub const fn of_databases(databases: u32) -> Mobibench {
        Mobibench {
            operation: Operation::Insert,
            tables: 1,
            databases,
            interval_ms: 0,
            random_insert: false,
        }
    }

    pub(super) fn databases(&self, worker_index: u32) -> Vec<String> {
        (0..self.databases).map(|at| format!("test.db{worker_index}_{at}")).collect()
    }

    /// Rows of each table before the measurement.
    fn first_rows(&self, transactions: u64) -> u64 {
        match self.operation {
            Operation::Update | Operation::Delete => transactions.max(FIRST_ROWS_MIN),
            _ => 0,
        }
    }

    pub(super) fn set_up(
        &self,
        connection: &Connection,
        transactions: u64,
    ) -> Result<(), WorkloadError> {
        let value = letters(INSERT_LETTERS);
        connection.execute_batch("BEGIN")?;
        for schema in self.schemas() {
            for table in 0..self.tables {
                let name = format!("{schema}.tblMyList{table}");
                connection.execute_batch(&format!(
                    "CREATE TABLE {name} (id INTEGER PRIMARY KEY, Value TEXT not null, \
                        creation_date long)"
                ))?;
                let mut insert =
                    connection.prepare(&format!("INSERT INTO {name}(id, Value) VALUES(?1, ?2)"))?;
                for id in 0..self.first_rows(transactions) {
                    insert.execute((id as i64, &value))?;
                }
            }
        }
        connection.execute_batch("COMMIT")?;
        Ok(())
    }

    pub(super) fn verify(
        &self,
        connection: &Connection,
        transactions: u64,
    ) -> Result<(), WorkloadError> {
        let first = self.first_rows(transactions);
        let expected = match self.operation {
            Operation::Update => first,
            Operation::Delete => first - transactions,
            _ => transactions,
        };
        for schema in self.schemas() {
            for table in 0..self.tables {
                let count = format!("SELECT count(*) FROM {schema}.tblMyList{table}");
                let rows = connection.query_row(&count, [], |row| row.get::<_, i64>(0))? as u64;
                if rows != expected {
                    return Err(WorkloadError::Contents(format!(
                        "{schema}.tblMyList{table} has {rows} rows after {transactions} \
                            transactions; \
                         {expected} were expected"
                    )));
                }
            }
        }
        Ok(())
    }

    pub(super) fn schemas(&self) -> impl Iterator<Item = String> {
        (0..self.databases).map(schema)
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "Mobibench {}, {} table{}, {} database{} a thread{}{}",
            self.operation,
            self.tables,
            plural(self.tables),
            self.databases,
            plural(self.databases),
            if self.random_insert { ", random ids" } else { "" },
            if self.interval_ms > 0 {
                format!(", {} ms between", self.interval_ms)
            } else {
                String::new()
            },
        )
    }
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn schema(at: u32) -> String {
    if at == 0 { "main".to_owned() } else { format!("db{at}") }
}

fn letters(which: &str) -> String {
    which.chars().flat_map(|letter| std::iter::repeat_n(letter, 10)).collect()
}

pub struct MobibenchStream {
    connection: Connection,
    mobibench: Mobibench,
    mode: Mode,
    random: fastrand::Rng,
    insert_value: String,
    update_value: String,
    first_rows: u64,
    done: u64,
    share: u64,
    /// For each database the ids in the order of their use: sampling without replacement.
    ids: Vec<Vec<u64>>,
    text: String,
}

impl MobibenchStream {
    pub fn new(
        connection: Connection,
        mobibench: Mobibench,
        mode: Mode,
        part: Part,
    ) -> MobibenchStream {
        let share = part.share();
        let first_rows = mobibench.first_rows(share);
        let mut random = fastrand::Rng::with_seed(u64::from(part.index));
        let ids = (0..mobibench.databases)
            .map(|_| {
                let mut ids: Vec<u64> = (0..first_rows.max(share)).collect();
                if mobibench.random_insert || mobibench.operation == Operation::Delete {
                    random.shuffle(&mut ids);
                }
                ids
            })
            .collect();
        MobibenchStream {
            connection,
            mode,
            random,
            insert_value: letters(INSERT_LETTERS),
            update_value: letters(UPDATE_LETTERS),
            first_rows,
            done: 0,
            share,
            ids,
            text: String::new(),
            mobibench,
        }
    }

    /// The next transaction's text.
    fn compose(&mut self) -> std::fmt::Result {
        self.text.clear();
        self.text.push_str("BEGIN;");
        for database in 0..self.mobibench.databases {
            let schema = schema(database);
            let id = self.ids[database as usize][self.done as usize];
            for table in 0..self.mobibench.tables {
                match self.mobibench.operation {
                    Operation::Update => write!(
                        self.text,
                        "UPDATE {schema}.tblMyList{table} SET Value = '{}' WHERE id = {};",
                        self.update_value,
                        self.random.u64(0..self.first_rows)
                    )?,
                    Operation::Delete => {
                        write!(self.text, "DELETE FROM {schema}.tblMyList{table} WHERE id={id};")?;
                    }
                    _ => write!(
                        self.text,
                        "INSERT INTO {schema}.tblMyList{table}(id,Value) VALUES({id},'{}');",
                        self.insert_value
                    )?,
                }
            }
        }
        self.text.push_str("COMMIT;");
        Ok(())
    }
}

impl Stream for MobibenchStream {
    fn step(&mut self) -> Result<Step, WorkloadError> {
        if self.done == self.share {
            return Ok(Step::Finished);
        }
        if self.done > 0 && self.mobibench.interval_ms > 0 {
            std::thread::sleep(Duration::from_millis(self.mobibench.interval_ms));
        }
        self.compose()
            .map_err(|_| WorkloadError::Contents("a statement could not be composed".to_owned()))?;
        self.done += 1;
        let begin_ns = clock::now_ns();
        self.connection.execute_batch(&self.text)?;
        Ok(Step::Done { latency_ns: clock::now_ns() - begin_ns })
    }

    fn finish(&mut self) -> Result<(), WorkloadError> {
        if self.mode.journal.is_wal() {
            for schema in self.mobibench.schemas() {
                database::checkpoint(&self.connection, &schema, "PASSIVE")?;
            }
        }
        Ok(())
    }

    fn failures(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    fn connection(&self) -> Option<&Connection> {
        Some(&self.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_mobibenchs_hundred_bytes() {
        assert_eq!(letters(INSERT_LETTERS).len(), 100);
        assert!(letters(INSERT_LETTERS).starts_with("aaaaaaaaaabbbbbbbbbb"));
        assert!(letters(UPDATE_LETTERS).starts_with("ffffffffffgggggggggg"));
    }
}
