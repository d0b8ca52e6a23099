//! A transaction that may change the database.

use std::sync::Arc;

use oneflush_blocklog::invariant;

use crate::check::Order;
use crate::cursor::Cursor;
use crate::history::Retain;
use crate::kill_point::KillPoint;
use crate::prepared::Prepared;
use crate::restore::{NO_ORDER, Restored};
use crate::search::{Compare, Probe, TreeRef};
use crate::store::PoisonedByAPanic;
use crate::work::{self, Deposit, Pool, Work};
use crate::writer_lock::WriterGuard;
use crate::{Error, Result, TreeId, Version};

/// Dropped, it is rolled back. Threads may use it one after another. It keeps its database alive.
pub struct WriteTransaction {
    /// None: it has ended.
    open: Option<Open>,
    /// An operation has failed halfway. Some cells may be nowhere. So many savepoints were open.
    half_done: Option<usize>,
}

/// What a transaction has until it ends.
struct Open {
    writer: WriterGuard,
    work: Work,
    /// The pool as it was.
    backup: Pool,
}

impl WriteTransaction {
    /// `reader_limit`: none begins while readers alone hold so many pages.
    pub(crate) fn begin(
        mut writer: WriterGuard,
        reader_limit: Option<u64>,
    ) -> Result<WriteTransaction> {
        let shared = Arc::clone(writer.shared());
        writer.catch_up(&shared.store, &shared.board)?;
        shared.catch_up()?;
        let horizon = shared.horizon()?;
        if let Some(limit) = reader_limit {
            writer.garbage.refuse_stale_reader(shared.board.current(), horizon, limit)?;
        }
        let version = writer.begin(&shared.store, &shared.board)?;
        let pool = std::mem::take(&mut writer.pool);
        let backup = pool.clone();
        let (store, options) = (Arc::clone(&shared.store), Arc::clone(&shared.options));
        let work = Work::new(store, options, version, horizon, pool);
        Ok(WriteTransaction { open: Some(Open { writer, work, backup }), half_done: None })
    }

    fn work_mut(&mut self) -> &mut Work {
        self.watched().0
    }

    /// The work, and what poisons the store if a panic ends it.
    fn watched(&mut self) -> (&mut Work, PoisonedByAPanic<'_>) {
        let Open { writer, work, .. } = self.open.as_mut().expect("the transaction has not ended");
        writer.note_user();
        (work, writer.shared().store.poisoned_by_a_panic())
    }

    pub(crate) fn work(&self) -> &Work {
        &self.open.as_ref().expect("the transaction has not ended").work
    }

