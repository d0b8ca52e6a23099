//! Pages of the log in memory. Direct reads bypass the page cache, so readers of pages that are in
//! the WAL would go to the device each time.
//!
//! Invariant, cited in code and tests: the cache holds only pages of published frames. Such a frame
//! does not change before the WAL begins anew, and then the board's generation changes. While a
//! reader is on a frame, the WAL does not begin anew.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::sync::{Mutex, lock};

/// The pages of all shards: as much as the WAL has before a checkpoint, with pages of 4 KiB, twice.
pub const CACHE_BYTES_MAX: usize = 8 << 20;
const SHARDS: usize = 16;

#[derive(Default)]
pub struct Cache([Mutex<Shard>; SHARDS]);

#[derive(Default)]
struct Shard {
    generation: u64,
    pages: FxHashMap<u32, Box<[u8]>>,
    /// The frames in the order in which they came.
    order: VecDeque<u32>,
    bytes: usize,
}

impl Cache {
    fn shard(&self, frame: u32) -> &Mutex<Shard> {
        &self.0[frame as usize % SHARDS]
    }

    /// Copies the page of a frame. False: it is not here.
    pub fn get(&self, generation: u64, frame: u32, page: &mut [u8]) -> bool {
        let shard = lock(self.shard(frame));
        let known = shard.pages.get(&frame);
        match known.filter(|known| shard.generation == generation && known.len() == page.len()) {
            Some(known) => {
                page.copy_from_slice(known);
                true
            }
            None => false,
        }
    }

    /// Keeps the page of a published frame.
    pub fn put(&self, generation: u64, frame: u32, page: &[u8]) {
        let mut shard = lock(self.shard(frame));
        let shard = &mut *shard;
        if shard.generation != generation {
            *shard = Shard { generation, ..Shard::default() };
        }
        let mut spare = None;
        while shard.bytes + page.len() > CACHE_BYTES_MAX / SHARDS {
            // Readers want the newest version of a page, which is in a late frame.
            let Some(oldest) = shard.order.pop_front() else { break };
            spare = shard.pages.remove(&oldest);
            shard.bytes -= spare.as_ref().map_or(0, |page| page.len());
        }
        let page: Box<[u8]> = match spare.filter(|spare| spare.len() == page.len()) {
            Some(mut spare) => {
                spare.copy_from_slice(page);
                spare
            }
            None => page.into(),
        };
        shard.bytes += page.len();
        match shard.pages.insert(frame, page) {
            Some(before) => shard.bytes -= before.len(),
            None => shard.order.push_back(frame),
        }
    }

    /// Forgets everything: the log is another one, or closed.
    pub fn clear(&self) {
        self.0.iter().for_each(|shard| *lock(shard) = Shard::default());
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn has(cache: &Cache, generation: u64, frame: u32) -> Option<u8> {
        let mut page = [0; 4096];
        cache.get(generation, frame, &mut page).then_some(page[4095])
    }

    #[test]
    fn a_page_is_known_until_the_wal_begins_anew() {
        let cache = Cache::default();
        cache.put(1, 5, &[7; 4096]);
        assert_eq!(
            (has(&cache, 1, 5), has(&cache, 1, 6), has(&cache, 2, 5)),
            (Some(7), None, None)
        );
        cache.put(2, 5 + SHARDS as u32, &[8; 4096]);
        assert_eq!((has(&cache, 1, 5), has(&cache, 2, 5)), (None, None));
        cache.clear();
        assert_eq!(has(&cache, 2, 5 + SHARDS as u32), None);
    }

    #[test]
    fn the_oldest_pages_make_room_and_no_more_is_held_than_said() {
        let cache = Cache::default();
        let pages = (CACHE_BYTES_MAX / 4096) as u32;
        for frame in 1..=2 * pages {
            cache.put(1, frame, &[frame as u8; 4096]);
        }
        assert_eq!((has(&cache, 1, pages), has(&cache, 1, pages + 1)), (None, Some(1)));
        let held: usize = cache.0.iter().map(|shard| lock(shard).bytes).sum();
        assert_eq!(held, CACHE_BYTES_MAX);
        let count: usize = cache.0.iter().map(|shard| lock(shard).pages.len()).sum();
        assert_eq!(count, pages as usize);
    }
}
