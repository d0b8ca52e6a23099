//! What a mounted file system asks in addition: changes that the lower makes by itself, and objects
//! that nobody refers to any more.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use oneflush_blocklog::Storage;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Tree;
use crate::entry::{ObjectId, Op, ROOT};
use crate::lower::Lower;

impl<L: Lower, S: Storage> Tree<L, S> {
    /// Has the lower change these bytes of a file by itself: they count as written. `resizes`: the
    /// file's size may change.
    pub fn change<T>(
        &self,
        id: ObjectId,
        bytes: Range<u64>,
        resizes: bool,
        change: impl FnOnce(&L::Node) -> io::Result<T>,
    ) -> io::Result<T> {
        let _watch = self.sound()?;
        let object = self.object(id)?;
        self.is_touched.store(true, Ordering::Release);
        let mut state = self.state(&object);
        state.write(bytes);
        state.is_resized |= resizes;
        change(&object.node)
    }

    /// Has the lower do with a file what no record can say. The log has nothing of the file then,
    /// and its next sync is the lower's (T4).
    pub fn change_beyond_log<T>(
        &self,
        id: ObjectId,
        change: impl FnOnce(&L::Node) -> io::Result<T>,
    ) -> io::Result<T> {
        let _watch = self.sound()?;
        let object = self.object(id)?;
        self.is_touched.store(true, Ordering::Release);
        loop {
            {
                let mut state = self.state(&object);
                // From now on no record takes bytes of it.
                state.is_beyond_log = true;
                state.changes += 1;
                if state.live.is_none() {
                    self.check_before_bytes_go(&state, None);
                    return change(&object.node);
                }
            }
            self.settle(&object, true)?;
        }
    }

    /// Nobody refers to the object any more. True: it has no name either, so nobody will reach it
    /// again. Nothing of it waits for a sync then.
    pub fn let_go(&self, id: ObjectId) -> bool {
        let Ok(object) = self.object(id) else { return false };
        if id == ROOT || !self.state(&object).at.is_empty() {
            return false;
        }
        let mut order = self.order();
        let mut state = self.state(&object);
        let has_names = self.lower.look(&object.node).is_ok_and(|look| look.names > 0);
        if has_names || !state.at.is_empty() {
            return false;
        }
        state.wait_for_nothing();
        state.joins_when_named = false;
        order.joins.remove(&id);
        true
    }

    /// How many objects are known.
    pub fn objects_known(&self) -> usize {
        self.objects.read().by_id.len()
    }

    /// Drops those of these objects that nothing needs any more, and answers the others. Nobody may
    /// look one of them up meanwhile.
    ///
    /// An object is needed while something of it waits for a sync, and while an operation that
    /// waits names it. While a live epoch knows it, it would get a second number there. A directory
    /// is needed while another object has a name in it.
    pub fn drop_objects(&self, ids: FxHashSet<ObjectId>) -> FxHashSet<ObjectId> {
        // No record is on its way while this is held, so every record has noted whom it names.
        let writer = self.writer();
        let order = self.order();
        let mut objects = self.objects.write();
        let pending = order.ops.iter().map(|(_, op)| op);
        let mut needed: FxHashSet<ObjectId> = pending.flat_map(Op::named).collect();
        needed.extend(&order.joins);
        let oldest = writer.oldest_live();
        let mut names_in: FxHashMap<ObjectId, u64> = FxHashMap::default();
        for object in objects.by_id.values() {
            for at in &self.state(object).at {
                *names_in.entry(at.dir).or_default() += 1;
            }
        }
        let mut left = ids;
        let mut next: Vec<ObjectId> = left.iter().copied().collect();
        while let Some(id) = next.pop() {
            let Some(object) = objects.by_id.get(&id) else {
                left.remove(&id);
                continue;
            };
            let dirs: Vec<ObjectId> = {
                let state = self.state(object);
                let is_needed = id == ROOT
                    || !state.is_clean()
                    || state.known.is_some_and(|known| known >= oldest)
                    || needed.contains(&id)
                    || names_in.get(&id).is_some_and(|names| *names > 0);
                if is_needed {
                    continue;
                }
                state.at.iter().map(|at| at.dir).collect()
            };
            if objects.by_identity.get(&object.identity) == Some(&id) {
                let identity = object.identity.clone();
                objects.by_identity.remove(&identity);
            }
            objects.by_id.remove(&id);
            left.remove(&id);
            for dir in dirs {
                if let Some(names) = names_in.get_mut(&dir) {
                    *names -= 1;
                    // It may have waited for this.
                    if *names == 0 && left.contains(&dir) {
                        next.push(dir);
                    }
                }
            }
        }
        left
    }
}
