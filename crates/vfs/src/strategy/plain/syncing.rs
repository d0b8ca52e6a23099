//! Syncs of the WAL and of the database file: which of them are put off, shared, or left out, and what ends with one that fails. The invariants
//! are those of [`plain`](super).

use std::sync::atomic::Ordering::Relaxed;

use super::flush::CommitNo;
use super::{Plain, unsure};
use crate::error::{Code, Error};
use crate::strategy::eager::EagerLog;
use crate::strategy::{Below, ShmLock, SyncRequest};
use crate::super_journal;
use crate::sync::lock;

/// A commit whose sync is put off.
pub struct PutOff {
    pub number: CommitNo,
    /// How SQLite wanted it.
    pub request: SyncRequest,
    /// Where its last frame ends in the WAL.
    pub end_bytes: Option<u64>,
}

/// What a flush is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// A commit whose sync was put off; it lets the others write, so it may wait for them.
    CommitInCompany,
    /// One that keeps them from it.
    Commit,
    /// A checkpoint, or a header: with `eager` it may be told "busy".
    Other,
}

impl Plain {
    /// A commit's sync of the WAL, shared with whoever else wants one.
    pub(super) fn flush(&self, wal: &dyn Below, number: CommitNo, request: SyncRequest) -> Result<(), Error> {
        self.flush_for(wal, number, request, For::Commit)
    }

    /// The same for one that is no commit's.
    pub(super) fn sync_shared(&self, wal: &dyn Below, request: SyncRequest) -> Result<(), Error> {
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
        self.checkpoint_wal_unsynced.store(false, Relaxed);
        let waiting = || self.shared.turns.waiting();
        let queue: Option<&dyn Fn() -> u32> = if what == For::CommitInCompany { Some(&waiting) } else { None };
        if let Some(log) = &self.shared.log {
            let main = lock(&self.main);
            let Some(main) = main.as_deref() else { return Err(Error::Below(Code::READONLY)) };
            return Ok(self.shared.flush.wait_for(number, queue, || log.append(main, wal, what))?);
        }
        Ok(self.shared.flush.wait_for(number, queue, || {
            let writes = self.shared.generation.begin_flush();
            wal.sync(request).inspect_err(|_| {
                self.shared.note_failure();
                // Whoever flushes here has the write lock, the checkpoint's, or a read lock of its commit: nobody begins the WAL anew.
                let _ = unsure::write_first_again(wal);
            })?;
            self.shared.directory_synced.store(true, Relaxed);
            self.shared.generation.flushed(writes);
            Ok(true)
        })?)
    }

    /// The sync of a checkpoint. Where readers hold a checkpoint up, SQLite takes what it has copied for done without a sync, and copies only
    /// the rest the next time; if the sync then fails, the device may lack pages that no later checkpoint of SQLite's would write again.
    /// Nothing may be copied, and the WAL not begun anew, until all connections are closed; who opens the database then copies everything, and
    /// so does the next checkpoint of another process.
    pub(super) fn sync_database(&self, main: &dyn Below, request: SyncRequest) -> Result<(), Code> {
        main.sync(request).inspect_err(|&code| {
            self.shared.flush.poison(code);
            if self.shares_index.load(Relaxed) && self.checkpointing.load(Relaxed) {
                main.forget_backfill();
            }
        })
    }

    /// True for a pass of the background's checkpoint that keeps nobody waiting.
    pub(super) fn copies_beside_writers(&self) -> bool {
        self.is_checkpointer && !self.writing.load(Relaxed)
    }

    /// A checkpoint has copied a page. "Busy": the checkpoint is called off; to SQLite it is one that readers hold up.
    pub(super) fn pace_checkpoint(&self, page: &[u8], offset: u64) -> Result<(), Code> {
        if self.copies_beside_writers() {
            self.shared.checkpointer.copied(offset, page.len() as u64);
        }
        if self.is_checkpointer && self.shared.checkpointer.is_called_off() { Err(Code::BUSY) } else { Ok(()) }
    }

