//! A transaction between the two steps of its commit (I20). They are those that SQLite asks of a
//! B-tree: `sqlite3BtreeCommitPhaseOne` and `sqlite3BtreeCommitPhaseTwo`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use oneflush_blocklog::invariant;

use crate::read::ReadTransaction;
use crate::work::{Pool, Written};
use crate::writer_lock::WriterGuard;
use crate::{Result, Version};

/// Durable, and not shown to readers yet. Dropped, it is rolled back. Until it ends nobody else
/// writes.
pub struct Prepared {
    /// None: it has ended.
    open: Option<Open>,
}

struct Open {
    writer: WriterGuard,
    written: Written,
    /// The pool as it was before the transaction.
    backup: Pool,
}

impl Prepared {
    pub(crate) fn new(writer: WriterGuard, written: Written, backup: Pool) -> Prepared {
        Prepared { open: Some(Open { writer, written, backup }) }
    }

    /// The second step: who begins now sees the transaction. Answers the version that is the last
    /// one now. It is an older one if the transaction has changed nothing.
    pub fn finish(self) -> Version {
        self.publish().1
    }

    /// The same, and a reader of just that version: nobody else writes before it has begun. After
    /// an error of the reader the transaction is committed all the same.
    pub fn finish_and_read(self) -> (Version, Result<ReadTransaction>) {
        // The guard keeps others out until the reader has begun.
        let (writer, version) = self.publish();
        (version, ReadTransaction::begin(writer.shared()))
    }

    fn publish(mut self) -> (WriterGuard, Version) {
        let Open { mut writer, mut written, .. } = self.open.take().expect("it has not ended");
        let shared = Arc::clone(writer.shared());
        let (version, used_ring) = (written.version, written.used_ring());
        let (is_nothing, freed) = (written.is_nothing(), written.freed());
        writer.uncollected = std::mem::take(&mut written.uncollected);
        let (pool, changed) = written.publish(&shared.store);
        writer.pool = pool;
        if is_nothing {
            shared.end_writing();
        } else {
            let counters = &shared.store.counters;
            counters.commits.fetch_add(1, Relaxed);
            counters.freed.fetch_add(freed, Relaxed);
            writer.garbage.note(version, freed);
            shared.publish(version, &changed, used_ring);
        }
        (writer, shared.board.current())
    }

    /// The transaction never was, also after a crash. While this runs, a crash leaves all of it or
    /// nothing. After an error the database has to be opened anew, and has it or not.
    pub fn rollback(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        let Some(Open { mut writer, written, backup }) = self.open.take() else { return Ok(()) };
        writer.pool = backup;
        let shared = Arc::clone(writer.shared());
        if written.is_nothing() {
            shared.end_writing();
        } else {
            let pages = &shared.store.counters.pages;
            let before = pages.load(Relaxed);
            let voidable = written.make_voidable(&shared.store);
            voidable.inspect_err(|_| shared.store.poison_all())?;
            invariant!(
                "I20",
                "a single page is written once more before its version is made void",
                written.used_ring() || pages.load(Relaxed) > before,
            );
            writer.make_void_or_poison(written.version)?;
        }
        writer.is_rolled_back = true;
        Ok(())
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // A failure has poisoned the store, and the next call says so.
        let _ = self.undo();
    }
}
