//! Where a log's bytes are, and their checksum, as the documents have them.

use oneflush_blocklog::FIRST_CHUNK_BYTES;

use crate::memory::BLOCK;

pub fn crc32c(parts: [&[u8]; 2]) -> u32 {
    !parts.into_iter().flatten().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 }
        })
    })
}

/// docs/log-format.md, "The file", for the first 256 KiB of a lane.
pub fn offset(lane: u64, position: u64) -> usize {
    let (begin, length) = match position {
        0..FIRST_CHUNK_BYTES => (0, FIRST_CHUNK_BYTES),
        _ => (1 << position.ilog2(), 1 << position.ilog2()),
    };
    BLOCK + (2 * begin + lane * length + position - begin) as usize
}
