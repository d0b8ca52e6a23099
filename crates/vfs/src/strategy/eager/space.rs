//! How much of a small file system the image and the log may take.
//!
//! On a disk with room neither is bounded by it: a checkpoint comes when it is worth it, and the log grows to `log_size`. Where less is free, both would
//! take what the database needs, and a transaction find the disk full that SQLite alone has room for. So each gets an eighth of
//! what is free and what both have already; a checkpoint that begins when the image has that much, or half a lane is used, comes earlier, and the image
//! is cut behind it.
//!
//! The figures are asked for when the image is opened, made longer or begun anew: not at each commit, and often enough.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a share is at the least: less would be a checkpoint for every few commits.
const SHARE_BYTES_MIN: u64 = 256 << 10;
/// With shares so large nothing is bounded: the image has no more before a checkpoint, with pages of 4 KiB, and the log seldom.
const SHARE_BYTES_AMPLE: u64 = 64 << 20;
const SHARES: u64 = 8;

/// Of the file system that the database is on.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub free_bytes: u64,
    /// What image and log take.
    pub taken_bytes: u64,
}

/// What each of the two may take.
pub struct Space(AtomicU64);

impl Default for Space {
    fn default() -> Space {
        Space(AtomicU64::new(u64::MAX))
    }
}

impl Space {
    /// None: that cannot be known, so nothing is bounded.
    pub fn note(&self, room: Option<Room>) {
        let share = room.map(|room| room.free_bytes.saturating_add(room.taken_bytes) / SHARES);
        let bounds = share.filter(|&bytes| bytes < SHARE_BYTES_AMPLE);
        self.0.store(bounds.map_or(u64::MAX, |bytes| bytes.max(SHARE_BYTES_MIN)), Relaxed);
    }

    pub fn share_bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub fn is_short(&self) -> bool {
        self.share_bytes() != u64::MAX
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_an_eighth_of_what_there_is_for_image_and_log_together() {
        const MIB: u64 = 1 << 20;
        let space = Space::default();
        assert!(!space.is_short());
        for (free_mib, taken_mib, share) in [(14, 2, 2 * MIB), (0, 8, MIB), (1, 0, MIB / 4), (500, 0, 500 * MIB / 8)] {
            space.note(Some(Room { free_bytes: free_mib * MIB, taken_bytes: taken_mib * MIB }));
            assert_eq!((space.share_bytes(), space.is_short()), (share, true), "{free_mib}");
        }
        space.note(Some(Room { free_bytes: 512 * MIB, taken_bytes: 0 }));
        assert!(!space.is_short());
        space.note(Some(Room { free_bytes: MIB, taken_bytes: 0 }));
        space.note(None);
        assert!(!space.is_short());
    }
}
