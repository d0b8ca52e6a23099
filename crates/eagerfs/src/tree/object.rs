//! An object of the mounted file system, and what is not synced of it.

use std::collections::BTreeSet;
use std::ops::Range;

use oneflush_blocklog::Epoch;
use parking_lot::Mutex;
use rangemap::RangeSet;

use crate::entry::{ObjectId, Place, Seq};
use crate::lower::{Identity, Kind};

#[derive(Debug)]
pub struct Object<N> {
    pub id: ObjectId,
    pub node: N,
    pub identity: Identity,
    pub kind: Kind,
    pub state: Mutex<State>,
    /// Held over a sync of it by the lower.
    pub settles: Mutex<()>,
}

#[derive(Debug, Default)]
pub struct State {
    /// Names that it is known to have.
    pub at: BTreeSet<Place>,
    /// Bytes that no sync has had (sync-dirty, section 4.3 of the thesis).
    pub dirty: RangeSet<u64>,
    /// Counts what was done to its contents.
    pub changes: u64,
    /// Its size may differ from the last one that was synced.
    pub is_resized: bool,
    /// The next sync is the lower's: what was done to it is in no record.
    pub is_beyond_log: bool,
    /// Syncs of the lower that have begun. Each has taken dirty bytes that are not durable yet.
    pub settling: u32,
    /// The newest epoch that has bytes of it.
    pub live: Option<Epoch>,
    /// The newest epoch that introduces it.
    pub known: Option<Epoch>,
    /// When its bytes went into a record last.
    pub logged: Seq,
    /// The lower has it durably, as it was at this number.
    pub in_lower: Seq,
    /// A durable record voids what the log has of it from before this number.
    pub voided: Seq,
    /// A durable record says that it is cut to this, and no later one has bytes of it.
    pub cut_to: Option<u64>,
    /// So many of its changes are durable, here or there.
    pub synced: u64,
    /// It was made since the last time that the lower had it durably.
    pub is_new: bool,
    /// It was synced while it had no name.
    pub joins_when_named: bool,
    /// It was cut to nothing, and its bytes since then are in no record.
    pub was_emptied: bool,
}

impl<N> Object<N> {
    pub fn new(id: ObjectId, node: N, identity: Identity, kind: Kind, at: Option<Place>) -> Self {
        let state = State { at: at.into_iter().collect(), ..State::default() };
        Object { id, node, identity, kind, state: Mutex::new(state), settles: Mutex::new(()) }
    }
}

impl State {
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.iter().map(|range| range.end - range.start).sum()
    }

    /// Nothing of it waits for a sync.
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty() && !self.is_resized && !self.is_beyond_log && self.settling == 0
    }

    /// Its bytes are durable, and the log has no older ones that a recovery would put over them.
    /// Bytes of a record in flight are not durable, and wait for no sync any more.
    pub fn is_durable(&self) -> bool {
        self.is_clean() && self.synced >= self.changes && self.voided >= self.in_lower
    }

    /// These bytes are being written.
    pub fn write(&mut self, bytes: Range<u64>) {
        self.changes += 1;
        if !bytes.is_empty() {
            self.dirty.insert(bytes);
        }
    }

    /// Nothing of its contents waits for a sync any more.
    pub fn wait_for_nothing(&mut self) {
        self.dirty.clear();
        self.is_resized = false;
        self.is_beyond_log = false;
        self.was_emptied = false;
    }

    /// The file was cut, or made longer.
    pub fn cut(&mut self, size_bytes: u64) {
        self.changes += 1;
        self.dirty.remove(size_bytes..u64::MAX);
        self.is_resized = true;
        self.was_emptied = size_bytes == 0;
    }

    /// A sync of it must be the lower's.
    pub fn needs_lower(&self, threshold_bytes: u64) -> bool {
        self.is_beyond_log || self.settling > 0 || self.dirty_bytes() > threshold_bytes
    }

    /// A sync of the lower begins: it has all that is dirty now.
    pub fn begin_settling(&mut self) {
        self.wait_for_nothing();
        self.settling += 1;
    }
}
