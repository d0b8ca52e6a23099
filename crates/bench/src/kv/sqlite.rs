//! SQLite as a store: one table with an integer key, by prepared statements.

use std::path::{Path, PathBuf};

use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::{Change, Crashes, Engine, Store, StoreError, status};
use oneflush_measure::database;
use oneflush_measure::mode::Mode;

const NAME: &str = "store.db";
const SCHEMA: &str = "CREATE TABLE rows(key INTEGER PRIMARY KEY, value BLOB)";
const PUT: &str = "INSERT OR REPLACE INTO rows VALUES(?1, ?2)";
const DELETE: &str = "DELETE FROM rows WHERE key = ?1";
const GET: &str = "SELECT value FROM rows WHERE key = ?1";
const SCAN: &str = "SELECT key, value FROM rows ORDER BY key";

pub struct Sqlite {
    pub mode: Mode,
    /// Memory for pages; none: SQLite's own default.
    pub cache_bytes: Option<u64>,
}

struct Open {
    connection: Connection,
    mode: Mode,
}

impl Sqlite {
    fn opened(&self, directory: &Path) -> Result<Open, StoreError> {
        let connection = database::open(&directory.join(NAME), &self.mode)?;
        if let Some(bytes) = self.cache_bytes {
            connection.execute_batch(&format!("PRAGMA cache_size = -{}", bytes / 1024))?;
        }
        Ok(Open { connection, mode: self.mode.clone() })
    }

    fn made(&self, directory: &Path) -> Result<Open, StoreError> {
        let open = self.opened(directory)?;
        open.connection.execute_batch(SCHEMA)?;
        Ok(open)
    }
}

impl Engine for Sqlite {
    fn name(&self) -> String {
        self.mode.to_string()
    }

    fn create(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(self.made(directory)?))
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(self.opened(directory)?))
    }

    fn databases(&self, directory: &Path) -> Vec<PathBuf> {
        vec![directory.join(NAME)]
    }
}

impl Crashes for Sqlite {
    fn crash(
        &self,
        directory: &Path,
        prepare: &mut dyn FnMut(&mut dyn Store) -> Result<(), StoreError>,
        changes: &[Change],
        value: &[u8],
        now: &mut dyn FnMut() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut open = self.made(directory)?;
        prepare(&mut open)?;
        // Pages are written as soon as a few others change, with their journal.
        open.connection.execute_batch("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN")?;
        open.apply(changes, value)?;
        now()
    }
}

impl Open {
    fn statement(&self, sql: &str) -> Result<CachedStatement<'_>, StoreError> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    fn apply(&self, changes: &[Change], value: &[u8]) -> Result<(), StoreError> {
        for change in changes {
            match *change {
                Change::Put(key) => self.statement(PUT)?.execute((key as i64, value))?,
                Change::Delete(key) => self.statement(DELETE)?.execute([key as i64])?,
            };
        }
        Ok(())
    }
}

impl Store for Open {
    fn commit(&mut self, changes: &[Change], value: &[u8]) -> Result<(), StoreError> {
        // One statement is a transaction by itself.
        if changes.len() == 1 {
            return self.apply(changes, value);
        }
        self.statement("BEGIN IMMEDIATE")?.execute([])?;
        self.apply(changes, value)?;
        self.statement("COMMIT")?.execute([])?;
        Ok(())
    }

    fn get(&mut self, key: u64) -> Result<Option<usize>, StoreError> {
        let mut statement = self.statement(GET)?;
        let length = statement.query_row([key as i64], |row| Ok(row.get_ref(0)?.as_blob()?.len()));
        Ok(length.optional()?)
    }

    fn scan(&mut self) -> Result<u64, StoreError> {
        let mut statement = self.statement(SCAN)?;
        let mut rows = statement.query([])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            row.get_ref(1)?.as_blob()?;
            count += 1;
        }
        Ok(count)
    }

    /// A WAL gets its length, and is empty.
    fn settle(&mut self) -> Result<(), StoreError> {
        database::prepare_wal(&self.connection, &["main".to_owned()], &self.mode, false)?;
        Ok(())
    }

    fn pages_written(&self) -> Option<u64> {
        status::pages_written(&self.connection)
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        self.connection.close().map_err(|(_, error)| error.into())
    }
}
