//! LMDB, by `heed`. Its own defaults: a commit writes its pages, syncs, and writes a meta page with
//! O_DSYNC. Pages are read where the kernel has them mapped.

use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions};
use oneflush_bench::kv::{Change, Engine, Store, StoreError};

use super::{bytes_of, copied};

/// The file never grows beyond this. It takes no space before.
const MAP_BYTES: usize = 8 << 30;

pub struct Lmdb;

struct Open {
    env: Env,
    rows: Database<Bytes, Bytes>,
}

impl Engine for Lmdb {
    fn name(&self) -> String {
        "LMDB".to_owned()
    }

    fn create(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        self.open(directory)
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: the directory is new, and nobody else changes or opens its file.
        let env = unsafe { options.open(directory) }?;
        let mut txn = env.write_txn()?;
        let rows = env.create_database(&mut txn, None)?;
        txn.commit()?;
        Ok(Box::new(Open { env, rows }))
    }

    fn databases(&self, directory: &Path) -> Vec<PathBuf> {
        vec![directory.join("data.mdb")]
    }
}

impl Store for Open {
    fn commit(&mut self, changes: &[Change], value: &[u8]) -> Result<(), StoreError> {
        let mut txn = self.env.write_txn()?;
        for change in changes {
            match *change {
                Change::Put(key) => self.rows.put(&mut txn, &bytes_of(key), value)?,
                Change::Delete(key) => {
                    self.rows.delete(&mut txn, &bytes_of(key))?;
                }
            }
        }
        txn.commit()?;
        Ok(())
    }

    fn get(&mut self, key: u64) -> Result<Option<usize>, StoreError> {
        let txn = self.env.read_txn()?;
        Ok(self.rows.get(&txn, &bytes_of(key))?.map(copied))
    }

    fn scan(&mut self) -> Result<u64, StoreError> {
        let txn = self.env.read_txn()?;
        let mut rows = 0;
        for row in self.rows.iter(&txn)? {
            copied(row?.1);
            rows += 1;
        }
        Ok(rows)
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
