//! What a commit of the trial is: one row of the user's largest table goes to the table's end. The
//! largest has the most pages ([`pages`]), unless the user names one.
//!
//! ```text
//! UPDATE "messages" SET rowid = ?1 WHERE rowid = ?2
//! ```
//!
//! So a commit changes what a row of theirs is in: two pages of the table, and of each index those
//! with the row's entry. No value changes, so that no `UNIQUE` can be in the way, and the table
//! keeps its size however long the trial lasts. Triggers, foreign keys and `CHECK` are off: what
//! they do is the program's.
//!
//! A table is taken if it has [`ROWS_MIN`] rows and the statement works. Where none is (few rows,
//! `WITHOUT ROWID`, virtual tables, a collation that only the program has), the row is one of 100
//! bytes in a table of our own.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension};

use super::copy::check_interrupt;
use super::pages::{self, Pages};
use super::{Commit, TrialError};
use crate::clock;
use crate::workload::random_value;

/// With fewer, all are in a few pages.
const ROWS_MIN: u64 = 200;
/// Counting more rows than this takes time and decides little.
const COUNTED_MAX: u64 = 100_000;
/// Rows that are moved, spread over the table.
const SAMPLE: u64 = 4_000;
/// Looking for rows and reading their pages once takes no longer.
const LOOKING: Duration = Duration::from_secs(1);

const OWN_TABLE: &str = "oneflush_try";
const OWN_ROWS: u64 = 10_000;

/// Beyond these bytes a WAL is not filled. With pages of 4 KiB it needs an eighth.
const FILLER_BYTES_MAX: u64 = 32 << 20;
/// More than the 1,000 frames of an automatic checkpoint.
const FILLER_ROWS: u64 = 1_100;
const FILLER: &str = "oneflush_try_filler";

pub struct Work {
    pub commit: Commit,
    sql: String,
    /// Of the rows that are moved, where they are now.
    rows: Vec<i64>,
    next: AtomicI64,
}

/// What one writer moves.
pub struct Share<'a> {
    work: &'a Work,
    rows: Vec<i64>,
    at: usize,
}

/// As the trial's connections have to be.
pub fn adapt(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.execute_batch("PRAGMA ignore_check_constraints=ON")
}

impl Work {
    /// Looks for a table, and makes what the trial needs beside it. `asked`: the table that is to
    /// be taken.
    pub fn choose(
        connection: &Connection,
        page_bytes: u64,
        asked: Option<&str>,
    ) -> Result<Work, ChooseError> {
        let work = match theirs(connection, asked)? {
            Some(work) => work,
            None => own(connection)?,
        };
        let rows = FILLER_ROWS.min(FILLER_BYTES_MAX / page_bytes);
        connection.execute_batch(&format!(
            "BEGIN;
             CREATE TABLE {FILLER}(filler BLOB);
             WITH RECURSIVE counter(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM counter \
             WHERE n < {rows})
             INSERT INTO {FILLER} SELECT zeroblob({}) FROM counter;
             COMMIT;",
            page_bytes - page_bytes / 32
        ))?;
        Ok(work)
    }

    /// Makes the WAL as long as it is in a program that has run for a while, and a log as well. The
    /// values are new: SQLite writes no page that is as it was. In two transactions, because one of
    /// more than 4 MiB goes past `eager`'s log.
    pub fn fill_wal(connection: &Connection) -> rusqlite::Result<()> {
        for half in 0..2 {
            let sql = format!(
                "UPDATE {FILLER} SET filler = randomblob(length(filler)) WHERE rowid % 2 = ?1"
            );
            connection.execute(&sql, [half])?;
        }
        Ok(())
    }

    /// One part for each writer.
    pub fn shares(&self, writers: u32) -> Vec<Share<'_>> {
        let writers = writers as usize;
        let of = |writer| self.rows.iter().copied().skip(writer).step_by(writers).collect();
        (0..writers).map(|writer| Share { work: self, rows: of(writer), at: 0 }).collect()
    }

    pub fn take_back(&mut self, rows: Vec<i64>) {
        self.rows = rows;
    }

    /// How many of the rows are where the commits left them.
    pub fn found(&self, connection: &Connection) -> rusqlite::Result<usize> {
        let (table, rowid) = (&self.commit.quoted, self.commit.rowid);
        let mut there = connection.prepare(&format!("SELECT 1 FROM {table} WHERE {rowid} = ?1"))?;
        let mut found = 0;
        for row in &self.rows {
            found += usize::from(there.exists([row])?);
        }
        Ok(found)
    }

    pub fn rows(&self) -> usize {
        self.rows.len()
    }
}

