//! Where a lane's bytes are in the file.
//!
//! ```text
//! | header, 1 block | lane 0, chunk 0 | lane 1, chunk 0 | lane 0, chunk 1 | lane 1, chunk 1 | …
//! ```
//! Both lanes grow when the file does, and nothing moves. Bytes at the end of the file that are no
//! whole pair of chunks are not used. A crash in the middle of growing leaves such bytes.
//!
//! The first chunks are small, so that a log of few commits is a small file. A lane's first chunk
//! has 32 KiB. Each next chunk has as many bytes as the lane before it, up to 256 KiB. (In versions
//! 1 and 2 of the format all chunks have 256 KiB.)

use std::ops::Range;

/// The largest chunk. A chunk is the bytes of a lane that are in one place of the file.
pub const CHUNK_BYTES: u64 = 256 * 1024;

/// The first chunk of a lane, unless two blocks are larger.
pub const FIRST_CHUNK_BYTES: u64 = 32 * 1024;

/// Before the payload of a record.
pub(crate) const RECORD_HEADER_BYTES: usize = 52;

pub(crate) const BLOCK_BYTES_MIN: usize = 512;
pub(crate) const BLOCK_BYTES_MAX: usize = 65_536;

const _: () = assert!(
    CHUNK_BYTES.is_multiple_of(BLOCK_BYTES_MAX as u64),
    "a block never crosses a chunk's border"
);
const _: () = assert!(
    CHUNK_BYTES.is_power_of_two() && FIRST_CHUNK_BYTES.is_power_of_two(),
    "lanes double up to a chunk"
);

pub(crate) fn is_block_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&bytes)
}

/// The lane of an epoch. The epoch's records can be in no other.
pub(crate) fn lane_of(epoch: u64) -> u64 {
    epoch % 2
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) block_bytes: u64,
    /// A power of two; every lane is a multiple of it.
    first_chunk_bytes: u64,
}

impl Layout {
    pub(crate) fn new(block_bytes: u64) -> Layout {
        Layout { block_bytes, first_chunk_bytes: FIRST_CHUNK_BYTES.max(2 * block_bytes) }
    }

    /// The layout of the format's versions 1 and 2.
    pub(crate) fn of_equal_chunks(block_bytes: u64) -> Layout {
        Layout { block_bytes, first_chunk_bytes: CHUNK_BYTES }
    }

    /// The unit in which a record counts the length of its lane.
    pub(crate) fn lane_unit_bytes(self) -> u64 {
        self.first_chunk_bytes
    }

    /// The positions of the chunk that holds this position.
    pub(crate) fn chunk_at(self, position: u64) -> Range<u64> {
        if position >= CHUNK_BYTES {
            let start = position / CHUNK_BYTES * CHUNK_BYTES;
            return start..start + CHUNK_BYTES;
        }
        if position < self.first_chunk_bytes {
            return 0..self.first_chunk_bytes;
        }
        let start = 1 << position.ilog2();
        start..2 * start
    }

    pub(crate) fn offset(self, lane: u64, position: u64) -> u64 {
        debug_assert!(lane < 2, "there are two lanes");
        let chunk = self.chunk_at(position);
        self.block_bytes
            + 2 * chunk.start
            + lane * (chunk.end - chunk.start)
            + (position - chunk.start)
    }

    /// The length of a lane in a file of this size.
    pub(crate) fn lane_bytes(self, file_bytes: u64) -> u64 {
        let bytes = file_bytes.saturating_sub(self.block_bytes) / 2;
        if bytes >= CHUNK_BYTES {
            bytes / CHUNK_BYTES * CHUNK_BYTES
        } else if bytes < self.first_chunk_bytes {
            0
        } else {
            1 << bytes.ilog2()
        }
    }

    /// The smallest lane of whole chunks that has so many bytes. `None`: no number is so large.
    pub(crate) fn lane_of_at_least(self, bytes: u64) -> Option<u64> {
        if bytes > CHUNK_BYTES {
            return bytes.checked_next_multiple_of(CHUNK_BYTES);
        }
        Some(bytes.max(self.first_chunk_bytes).next_power_of_two())
    }

    /// The size of a file with lanes of so many bytes (whole chunks). `None`: no file can be so
    /// large.
    pub(crate) fn file_bytes(self, lane_bytes: u64) -> Option<u64> {
        lane_bytes
            .checked_mul(2)?
            .checked_add(self.block_bytes)
            .filter(|bytes| i64::try_from(*bytes).is_ok())
    }

    /// Bytes that a record with so long a payload takes of its lane.
    pub(crate) fn record_bytes(self, payload_bytes: u64) -> u64 {
        (RECORD_HEADER_BYTES as u64).saturating_add(payload_bytes).div_ceil(self.block_bytes)
            * self.block_bytes
    }

