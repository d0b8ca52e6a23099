//! RocksDB, without compression. A transaction is a batch that is synced (`WriteOptions::sync`).
//! All else is as it comes, but for the memory of its block cache.

use std::path::{Path, PathBuf};

use oneflush_bench::kv::{Change, Engine, Store, StoreError};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, IteratorMode, Options, WriteBatch,
    WriteOptions,
};

use super::{MEMORY_BYTES, bytes_of};

pub struct RocksDb;

struct Open {
    database: DB,
    durable: WriteOptions,
}

impl Engine for RocksDb {
    fn name(&self) -> String {
        "RocksDB".to_owned()
    }

    fn create(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        self.open(directory)
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(MEMORY_BYTES as usize)?);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        options.set_block_based_table_factory(&blocks);
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        Ok(Box::new(Open { database: DB::open(&options, directory)?, durable }))
    }

    /// Tables come and go; all files count as journals.
    fn databases(&self, _directory: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

impl Store for Open {
    fn commit(&mut self, changes: &[Change], value: &[u8]) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        for change in changes {
            match *change {
                Change::Put(key) => batch.put(bytes_of(key), value),
                Change::Delete(key) => batch.delete(bytes_of(key)),
            }
        }
        self.database.write_opt(batch, &self.durable)?;
        Ok(())
    }

    fn get(&mut self, key: u64) -> Result<Option<usize>, StoreError> {
        Ok(self.database.get(bytes_of(key))?.map(|value| std::hint::black_box(value).len()))
    }

    fn scan(&mut self) -> Result<u64, StoreError> {
        let mut rows = 0;
        for row in self.database.iterator(IteratorMode::Start) {
            std::hint::black_box(row?);
            rows += 1;
        }
        Ok(rows)
    }

    /// What is in memory goes to tables.
    fn settle(&mut self) -> Result<(), StoreError> {
        self.database.flush()?;
        Ok(())
    }

    fn pages_written(&self) -> Option<u64> {
        None
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}
