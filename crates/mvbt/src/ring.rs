//! Commit blocks: which pages a transaction of several pages has written (I10).

use oneflush_blocklog::Uuid;

use crate::bytes::{get_u32, get_u64, put};
use crate::layout::BLOCK_BYTES;
use crate::{PageNo, Version};

const MAGIC: &[u8; 8] = b"MVBTcmmt";
const LIST_AT: usize = 40;
const ENTRY_BYTES: usize = 12;
const CHECKSUM_AT: usize = BLOCK_BYTES - 4;
/// So many pages fit in the list.
pub const PAGES_MAX: usize = (CHECKSUM_AT - LIST_AT) / ENTRY_BYTES;

/// What a whole transaction has left in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A directory of its version with this checksum, or an overflow page.
    Checksum(u32),
    /// No directory of its version: the page was written, and taken back.
    Without,
}

/// Stands in the number of a page that must be without.
const WITHOUT: u64 = 1 << 63;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitBlock {
    pub version: Version,
    /// Each page that was written. None: they were flushed before the block.
    pub pages: Vec<(PageNo, Expected)>,
}

impl CommitBlock {
    pub fn encode(&self, block: &mut [u8], uuid: Uuid) {
        block.fill(0);
        put(block, 0, MAGIC);
        put(block, 8, &uuid.0);
        put(block, 24, &self.version.0.to_le_bytes());
        put(block, 32, &(self.pages.len() as u32).to_le_bytes());
        for (index, (page, expected)) in self.pages.iter().enumerate() {
            let (number, checksum) = match expected {
                Expected::Checksum(checksum) => (page.0, *checksum),
                Expected::Without => (page.0 | WITHOUT, 0),
            };
            put(block, LIST_AT + ENTRY_BYTES * index, &number.to_le_bytes());
            put(block, LIST_AT + ENTRY_BYTES * index + 8, &checksum.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&block[..CHECKSUM_AT]);
        put(block, CHECKSUM_AT, &checksum.to_le_bytes());
    }

    /// None: this is no whole commit block of this file.
    pub fn decode(block: &[u8], uuid: Uuid) -> Option<CommitBlock> {
        let checksum = crc32c::crc32c(&block[..CHECKSUM_AT]);
        let count = get_u32(block, 32) as usize;
        let is_whole = get_u32(block, CHECKSUM_AT) == checksum
            && block.starts_with(MAGIC)
            && block[8..24] == uuid.0
            && count <= PAGES_MAX;
        is_whole.then(|| CommitBlock {
            version: Version(get_u64(block, 24)),
            pages: (0..count)
                .map(|index| LIST_AT + ENTRY_BYTES * index)
                .map(|at| match (get_u64(block, at), get_u32(block, at + 8)) {
                    (number, _) if number & WITHOUT != 0 => {
                        (PageNo(number & !WITHOUT), Expected::Without)
                    }
                    (number, checksum) => (PageNo(number), Expected::Checksum(checksum)),
                })
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_round_trips_and_one_of_another_file_is_none() {
        let (uuid, other) = (Uuid([1; 16]), Uuid([2; 16]));
        let expected = |page: u64| match page % 3 {
            0 => Expected::Without,
            _ => Expected::Checksum(page as u32),
        };
        let pages = (0..PAGES_MAX as u64).map(|page| (PageNo(page + 1), expected(page))).collect();
        let commit = CommitBlock { version: Version(12), pages };
        let mut block = [0; BLOCK_BYTES];
        commit.encode(&mut block, uuid);
        assert_eq!(CommitBlock::decode(&block, uuid), Some(commit));
        assert_eq!(CommitBlock::decode(&block, other), None);
        block[2000] ^= 4;
        assert_eq!(CommitBlock::decode(&block, uuid), None);
    }
}
