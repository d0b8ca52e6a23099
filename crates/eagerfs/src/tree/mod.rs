//! The mounted tree: operations go to the lower at once, and syncs to the log.
//!
//! ```text
//! operation ──▶ lower, at once ──▶ pending ──┐
//! write ──────▶ lower, at once ──▶ dirty ────┤ sync: one record, one write, one flush
//!                                            ▼
//!                      epoch e   ■■■■■■■■■■■■■■      syncfs of the lower, then "release e"
//!                      epoch e+1               ■■■■▶
//! ```
//!
//! **Invariants.** A loss of power leaves the lower with some of what was not synced, at any time.
//! Each is checked in release, at one place, against what earlier steps have noted (`ledger.rs`,
//! the states of objects, and the numbers of records).
//!
//! - **T1** *Order.* Operations are numbered in the order in which the lower sees them: `order` is
//!   held over the lower's call and the numbering.
//! - **T2** *A record is a cut.* Operations and bytes of a record are taken while `order` is held.
//!   The bytes of a file are read under its lock.
//! - **T3** *Nothing is acknowledged before its record is durable.* Records are written one after
//!   another, under `writer`.
//! - **T4** *Write-ahead.* A file that has bytes in a live epoch is cut only when a record that
//!   says so is durable. What else destroys bytes finds the file settled: the lower has it, and the
//!   log has nothing of it.
//! - **T5** *Settled.* A sync that is the lower's is acknowledged when a record voids what the log
//!   has of the file from before it.
//! - **T6** *Release.* An epoch is released when a `syncfs` that began after its end has returned.
//! - **T7** *A name comes with its contents.* The bytes of a file are durable before it takes the
//!   name of another.
//! - **T8** *Poison.* After a failed sync, a failed write to the log, or a panic, nothing is
//!   acknowledged and no epoch is released, until the next mount has recovered. A panic poisons
//!   before it lets go of a lock (`poison.rs`). Who has waited for a lock looks again.
//! - **T9** *Mark.* Before the first change behind a record, but of times, the lower is marked with
//!   its number, where it keeps the order of changes. Recovery reads there whether the lower is
//!   later than the log.
//!
//! Locks are taken in this order: `writer`, an object's `settles`, `order`, `objects`, an object's
//! state.

mod counts;
mod cut;
mod group;
mod ledger;
mod mounted;
mod object;
mod operations;
mod pending;
mod poison;
mod record;
mod release;
mod sync;
mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use oneflush_blocklog::{Head, Log, Storage};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::entry::{Begin, ObjectId, Place, ROOT};
use crate::lower::{Identity, Kind, Lower};
use crate::mutant::{self, Mutant};
pub use counts::Counts;
use cut::Cut;
pub use group::Answer;
use group::Group;
use ledger::Ledger;
pub use object::Object;
use object::State;
pub use pending::Isets;
use pending::Pending;
use poison::{Locked, Poison, Watch};
use writer::Writer;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub isets: Isets,
    /// A sync of more is the lower's. The thesis: 100 pages (section 4.4).
    pub threshold_bytes: u64,
    /// What each of the two epochs may have.
    pub lane_bytes_max: u64,
    /// Nanoseconds since 1970.
    pub clock: fn() -> u64,
}

pub struct Tree<L: Lower, S: Storage> {
    lower: L,
    log: Log<S>,
    begin: Begin,
    options: Options,
    writer: Mutex<Writer>,
    order: Mutex<Pending>,
    objects: RwLock<Objects<L::Node>>,
    group: Group,
    poison: Poison,
    ledger: Ledger,
    /// Something was done to the lower since the last beat.
    is_touched: AtomicBool,
    pub counts: Counts,
}

struct Objects<N> {
    by_id: FxHashMap<ObjectId, Arc<Object<N>>>,
    by_identity: FxHashMap<Identity, ObjectId>,
    last: ObjectId,
}

