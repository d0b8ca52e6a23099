//! What a writer keeps from transaction to transaction, and the anchor of this opening.

use std::collections::BTreeSet;

use oneflush_blocklog::invariant;

use crate::anchor::{Anchor, VOIDS_MAX};
use crate::commons::board::{Board, Opened};
use crate::garbage::Garbage;
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::recovery::{self, Found, Recovered};
use crate::store::{Newest, Store};
use crate::work::{self, Pool};
use crate::{Error, PageNo, Result, Version, scrub};

pub struct Writer {
    /// The newest that this user knows.
    anchor: Anchor,
    pub pool: Pool,
    /// What readers hold back of the pages that this user has freed.
    pub garbage: Garbage,
    /// Pages with cells that nobody may need any more. Empty where they are collected lazily.
    /// Another user that writes may use them for something else, so then they are forgotten.
    pub uncollected: BTreeSet<PageNo>,
}

impl Writer {
    /// Beside others, who have opened the file.
    pub fn new(anchor: Anchor) -> Writer {
        let (pool, garbage, uncollected) = (Pool::default(), Garbage::default(), BTreeSet::new());
        Writer { anchor, pool, garbage, uncollected }
    }

    /// Nobody else uses the file. If it was not closed cleanly, the last transaction is judged
    /// (I14). That stays in memory: the first who writes says it in an anchor (P4).
    pub fn open(&mut self, store: &Store, board: &Board, found: &Found) -> Result<()> {
        let is_closed = self.anchor.is_closed;
        let Recovered { anchor, current } = recovery::recover(store, found)?;
        *store.voids.write() = if is_closed { self.anchor.voids() } else { anchor.voids() };
        store.keep_first(found);
        board.open(&Opened { uuid: store.uuid, current, anchor: self.anchor.sequence });
        if !is_closed {
            board.leave_unjudged();
            store.note_unjudged(true);
        }
        Ok(())
    }

    /// P4: the last writer has died, or could not roll back. The anchor may be newer than the board
    /// says.
    pub fn repair(&mut self, store: &Store, board: &Board) -> Result<()> {
        KillPoint::Repairing.reached();
        store.note_unjudged(true);
        let found = store.newest_anchor()?;
        let Recovered { anchor, current } = recovery::recover(store, &found)?;
        self.anchor = found.anchor;
        let kept = self.kept(board);
        if !mutant::is(Mutant::VoidsUnsaid) {
            self.declare_void(store, board, anchor)?;
        }
        KillPoint::Recovered.reached();
        self.take(store, kept);
        self.pool.hold(None);
        self.uncollected.clear();
        board.make_void(current, current);
        Ok(())
    }

    /// What other users have written since this one, which has the lock. Its cache is up to date
    /// afterwards if the board is looked at once more.
    pub fn catch_up(&mut self, store: &Store, board: &Board) -> Result<()> {
        store.check_usable()?;
        match board.is_begun() && !mutant::is(Mutant::RepairSkipped) {
            true => self.repair(store, board),
            false => self.learn(store, board),
        }
    }

    /// The version of the next transaction, after [`Writer::catch_up`].
    pub fn begin(&mut self, store: &Store, board: &Board) -> Result<Version> {
        let version = board.last().next();
        if version >= Version::MAX {
            return Err(Error::NoVersion);
        }
        invariant!(
            "P7",
            "who writes knows the newest anchor",
            self.anchor.sequence >= board.anchor(),
        );
        invariant!(
            "I1",
            "a version is above all that were given before",
            version > self.anchor.settled.max(board.current()),
        );
        board.begin_writing(version);
        KillPoint::Begun.reached();
        self.make_ready(store, board, version)?;
        invariant!(
            "I21",
            "no version is above those that the anchor has reserved",
            version <= self.anchor.reserved,
        );
        let left = board.take_left();
        self.pool.add(left);
        Ok(version)
    }

    fn learn(&mut self, store: &Store, board: &Board) -> Result<()> {
        if self.anchor.sequence != board.anchor() && !mutant::is(Mutant::AnchorUnread) {
            self.anchor = store.newest_anchor()?.anchor;
            if self.anchor.sequence < board.anchor() {
                let (path, what) = (store.path().to_owned(), "the newest one is lost".to_owned());
                return Err(Error::AnchorsDamaged { path, what });
            }
            // Whoever has written it has judged what a crash has left.
            store.note_unjudged(false);
        }
        if !board.has_written_last() {
            let block = board.listed().map(|place| store.read_commit_block(place)).transpose()?;
            // I12
            self.pool.hold(block.flatten().map(|block| block.pages));
            self.uncollected.clear();
        }
        Ok(())
    }

