//! Where a lane's bytes are in the file.
//!
//! ```text
//! | header, 1 block | lane 0, chunk 0 | lane 1, chunk 0 | lane 0, chunk 1 | lane 1, chunk 1 | …
//! ```
//! Both lanes grow when the file does, and nothing moves. What is no whole pair of chunks at the end of the file is not used:
//! a crash in the middle of growing leaves that.

use std::ops::Range;

use crate::record;

/// Bytes of a lane that are in one place of the file.
pub const CHUNK_BYTES: u64 = 256 * 1024;

pub(crate) const BLOCK_BYTES_MIN: usize = 512;
pub(crate) const BLOCK_BYTES_MAX: usize = 65_536;

const _: () = assert!(CHUNK_BYTES.is_multiple_of(BLOCK_BYTES_MAX as u64), "a block never crosses a chunk's border");

pub(crate) fn is_block_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&bytes)
}

/// The lane of an epoch, and the only lane that its records can be in.
pub(crate) fn lane_of(epoch: u64) -> u64 {
    epoch % 2
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) block_bytes: u64,
}

impl Layout {
    pub(crate) fn offset(self, lane: u64, position: u64) -> u64 {
        self.block_bytes + (2 * (position / CHUNK_BYTES) + lane) * CHUNK_BYTES + position % CHUNK_BYTES
    }

    /// What a lane holds in a file of this size.
    pub(crate) fn lane_bytes(self, file_bytes: u64) -> u64 {
        file_bytes.saturating_sub(self.block_bytes) / (2 * CHUNK_BYTES) * CHUNK_BYTES
    }

    /// The size of a file whose lanes hold so much (a multiple of a chunk); `None` where no file can be so large.
    pub(crate) fn file_bytes(self, lane_bytes: u64) -> Option<u64> {
        lane_bytes.checked_mul(2)?.checked_add(self.block_bytes).filter(|bytes| i64::try_from(*bytes).is_ok())
    }

    /// What a record with so long a payload takes of its lane.
    pub(crate) fn record_bytes(self, payload_bytes: u64) -> u64 {
        (record::HEADER_BYTES as u64).saturating_add(payload_bytes).div_ceil(self.block_bytes) * self.block_bytes
    }

    /// The pieces of a stretch of a lane that are each in one place of the file: the place, and which bytes of the stretch.
    pub(crate) fn pieces(self, lane: u64, position: u64, length: u64) -> impl Iterator<Item = (u64, Range<u64>)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            (done < length).then(|| {
                let at = position + done;
                let piece = done..length.min(done + CHUNK_BYTES - at % CHUNK_BYTES);
                done = piece.end;
                (self.offset(lane, at), piece)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_blocks_of_the_lanes_share_a_place_and_none_is_left_out() {
        let layout = Layout { block_bytes: 65_536 };
        let lane_bytes = 3 * CHUNK_BYTES;
        let mut offsets: Vec<u64> = [0, 1]
            .into_iter()
            .flat_map(|lane| (0..lane_bytes).step_by(65_536).map(move |position| layout.offset(lane, position)))
            .collect();
        offsets.sort_unstable();
        let expected: Vec<u64> = (65_536..layout.file_bytes(lane_bytes).unwrap()).step_by(65_536).collect();
        assert_eq!(offsets, expected);
    }

    #[test]
    fn only_whole_pairs_of_chunks_count() {
        let layout = Layout { block_bytes: 4096 };
        let two = layout.file_bytes(2 * CHUNK_BYTES).unwrap();
        assert_eq!(layout.lane_bytes(two), 2 * CHUNK_BYTES);
        assert_eq!(layout.lane_bytes(two - 1), CHUNK_BYTES);
        assert_eq!(layout.lane_bytes(0), 0);
        assert_eq!(layout.file_bytes(u64::MAX / 2), None);
    }

    #[test]
    fn a_stretch_over_a_border_has_a_piece_in_each_chunk() {
        let layout = Layout { block_bytes: 4096 };
        let pieces: Vec<_> = layout.pieces(1, CHUNK_BYTES - 4096, 4096 + CHUNK_BYTES + 8192).collect();
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[0], (4096 + CHUNK_BYTES + CHUNK_BYTES - 4096, 0..4096));
        assert_eq!(pieces[1], (4096 + 3 * CHUNK_BYTES, 4096..4096 + CHUNK_BYTES));
        assert_eq!(pieces[2], (4096 + 5 * CHUNK_BYTES, 4096 + CHUNK_BYTES..12_288 + CHUNK_BYTES));
    }
}
