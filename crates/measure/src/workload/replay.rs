//! Replays SQL that was recorded from an application: `loading.sql` makes the database, then
//! `0.sql`, `1.sql`, … run at the same time, one connection each.
//!
//! A recording is one statement a line, with or without a `;` at its end. Statements that fail (an
//! application's own failures, a collation that only the phone has, …) are counted by their
//! message and skipped. What two connections leave behind depends on who was faster; `serial` runs
//! the files one after the other on one connection, and then the final contents are the same every
//! time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection};
use serde::{Deserialize, Serialize};

pub use super::error::ReplayError;
use super::{Step, Stream, WorkloadError};
use crate::clock;

const LOADING: &str = "loading.sql";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// The directory that holds the recording.
    pub directory: PathBuf,
    /// One connection runs the files one after the other.
    pub serial: bool,
    /// How many numbered files there are.
    pub files: u32,
}

impl Replay {
    /// Reads all files once, so that a recording that cannot run is refused before anything is
    /// made.
    pub fn open(directory: &Path, serial: bool) -> Result<Replay, ReplayError> {
        let database = Connection::open_in_memory()?;
        let loading = directory.join(LOADING);
        refuse_if_not_sql(&loading, &read_lines(&loading)?, |line| {
            run_line(&database, line, &mut |_, _| {})
        })?;
        let mut files = 0;
        loop {
            let path = directory.join(format!("{files}.sql"));
            // The first is read even where it is missing: the error names it.
            if files > 0 && !path.exists() {
                break;
            }
            refuse_if_not_sql(&path, &read_lines(&path)?, |line| prepare_line(&database, line))?;
            files += 1;
        }
        Ok(Replay { directory: directory.to_owned(), serial, files })
    }

    /// How many connections the replay has.
    pub fn connections(&self) -> u32 {
        if self.serial { 1 } else { self.files }
    }

    pub(super) fn set_up(
        &self,
        connection: &Connection,
    ) -> Result<BTreeMap<String, u64>, WorkloadError> {
        let mut failures = Failures::default();
        // One transaction: the recording's tables, not its first commits, are wanted here.
        connection.execute_batch("BEGIN")?;
        for line in read_lines(&self.directory.join(LOADING))? {
            match run_line(connection, &line, &mut |_, _| {}) {
                Err(error) if !is_fatal(&error) => failures.count(&error),
                other => other?,
            }
        }
        if !connection.is_autocommit() {
            connection.execute_batch("COMMIT")?;
        }
        Ok(failures.by_message)
    }

    pub(super) fn statements_of(&self, worker_index: u32) -> Result<Vec<String>, ReplayError> {
        let files = if self.serial { 0..self.files } else { worker_index..worker_index + 1 };
        let mut lines = Vec::new();
        for file in files {
            lines.extend(read_lines(&self.directory.join(format!("{file}.sql")))?);
        }
        Ok(lines)
    }

    pub(super) fn describe(&self) -> String {
        let name = self.directory.file_name().unwrap_or(self.directory.as_os_str());
        let how = if self.serial { ", one after the other" } else { " at the same time" };
        format!(
            "replay of {}, {} files{}",
            name.to_string_lossy(),
            self.files,
            if self.files > 1 { how } else { "" }
        )
    }
}

/// The lines that hold anything, without their line ends.
fn read_lines(path: &Path) -> Result<Vec<String>, ReplayError> {
    let read_error = |source| ReplayError::Read { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(read_error)?;
    let mut lines = Vec::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let text = std::str::from_utf8(line);
        let text =
            text.map_err(|_| ReplayError::NotText { path: path.to_owned(), line: at + 1 })?.trim();
        if !text.is_empty() {
            lines.push(text.to_owned());
        }
    }
    if lines.is_empty() { Err(ReplayError::Empty { path: path.to_owned() }) } else { Ok(lines) }
}

fn refuse_if_not_sql(
    path: &Path,
    lines: &[String],
    mut accept: impl FnMut(&str) -> Result<(), rusqlite::Error>,
) -> Result<(), ReplayError> {
    let mut first = None;
    let mut accepted = false;
    for line in lines {
        match accept(line) {
            Ok(()) => accepted = true,
            Err(error) => first = first.or_else(|| Some(error.to_string())),
        }
    }
    match first {
        Some(first) if !accepted => {
            Err(ReplayError::NotSql { path: path.to_owned(), lines: lines.len(), first })
        }
        _ => Ok(()),
    }
}

