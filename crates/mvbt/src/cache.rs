//! Pages in memory. A page that was not asked for since the hand passed it last goes first (CLOCK).

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::RwLock;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::PageNo;
use crate::page::image::Image;

const SHARDS: usize = 16;

struct Entry {
    /// None: the page was forgotten, and keeps its place in the clock.
    image: Option<Arc<Image>>,
    was_used: AtomicBool,
}

#[derive(Default)]
struct Shard {
    entries: FxHashMap<PageNo, Entry>,
    /// Every page of `entries` once.
    clock: Vec<PageNo>,
    hand: usize,
}

pub struct Cache {
    shards: [RwLock<Shard>; SHARDS],
    pages_a_shard: usize,
}

impl Cache {
    pub fn new(pages_max: usize) -> Cache {
        Cache {
            shards: std::array::from_fn(|_| RwLock::default()),
            pages_a_shard: pages_max.div_ceil(SHARDS).max(4),
        }
    }

    fn shard(&self, no: PageNo) -> &RwLock<Shard> {
        &self.shards[(FxBuildHasher.hash_one(no) >> 60) as usize % SHARDS]
    }

    pub fn get(&self, no: PageNo) -> Option<Arc<Image>> {
        let shard = self.shard(no).read();
        let entry = shard.entries.get(&no)?;
        if !entry.was_used.load(Relaxed) {
            entry.was_used.store(true, Relaxed);
        }
        entry.image.clone()
    }

    pub fn put(&self, image: Arc<Image>) {
        let mut shard = self.shard(image.no).write();
        let no = image.no;
        let entry = Entry { image: Some(image), was_used: AtomicBool::new(false) };
        if shard.entries.insert(no, entry).is_none() {
            shard.make_room(self.pages_a_shard, no);
        }
    }

    pub fn remove(&self, no: PageNo) {
        if let Some(entry) = self.shard(no).write().entries.get_mut(&no) {
            entry.image = None;
        }
    }

    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| *shard.write() = Shard::default());
    }
}

impl Shard {
    /// Puts a new page into the clock, in the place of one that goes.
    fn make_room(&mut self, pages_max: usize, new: PageNo) {
        if self.clock.len() < pages_max {
            self.clock.push(new);
            return;
        }
        loop {
            self.hand = (self.hand + 1) % self.clock.len();
            let at = self.clock[self.hand];
            let is_used =
                |entry: &Entry| entry.image.is_some() && entry.was_used.swap(false, Relaxed);
            if !self.entries.get(&at).is_some_and(is_used) {
                self.entries.remove(&at);
                self.clock[self.hand] = new;
                return;
            }
        }
    }
}