    /// Does something that may fail halfway, also by a panic of the caller's comparison.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut Work) -> Result<R>) -> Result<R> {
        if self.half_done.is_some() {
            return Err(Error::HalfDone);
        }
        self.half_done = Some(self.work().savepoint_count());
        let changed = {
            let (work, _poisoned) = self.watched();
            change(work)
        };
        if changed.as_ref().err().is_none_or(Error::is_refusal) {
            self.half_done = None;
        }
        changed
    }

    /// The version that the commit makes.
    pub fn version(&self) -> Version {
        self.work().version
    }

    /// Durable when this returns.
    pub fn commit(self) -> Result<Version> {
        self.prepare().map(Prepared::finish)
    }

    /// The first step of a commit: all that can fail. When this returns, the transaction is
    /// durable, and survives a crash. Readers do not see it yet. After an error it is rolled back;
    /// after a failed write or flush the next opening finds it, or not.
    pub fn prepare(mut self) -> Result<Prepared> {
        let Some(open) = &mut self.open else { return Err(Error::Poisoned) };
        let settled = open.writer.settled();
        let uncollected = std::mem::take(&mut open.writer.uncollected);
        let deposited = self.change(|work| {
            work.release(0);
            // Also a transaction that deletes has a time.
            work.freeing(|work| work.note_time(settled))?;
            work.deposit(Deposit::Surplus)?;
            work.collect(uncollected)
        });
        if let Err(error) = deposited {
            self.undo()?;
            return Err(error);
        }
        let Some(open) = self.open.take() else { return Err(Error::Poisoned) };
        let Open { mut writer, work, backup } = open;
        let shared = Arc::clone(writer.shared());
        shared.check_name();
        let written = work.write(shared.board.ring()).and_then(|written| {
            if !written.is_nothing() && !shared.options.metadata_embedding {
                writer.write_change_counter(&shared.store, &shared.board)?;
            }
            Ok(written)
        });
        match written {
            Ok(written) => {
                invariant!(
                    "I8",
                    "what is acknowledged is flushed",
                    written.is_nothing() || shared.store.is_flushed(),
                );
                KillPoint::Durable.reached();
                Ok(Prepared::new(writer, written, backup))
            }
            Err(error) => {
                // A part of it may be in the file, under a version that nobody may have again.
                shared.store.poison_all();
                Err(error)
            }
        }
    }

    /// Nothing of it is left. After an error the database has to be opened anew.
    pub fn rollback(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        let Some(Open { mut writer, work, backup }) = self.open.take() else { return Ok(()) };
        writer.pool = backup;
        if work.has_spilled() {
            writer.make_void_or_poison(work.version)?;
        } else {
            writer.shared().end_writing();
        }
        writer.is_rolled_back = true;
        Ok(())
    }

    /// From this transaction on, the file keeps so much for readers of older versions.
    pub fn set_retain(&mut self, retain: Retain) -> Result<()> {
        self.change(|work| work.set_retain(retain))
    }

    /// A new tree without cells: of records, or of integer keys.
    pub fn create_tree(&mut self, is_record: bool) -> Result<TreeId> {
        self.change(|work| work.create_tree(is_record))
    }

    /// Its number is never given again.
    pub fn drop_tree(&mut self, id: TreeId) -> Result<()> {
        self.change(|work| work.freeing(|work| work.drop_tree(id)))
    }

    /// Answers how many cells the tree had.
    pub fn clear_tree(&mut self, id: TreeId) -> Result<u64> {
        self.change(|work| work.freeing(|work| work.clear_tree(id)))
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

    /// True if it was there.
    pub fn delete_record(&mut self, id: TreeId, compare: Compare<'_>) -> Result<bool> {
        let tree = self.tree_of_kind(id, true)?;
        self.change(|work| work.delete(&tree, Probe::Record(compare)))
    }

    /// Deletes the cell on which a cursor of this transaction stands. The cursor is saved before: a
    /// [`restore`](Cursor::restore) puts it beside the cell. `order`: of the records, for a record
    /// tree. `Misuse`: the cursor stands on no cell, or its own cell is gone.
    pub fn delete_at(&mut self, cursor: &mut Cursor, order: Option<Order<'_>>) -> Result<()> {
        let tree = self.tree_of_kind(cursor.tree().id, cursor.tree().is_record)?;
        if tree.is_record && order.is_none() {
            return Err(NO_ORDER);
        }
        cursor.save(self.work())?;
        self.change(|work| work.delete_at(cursor, order))
    }

    /// Puts another payload at the key on which a cursor of this transaction stands, in an integer
    /// tree. The cursor is saved before. `Misuse`: it stands on no cell, or its own cell is gone.
    pub fn replace_at(&mut self, cursor: &mut Cursor, payload: &[u8]) -> Result<()> {
        self.tree_of_kind(cursor.tree().id, false)?;
        cursor.save(self.work())?;
        self.change(|work| work.replace_at(cursor, payload))
    }

    /// Changes bytes of the payload on which a cursor stands, from `offset` on. The payload keeps
    /// its length. All of it is read, and its pages are new ones: older versions keep theirs.
    /// `Misuse`: also where the bytes end behind the payload.
    pub fn overwrite(&mut self, cursor: &mut Cursor, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut payload = match cursor.restore(self.work(), None)? {
            Restored::Same => cursor.payload(self.work())?.unwrap_or_default(),
            _ => return Err(Error::Misuse { what: "the cursor stands on no cell" }),
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let to = from.saturating_add(bytes.len());
        let part = payload.get_mut(from..to).ok_or(Error::Misuse {
            what: "what is overwritten begins or ends behind the payload's end",
        })?;
        part.copy_from_slice(bytes);
        self.replace_at(cursor, &payload)
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

    /// Sets one of the meta words. `Misuse`: there is none of this index.
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
        // A panic meanwhile leaves it half done.
        let half_done = self.half_done.replace(0);
        let undone = {
            let (work, _poisoned) = self.watched();
            work.roll_back_to(savepoint)
        };
        self.half_done = match (&undone, half_done) {
            (Ok(()), Some(open)) if savepoint <= open => None,
            (Ok(()), half_done) => half_done,
            (Err(_), _) => Some(0),
        };
        undone
    }
}

impl Drop for WriteTransaction {
    fn drop(&mut self) {
        // A failure or a panic has poisoned the store, and the next call says so.
        let _ = self.undo();
    }
}
