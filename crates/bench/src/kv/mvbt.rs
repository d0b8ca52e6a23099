//! The multi-version B-tree as a store: the engine itself, no SQL above it.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use oneflush_mvbt::{Database, Options, Read, TreeId, WriteTransaction};

use super::{Change, Crashes, Engine, Store, StoreError};

const NAME: &str = "store.mvbt";

pub struct Mvbt {
    pub name: String,
    pub options: Options,
}

struct Open {
    database: Database,
    tree: TreeId,
}

impl Mvbt {
    fn made(&self, directory: &Path) -> Result<Open, StoreError> {
        let database = Database::create(&directory.join(NAME), self.options.clone())?;
        let mut txn = database.begin_write()?;
        let tree = txn.create_tree(false)?;
        txn.commit()?;
        Ok(Open { database, tree })
    }
}

impl Engine for Mvbt {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn create(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(self.made(directory)?))
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError> {
        let database = Database::open(&directory.join(NAME), self.options.clone())?;
        let trees = database.begin_read()?.trees()?;
        let tree = *trees.last().ok_or("the database has no tree")?;
        Ok(Box::new(Open { database, tree }))
    }

    fn databases(&self, directory: &Path) -> Vec<PathBuf> {
        vec![directory.join(NAME)]
    }
}

impl Crashes for Mvbt {
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
        let Open { database, tree } = open;
        database.close()?;
        // Every page is written as soon as the next one changes.
        let mut options = self.options.clone();
        options.spill_bytes = options.page_bytes;
        let database = Database::open(&directory.join(NAME), options)?;
        let mut txn = database.begin_write()?;
        apply(&mut txn, tree, changes, value)?;
        now()
    }
}

fn apply(
    txn: &mut WriteTransaction,
    tree: TreeId,
    changes: &[Change],
    value: &[u8],
) -> Result<(), StoreError> {
    for change in changes {
        match *change {
            Change::Put(key) => txn.insert(tree, key as i64, value)?,
            Change::Delete(key) => txn.delete(tree, key as i64)?,
        };
    }
    Ok(())
}

impl Store for Open {
    fn commit(&mut self, changes: &[Change], value: &[u8]) -> Result<(), StoreError> {
        let mut txn = self.database.begin_write()?;
        apply(&mut txn, self.tree, changes, value)?;
        txn.commit()?;
        Ok(())
    }

    fn get(&mut self, key: u64) -> Result<Option<usize>, StoreError> {
        let value = self.database.begin_read()?.get(self.tree, key as i64)?;
        Ok(value.map(|value| value.len()))
    }

    fn scan(&mut self) -> Result<u64, StoreError> {
        let reader = self.database.begin_read()?;
        let mut cursor = reader.cursor(self.tree)?;
        let mut rows = 0;
        cursor.first(&reader)?;
        while cursor.payload(&reader)?.is_some() {
            rows += 1;
            cursor.next(&reader)?;
        }
        Ok(rows)
    }

    /// Nothing is put off: what was committed is where it belongs.
    fn settle(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn pages_written(&self) -> Option<u64> {
        let counters = self.database.counters();
        Some(counters.pages.load(Relaxed) + counters.blocks.load(Relaxed))
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(self.database.close()?)
    }
}
