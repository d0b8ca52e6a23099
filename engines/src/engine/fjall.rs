//! fjall, without compression. A transaction is a batch that is synced (`PersistMode::SyncData`).
//! All else is as it comes.

use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use oneflush_bench::kv::{Change, Engine, Store, StoreError};

use super::{MEMORY_BYTES, bytes_of, copied};

pub struct Fjall;

struct Open {
    database: Database,
    rows: Keyspace,
}

impl Engine for Fjall {
    fn name(&self) -> String {
        "fjall".to_owned()
    }

    fn create(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        self.open(directory)
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        let database = Database::builder(directory).cache_size(MEMORY_BYTES).open()?;
        let rows = database.keyspace("rows", KeyspaceCreateOptions::default)?;
        Ok(Box::new(Open { database, rows }))
    }

    /// Tables come and go; all files count as journals.
    fn databases(&self, _directory: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

impl Store for Open {
    fn commit(&mut self, changes: &[Change], value: &[u8]) -> Result<(), StoreError> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for change in changes {
            match *change {
                Change::Put(key) => batch.insert(&self.rows, bytes_of(key), value),
                Change::Delete(key) => batch.remove(&self.rows, bytes_of(key)),
            }
        }
        batch.commit()?;
        Ok(())
    }

    fn get(&mut self, key: u64) -> Result<Option<usize>, StoreError> {
        let value = self.rows.get(bytes_of(key))?;
        Ok(value.map(|value| copied(&value)))
    }

    fn scan(&mut self) -> Result<u64, StoreError> {
        let mut rows = 0;
        for row in self.rows.iter() {
            copied(&row.value()?);
            rows += 1;
        }
        Ok(rows)
    }

    /// What is in memory goes to tables.
    fn settle(&mut self) -> Result<(), StoreError> {
        self.rows.rotate_memtable_and_wait()?;
        Ok(())
    }

    fn pages_written(&self) -> Option<u64> {
        None
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}
