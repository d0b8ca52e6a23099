//! redb. Its own defaults: `Durability::Immediate`, one phase with checksums.

use std::path::{Path, PathBuf};

use oneflush_bench::kv::{Change, Engine, Store, StoreError};
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::{MEMORY_BYTES, copied};

const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");

pub struct Redb;

struct Open {
    database: Database,
}

impl Engine for Redb {
    fn name(&self) -> String {
        "redb".to_owned()
    }

    fn create(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        self.open(directory)
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        let mut builder = Builder::new();
        builder.set_cache_size(MEMORY_BYTES as usize);
        let database = builder.create(self.databases(directory).swap_remove(0))?;
        let txn = database.begin_write()?;
        txn.open_table(ROWS)?;
        txn.commit()?;
        Ok(Box::new(Open { database }))
    }

    fn databases(&self, directory: &Path) -> Vec<PathBuf> {
        vec![directory.join("store.redb")]
    }
}

impl Store for Open {
    fn commit(&mut self, changes: &[Change], value: &[u8]) -> Result<(), StoreError> {
        let txn = self.database.begin_write()?;
        {
            let mut rows = txn.open_table(ROWS)?;
            for change in changes {
                match *change {
                    Change::Put(key) => drop(rows.insert(key, value)?),
                    Change::Delete(key) => drop(rows.remove(key)?),
                }
            }
        }
        txn.commit()?;
        Ok(())
    }

    fn get(&mut self, key: u64) -> Result<Option<usize>, StoreError> {
        let rows = self.database.begin_read()?.open_table(ROWS)?;
        Ok(rows.get(key)?.map(|value| copied(value.value())))
    }

    fn scan(&mut self) -> Result<u64, StoreError> {
        let rows = self.database.begin_read()?.open_table(ROWS)?;
        let mut count = 0;
        for row in rows.iter()? {
            copied(row?.1.value());
            count += 1;
        }
        Ok(count)
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn pages_written(&self) -> Option<u64> {
        None
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}
