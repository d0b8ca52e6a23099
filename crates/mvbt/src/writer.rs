//! What a writer keeps from transaction to transaction, and the anchor of this opening.

use crate::anchor::{Anchor, VOIDS_MAX};
use crate::mutant::{self, Mutant};
use crate::store::Store;
use crate::work::Pool;
use crate::{Error, Result, Version, recovery, scrub};

pub struct Writer {
    anchor: Anchor,
    /// This opening's anchor is in the file.
    is_begun: bool,
    /// The last version that was given to a transaction.
    pub last: Version,
    /// Where the next commit block goes.
    pub ring: u64,
    pub pool: Pool,
}

impl Writer {
    /// `anchor`: that of a new file, or the one that recovery asks for and that is not there yet.
    pub fn new(anchor: Anchor, current: Version) -> Writer {
        Writer { anchor, is_begun: false, last: current, ring: 0, pool: Pool::default() }
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
        self.last = version;
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
        let (reserved, settled, pool) = (self.last, self.last, self.pool.left());
        self.write(store, Anchor { reserved, settled, is_closed: true, pool, ..self.following() })
    }
}
