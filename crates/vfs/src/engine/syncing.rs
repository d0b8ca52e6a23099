//! Syncs of the WAL and of the database file: which are put off, shared or left out, and what a
//! failed one ends.
//!
//! The invariants are those of [the engine](super).

use std::sync::atomic::Ordering::Relaxed;

use oneflush_blocklog::invariant;

use super::connection::WalConnection;
use super::flush::CommitNo;
use super::store::Store;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::port::{Below, MainFile, SyncRequest};
use crate::super_journal;
use crate::sync::lock;

/// A commit whose sync is put off.
pub struct PutOff {
    pub number: CommitNo,
    /// The sync's flags as SQLite asked for them.
    pub request: SyncRequest,
    /// Where the commit's last frame ends in the WAL.
    pub end_bytes: Option<u64>,
}

/// What a flush is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// A commit whose sync was put off. It lets other writers go on, so it may wait for them.
    CommitInBatch,
    /// A commit that keeps other writers out.
    Commit,
    /// A checkpoint or a header. With `eager` it may be told "busy".
    Other,
}

impl<S: Store> WalConnection<S> {
    /// A commit's sync of the WAL, shared with all others that want one.
    pub(super) fn flush(
        &self,
        wal: &dyn Below,
        number: CommitNo,
        request: SyncRequest,
    ) -> Result<(), Error> {
        self.flush_for(wal, number, request, For::Commit)
    }

    /// The same for a sync that is no commit's.
    pub(crate) fn sync_shared(&self, wal: &dyn Below, request: SyncRequest) -> Result<(), Error> {
        self.flush_for(wal, self.shared.flush.register_sync(), request, For::Other)
    }

    pub(super) fn flush_for(
        &self,
        wal: &dyn Below,
        number: CommitNo,
        request: SyncRequest,
        what: For,
    ) -> Result<(), Error> {
        self.unsynced_frames.store(false, Relaxed);
        self.header_unsynced.store(false, Relaxed);
        self.checkpoint.wal_unsynced.store(false, Relaxed);
        let waiting = || self.shared.turns.waiting();
        let queue: Option<&dyn Fn() -> u32> =
            if what == For::CommitInBatch { Some(&waiting) } else { None };
        let flush = || {
            let flushed = self
                .store()
                .flush(self, wal, request, what)
                .map_err(|code| self.save_from_lost_log(code, wal))?;
            KillPoint::Flushed.reached();
            self.check_names(Some(wal))?;
            Ok(flushed)
        };
        self.shared.flush.wait_for(number, queue, flush)?;
        invariant!(
            "C1",
            "a commit is acknowledged after a flush that has covered it",
            self.shared.flush.covers(number)
        );
        Ok(())
    }

    /// A checkpoint's sync of the database file.
    ///
    /// When readers hold a checkpoint up, SQLite takes the copied pages for done without a sync.
    /// The next checkpoint copies only the rest. If the sync then fails, the device may lack pages
    /// that no later checkpoint of SQLite's would write again.
    ///
    /// After a failure nothing may be copied, and the WAL not begun anew, until all connections are
    /// closed. The next opener copies everything, and so does the next checkpoint of another
    /// process.
    pub(super) fn sync_database(
        &self,
        database: &dyn Below,
        request: SyncRequest,
    ) -> Result<(), Code> {
        database
            .sync(request)
            .inspect_err(|&code| self.database_sync_failed(code, lock(&self.main).as_deref()))
    }

    /// The same through the main file itself.
    pub(crate) fn sync_main(&self, main: &dyn MainFile, request: SyncRequest) -> Result<(), Code> {
        main.sync(request).inspect_err(|&code| self.database_sync_failed(code, Some(main)))
    }

    #[cold]
    fn database_sync_failed(&self, code: Code, main: Option<&dyn MainFile>) {
        self.shared.flush.poison(code);
        if let Some(main) = main
            && self.shares_index.load(Relaxed)
            && self.checkpoint.running.load(Relaxed)
        {
            main.forget_backfill();
        }
    }

    /// True for a pass of the background checkpoint that keeps nobody waiting.
    pub(super) fn copies_beside_writers(&self) -> bool {
        self.is_checkpointer() && !self.writing.load(Relaxed)
    }

    /// Notes that a checkpoint has copied a page.
    ///
    /// "Busy": the checkpoint is called off. To SQLite it looks like a checkpoint that readers hold
    /// up.
    pub(crate) fn pace_checkpoint(&self, page: &[u8], offset: u64) -> Result<(), Code> {
        KillPoint::Copied.reached();
        if self.copies_beside_writers() {
            self.shared.checkpointer.copied(offset, page.len() as u64);
        }
        if self.is_checkpointer() && self.shared.checkpointer.is_called_off() {
            Err(Code::BUSY)
        } else {
            Ok(())
        }
    }

    pub(super) fn sync_wal(&self, wal: &dyn Below, request: SyncRequest) -> Result<(), Error> {
        self.store().write_held(self, wal)?;
        let of_commit =
            self.unsynced_frames.load(Relaxed) && !self.checkpoint.running.load(Relaxed);
        if of_commit && self.writing.load(Relaxed) && self.unchained.any() {
            // Recovery would find neither this commit nor any behind it
            // ([`unchained`](super::unchained)).
            return Err(Error::Below(Code::IOERR_FSYNC));
        }
        if self.store().is_durable(self, wal, of_commit)? {
            if of_commit && self.writing.load(Relaxed) {
                self.shared.counts.covered_before.fetch_add(1, Relaxed);
            }
            // A failed flush before this point would still refuse the commit.
            self.unsynced_frames.store(false, Relaxed);
            self.checkpoint.wal_unsynced.store(false, Relaxed);
            if of_commit {
                self.check_names(Some(wal))?;
            }
            return Ok(self.refuse_if_failed()?);
        }
        if !of_commit {
            return self.sync_shared(wal, request);
        }
        let number = self.shared.flush.register(self.shared.turns.waiting());
        if self.puts_off() {
            let end_bytes = self.store().end_bytes();
            *lock(&self.put_off) = Some(PutOff { number, request, end_bytes });
            return Ok(());
        }
        self.flush(wal, number, request)
    }

    /// Whether the sync of this connection's commit is put off.
    ///
    /// Invariant 1: a WAL that comes here has been linked to this connection.
    pub(crate) fn puts_off(&self) -> bool {
        let is_heard_later = self.writing.load(Relaxed) && !super_journal::is_open();
        is_heard_later && self.group_commit() && self.shares_flush()
    }

    /// True if another writer waits or is likely to wait in a moment. The checkpointer shares no
    /// flush.
    pub(super) fn shares_flush(&self) -> bool {
        let has_outsiders = self.shared.commit_has_outsiders();
        let checkpointer = self.shared.checkpointer_id.load(Relaxed);
        has_outsiders
            || self.shared.turns.wanted_beside(checkpointer)
            || self.shared.flush.expects_batch()
    }

    /// Invariant 2.
    pub(crate) fn refuse_if_failed(&self) -> Result<(), Code> {
        self.shared.flush.failure().or_else(|| self.store().failure()).map_or(Ok(()), Err)
    }
}