impl<N> Objects<N> {
    /// Gives an object the next number.
    fn add(
        &mut self,
        node: N,
        identity: Identity,
        kind: Kind,
        at: Option<Place>,
    ) -> Arc<Object<N>> {
        self.last.0 += 1;
        self.insert(Object::new(self.last, node, identity, kind, at))
    }

    /// An object that is known, and has this name.
    fn named(&self, identity: &Identity, at: &Place) -> Option<Arc<Object<N>>> {
        let object = self.by_id.get(self.by_identity.get(identity)?)?;
        object.state.lock().at.insert(at.clone());
        Some(Arc::clone(object))
    }

    fn insert(&mut self, object: Object<N>) -> Arc<Object<N>> {
        let object = Arc::new(object);
        self.by_id.insert(object.id, Arc::clone(&object));
        self.by_identity.insert(object.identity.clone(), object.id);
        object
    }
}

impl<L: Lower, S: Storage> Tree<L, S> {
    /// Mounts the lower with an empty log.
    pub fn new(
        lower: L,
        log: Log<S>,
        head: Head,
        begin: Begin,
        options: Options,
    ) -> io::Result<Tree<L, S>> {
        let objects = root_objects(&lower)?;
        let tree = Tree {
            lower,
            log,
            begin,
            options,
            writer: Mutex::new(Writer::new(head)),
            order: Mutex::new(Pending::default()),
            objects: RwLock::new(objects),
            group: Group::default(),
            poison: Poison::default(),
            ledger: Ledger::default(),
            is_touched: false.into(),
            counts: Counts::default(),
        };
        tree.begin_epoch(&mut tree.writer.lock(), Cut::default())?;
        Ok(tree)
    }

    pub fn lower(&self) -> &L {
        &self.lower
    }

    /// An object that was looked up or made.
    pub fn object(&self, id: ObjectId) -> io::Result<Arc<Object<L::Node>>> {
        self.objects.read().by_id.get(&id).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The object with this name.
    pub fn lookup(&self, dir: ObjectId, name: &[u8]) -> io::Result<Arc<Object<L::Node>>> {
        let at = Place::new(dir, name);
        let node = self.lower.lookup(&self.object(dir)?.node, name)?;
        let identity = self.lower.identity(&node)?;
        if let Some(object) = self.objects.read().named(&identity, &at) {
            return Ok(object);
        }
        let kind = self.lower.look(&node)?.kind;
        let mut objects = self.objects.write();
        if let Some(object) = objects.named(&identity, &at) {
            return Ok(object);
        }
        Ok(objects.add(node, identity, kind, Some(at)))
    }

    /// `Err`: nothing is acknowledged any more (T8). A panic while the answer lives poisons.
    fn sound(&self) -> io::Result<Watch<'_>> {
        if self.poison.is_set() {
            return Err(io::Error::other("a sync or a write to the log has failed: unmount"));
        }
        Ok(self.poison.watch())
    }

    /// A result that must not fail: from its failure on nothing is acknowledged.
    fn or_poison<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            if !mutant::is(Mutant::FailureForgotten) {
                self.poison.set();
            }
            self.ledger.note_failure();
        }
        result
    }

    fn writer(&self) -> Locked<'_, Writer> {
        self.poison.lock(&self.writer)
    }

    fn order(&self) -> Locked<'_, Pending> {
        self.poison.lock(&self.order)
    }

    fn state<'a>(&'a self, object: &'a Object<L::Node>) -> Locked<'a, State> {
        self.poison.lock(&object.state)
    }

    /// Nothing is acknowledged any more.
    pub fn poison(&self) {
        self.poison.set();
    }

    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }
}

fn root_objects<L: Lower>(lower: &L) -> io::Result<Objects<L::Node>> {
    let root = lower.root();
    let identity = lower.identity(&root)?;
    let mut objects =
        Objects { by_id: FxHashMap::default(), by_identity: FxHashMap::default(), last: ROOT };
    objects.insert(Object::new(ROOT, root, identity, Kind::Directory, None));
    Ok(objects)
}