fn prepare_line(connection: &Connection, line: &str) -> Result<(), rusqlite::Error> {
    Batch::new(connection, line).next().map(|_| ())
}

/// Runs every statement of a line to its end and tells `after` what it took and whether it could
/// write.
fn run_line(
    connection: &Connection,
    line: &str,
    after: &mut dyn FnMut(u64, bool),
) -> Result<(), rusqlite::Error> {
    let mut batch = Batch::new(connection, line);
    loop {
        let begin_ns = clock::now_ns();
        let Some(mut statement) = batch.next()? else { return Ok(()) };
        let mut rows = statement.raw_query();
        while rows.next()?.is_some() {}
        drop(rows);
        after(clock::now_ns() - begin_ns, !statement.readonly());
    }
}

/// Failures of the machine, not of the statement: going on would report a run that did not happen.
fn is_fatal(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, OutOfMemory, ReadOnly, SystemIoFailure,
    };
    error.sqlite_error_code().is_some_and(|code| {
        matches!(
            code,
            CannotOpen
                | DatabaseCorrupt
                | DiskFull
                | NotADatabase
                | OutOfMemory
                | ReadOnly
                | SystemIoFailure
        )
    })
}

#[derive(Default)]
struct Failures {
    by_message: BTreeMap<String, u64>,
}

impl Failures {
    fn count(&mut self, error: &rusqlite::Error) {
        // The message of a statement that does not parse also quotes the statement. One line would
        // become a thousand.
        let message = match error {
            rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
            rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
            other => other.to_string(),
        };
        *self.by_message.entry(message).or_default() += 1;
    }
}

pub struct ReplayStream {
    connection: Connection,
    lines: std::vec::IntoIter<String>,
    failures: Failures,
    /// What the open transaction's BEGIN took.
    begin_ns: u64,
    /// `sqlite3_total_changes` when the current transaction began.
    changes_before: u64,
}

impl ReplayStream {
    pub fn new(connection: Connection, lines: Vec<String>) -> ReplayStream {
        let changes_before = connection.total_changes();
        ReplayStream {
            connection,
            lines: lines.into_iter(),
            failures: Failures::default(),
            begin_ns: 0,
            changes_before,
        }
    }
}

impl Stream for ReplayStream {
    /// Runs one line. It has committed if no transaction is open behind it, and rows or the schema
    /// changed since the last commit.
    fn step(&mut self) -> Result<Step, WorkloadError> {
        let Some(line) = self.lines.next() else { return Ok(Step::Finished) };
        let was_open = !self.connection.is_autocommit();
        let mut latency_ns = 0;
        let mut schema_changed = false;
        let outcome = run_line(&self.connection, &line, &mut |ns, writes| {
            latency_ns = ns;
            schema_changed |= writes && changes_schema(&line);
        });
        if let Err(error) = outcome {
            if is_fatal(&error) {
                return Err(error.into());
            }
            self.failures.count(&error);
        }
        if !self.connection.is_autocommit() {
            if !was_open {
                self.begin_ns = latency_ns;
            }
            return Ok(Step::NothingWritten);
        }
        let changes = self.connection.total_changes();
        let committed = changes != self.changes_before || schema_changed;
        let waited_ns = if was_open { self.begin_ns } else { 0 };
        self.changes_before = changes;
        Ok(if committed {
            Step::Done { latency_ns: latency_ns + waited_ns }
        } else {
            Step::NothingWritten
        })
    }

    fn finish(&mut self) -> Result<(), WorkloadError> {
        // A recording may have been cut inside a transaction.
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    fn failures(&self) -> BTreeMap<String, u64> {
        self.failures.by_message.clone()
    }

    fn connection(&self) -> Option<&Connection> {
        Some(&self.connection)
    }
}

fn changes_schema(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    ["CREATE", "DROP", "ALTER"].iter().any(|word| first.eq_ignore_ascii_case(word))
}
