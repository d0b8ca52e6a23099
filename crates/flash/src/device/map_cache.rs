//! The part of the table that the controller has in memory, as far as it costs time.
//!
//! The table is cut into map pages of 4 KiB. The least recently used one leaves. A miss costs a
//! page read; one that was changed costs a program when it leaves. These programs go to a log that
//! runs in a circle over all lanes, with an erase for each block of it. **This is a
//! simplification:** the log is in no relation to the blocks of the data, and its pages need no
//! garbage collection. The table itself is always right, since the FTL has it whole.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::geometry::Logical;

const MAP_PAGE_BYTES: u64 = 4096;
const ENTRY_BYTES: u64 = 4;
const MAP_PAGE_ENTRIES: u64 = MAP_PAGE_BYTES / ENTRY_BYTES;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    /// The map page had to be read; this is its number.
    pub missed: Option<u32>,
    /// A changed map page had to go.
    pub evicted: bool,
}

#[derive(Debug, Default)]
pub(super) struct MapCache {
    /// Map pages that have room. `None`: all.
    room: Option<usize>,
    pages: FxHashMap<u32, (u64, bool)>,
    by_use: BTreeMap<u64, u32>,
    uses: u64,
}

impl MapCache {
    /// 0 bytes: the whole table is in memory.
    pub fn new(cache_bytes: u64, logical_units: u32) -> MapCache {
        let pages = u64::from(logical_units).div_ceil(MAP_PAGE_ENTRIES);
        let room = (cache_bytes / MAP_PAGE_BYTES).max(1);
        let room = (cache_bytes > 0 && room < pages).then_some(room as usize);
        MapCache { room, ..MapCache::default() }
    }

    pub fn access(&mut self, logical: Logical, changes: bool) -> Access {
        let Some(room) = self.room else { return Access::default() };
        let page = (u64::from(logical.0) / MAP_PAGE_ENTRIES) as u32;
        self.uses += 1;
        let held = self.pages.insert(page, (self.uses, changes));
        self.by_use.insert(self.uses, page);
        if let Some((used, changed)) = held {
            self.by_use.remove(&used);
            self.pages.insert(page, (self.uses, changed || changes));
            return Access::default();
        }
        let mut evicted = false;
        if self.pages.len() > room
            && let Some((_, oldest)) = self.by_use.pop_first()
            && let Some((_, changed)) = self.pages.remove(&oldest)
        {
            evicted = changed;
        }
        Access { missed: Some(page), evicted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_map_page_leaves_and_costs_a_program_if_changed() {
        let mut cache = MapCache::new(2 * MAP_PAGE_BYTES, 10 * 1024);
        let of = |page: u32| Logical(page * 1024 + 7);
        assert_eq!(cache.access(of(0), true), Access { missed: Some(0), evicted: false });
        assert_eq!(cache.access(of(1), false), Access { missed: Some(1), evicted: false });
        assert_eq!(cache.access(of(0), false), Access::default());
        assert_eq!(cache.access(of(2), false), Access { missed: Some(2), evicted: false });
        assert_eq!(cache.access(of(3), false), Access { missed: Some(3), evicted: true });
    }

    #[test]
    fn a_table_that_has_room_costs_nothing() {
        let mut cache = MapCache::new(0, 1 << 20);
        assert_eq!(cache.access(Logical(12345), true), Access::default());
        let mut cache = MapCache::new(10 * MAP_PAGE_BYTES, 10 * 1024);
        assert_eq!(cache.access(Logical(12), true), Access::default());
    }
}