    pub(super) fn sync_wal(&self, wal: &dyn Below, request: SyncRequest) -> Result<(), Error> {
        self.write_all_held(wal)?;
        let of_commit = self.unsynced_frames.load(Relaxed) && !self.checkpointing.load(Relaxed);
        if of_commit && self.writing.load(Relaxed) && self.unchained.any() {
            // Who recovers the WAL would not find this commit, nor any behind it ([`unchained`](super::unchained)).
            return Err(Error::Below(Code::IOERR_FSYNC));
        }
        if let Some(log) = &self.shared.log {
            if self.writing.load(Relaxed) && of_commit {
                if log.is_held() && !self.puts_off() {
                    self.wait_before_commit(log, wal)?;
                }
                self.note_commit(log);
            } else {
                // In exclusive locking mode there is no lock to tell a commit's sync from that of a checkpoint after one that failed.
                self.note_written(log);
            }
            let published = lock(&self.main).as_deref().and_then(|main| self.published_frames(main));
            if log.is_durable(wal, published)? {
                self.unsynced_frames.store(false, Relaxed);
                self.checkpoint_wal_unsynced.store(false, Relaxed);
                return Ok(self.refuse_if_failed()?);
            }
        }
        if !of_commit && *lock(&self.shared.left) && self.shared.flush.failure().is_none() {
            self.mend_for_checkpoint(wal)?;
        }
        if !of_commit && self.shared.log.is_none() && self.shared.generation.is_durable(wal) {
            // Nothing to sync. A failed flush before would have been the end of it.
            self.checkpoint_wal_unsynced.store(false, Relaxed);
            return Ok(self.refuse_if_failed()?);
        }
        if !of_commit {
            return self.sync_shared(wal, request);
        }
        let number = self.shared.flush.register(self.shared.turns.waiting());
        if self.puts_off() {
            let end_bytes = self.shared.generation.end_bytes();
            *lock(&self.put_off) = Some(PutOff { number, request, end_bytes });
            return Ok(());
        }
        self.flush(wal, number, request)
    }

    /// Whether the sync of this connection's commit is put off. Invariant 1: a WAL that comes here has been linked to this connection.
    fn puts_off(&self) -> bool {
        let is_heard_later = self.writing.load(Relaxed) && !super_journal::is_open();
        is_heard_later && self.group_commit() && self.is_in_company()
    }

    /// True if another writer waits, or is likely to in a moment. The checkpointer shares no flush.
    pub(super) fn is_in_company(&self) -> bool {
        let has_outsiders = self.shared.commit_has_outsiders();
        let checkpointer = self.shared.checkpointer_id.load(Relaxed);
        has_outsiders || self.shared.turns.wanted_beside(checkpointer) || self.shared.flush.expects_company()
    }

    /// Before the sync of a checkpoint, whose connection need not have the write lock.
    fn mend_for_checkpoint(&self, wal: &dyn Below) -> Result<(), Error> {
        let main = lock(&self.main);
        let takes_lock = self.shares_index.load(Relaxed) && !self.writing.load(Relaxed);
        let below = main.as_deref().filter(|_| takes_lock);
        if let Some(below) = below {
            below.shm_lock(ShmLock::of_writer(true))?;
        }
        let result = wal.size_bytes().and_then(|end_bytes| self.shared.mend(wal, end_bytes));
        if let Some(below) = below {
            below.shm_lock(ShmLock::of_writer(false))?;
        }
        Ok(result?)
    }

    /// Invariant 2.
    pub(super) fn refuse_if_failed(&self) -> Result<(), Code> {
        let of_log = || self.shared.log.as_ref().and_then(EagerLog::failure);
        self.shared.flush.failure().or_else(of_log).map_or(Ok(()), Err)
    }
}