    /// Splits a stretch of a lane at the borders of chunks. For each piece: its offset in the file,
    /// and which bytes of the stretch it has.
    pub(crate) fn pieces(
        self,
        lane: u64,
        position: u64,
        length: u64,
    ) -> impl Iterator<Item = (u64, Range<u64>)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            (done < length).then(|| {
                let at = position + done;
                let piece = done..length.min(done + self.chunk_at(at).end - at);
                done = piece.end;
                (self.offset(lane, at), piece)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn no_two_blocks_of_the_lanes_share_a_place_and_none_is_left_out() {
        for layout in [Layout::new(65_536), Layout::new(4096), Layout::of_equal_chunks(65_536)] {
            let block = layout.block_bytes;
            for lane_bytes in [64 * KIB, 128 * KIB, CHUNK_BYTES, 3 * CHUNK_BYTES]
                .map(|bytes| layout.lane_of_at_least(bytes))
            {
                let lane_bytes = lane_bytes.unwrap();
                let mut offsets: Vec<u64> = [0, 1]
                    .into_iter()
                    .flat_map(|lane| {
                        (0..lane_bytes)
                            .step_by(block as usize)
                            .map(move |at| layout.offset(lane, at))
                    })
                    .collect();
                offsets.sort_unstable();
                let expected: Vec<u64> = (block..layout.file_bytes(lane_bytes).unwrap())
                    .step_by(block as usize)
                    .collect();
                assert_eq!(offsets, expected, "{layout:?}, {lane_bytes}");
            }
        }
    }

    #[test]
    fn a_lane_begins_small_and_doubles_and_then_grows_by_chunks() {
        let layout = Layout::new(4096);
        let sizes: Vec<u64> =
            [1, 32 * KIB, 32 * KIB + 1, 65 * KIB, 129 * KIB, CHUNK_BYTES + 1, 2 * CHUNK_BYTES + 1]
                .map(|bytes| layout.lane_of_at_least(bytes).unwrap() / KIB)
                .to_vec();
        assert_eq!(sizes, [32, 32, 64, 128, 256, 512, 768]);
        assert_eq!(layout.lane_of_at_least(u64::MAX), None);
        assert_eq!(Layout::of_equal_chunks(4096).lane_of_at_least(1), Some(CHUNK_BYTES));
        assert_eq!(Layout::new(65_536).lane_of_at_least(1), Some(128 * KIB));
    }

    #[test]
    fn only_whole_pairs_of_chunks_count() {
        let layout = Layout::new(4096);
        for (lane_bytes, before) in [
            (32 * KIB, 0),
            (64 * KIB, 32 * KIB),
            (128 * KIB, 64 * KIB),
            (CHUNK_BYTES, 128 * KIB),
            (2 * CHUNK_BYTES, CHUNK_BYTES),
            (3 * CHUNK_BYTES, 2 * CHUNK_BYTES),
        ] {
            let file_bytes = layout.file_bytes(lane_bytes).unwrap();
            assert_eq!(layout.lane_bytes(file_bytes), lane_bytes);
            assert_eq!(layout.lane_bytes(file_bytes - 1), before);
        }
        assert_eq!(Layout::of_equal_chunks(4096).lane_bytes(4096 + 2 * CHUNK_BYTES - 1), 0);
        assert_eq!(layout.lane_bytes(0), 0);
        assert_eq!(layout.file_bytes(u64::MAX / 2), None);
    }

    #[test]
    fn a_stretch_over_a_border_has_a_piece_in_each_chunk() {
        for layout in [Layout::new(4096), Layout::of_equal_chunks(4096)] {
            let pieces: Vec<_> =
                layout.pieces(1, 2 * CHUNK_BYTES - 4096, 4096 + CHUNK_BYTES + 8192).collect();
            assert_eq!(pieces.len(), 3);
            assert_eq!(pieces[0], (4096 + 4 * CHUNK_BYTES - 4096, 0..4096));
            assert_eq!(pieces[1], (4096 + 5 * CHUNK_BYTES, 4096..4096 + CHUNK_BYTES));
            assert_eq!(
                pieces[2],
                (4096 + 7 * CHUNK_BYTES, 4096 + CHUNK_BYTES..12_288 + CHUNK_BYTES)
            );
        }
        let small: Vec<_> = Layout::new(4096).pieces(0, 28 * KIB, 40 * KIB).collect();
        assert_eq!(
            small,
            [
                (32 * KIB, 0..4 * KIB),
                (68 * KIB, 4 * KIB..36 * KIB),
                (132 * KIB, 36 * KIB..40 * KIB)
            ]
        );
    }
}
