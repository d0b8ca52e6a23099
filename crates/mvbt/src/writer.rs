//! What a writer keeps from transaction to transaction, and the anchor of this opening.

use std::collections::BTreeSet;

use crate::anchor::{Anchor, VOIDS_MAX};
use crate::garbage::Garbage;
use crate::mutant::{self, Mutant};
use crate::store::Store;
use crate::work::Pool;
use crate::{Error, PageNo, Result, Version, recovery, scrub};

pub struct Writer {
    anchor: Anchor,
    /// This opening's anchor is in the file.
    is_begun: bool,
    /// The last version that was given to a transaction.
    pub last: Version,
    /// The last one that this opening has made void.
    last_void: Version,
    /// Where the next commit block goes.
    pub ring: u64,
    pub pool: Pool,
    /// What readers hold back.
    pub garbage: Garbage,
    /// Pages with cells that nobody may need any more. Empty where they are collected lazily.
    pub uncollected: BTreeSet<PageNo>,
}

impl Writer {
    /// `anchor`: that of a new file, or the one that recovery asks for and that is not there yet.
    pub fn new(anchor: Anchor, current: Version) -> Writer {
        let (pool, garbage, uncollected) = (Pool::default(), Garbage::default(), BTreeSet::new());
        let last_void = Version(0);
        Writer {
            anchor,
            is_begun: false,
            last: current,
            last_void,
            ring: 0,
            pool,
            garbage,
            uncollected,
        }
    }

    /// The version of the next transaction. Before the first one of this opening, the anchor is
    /// written that recovery asks for (I15).
    pub fn begin(&mut self, store: &Store) -> Result<Version> {
        store.check_usable()?;
        if !self.is_begun {
            if self.anchor.is_closed {
                self.anchor = recovery::reopened(&self.anchor);
            }
            self.declare_void(store, self.anchor.clone())?;
            self.is_begun = true;
        }
        let version = self.last.next();
        if version >= Version::MAX {
            return Err(Error::NoVersion);
        }
        if version > self.anchor.reserved {
            let reserved = recovery::reserved_above(self.anchor.reserved);
            self.write(store, Anchor { reserved, ..self.following() })?;
        }
        Ok(version)
    }

    /// Versions above this one were all committed, up to the last one.
    pub fn settled(&self) -> Version {
        self.anchor.settled.max(self.last_void)
    }

    /// The anchor after this one.
    fn following(&self) -> Anchor {
        Anchor { sequence: self.anchor.sequence + 1, ..self.anchor.clone() }
    }

    fn write(&mut self, store: &Store, anchor: Anchor) -> Result<()> {
        store.write_anchor(&anchor)?;
        self.anchor = anchor;
        Ok(())
    }

    /// Without metadata embedding each commit writes the change counter.
    pub fn write_change_counter(&mut self, store: &Store) -> Result<()> {
        self.write(store, self.following())
    }

    /// I13: the version never was.
    pub fn make_void(&mut self, store: &Store, version: Version) -> Result<()> {
        (self.last, self.last_void) = (version, version);
        // Readers may have read pages of it.
        store.forget_all();
        let mut voids = self.anchor.voids();
        voids.add(version, version);
        let mut anchor = Anchor { voids: voids.intervals().to_vec(), ..self.following() };
        if mutant::is(Mutant::RollbackNotVoid) {
            anchor.voids.clone_from(&self.anchor.voids);
        }
        self.declare_void(store, anchor)
    }

    /// Writes an anchor, and does what its void intervals say. Many of them are taken out of the
    /// pages, but not before they are in the file (I16).
    fn declare_void(&mut self, store: &Store, anchor: Anchor) -> Result<()> {
        self.write(store, anchor)?;
        if self.anchor.voids.len() > VOIDS_MAX / 2 {
            scrub::forget_void_directories(store, &self.anchor)?;
            self.write(store, Anchor { voids: Vec::new(), ..self.following() })?;
        }
        *store.voids.write() = self.anchor.voids();
        store.forget_all();
        Ok(())
    }

    /// The last anchor: nothing has to be recovered.
    pub fn close(&mut self, store: &Store) -> Result<()> {
        let (reserved, settled) = (self.last, self.last);
        let (pool, kept) = self.pool.left();
        let left = Anchor { pool, kept, ..self.following() };
        self.write(store, Anchor { reserved, settled, is_closed: true, ..left })
    }
}