    /// Writes the anchors that have to be there before the version is written.
    fn make_ready(&mut self, store: &Store, board: &Board, version: Version) -> Result<()> {
        if self.anchor.is_closed {
            let kept = self.kept(board);
            self.write(store, board, recovery::reopened(&self.anchor))?;
            self.take(store, kept);
        }
        if version > self.anchor.reserved {
            let reserved = recovery::reserved_above(self.anchor.reserved);
            self.write(store, board, Anchor { reserved, ..self.following() })?;
        }
        Ok(())
    }

    /// The pages that the close has left for readers of a history, if nothing was written since.
    pub fn kept(&self, board: &Board) -> Vec<(PageNo, Version)> {
        if self.is_closed(board) { self.anchor.kept.clone() } else { Vec::new() }
    }

    /// The first who writes after a close has them from now on.
    fn take(&mut self, store: &Store, kept: Vec<(PageNo, Version)>) {
        // A page behind the last one is none that a close has left.
        let count = work::page_count(&Newest(store)).unwrap_or(0);
        if kept.iter().all(|(no, _)| no.0 <= count) {
            self.pool.add_kept(kept);
        }
    }

    /// Versions above this one were all committed, up to the last one: those that were made void,
    /// by any user, are below.
    pub fn settled(&self) -> Version {
        self.anchor.settled
    }

    /// The anchor after this one.
    fn following(&self) -> Anchor {
        Anchor { sequence: self.anchor.sequence + 1, ..self.anchor.clone() }
    }

    fn write(&mut self, store: &Store, board: &Board, anchor: Anchor) -> Result<()> {
        store.write_anchor(&anchor)?;
        KillPoint::Anchored.reached();
        self.anchor = anchor;
        board.note_anchor(self.anchor.sequence);
        Ok(())
    }

    /// Without metadata embedding each commit writes the change counter.
    pub fn write_change_counter(&mut self, store: &Store, board: &Board) -> Result<()> {
        self.write(store, board, self.following())
    }

    /// I13: the version never was. What came before it was flushed, and needs no judgement.
    pub fn make_void(&mut self, store: &Store, board: &Board, version: Version) -> Result<()> {
        let mut voids = self.anchor.voids();
        voids.add(version, version);
        let voids = voids.intervals().to_vec();
        let mut anchor = Anchor { voids, settled: version, ..self.following() };
        if mutant::is(Mutant::RollbackNotVoid) {
            anchor.voids.clone_from(&self.anchor.voids);
        }
        invariant!(
            "I13",
            "the anchor after a rollback makes its version void",
            anchor.settled == version
                && anchor.voids.last().is_some_and(|&(_, last)| last == version),
        );
        self.declare_void(store, board, anchor)?;
        board.make_void(version, board.current());
        Ok(())
    }

    /// Writes an anchor, and does what its void intervals say. Many of them are taken out of the
    /// pages, but not before they are in the file (I16).
    fn declare_void(&mut self, store: &Store, board: &Board, anchor: Anchor) -> Result<()> {
        self.write(store, board, anchor)?;
        store.note_unjudged(false);
        if self.anchor.voids.len() > VOIDS_MAX / 2 {
            scrub::forget_void_directories(store, &self.anchor)?;
            self.write(store, board, Anchor { voids: Vec::new(), ..self.following() })?;
        }
        *store.voids.write() = self.anchor.voids();
        // Readers may have read pages of it.
        store.forget_all();
        Ok(())
    }

    /// No block needs to be judged any more: all transactions were flushed.
    pub fn settle(&mut self, store: &Store, board: &Board) -> Result<()> {
        self.write(store, board, Anchor { settled: board.last(), ..self.following() })
    }

    /// True if nothing was written since the file was closed cleanly.
    pub fn is_closed(&self, board: &Board) -> bool {
        self.anchor.is_closed && self.anchor.sequence == board.anchor()
    }

    /// The last anchor: nothing has to be recovered.
    pub fn close(&mut self, store: &Store, board: &Board) -> Result<()> {
        let last = board.last();
        let (pool, kept) = self.pool.left();
        let left = Anchor { pool, kept, ..self.following() };
        let closed = Anchor { reserved: last, settled: last, is_closed: true, ..left };
        self.write(store, board, closed)?;
        KillPoint::Closed.reached();
        Ok(())
    }
}
