//! What `eager` writes: for each group a record with the bytes that changed, in whole blocks, and
//! from time to time a checkpoint.
//!
//! The rules, and the numbers in them, are those of `docs/eager.md` and `docs/log-format.md`.
//! Before a checkpoint the log gets whole every page that it has only as changes to the database
//! file's page. The kernel writes the volatile image back every 30 s, as far as it is dirty then.
//! An image that is older than 5 s when SQLite begins it anew is cut: what was cut is not written.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::calibration::{Calibration, OfPage};
use super::collect::{Commit, Load};
use super::cost::{BLOCK_BYTES, Checkpoints, Cost, blocks};
use super::crowd::{CROWD_MIN, Groups};
use super::growth::{Growth, Lane};
use super::tick::ticks;

const FRAME_HEADER_BYTES: u64 = 24;
const RECORD_HEADER_BYTES: f64 = 52.0;
/// Of a page in a record: its number, base, length, and of a first touch the checksum of the base.
const ENTRY_BYTES: f64 = 6.0;
const BASE_CHECKSUM_BYTES: f64 = 4.0;
/// A record of more is not made. The image is synced.
const RECORD_PAGES_BYTES_MAX: u64 = 4 << 20;
const IMAGES_BYTES_MAX: f64 = (256 << 10) as f64;

/// When a checkpoint is due.
const FRAMES_MAX: u64 = 16_000;
const DENSE_FRAMES: u64 = 2000;
const DENSE_CHANGES: u64 = 16;
const ON_IMAGE_FRAMES: u64 = 1000;
const LOG_BYTES: f64 = (4 << 20) as f64;
const LOG_BYTES_MAX: f64 = (16 << 20) as f64;
const OLD: [(u64, u64); 2] = [(160, 5_000_000_000), (32, 20_000_000_000)];
/// With so many frames, also when nobody commits for a while.
const IDLE_FRAMES: u64 = 1000;
const IDLE_NS: u64 = 2_000_000_000;

const CUT_AFTER_NS: u64 = 5_000_000_000;
/// The kernel writes back what has been dirty for 30 s, and looks every 5 s.
const WRITE_BACK_NS: f64 = 32_500_000_000.0;

/// `is_new`: no image was dirty before the first commit.
pub(super) fn cost(
    load: &Load,
    crowds: &[f64],
    of_page: OfPage,
    is_new: bool,
    calibration: &Calibration,
) -> Cost {
    let page_bytes = load.page_bytes;
    let delta_bytes = of_page.delta_bytes.min(page_bytes as f64);
    let fill_bytes = of_page.fill_share * page_bytes as f64;
    let begin_ns = load.commits.first().map_or(0, |commit| commit.begin_ns);
    let mut log = Log {
        load,
        growth: Growth::of(load, of_page.growth_share),
        page_bytes,
        page_blocks: (page_bytes / BLOCK_BYTES).max(1),
        delta_bytes,
        fill_bytes: fill_bytes.max(delta_bytes),
        calibration,
        pages: HashMap::new(),
        frames: 0,
        used_bytes: 0.0,
        lane: Lane::default(),
        is_on_image: false,
        begun_ns: None,
        clean_frames: 0,
        dirty_before_frames: 0,
        dirty_sum_bytes: 0.0,
        groups: 0,
        now_ns: begin_ns,
        write_back_from_ns: if is_new { begin_ns + WRITE_BACK_NS as u64 } else { 0 },
        last_ns: 0,
        goes_on: !is_new,
        checkpoints: Checkpoints::default(),
        cost: Cost::default(),
    };
    log.cost += ticks(&load.commits, calibration);
    for (group, crowd) in Groups::new(&load.commits, crowds) {
        log.commit(group, crowd);
    }
    log.end()
}

/// A page in this epoch: the log has it whole.
#[derive(Clone, Copy, Default)]
struct Page {
    is_contained: bool,
}

