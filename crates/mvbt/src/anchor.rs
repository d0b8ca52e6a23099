//! The anchor: what of the file is known before any page is read. Two copies, written in turn.

use oneflush_blocklog::Uuid;

use crate::bytes::{get_u32, get_u48, get_u64, put, put_u48};
use crate::layout::BLOCK_BYTES;
use crate::voids::Voids;
use crate::{PageNo, Version};

/// How each file begins.
pub const MAGIC: &[u8; 16] = b"Oneflush mvbt 1\n";
pub const FORMAT: u32 = 1;
const VOIDS_AT: usize = 80;
const POOL_AT: usize = VOIDS_AT + 16 * VOIDS_MAX;
const KEPT_AT: usize = POOL_AT + 4 + 6 * POOL_MAX;
const CHECKSUM_AT: usize = BLOCK_BYTES - 4;
/// So many freed pages that a history needs.
pub const KEPT_MAX: usize = 96;
const _: () = assert!(KEPT_AT + 4 + 12 * KEPT_MAX <= CHECKSUM_AT);
/// So many free pages a close leaves here.
pub const POOL_MAX: usize = 128;
/// So many void intervals fit with room to spare.
pub const VOIDS_MAX: usize = 128;
const CLOSED: u32 = 1;
/// Sequences and openings above this are none that were counted.
const NUMBER_MAX: u64 = 1 << 62;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub page_bytes: usize,
    pub uuid: Uuid,
    pub sequence: u64,
    /// How often the file was opened for writing.
    pub opening: u64,
    /// H: no version above it was ever given to a transaction.
    pub reserved: Version,
    /// Commit blocks of versions up to this one have been judged.
    pub settled: Version,
    pub is_closed: bool,
    pub voids: Vec<(Version, Version)>,
    /// Free pages, if the file was closed cleanly.
    pub pool: Vec<PageNo>,
    /// Those that are free from a version on.
    pub kept: Vec<(PageNo, Version)>,
}

impl Anchor {
    /// In which of the two blocks this anchor stands.
    pub fn place(&self) -> u64 {
        self.sequence % 2
    }

    pub fn voids(&self) -> Voids {
        Voids::new(self.voids.clone())
    }

    pub fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        put(block, 0, MAGIC);
        put(block, 16, &FORMAT.to_le_bytes());
        put(block, 20, &(self.page_bytes as u32).to_le_bytes());
        put(block, 24, &self.uuid.0);
        let numbers = [self.sequence, self.opening, self.reserved.0, self.settled.0];
        for (index, number) in numbers.into_iter().enumerate() {
            put(block, 40 + 8 * index, &number.to_le_bytes());
        }
        put(block, 72, &(if self.is_closed { CLOSED } else { 0 }).to_le_bytes());
        put(block, 76, &(self.voids.len() as u32).to_le_bytes());
        for (index, (first, last)) in self.voids.iter().enumerate() {
            put(block, VOIDS_AT + 16 * index, &first.0.to_le_bytes());
            put(block, VOIDS_AT + 16 * index + 8, &last.0.to_le_bytes());
        }
        put(block, POOL_AT, &(self.pool.len() as u32).to_le_bytes());
        for (index, page) in self.pool.iter().enumerate() {
            put_u48(block, POOL_AT + 4 + 6 * index, page.0);
        }
        put(block, KEPT_AT, &(self.kept.len() as u32).to_le_bytes());
        for (index, (page, version)) in self.kept.iter().enumerate() {
            put_u48(block, KEPT_AT + 4 + 12 * index, page.0);
            put_u48(block, KEPT_AT + 10 + 12 * index, version.0);
        }
        let checksum = crc32c::crc32c(&block[..CHECKSUM_AT]);
        put(block, CHECKSUM_AT, &checksum.to_le_bytes());
    }

    /// None: this is no whole anchor of a known format.
    pub fn decode(block: &[u8]) -> Option<Anchor> {
        let checksum = crc32c::crc32c(&block[..CHECKSUM_AT]);
        let is_whole = get_u32(block, CHECKSUM_AT) == checksum && block.starts_with(MAGIC);
        (is_whole && get_u32(block, 16) == FORMAT).then_some(())?;
        let count = get_u32(block, 76) as usize;
        let free = get_u32(block, POOL_AT) as usize;
        let kept = get_u32(block, KEPT_AT) as usize;
        (count <= VOIDS_MAX && free <= POOL_MAX && kept <= KEPT_MAX).then_some(())?;
        let version = |at: usize| Version(get_u64(block, at));
        let voids: Vec<(Version, Version)> = (0..count)
            .map(|index| VOIDS_AT + 16 * index)
            .map(|at| (version(at), version(at + 8)))
            .collect();
        let is_in_order = voids.iter().all(|(first, last)| first <= last)
            && voids.windows(2).all(|pair| pair[0].1 < pair[1].0);
        let anchor = Anchor {
            page_bytes: get_u32(block, 20) as usize,
            uuid: Uuid(*block[24..].first_chunk().expect("sixteen bytes")),
            sequence: get_u64(block, 40),
            opening: get_u64(block, 48),
            reserved: version(56),
            settled: version(64),
            is_closed: get_u32(block, 72) & CLOSED != 0,
            voids,
            pool: (0..free).map(|n| PageNo(get_u48(block, POOL_AT + 4 + 6 * n))).collect(),
            kept: (0..kept)
                .map(|n| KEPT_AT + 4 + 12 * n)
                .map(|at| (PageNo(get_u48(block, at)), Version(get_u48(block, at + 6))))
                .collect(),
        };
        let is_sane = is_in_order
            && anchor.settled <= anchor.reserved
            && anchor.reserved <= Version::MAX
            && anchor.sequence.max(anchor.opening) <= NUMBER_MAX
            && crate::layout::is_page_size(anchor.page_bytes);
        is_sane.then_some(anchor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_round_trips_and_a_changed_one_is_none() {
        let anchor = Anchor {
            page_bytes: 4096,
            uuid: Uuid([7; 16]),
            sequence: 3,
            opening: 2,
            reserved: Version(1 << 20),
            settled: Version(17),
            is_closed: false,
            voids: (0..VOIDS_MAX as u64)
                .map(|n| (Version(3 * n + 1), Version(3 * n + 2)))
                .collect(),
            pool: (0..POOL_MAX as u64).map(|n| PageNo(n + 9)).collect(),
            kept: (0..KEPT_MAX as u64).map(|n| (PageNo(n + 900), Version(n + 5))).collect(),
        };
        let mut block = [0; BLOCK_BYTES];
        anchor.encode(&mut block);
        assert_eq!(Anchor::decode(&block), Some(anchor));
        for at in [0, 17, 60, 90, VOIDS_AT + 16 * VOIDS_MAX - 1, POOL_AT, BLOCK_BYTES - 1] {
            let mut changed = block;
            changed[at] ^= 1;
            assert_eq!(Anchor::decode(&changed), None, "{at}");
        }
    }
}
