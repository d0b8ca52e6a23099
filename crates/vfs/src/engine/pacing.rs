//! Pacing: how much of a checkpoint stands in the device's queue at a time.
//!
//! A sync writes all pages of a pass at once, and every commit meanwhile waits behind them. On a
//! device of 20 MB/s that is 100 ms for 500 pages. So the copied pages are written piece by piece
//! while the copying goes on. The next piece follows when the last one is on the device, and a
//! commit comes between the two. A piece is as large as the device writes in [`PIECE_TIME`].
//! Nothing here is meant to be durable. The sync at the end of the pass makes the pages durable.
//!
//! Some devices do only so many writes in a second (a cloud volume, a memory card). Such a device
//! takes a few pieces at once and then nothing more for a while, from commits neither. So after a
//! slow piece the checkpoint rests as long as that piece took, [`REST_MAX`] in all. Meanwhile the
//! commits have the device.
//!
//! If commits write faster than passes copy, the pieces grow from pass to pass. The last pass keeps
//! the writers out, so it is to have little left.

use std::time::{Duration, Instant};

/// About how long a commit may stand behind a piece.
const PIECE_TIME: Duration = Duration::from_millis(2);

/// The longest rest of one checkpoint in all. The WAL grows while a checkpoint rests, and reads
/// become slower with it.
pub const REST_MAX: Duration = Duration::from_secs(1);

/// A smaller piece is not worth a call of its own; one above [`PIECE_BYTES_MAX`] is no faster.
const PIECE_BYTES_MIN: u64 = 16 << 10;
const PIECE_BYTES_FIRST: u64 = 128 << 10;
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// From this pass on, the smallest piece doubles with each pass, up to [`PIECE_BYTES_HURRIED_MAX`].
const PASSES_UNHURRIED: u32 = 3;
const PIECE_BYTES_HURRIED_MAX: u64 = 256 << 10;

pub struct Pacing {
    /// The size of a piece, from what is known of the device.
    piece_bytes: u64,
    /// The range that holds what was copied since the last piece, and how many bytes of it were
    /// copied.
    first: u64,
    end: u64,
    copied_bytes: u64,
    rest_left: Duration,
    /// The passes of this checkpoint so far.
    passes: u32,
}

impl Default for Pacing {
    fn default() -> Pacing {
        Pacing {
            piece_bytes: PIECE_BYTES_FIRST,
            first: u64::MAX,
            end: 0,
            copied_bytes: 0,
            rest_left: Duration::ZERO,
            passes: 0,
        }
    }
}

impl Pacing {
    /// Notes that a page was copied. Pages come in their order. Answers how long to rest now.
    ///
    /// `write_out` has a range (offset, length) of the database file written and waits for it.
    #[must_use]
    pub fn copied(
        &mut self,
        offset: u64,
        length: u64,
        write_out: impl FnOnce(u64, u64),
    ) -> Duration {
        self.first = self.first.min(offset);
        self.end = self.end.max(offset + length);
        self.copied_bytes += length;
        if self.copied_bytes < self.piece_bytes {
            return Duration::ZERO;
        }
        let began = Instant::now();
        write_out(self.first, self.end - self.first);
        self.begin_piece();
        self.took(began.elapsed())
    }

    /// Begins another checkpoint, which may rest for `rest_max` in all.
    pub fn begin(&mut self, rest_max: Duration) {
        *self = Pacing { piece_bytes: self.piece_bytes, rest_left: rest_max, ..Pacing::default() };
    }

    /// Begins another pass: what has been copied is synced.
    pub fn begin_pass(&mut self) {
        self.begin_piece();
        self.passes += 1;
        self.piece_bytes = self.piece_bytes.max(self.piece_bytes_min());
    }

    fn begin_piece(&mut self) {
        (self.first, self.end, self.copied_bytes) = (u64::MAX, 0, 0);
    }

    fn piece_bytes_min(&self) -> u64 {
        let doubled = PIECE_BYTES_MIN << self.passes.saturating_sub(PASSES_UNHURRIED - 1).min(8);
        doubled.min(PIECE_BYTES_HURRIED_MAX)
    }

    fn took(&mut self, time: Duration) -> Duration {
        if time <= PIECE_TIME {
            if time < PIECE_TIME / 4 {
                self.piece_bytes = (self.piece_bytes * 2).min(PIECE_BYTES_MAX);
            }
            return Duration::ZERO;
        }
        self.piece_bytes = (self.piece_bytes / 2).max(self.piece_bytes_min());
        let rest = time.min(self.rest_left);
        self.rest_left -= rest;
        rest
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
            let rest = pacing
                .copied(2 * page * PAGE, PAGE, |offset, length| pieces.push((offset, length)));
            assert_eq!(rest, Duration::ZERO, "that took no time");
        }
        pieces
    }

    #[test]
    fn what_was_copied_is_written_in_pieces() {
        let mut pacing = Pacing::default();
        let pages = PIECE_BYTES_FIRST / PAGE;
        assert_eq!(copy(&mut pacing, pages - 1), []);
        pacing.begin_pass();
        let pieces = copy(&mut pacing, pages);
        assert_eq!(
            pieces,
            [(0, (2 * pages - 1) * PAGE)],
            "what was synced before is not written again"
        );
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
            (0..times)
                .for_each(|_| assert_eq!(pacing.took(time), Duration::ZERO, "no rest was granted"));
            assert_eq!(pacing.piece_bytes, expected, "{times} times {time:?}");
        }
    }

    #[test]
    fn pass_after_pass_the_pieces_become_larger() {
        let mut pacing = Pacing::default();
        pacing.begin(Duration::ZERO);
        let pieces = [(); 8].map(|()| {
            (0..9).for_each(|_| _ = pacing.took(PIECE_TIME * 3));
            let bytes = pacing.piece_bytes;
            pacing.begin_pass();
            bytes >> 10
        });
        assert_eq!(pieces, [16, 16, 16, 32, 64, 128, 256, 256]);
        pacing.begin(Duration::ZERO);
        (0..9).for_each(|_| _ = pacing.took(PIECE_TIME * 3));
        assert_eq!(pacing.piece_bytes, PIECE_BYTES_MIN, "another checkpoint");
    }

    #[test]
    fn after_a_slow_piece_it_rests_for_as_long_until_it_has_rested_enough() {
        let ms = Duration::from_millis;
        let mut pacing = Pacing::default();
        pacing.begin(ms(100));
        let rests = [2, 3, 60, 1, 60, 60].map(|time| pacing.took(ms(time)));
        assert_eq!(rests, [0, 3, 60, 0, 37, 0].map(ms));
        pacing.begin_pass();
        assert_eq!(pacing.took(ms(60)), ms(0), "another pass of the same checkpoint");
        pacing.begin(ms(100));
        assert_eq!(pacing.took(ms(60)), ms(60));
    }
}
