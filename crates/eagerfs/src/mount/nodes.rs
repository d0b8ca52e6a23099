//! Which objects the kernel refers to, and how often.
//!
//! - **M1** The kernel's number of an object is its inode number in the lower. `fuser` has one
//!   number for the kernel and for `st_ino`, and that must stay the same: git, tar and those who
//!   follow logs compare it. The root's is 1.
//! - **M2** The lower does not give a number away again while the kernel refers to it: an object
//!   without a name stays pinned until the kernel forgets it.
//! - **M3** An object is dropped only while nobody looks one up: `gate` is held over a lookup and
//!   the counting of it.

use std::hash::{Hash, Hasher};
use std::io;
use std::sync::Arc;

use fuser::{Generation, INodeNo};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::answer::refused;
use crate::directory::Node;
use crate::entry::{ObjectId, ROOT};
use crate::tree::Object;

pub type RealObject = Arc<Object<Node>>;

#[derive(Debug, Default)]
pub struct Nodes {
    gate: RwLock<()>,
    known: Mutex<FxHashMap<u64, Known>>,
    forgotten: Mutex<FxHashSet<ObjectId>>,
}

#[derive(Debug)]
struct Known {
    object: RealObject,
    lookups: u64,
    writers: u64,
}

pub fn number_of(object: &Object<Node>) -> INodeNo {
    if object.id == ROOT { INodeNo::ROOT } else { INodeNo(object.identity.inode) }
}

/// Tells two objects apart that had the same number, one after the other.
pub fn generation_of(object: &Object<Node>) -> Generation {
    let mut hasher = FxHasher::default();
    object.identity.proof.hash(&mut hasher);
    // The kernel keeps 32 bits.
    Generation(hasher.finish() >> 32)
}

impl Nodes {
    pub fn new(root: RealObject) -> Nodes {
        let nodes = Nodes::default();
        nodes.enter(&root);
        nodes
    }

    /// M3.
    pub fn looking_up(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// `ESTALE`: the kernel was told of no such object.
    pub fn get(&self, number: INodeNo) -> io::Result<RealObject> {
        match self.known.lock().get(&number.0) {
            Some(known) => Ok(Arc::clone(&known.object)),
            None => refused(libc::ESTALE),
        }
    }

    /// The kernel is told of it once more.
    pub fn enter(&self, object: &RealObject) {
        let fresh = || Known { object: Arc::clone(object), lookups: 0, writers: 0 };
        let mut known = self.known.lock();
        let entry = known.entry(number_of(object).0).or_insert_with(fresh);
        let other = (entry.object.id != object.id).then(|| std::mem::replace(entry, fresh()));
        entry.lookups += 1;
        drop(known);
        self.forgotten.lock().remove(&object.id);
        if let Some(other) = other {
            self.forgotten.lock().insert(other.object.id);
        }
    }

    /// The kernel takes this many back. Answers the object if none is left.
    pub fn leave(&self, number: INodeNo, lookups: u64) -> Option<RealObject> {
        if number == INodeNo::ROOT {
            return None;
        }
        let mut known = self.known.lock();
        let entry = known.get_mut(&number.0)?;
        entry.lookups = entry.lookups.saturating_sub(lookups);
        if entry.lookups > 0 {
            return None;
        }
        let object = known.remove(&number.0)?.object;
        drop(known);
        self.forgotten.lock().insert(object.id);
        Some(object)
    }

    /// One more may write it.
    pub fn opened_to_write(&self, number: INodeNo) {
        if let Some(entry) = self.known.lock().get_mut(&number.0) {
            entry.writers += 1;
        }
    }

    pub fn closed_to_write(&self, number: INodeNo) {
        if let Some(entry) = self.known.lock().get_mut(&number.0) {
            entry.writers = entry.writers.saturating_sub(1);
        }
    }

    /// True if the kernel may have bytes of it that nobody else has.
    pub fn is_written(&self, number: INodeNo) -> bool {
        self.known.lock().get(&number.0).is_some_and(|known| known.writers > 0)
    }

    /// The files of which the kernel may have bytes that nobody else has.
    pub fn written(&self) -> Vec<INodeNo> {
        let known = self.known.lock();
        let written = known.iter().filter(|(_, known)| known.writers > 0);
        written.map(|(number, _)| INodeNo(*number)).collect()
    }

    /// How many objects the kernel has forgotten that are still in the tree.
    pub fn forgotten(&self) -> usize {
        self.forgotten.lock().len()
    }

    /// Has the forgotten ones dropped. What is answered stays forgotten.
    pub fn drop_forgotten(
        &self,
        drop_objects: impl FnOnce(FxHashSet<ObjectId>) -> FxHashSet<ObjectId>,
    ) {
        let _nobody_looks_up = self.gate.write();
        let mut forgotten = self.forgotten.lock();
        let ids = std::mem::take(&mut *forgotten);
        *forgotten = drop_objects(ids);
    }
}
