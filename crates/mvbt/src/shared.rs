//! What a database and its transactions have in common. A transaction keeps it alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use oneflush_blocklog::invariant;

use crate::commons::board::{Board, Missed, Seen};
use crate::history::{self, Horizon};
use crate::mutant::{self, Mutant};
use crate::options::Options;
use crate::readers::Readers;
use crate::store::{Newest, Store};
use crate::sync::Mutex;
use crate::writer_lock::{Wait, WriterLock};
use crate::{PageNo, Result, Version, recovery};

pub struct Shared {
    pub store: Arc<Store>,
    pub options: Arc<Options>,
    /// With all users of the database.
    pub board: Arc<Board>,
    pub readers: Readers,
    pub writer: WriterLock,
    /// Nobody had written in the file when it was opened, but who made it.
    pub is_as_made: bool,
    /// A loss of power may take the file's name away (I22).
    is_name_loose: AtomicBool,
    /// Up to where the cache knows what other users have changed.
    seen: Mutex<Seen>,
}

impl Shared {
    /// `seen`: up to where the store knows what has changed.
    pub fn new(
        store: Store,
        options: Options,
        board: Board,
        writer: WriterLock,
        seen: Seen,
        is_as_made: bool,
    ) -> Shared {
        store.set_pages_max(options.pages_max);
        let board = Arc::new(board);
        let readers = Readers::new(Arc::clone(&board));
        let (store, options) = (Arc::new(store), Arc::new(options));
        let (is_name_loose, seen) = (AtomicBool::new(false), Mutex::new(seen));
        Shared { store, options, board, readers, writer, is_as_made, is_name_loose, seen }
    }

    pub fn note_loose_name(&self, is_loose: bool) {
        self.is_name_loose.store(is_loose, Relaxed);
    }

    /// To be called before a commit writes.
    pub fn check_name(&self) {
        invariant!(
            "I22",
            "nobody commits in a file whose name is not durable",
            !self.is_name_loose.load(Relaxed),
        );
    }

    /// The transaction has left nothing. After a failed write some pages of it may be in the file:
    /// then the next writer judges them (P8).
    pub fn end_writing(&self) {
        if self.store.check_usable().is_err() && !mutant::is(Mutant::FailureHidden) {
            return;
        }
        invariant!(
            "P8",
            "a transaction that may have left something stays to be judged",
            self.store.is_flushed() && !self.store.has_failed(),
        );
        self.board.end_writing();
    }

    /// Has the cache and the void intervals up to date with what other users have done.
    pub fn catch_up(&self) -> Result<()> {
        let mut seen = self.seen.lock();
        let now = self.board.seen();
        if now.generation != seen.generation {
            *self.store.voids.write() = self.store.newest_anchor()?.anchor.voids();
            self.store.forget_all();
        } else if now.changes != seen.changes {
            match self.board.missed(seen.changes, now.changes) {
                Missed::Pages(pages) => pages.into_iter().for_each(|no| self.store.forget(no)),
                Missed::All => self.store.forget_all(),
            }
        }
        *seen = now;
        Ok(())
    }

    /// One who comes beside others finds that a writer has died, or that the first user has judged
    /// the last transaction for itself alone (P4).
    pub fn repair_what_the_dead_have_left(self: &Arc<Shared>) -> Result<()> {
        if self.options.read_only {
            return self.judge_for_itself();
        }
        let is_left = self.board.is_begun() && !self.board.has_writer();
        // Who has the lock may only check the file.
        if !is_left && !self.board.is_unjudged() {
            return Ok(());
        }
        let mut writer = WriterLock::take(self, Wait::ForEver)?;
        if self.board.is_begun() {
            writer.repair(&self.store, &self.board)?;
        }
        Ok(())
    }

    /// One who may not write needs this only where the first user has judged for itself, too. What
    /// another writer has left is above all versions that readers take.
    fn judge_for_itself(self: &Arc<Shared>) -> Result<()> {
        if !self.board.is_unjudged() {
            return Ok(());
        }
        // Nobody repairs it meanwhile.
        let _writer = WriterLock::take(self, Wait::ForEver)?;
        if self.board.is_unjudged() {
            let mut seen = self.seen.lock();
            let recovered = recovery::recover(&self.store, &self.store.newest_anchor()?)?;
            *self.store.voids.write() = recovered.anchor.voids();
            *seen = self.board.seen();
        }
        Ok(())
    }

    /// What a writer must keep: the least that a reader has, or that the file retains. Called with
    /// the writer's lock, and with the cache up to date. Readers of what was given up are refused
    /// before the others are counted (P9).
    pub fn horizon(&self) -> Result<Horizon> {
        let kept = history::kept_from(&Newest(&self.store))?;
        let limit = kept.unwrap_or(self.board.current());
        if !mutant::is(Mutant::GivenUpUnsaid) {
            self.board.give_up_before(limit);
        }
        let read = self.readers.horizon();
        invariant!(
            "P9",
            "what a writer gives up is said before it asks who reads",
            self.board.given_up() >= limit,
        );
        Ok(Horizon { version: read.min(limit), read, kept })
    }

    /// True if nothing was made void since this user has last looked.
    pub fn knows_what_is_void(&self) -> bool {
        self.seen.lock().generation == self.board.seen().generation
    }

    /// Says that a version of this user is durable. Its pages are in the cache.
    pub fn publish(&self, version: Version, changed: &[PageNo], used_ring: bool) {
        let mut seen = self.seen.lock();
        seen.changes = self.board.publish(version, changed, used_ring);
    }
}
