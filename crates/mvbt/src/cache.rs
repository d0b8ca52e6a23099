//! Pages in memory. A page that was not asked for since the hand passed it last goes first (CLOCK).

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use oneflush_blocklog::invariant;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::PageNo;
use crate::mutant::{self, Mutant};
use crate::page::image::Image;
use crate::sync::RwLock;

const SHARDS: usize = 16;

struct Entry {
    /// None: the page was forgotten, and keeps its place in the clock.
    image: Option<Arc<Image>>,
    /// The writer has put it there.
    is_committed: bool,
    was_used: AtomicBool,
}

#[derive(Default)]
struct Shard {
    entries: FxHashMap<PageNo, Entry>,
    /// Every page of `entries` once.
    clock: Vec<PageNo>,
    hand: usize,
    /// How often the writer has put, forgotten or cleared something here.
    changes: u64,
}

fn in_a_shard(pages_max: usize) -> usize {
    pages_max.div_ceil(SHARDS).max(4)
}

pub struct Cache {
    shards: [RwLock<Shard>; SHARDS],
    pages_a_shard: AtomicUsize,
}

impl Cache {
    pub fn new(pages_max: usize) -> Cache {
        Cache {
            shards: std::array::from_fn(|_| RwLock::default()),
            pages_a_shard: AtomicUsize::new(in_a_shard(pages_max)),
        }
    }

    /// From now on it has no more pages than this.
    pub fn set_pages_max(&self, pages_max: usize) {
        self.pages_a_shard.store(in_a_shard(pages_max), Relaxed);
        for shard in &self.shards {
            shard.write().shrink(in_a_shard(pages_max));
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

    pub fn has(&self, no: PageNo) -> bool {
        self.shard(no).read().entries.get(&no).is_some_and(|entry| entry.image.is_some())
    }

    /// So many pages can be put into it together. More would push out one another.
    pub fn room(&self) -> usize {
        self.pages_a_shard.load(Relaxed) * SHARDS / 8
    }

    /// A page that the writer has committed.
    pub fn put(&self, image: Arc<Image>) {
        let mut shard = self.shard(image.no).write();
        shard.changes += 1;
        shard.put(self.pages_a_shard.load(Relaxed), image, true);
    }

    /// To be asked for before a page is read from the file, and given with it.
    pub fn changes(&self, no: PageNo) -> u64 {
        self.shard(no).read().changes
    }

    /// A page as the file had it. If the writer has changed something since it was read, it may be
    /// out of date, and is not kept.
    pub fn put_read(&self, image: Arc<Image>, changes: u64) {
        let mut shard = self.shard(image.no).write();
        if shard.changes == changes || mutant::is(Mutant::StaleReadKept) {
            let there = shard.entries.get(&image.no).filter(|entry| entry.is_committed);
            let there = there.and_then(|entry| entry.image.as_ref());
            invariant!(
                "I18",
                "a page that was read does not replace a newer one that was committed",
                there.is_none_or(|there| there.active().version <= image.active().version),
            );
            shard.put(self.pages_a_shard.load(Relaxed), image, false);
        }
    }

    pub fn remove(&self, no: PageNo) {
        let mut shard = self.shard(no).write();
        shard.changes += 1;
        if let Some(entry) = shard.entries.get_mut(&no) {
            entry.image = None;
        }
    }

    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.write();
            let changes = shard.changes + 1;
            *shard = Shard { changes, ..Shard::default() };
        }
    }
}

impl Shard {
    fn put(&mut self, pages_max: usize, image: Arc<Image>, is_committed: bool) {
        let no = image.no;
        let entry = Entry { image: Some(image), is_committed, was_used: AtomicBool::new(false) };
        if self.entries.insert(no, entry).is_none() {
            self.make_room(pages_max, no);
        }
    }

    fn shrink(&mut self, pages_max: usize) {
        for no in self.clock.drain(pages_max.min(self.clock.len())..) {
            self.entries.remove(&no);
        }
        self.hand = 0;
    }

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
