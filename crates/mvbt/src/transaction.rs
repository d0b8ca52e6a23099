//! A transaction that may change the database.

use parking_lot::MutexGuard;

use crate::db::Database;
use crate::history::Retain;
use crate::search::{Compare, Probe, TreeRef};
use crate::work::{self, Pool, Work};
use crate::writer::Writer;
use crate::{Error, Result, TreeId, Version};

/// Dropped, it is rolled back.
pub struct WriteTransaction<'db> {
    database: &'db Database,
    writer: MutexGuard<'db, Writer>,
    /// None: it has ended.
    work: Option<Work<'db>>,
    /// The pool as it was.
    backup: Pool,
    /// An operation has failed halfway. Some cells may be nowhere. So many savepoints were open.
    half_done: Option<usize>,
}

impl<'db> WriteTransaction<'db> {
    pub(crate) fn begin(
        database: &'db Database,
        mut writer: MutexGuard<'db, Writer>,
    ) -> Result<WriteTransaction<'db>> {
        let version = writer.begin(&database.store)?;
        let horizon = database.horizon()?;
        let limit = database.options.reader_limit_pages;
        writer.garbage.refuse_stale_reader(database.readers.current(), horizon, limit)?;
        let pool = std::mem::take(&mut writer.pool);
        let backup = pool.clone();
        let work = Work::new(&database.store, &database.options, version, horizon, pool);
        Ok(WriteTransaction { database, writer, work: Some(work), backup, half_done: None })
    }

    fn work_mut(&mut self) -> &mut Work<'db> {
        self.work.as_mut().expect("the transaction has not ended")
    }

    pub(crate) fn work(&self) -> &Work<'db> {
        self.work.as_ref().expect("the transaction has not ended")
    }

    /// Does something that may fail halfway, also by a panic of the caller's comparison.
    pub(crate) fn change<R>(
        &mut self,
        change: impl FnOnce(&mut Work<'db>) -> Result<R>,
    ) -> Result<R> {
        if self.half_done.is_some() {
            return Err(Error::HalfDone);
        }
        self.half_done = Some(self.work().savepoint_count());
        let changed = change(self.work_mut());
        if changed.as_ref().err().is_none_or(Error::is_refusal) {
            self.half_done = None;
        }
        changed
    }

    pub fn version(&self) -> Version {
        self.work().version
    }

    /// Durable when this returns.
    pub fn commit(mut self) -> Result<Version> {
        let (clock, settled) = (self.database.options.clock, self.writer.settled());
        let uncollected = std::mem::take(&mut self.writer.uncollected);
        let deposited = self.change(|work| {
            work.release(0);
            work.note_time(clock, settled)?;
            work.deposit(false)?;
            work.collect(uncollected)
        });
        if let Err(error) = deposited {
            self.undo()?;
            return Err(error);
        }
        let Some(work) = self.work.take() else { return Err(Error::Poisoned) };
        let version = work.version;
        // Its parts are shared as long as it is there.
        self.backup = Pool::default();
        let committed = work.commit(self.writer.ring)?;
        self.writer.pool = committed.pool;
        self.writer.uncollected = committed.uncollected;
        if committed.wrote {
            self.writer.garbage.note(version, committed.freed as u64);
            self.writer.last = version;
            self.writer.ring += u64::from(committed.used_ring);
            self.database.readers.publish(version);
            if !self.database.options.metadata_embedding {
                self.writer.write_change_counter(&self.database.store)?;
            }
        }
        Ok(self.database.readers.current())
    }

    pub fn rollback(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        self.writer.pool = std::mem::take(&mut self.backup);
        if !work.has_spilled() {
            return Ok(());
        }
        let voided = self.writer.make_void(&self.database.store, work.version);
        if voided.is_err() {
            // What it has written would count from now on.
            self.database.store.poison_all();
        }
        voided
    }

    /// From this transaction on, the file keeps so much for readers of older versions.
    pub fn set_retain(&mut self, retain: Retain) -> Result<()> {
        self.change(|work| work.set_retain(retain))
    }

    pub fn create_tree(&mut self, is_record: bool) -> Result<TreeId> {
        self.change(|work| work.create_tree(is_record))
    }

    pub fn drop_tree(&mut self, id: TreeId) -> Result<()> {
        self.change(|work| work.drop_tree(id))
    }

    /// Answers how many cells the tree had.
    pub fn clear_tree(&mut self, id: TreeId) -> Result<u64> {
        self.change(|work| work.clear_tree(id))
    }

    /// True if something was there, and is replaced.
    pub fn insert(&mut self, id: TreeId, key: i64, payload: &[u8]) -> Result<bool> {
        let tree = self.tree_of_kind(id, false)?;
        self.change(|work| work.insert(&tree, Some(key), Probe::Integer(key), payload))
    }

    /// Puts a record where `compare` says: a stored record beside the new one.
    pub fn insert_record(
        &mut self,
        id: TreeId,
        record: &[u8],
        compare: Compare<'_>,
    ) -> Result<bool> {
        let tree = self.tree_of_kind(id, true)?;
        self.change(|work| work.insert(&tree, None, Probe::Record(compare), record))
    }

    /// True if it was there.
    pub fn delete(&mut self, id: TreeId, key: i64) -> Result<bool> {
        let tree = self.tree_of_kind(id, false)?;
        self.change(|work| work.delete(&tree, Probe::Integer(key)))
    }

    pub fn delete_record(&mut self, id: TreeId, compare: Compare<'_>) -> Result<bool> {
        let tree = self.tree_of_kind(id, true)?;
        self.change(|work| work.delete(&tree, Probe::Record(compare)))
    }

    fn tree_of_kind(&mut self, id: TreeId, is_record: bool) -> Result<TreeRef> {
        if id < work::FIRST_TREE {
            return Err(Error::Misuse {
                what: "catalog and free pages are changed by nobody else",
            });
        }
        let tree = self.work_mut().tree(id)?;
        if tree.is_record == is_record { Ok(tree) } else { Err(Error::WrongKind { tree: id }) }
    }

    pub fn set_meta(&mut self, index: usize, value: u32) -> Result<()> {
        self.change(|work| work.set_meta(index, value))
    }

    /// Opens a savepoint, and answers its number, from 1.
    pub fn savepoint(&mut self) -> usize {
        let work = self.work_mut();
        work.savepoint();
        work.savepoint_count()
    }

    /// Ends this savepoint and those in it. Their changes stay.
    pub fn release(&mut self, savepoint: usize) {
        self.work_mut().release(savepoint.saturating_sub(1));
        let left = self.work().savepoint_count();
        self.half_done = self.half_done.map(|open| open.min(left));
    }

    /// Undoes what was done since. The savepoint stays.
    pub fn roll_back_to(&mut self, savepoint: usize) -> Result<()> {
        if savepoint == 0 || savepoint > self.work().savepoint_count() {
            return Err(Error::Misuse { what: "there is no such savepoint" });
        }
        let undone = self.work_mut().roll_back_to(savepoint);
        self.half_done = match (&undone, self.half_done) {
            (Ok(()), Some(open)) if savepoint <= open => None,
            (Ok(()), half_done) => half_done,
            (Err(_), _) => Some(0),
        };
        undone
    }
}

impl Drop for WriteTransaction<'_> {
    fn drop(&mut self) {
        // A failure has poisoned the store, and the next call says so.
        let _ = self.undo();
    }
}
