//! How much of background work stands between a commit and the device at a time.

use std::time::Duration;

/// How long a commit may stand behind a piece, about.
const PIECE_TIME: Duration = Duration::from_millis(2);

/// As large as the device writes in [`PIECE_TIME`], as far as is known.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    bytes: u64,
    min: u64,
    max: u64,
}

impl Piece {
    pub const fn new(first: u64, min: u64, max: u64) -> Piece {
        Piece { bytes: first, min, max }
    }

    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// A piece took so long.
    pub fn took(&mut self, time: Duration) {
        if time > PIECE_TIME {
            self.bytes = (self.bytes / 2).max(self.min);
        } else if time < PIECE_TIME / 4 {
            self.bytes = (self.bytes * 2).min(self.max);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_piece_becomes_as_large_as_the_device_is_fast() {
        let mut piece = Piece::new(64, 16, 256);
        for (times, time, expected) in [
            (1, PIECE_TIME * 3, 32),
            (9, PIECE_TIME * 3, 16),
            (1, PIECE_TIME / 2, 16),
            (1, PIECE_TIME / 10, 32),
            (20, PIECE_TIME / 10, 256),
        ] {
            (0..times).for_each(|_| piece.took(time));
            assert_eq!(piece.bytes(), expected, "{times} times {time:?}");
        }
    }
}
