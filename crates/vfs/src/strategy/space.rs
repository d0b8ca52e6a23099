//! How much of a small file system the image and the log may take.
//!
//! On a disk with room the disk bounds neither. A checkpoint comes when it is worth it, and the log
//! grows to `log_size`.
//!
//! On a small disk both would take what the database needs. A transaction would find the disk full
//! where SQLite alone has room. So each gets a share: an eighth of the free bytes and of what both
//! have already. A checkpoint begins when the image has its share, or when half a lane is used.
//! Behind it the image is cut.
//!
//! The file system is asked when the image is opened, made longer or begun anew. That is not at
//! each commit, and often enough.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The least share. With less a checkpoint would come every few commits.
const SHARE_BYTES_MIN: u64 = 256 << 10;
/// Shares of this size bound nothing. With pages of 4 KiB the image has no more before a
/// checkpoint, and the log seldom has.
const SHARE_BYTES_AMPLE: u64 = 64 << 20;
const SHARES: u64 = 8;

/// Room in the file system of the database.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub free_bytes: u64,
    /// Bytes of image and log together.
    pub taken_bytes: u64,
}

/// The share of the image, and of the log.
pub struct Space(AtomicU64);

impl Default for Space {
    fn default() -> Space {
        Space(AtomicU64::new(u64::MAX))
    }
}

impl Space {
    /// Sets the share. `None`: the room cannot be known, so nothing is bounded.
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
        for (free_mib, taken_mib, share) in
            [(14, 2, 2 * MIB), (0, 8, MIB), (1, 0, MIB / 4), (500, 0, 500 * MIB / 8)]
        {
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