struct Log<'a> {
    load: &'a Load,
    growth: Growth,
    page_bytes: u64,
    page_blocks: u64,
    delta_bytes: f64,
    fill_bytes: f64,
    calibration: &'a Calibration,
    pages: HashMap<u64, Page>,
    /// In the image.
    frames: u64,
    used_bytes: f64,
    lane: Lane,
    is_on_image: bool,
    /// When the image began.
    begun_ns: Option<u64>,
    /// Of these, so many were written back. And frames of the image before that were not, and over
    /// which SQLite writes now.
    clean_frames: u64,
    dirty_before_frames: u64,
    /// Sums of what was dirty behind each group, for the average.
    dirty_sum_bytes: f64,
    groups: u64,
    now_ns: u64,
    /// Nothing is old enough before.
    write_back_from_ns: u64,
    last_ns: u64,
    /// More commits like these come behind the load.
    goes_on: bool,
    checkpoints: Checkpoints,
    cost: Cost,
}

impl Log<'_> {
    fn commit(&mut self, group: &[Commit], crowd: f64) {
        let Some(last) = group.last() else { return };
        self.pass_to(group[0].begin_ns);
        self.last_ns = last.end_ns.max(self.last_ns);
        let frames: u64 = group.iter().map(|commit| u64::from(commit.frames)).sum();
        self.begun_ns.get_or_insert(last.end_ns);
        self.frames += frames;
        self.checkpoints.add_commits(group.len());
        self.log(group, frames);
        self.dirty_sum_bytes += self.dirty_bytes();
        self.groups += 1;
        if self.is_due(crowd) {
            self.checkpoint(last.end_ns);
        }
    }

    /// Time passes until a commit comes.
    fn pass_to(&mut self, now_ns: u64) {
        if self.frames >= IDLE_FRAMES && now_ns.saturating_sub(self.last_ns) > IDLE_NS {
            self.checkpoint(self.last_ns + IDLE_NS);
        }
        // The kernel looks at some time within its period, so what is dirty counts by the time that
        // it is.
        let passed_ns = now_ns.saturating_sub(self.now_ns);
        self.now_ns = self.now_ns.max(now_ns);
        if self.now_ns >= self.write_back_from_ns {
            self.cost.image_bytes += self.dirty_bytes() * passed_ns as f64 / WRITE_BACK_NS;
        }
    }

    fn dirty_frames(&self) -> u64 {
        (self.frames - self.clean_frames).max(self.dirty_before_frames)
    }

    fn dirty_bytes(&self) -> f64 {
        blocks((self.dirty_frames() * (self.page_bytes + FRAME_HEADER_BYTES)) as f64)
    }

    fn image_is_clean(&mut self) {
        (self.clean_frames, self.dirty_before_frames) = (self.frames, 0);
    }

    fn log(&mut self, group: &[Commit], frames: u64) {
        // How often each page was changed, and whether it is new.
        let mut changes: HashMap<u64, (u64, bool)> = HashMap::new();
        let mut payload = RECORD_HEADER_BYTES + 4.0;
        for commit in group {
            payload += self.growth.bytes(commit);
            for block in &commit.blocks {
                let change = changes.entry(block / self.page_blocks).or_default();
                change.0 += 1;
                change.1 |= self.load.new_blocks.contains(block);
            }
        }
        if changes.len() as u64 * self.page_bytes > RECORD_PAGES_BYTES_MAX {
            return self.sync_image(frames, changes.into_keys());
        }
        for (page, (count, is_new)) in changes {
            payload += ENTRY_BYTES + (self.delta_bytes * count as f64).min(self.page_bytes as f64);
            if let Entry::Vacant(first) = self.pages.entry(page) {
                payload += if is_new { 0.0 } else { BASE_CHECKSUM_BYTES };
                // What is new has no page in the database file that it could stand on.
                first.insert(Page { is_contained: is_new });
            }
        }
        self.record(payload);
    }

    /// A record: one aligned write and one flush. The lane grows if it must.
    fn record(&mut self, payload: f64) {
        let bytes = blocks(payload);
        self.lane.hold(self.used_bytes + bytes, self.calibration, &mut self.cost);
        self.used_bytes += bytes;
        self.cost.commit_bytes += bytes;
        self.cost.flushes += 1.0;
    }

    /// A large transaction: the image becomes durable, and an epoch begins on it.
    fn sync_image(&mut self, frames: u64, pages: impl Iterator<Item = u64>) {
        self.cost.commit_bytes += blocks(
            (self.dirty_frames().max(frames) * (self.page_bytes + FRAME_HEADER_BYTES)) as f64,
        );
        self.cost.flushes += 1.0;
        self.image_is_clean();
        self.pages.extend(pages.map(|page| (page, Page { is_contained: true })));
        self.pages.values_mut().for_each(|page| page.is_contained = true);
        self.used_bytes = 0.0;
        self.is_on_image = true;
        self.record(RECORD_HEADER_BYTES);
    }

    fn is_due(&self, crowd: f64) -> bool {
        // Where many write, they go on while the checkpoint is made.
        let lag = if crowd >= CROWD_MIN { self.calibration.eager_checkpoint_lag } else { 1.0 };
        let dense_frames = (DENSE_FRAMES as f64 * lag) as u64;
        let changed_bytes = self.pages.len() as u64 * self.page_bytes;
        let frames_bytes = self.frames * self.page_bytes;
        let wanted = (changed_bytes as f64).clamp(LOG_BYTES, LOG_BYTES_MAX);
        let age_ns = self.begun_ns.map_or(0, |begun_ns| self.last_ns.saturating_sub(begun_ns));
        self.frames >= FRAMES_MAX
            || self.frames >= dense_frames && frames_bytes >= changed_bytes * DENSE_CHANGES
            || self.is_on_image && self.frames >= ON_IMAGE_FRAMES
            || self.used_bytes >= wanted
            || OLD.iter().any(|&(frames, old_ns)| self.frames >= frames && age_ns >= old_ns)
    }

    fn checkpoint(&mut self, now_ns: u64) {
        let cost_before = self.cost;
        let missing = self.pages.values().filter(|page| !page.is_contained).count() as f64;
        let mut left = missing * (self.fill_bytes + ENTRY_BYTES);
        // Behind all commits stands a record, also where no page is missing.
        let before = self.cost.commit_bytes;
        loop {
            self.record(RECORD_HEADER_BYTES + left.min(IMAGES_BYTES_MAX));
            left -= IMAGES_BYTES_MAX;
            if left <= 0.0 {
                break;
            }
        }
        self.cost.checkpoint_bytes += self.cost.commit_bytes - before;
        self.cost.commit_bytes = before;
        self.cost.checkpoint_bytes +=
            (self.pages.len() as u64 * self.page_bytes.max(BLOCK_BYTES)) as f64;
        self.cost.fs_bytes += self.calibration.eager_checkpoint_fs_bytes;
        self.cost.flushes += self.calibration.eager_checkpoint_flushes;
        self.pages.clear();
        let is_old =
            self.begun_ns.is_some_and(|begun_ns| now_ns.saturating_sub(begun_ns) >= CUT_AFTER_NS);
        self.dirty_before_frames = if is_old { 0 } else { self.dirty_frames() };
        self.clean_frames = 0;
        if self.is_on_image {
            self.used_bytes = 0.0;
            self.record(RECORD_HEADER_BYTES);
        }
        (self.frames, self.used_bytes, self.begun_ns) = (0, 0.0, None);
        self.is_on_image = false;
        self.checkpoints.add(self.cost - cost_before);
    }

    /// What is dirty at the end depends on where in a checkpoint's cycle the end is, so the average
    /// counts.
    fn end(mut self) -> Cost {
        self.cost.pending_bytes += self.dirty_sum_bytes / self.groups.max(1) as f64;
        if self.goes_on {
            self.cost += self.checkpoints.rest();
        }
        self.cost
    }
}
