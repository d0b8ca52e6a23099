//! What `maw` writes with its log: a record of the changed pages for each commit, and the pages to
//! the database file.
//!
//! A thread syncs the database file when the epoch has 1 MiB of records, or 20 s after a commit. A
//! new epoch begins at 1 MiB, if a commit finds everything synced, and at 2 MiB. A page's first
//! entry in an epoch is whole.

use std::collections::HashSet;

use super::calibration::{Calibration, OfPage};
use super::collect::{Commit, Load};
use super::cost::{BLOCK_BYTES, Checkpoints, Cost, blocks};
use super::growth::{Growth, Lane};
use super::tick::ticks;

const RECORD_HEADER_BYTES: f64 = 52.0;
const ENTRY_BYTES: f64 = 6.0;
const SYNC_BYTES: f64 = (1 << 20) as f64;
const EPOCH_BYTES: f64 = (2 << 20) as f64;
const SYNC_AFTER_NS: u64 = 20_000_000_000;
/// A sync takes about as long.
const SYNC_NS: u64 = 50_000_000;
/// Page 1, which counts each commit.
const PAGE_ONE: u64 = u64::MAX;

/// `goes_on`: more commits like these come behind the load.
pub(super) fn cost(load: &Load, of_page: OfPage, goes_on: bool, calibration: &Calibration) -> Cost {
    let mut log = Log {
        load,
        calibration,
        growth: Growth::of(load, of_page.growth_share),
        delta_bytes: of_page.delta_bytes.min(load.page_bytes as f64),
        fill_bytes: of_page.fill_share * load.page_bytes as f64,
        page_blocks: (load.page_bytes / BLOCK_BYTES).max(1),
        logged: HashSet::new(),
        dirty: HashSet::new(),
        used_bytes: 0.0,
        dirty_since_ns: None,
        synced_ns: None,
        lane: Lane::default(),
        syncs: Checkpoints::default(),
        cost: Cost::default(),
    };
    log.cost += ticks(&load.commits, calibration);
    load.commits.iter().for_each(|commit| log.commit(commit));
    if goes_on {
        log.cost += log.syncs.rest();
    } else {
        log.cost.pending_bytes += log.dirty_bytes();
    }
    log.cost
}

struct Log<'a> {
    load: &'a Load,
    calibration: &'a Calibration,
    growth: Growth,
    delta_bytes: f64,
    fill_bytes: f64,
    page_blocks: u64,
    /// Pages that the epoch has.
    logged: HashSet<u64>,
    /// Pages of the database file that are not synced.
    dirty: HashSet<u64>,
    used_bytes: f64,
    dirty_since_ns: Option<u64>,
    /// When the thread synced an epoch of 1 MiB.
    synced_ns: Option<u64>,
    lane: Lane,
    syncs: Checkpoints,
    cost: Cost,
}

impl Log<'_> {
    fn commit(&mut self, commit: &Commit) {
        let is_late = |since: Option<u64>, after_ns| {
            since.is_some_and(|since_ns| commit.begin_ns.saturating_sub(since_ns) > after_ns)
        };
        if is_late(self.dirty_since_ns, SYNC_AFTER_NS) {
            self.sync();
        }
        // Only the first commit behind a sync can find everything synced.
        if is_late(self.synced_ns.take(), SYNC_NS) {
            self.begin();
        }
        self.dirty_since_ns.get_or_insert(commit.begin_ns);
        self.syncs.add_commits(1);
        let mut payload = RECORD_HEADER_BYTES + 4.0 + self.growth.bytes(commit);
        let page_one = commit.counts_itself.then_some(PAGE_ONE);
        let of_block =
            |block: &u64| (block / self.page_blocks, self.load.new_blocks.contains(block));
        let pages: HashSet<(u64, bool)> =
            commit.blocks.iter().map(of_block).chain(page_one.map(|page| (page, true))).collect();
        for (page, is_new) in pages {
            let is_first = self.logged.insert(page);
            // A new page has little but what was added to it.
            payload += ENTRY_BYTES;
            payload += if is_first && !is_new { self.fill_bytes } else { self.delta_bytes };
            self.dirty.insert(page);
        }
        let bytes = blocks(payload);
        self.lane.hold(self.used_bytes + bytes, self.calibration, &mut self.cost);
        self.used_bytes += bytes;
        self.cost.commit_bytes += bytes;
        self.cost.flushes += 1.0;
        if self.used_bytes >= EPOCH_BYTES {
            self.sync();
            self.begin();
        } else if self.used_bytes >= SYNC_BYTES && self.used_bytes - bytes < SYNC_BYTES {
            self.sync();
            self.synced_ns = Some(commit.begin_ns);
        }
    }

    fn dirty_bytes(&self) -> f64 {
        (self.dirty.len() as u64 * self.load.page_bytes.max(BLOCK_BYTES)) as f64
    }

    fn sync(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        let cost_before = self.cost;
        self.cost.checkpoint_bytes += self.dirty_bytes();
        self.cost.fs_bytes += self.calibration.maw_sync_fs_bytes;
        self.cost.flushes += self.calibration.maw_sync_flushes;
        self.syncs.add(self.cost - cost_before);
        self.dirty.clear();
        self.dirty_since_ns = None;
    }

    fn begin(&mut self) {
        self.logged.clear();
        (self.used_bytes, self.synced_ns) = (0.0, None);
    }
}
