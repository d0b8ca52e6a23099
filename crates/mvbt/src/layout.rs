//! Where what stands in the file.

use crate::PageNo;
use crate::page::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};

/// Anchors and commit blocks.
pub const BLOCK_BYTES: usize = 4096;
const ANCHORS: u64 = 2;
pub const RING_BLOCKS: u64 = 8;
/// Of anchors and ring.
pub const HEAD_BYTES: usize = (ANCHORS + RING_BLOCKS) as usize * BLOCK_BYTES;
const PAGES_AT: u64 = HEAD_BYTES as u64;
/// Whoever opens the file reads so many bytes of the first pages along with the head.
pub const FIRST_PAGES_BYTES: usize = 24 * 1024;

pub fn is_page_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&bytes)
}

pub fn anchor_at(place: u64) -> u64 {
    place * BLOCK_BYTES as u64
}

pub fn ring_at(place: u64) -> u64 {
    (ANCHORS + place % RING_BLOCKS) * BLOCK_BYTES as u64
}

/// None: no file is so long.
pub fn page_at(no: PageNo, page_bytes: usize) -> Option<u64> {
    no.0.checked_sub(1)?.checked_mul(page_bytes as u64)?.checked_add(PAGES_AT)
}

/// How many pages a file of so many bytes has.
pub fn pages_in(bytes: u64, page_bytes: usize) -> u64 {
    bytes.saturating_sub(PAGES_AT) / page_bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_pages_follow_each_other() {
        assert_eq!(anchor_at(1), 4096);
        assert_eq!((ring_at(0), ring_at(7), ring_at(8)), (8192, 36_864, 8192));
        assert_eq!(page_at(PageNo(1), 512), Some(40_960));
        assert_eq!(page_at(PageNo(3), 65_536), Some(40_960 + 131_072));
        assert_eq!([0, 41_471, 41_472, 42_000].map(|bytes| pages_in(bytes, 512)), [0, 0, 1, 2]);
        assert_eq!(page_at(PageNo(0), 512), None);
        assert_eq!(page_at(PageNo(u64::MAX), 512), None);
    }
}