impl Share<'_> {
    /// Moves one row, durably. The time that took.
    pub fn commit(&mut self, connection: &Connection) -> rusqlite::Result<u64> {
        let to = self.work.next.fetch_add(1, Relaxed);
        let mut statement = connection.prepare_cached(&self.work.sql)?;
        let begin_ns = clock::now_ns();
        let changed = statement.execute([to, self.rows[self.at]])?;
        let latency_ns = clock::now_ns() - begin_ns;
        if changed != 1 {
            return Err(rusqlite::Error::StatementChangedRows(changed));
        }
        self.rows[self.at] = to;
        self.at = (self.at + 1) % self.rows.len();
        Ok(latency_ns)
    }

    pub fn into_rows(self) -> Vec<i64> {
        self.rows
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Trial(#[from] TrialError),
}

struct Candidate {
    name: String,
    pages: Option<Pages>,
    rows: u64,
    rowid: &'static str,
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The largest of the user's tables that can be used, or the one that is asked for.
fn theirs(connection: &Connection, asked: Option<&str>) -> Result<Option<Work>, ChooseError> {
    let mut tables = connection.prepare(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    let tables: Vec<(String, bool)> = tables
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let is_asked = |name: &str| asked.is_none_or(|asked| asked.eq_ignore_ascii_case(name));
    if let Some(asked) = asked.filter(|_| !tables.iter().any(|(name, _)| is_asked(name))) {
        let tables = tables.into_iter().map(|(name, _)| name).collect();
        return Err(TrialError::NoTable { table: asked.to_owned(), tables }.into());
    }
    let looking = LOOKING / tables.len().max(1) as u32;
    let mut candidates = Vec::new();
    for (name, _) in tables.into_iter().filter(|(name, wr)| !wr && is_asked(name)) {
        check_interrupt()?;
        let Some(rowid) = rowid(connection, &name)? else { continue };
        let sql =
            format!("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {COUNTED_MAX})", quoted(&name));
        // What cannot be counted (a generated column with a function of the program's) is no
        // candidate.
        let Ok(rows) = connection.query_row(&sql, [], |row| row.get::<_, i64>(0)) else { continue };
        if rows as u64 >= ROWS_MIN {
            let pages = pages::of(connection, &name, looking);
            candidates.push(Candidate { name, pages, rows: rows as u64, rowid });
        }
    }
    let tables = candidates.len();
    candidates.sort_by_key(|candidate| {
        std::cmp::Reverse((candidate.pages.map(|pages| pages.count), candidate.rows))
    });
    for candidate in candidates {
        check_interrupt()?;
        if let Ok(Some(work)) = of(connection, &candidate) {
            let commit = Commit { tables, asked: asked.is_some(), ..work.commit };
            return Ok(Some(Work { commit, ..work }));
        }
    }
    match asked {
        Some(asked) => Err(TrialError::UselessTable(asked.to_owned()).into()),
        None => Ok(None),
    }
}

/// A name of the rowid that no column has.
fn rowid(connection: &Connection, table: &str) -> rusqlite::Result<Option<&'static str>> {
    let mut columns =
        connection.prepare_cached("SELECT lower(name) FROM pragma_table_xinfo(?1)")?;
    let columns: Vec<String> =
        columns.query_map([table], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let names = ["rowid", "_rowid_", "oid"];
    Ok(names.into_iter().find(|name| !columns.iter().any(|column| column == name)))
}

/// None: the statement does not work with this table.
fn of(connection: &Connection, candidate: &Candidate) -> rusqlite::Result<Option<Work>> {
    let Candidate { name, pages, rows, rowid } = candidate;
    let table = quoted(name);
    let (least, most): (i64, i64) = (
        connection.query_row(&format!("SELECT min({rowid}) FROM {table}"), [], |row| row.get(0))?,
        connection.query_row(&format!("SELECT max({rowid}) FROM {table}"), [], |row| row.get(0))?,
    );
    // Room for new rowids behind the last one.
    let Some(next) = most.checked_add(1).filter(|next| *next < i64::MAX / 2) else {
        return Ok(None);
    };
    let sample = sample(connection, &table, rowid, *rows, least..=most)?;
    let indexes =
        connection
            .query_row("SELECT count(*) FROM pragma_index_list(?1)", [name], |row| row.get(0))?;
    let commit = Commit {
        table: Some(name.clone()),
        tables: 1,
        asked: false,
        pages: *pages,
        rows: *rows,
        rows_counted_max: *rows >= COUNTED_MAX,
        indexes,
        quoted: table.clone(),
        rowid,
    };
    let work = Work {
        commit,
        sql: format!("UPDATE {table} SET {rowid} = ?1 WHERE {rowid} = ?2"),
        rows: sample,
        next: AtomicI64::new(next),
    };
    Ok(try_once(connection, &work)?.then_some(work))
}

/// Moves the rows, and takes that back: does it work? Their pages are then in memory, as they are
/// in a program that uses them.
fn try_once(connection: &Connection, work: &Work) -> rusqlite::Result<bool> {
    let begun = Instant::now();
    connection.execute_batch("BEGIN")?;
    let mut works = work.rows.len() as u64 >= ROWS_MIN;
    let mut share = work.shares(1).remove(0);
    for _ in 0..work.rows.len() {
        works &= share.commit(connection).is_ok();
        if !works || begun.elapsed() > LOOKING {
            break;
        }
    }
    connection.execute_batch("ROLLBACK")?;
    Ok(works)
}

/// Rowids from all over the table.
fn sample(
    connection: &Connection,
    table: &str,
    rowid: &str,
    rows: u64,
    range: std::ops::RangeInclusive<i64>,
) -> rusqlite::Result<Vec<i64>> {
    if rows < COUNTED_MAX {
        let step = rows.div_ceil(SAMPLE).max(1) as usize;
        let mut all =
            connection.prepare(&format!("SELECT {rowid} FROM {table} ORDER BY {rowid}"))?;
        let all = all.query_map([], |row| row.get(0))?;
        return all.step_by(step).collect();
    }
    let begun = Instant::now();
    let sql = format!("SELECT {rowid} FROM {table} WHERE {rowid} >= ?1 ORDER BY {rowid} LIMIT 1");
    let mut at = connection.prepare(&sql)?;
    let mut found = Vec::new();
    let width = range.end().abs_diff(*range.start());
    // In an order that has seen all parts of the table when the time is over.
    for number in 0..SAMPLE {
        let part = (number * 1_597) % SAMPLE;
        let from = range.start().saturating_add_unsigned(
            (u128::from(width) * u128::from(part) / u128::from(SAMPLE)) as u64,
        );
        found.extend(at.query_row([from], |row| row.get::<_, i64>(0)).optional()?);
        if begun.elapsed() > LOOKING {
            break;
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn own(connection: &Connection) -> rusqlite::Result<Work> {
    connection.execute_batch(&format!(
        "BEGIN; CREATE TABLE {OWN_TABLE}(id INTEGER PRIMARY KEY, v TEXT)"
    ))?;
    let mut random = fastrand::Rng::with_seed(0);
    let mut insert = connection.prepare(&format!("INSERT INTO {OWN_TABLE}(v) VALUES(?1)"))?;
    for _ in 0..OWN_ROWS {
        insert.execute([random_value(&mut random)])?;
    }
    drop(insert);
    connection.execute_batch("COMMIT")?;
    let commit = Commit {
        table: None,
        tables: 0,
        asked: false,
        pages: None,
        rows: OWN_ROWS,
        rows_counted_max: false,
        indexes: 0,
        quoted: OWN_TABLE.to_owned(),
        rowid: "rowid",
    };
    let step = (OWN_ROWS / SAMPLE).max(1) as usize;
    Ok(Work {
        commit,
        sql: format!("UPDATE {OWN_TABLE} SET rowid = ?1 WHERE rowid = ?2"),
        rows: (1..=OWN_ROWS as i64).step_by(step).collect(),
        next: AtomicI64::new(OWN_ROWS as i64 + 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many short rows, fewer long ones, and what cannot be used.
    fn database() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE a_many(v); CREATE TABLE z_large(v); CREATE TABLE few(v);
            CREATE TABLE without(k PRIMARY KEY, v) WITHOUT ROWID;
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
            INSERT INTO a_many SELECT i FROM n;
            INSERT INTO z_large SELECT zeroblob(3000) FROM a_many LIMIT 400;
            INSERT INTO few VALUES(zeroblob(9000000));
            INSERT INTO without SELECT rowid, zeroblob(900) FROM a_many",
        )
        .unwrap();
        db
    }

    fn chosen(asked: Option<&str>) -> Result<Commit, String> {
        let work = Work::choose(&database(), 4096, asked);
        work.map(|work| work.commit).map_err(|error| error.to_string())
    }

    /// The one with the most rows was taken, and of those with 100,000 or more the first in the
    /// schema.
    #[test]
    fn the_table_with_the_most_pages_is_taken_and_not_the_one_with_the_most_rows() {
        let commit = chosen(None).unwrap();
        assert_eq!((commit.table.as_deref(), commit.rows), (Some("z_large"), 400));
        assert_eq!((commit.tables, commit.asked), (2, false));
        let pages = commit.pages.unwrap();
        assert!(pages.count >= 400 && !pages.is_estimate, "{pages:?}");
    }

    #[test]
    fn a_table_is_taken_by_its_name() {
        let commit = chosen(Some("A_Many")).unwrap();
        assert_eq!((commit.table.as_deref(), commit.asked), (Some("a_many"), true));
    }

    #[test]
    fn a_wrong_name_is_answered_by_those_that_there_are() {
        let message = chosen(Some("nobody")).unwrap_err();
        assert_eq!(
            message,
            "--table nobody: there is no such table; there are a_many, few, without and z_large"
        );
        for useless in ["few", "without"] {
            let message = chosen(Some(useless)).unwrap_err();
            assert!(message.contains(useless) && message.contains("200 rows"), "{message}");
        }
    }
}
