//! How much of a checkpoint stands in the device's queue at a time.
//!
//! A sync writes all pages that a pass has copied at once, and whoever commits meanwhile waits behind them: on a device of 20 MB/s that is 100 ms
//! for 500 pages. So what was copied is written piece by piece while the copying goes on, each piece when the one before is on the device, and a
//! commit comes between two of them. A piece is as large as the device writes in [`PIECE_TIME`]. Nothing here is durable or meant to be: that is what the sync at the end of the pass is for.

use std::time::{Duration, Instant};

/// How long a commit may stand behind a piece, about.
const PIECE_TIME: Duration = Duration::from_millis(2);

/// Less than this is not worth a call each; more is not needed for speed.
const PIECE_BYTES_MIN: u64 = 16 << 10;
const PIECE_BYTES_FIRST: u64 = 128 << 10;
const PIECE_BYTES_MAX: u64 = 1 << 20;

pub struct Pacing {
    /// As far as is known of the device.
    piece_bytes: u64,
    /// The range of what has been copied since the last piece, and how much that is.
    first: u64,
    end: u64,
    copied_bytes: u64,
}

impl Default for Pacing {
    fn default() -> Pacing {
        Pacing { piece_bytes: PIECE_BYTES_FIRST, first: u64::MAX, end: 0, copied_bytes: 0 }
    }
}

impl Pacing {
    /// A page was copied; `write_out` has a range (offset, length) of the database file written and waits for it. Pages come in their order.
    pub fn copied(&mut self, offset: u64, length: u64, write_out: impl FnOnce(u64, u64)) {
        self.first = self.first.min(offset);
        self.end = self.end.max(offset + length);
        self.copied_bytes += length;
        if self.copied_bytes < self.piece_bytes {
            return;
        }
        let began = Instant::now();
        write_out(self.first, self.end - self.first);
        self.took(began.elapsed());
        self.begin();
    }

    /// What has been copied is synced, so another pass begins.
    pub fn begin(&mut self) {
        *self = Pacing { piece_bytes: self.piece_bytes, ..Pacing::default() };
    }

    fn took(&mut self, time: Duration) {
        if time > PIECE_TIME {
            self.piece_bytes = (self.piece_bytes / 2).max(PIECE_BYTES_MIN);
        } else if time < PIECE_TIME / 4 {
            self.piece_bytes = (self.piece_bytes * 2).min(PIECE_BYTES_MAX);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    /// Copies every second page; answers the pieces.
    fn copy(pacing: &mut Pacing, pages: u64) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        for page in 0..pages {
            pacing.copied(2 * page * PAGE, PAGE, |offset, length| pieces.push((offset, length)));
        }
        pieces
    }

    #[test]
    fn what_was_copied_is_written_in_pieces() {
        let mut pacing = Pacing::default();
        let pages = PIECE_BYTES_FIRST / PAGE;
        assert_eq!(copy(&mut pacing, pages - 1), []);
        pacing.begin();
        let pieces = copy(&mut pacing, pages);
        assert_eq!(pieces, [(0, (2 * pages - 1) * PAGE)], "what was synced before is not written again");
        let larger = pacing.piece_bytes / PAGE;
        assert!(larger > pages, "that took no time");
        assert_eq!(copy(&mut pacing, larger), [(0, (2 * larger - 1) * PAGE)]);
    }

    #[test]
    fn a_piece_becomes_as_large_as_the_device_is_fast() {
        let mut pacing = Pacing::default();
        for (times, time, expected) in [
            (1, PIECE_TIME * 3, PIECE_BYTES_FIRST / 2),
            (9, PIECE_TIME * 3, PIECE_BYTES_MIN),
            (1, PIECE_TIME / 2, PIECE_BYTES_MIN),
            (1, PIECE_TIME / 10, 2 * PIECE_BYTES_MIN),
            (20, PIECE_TIME / 10, PIECE_BYTES_MAX),
        ] {
            (0..times).for_each(|_| pacing.took(time));
            assert_eq!(pacing.piece_bytes, expected, "{times} times {time:?}");
        }
    }
}
