//! What is changed in a file (docs/mvbt-format.md says where what stands).

use crate::checksum;

const BLOCK_BYTES: usize = 4096;
const HEAD_BYTES: usize = 10 * BLOCK_BYTES;
const PAGE_HEAD_BYTES: usize = 80;

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// `limit`: at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Changes one to eight places. One file of eight keeps its checksums as they were.
pub fn damage(file: &mut [u8], random: &mut Random) {
    let page_bytes = u32::from_le_bytes(*file[20..].first_chunk().unwrap()) as usize;
    // Both anchors have the bytes that the checksums begin with.
    let uuid: [u8; 16] = *file[24..].first_chunk().unwrap();
    let pages = (file.len() - HEAD_BYTES) / page_bytes;
    let used = (0..pages).filter(|page| {
        let from = HEAD_BYTES + page * page_bytes;
        file[from..from + page_bytes].iter().any(|&byte| byte != 0)
    });
    let used: Vec<usize> = used.collect();
    let is_summed = random.below(8) != 0;
    for _ in 0..1 + random.below(8) {
        if random.below(16) == 0 {
            let from = random.below(10) * BLOCK_BYTES;
            let block = &mut file[from..from + BLOCK_BYTES];
            change(block, 16, 400, random);
            if is_summed {
                checksum::of_block(block);
            }
            continue;
        }
        let page = used[random.below(used.len())];
        let other = used[random.below(used.len())];
        let from = HEAD_BYTES + page * page_bytes;
        if random.below(32) == 0 {
            // Another page in its place, with its own number.
            let number: [u8; 6] = *file[from..].first_chunk().unwrap();
            let there = HEAD_BYTES + other * page_bytes;
            file.copy_within(there..there + page_bytes, from);
            file[from..from + 6].copy_from_slice(&number);
        }
        let page = &mut file[from..from + page_bytes];
        match random.below(3) {
            0 => change(page, 6, PAGE_HEAD_BYTES - 6, random),
            1 => change(page, PAGE_HEAD_BYTES, page_bytes - PAGE_HEAD_BYTES, random),
            _ => change_cell(page, random),
        }
        if is_summed {
            checksum::of_page(page, &uuid);
        }
    }
}

/// A few of the bytes from a place on.
fn change(bytes: &mut [u8], from: usize, length: usize, random: &mut Random) {
    let at = from + random.below(length);
    put(bytes, at, random);
}

/// In a cell that a directory lists, at its beginning: numbers, lengths, the record's header.
fn change_cell(page: &mut [u8], random: &mut Random) {
    let short = |page: &[u8], at: usize| {
        page.get(at..at + 2).map(|two| usize::from(u16::from_le_bytes([two[0], two[1]])))
    };
    let slot = 16 + 32 * random.below(2);
    let (Some(rows), Some(live)) = (short(page, slot + 16), short(page, slot + 18)) else { return };
    let Some(place) = short(page, rows + 2 * random.below(live.max(1))) else { return };
    let at = place + random.below(24);
    put(page, at, random);
}

fn put(bytes: &mut [u8], at: usize, random: &mut Random) {
    let Some(rest) = bytes.get_mut(at..) else { return };
    let byte = random.next() as u8;
    match random.below(6) {
        0 => rest.iter_mut().take(1).for_each(|one| *one ^= 1 << (byte % 8)),
        1 => rest.iter_mut().take(1).for_each(|one| *one = byte),
        2 => rest.iter_mut().take(2).for_each(|one| *one = 0xff),
        3 => rest.iter_mut().take(1).for_each(|one| *one = one.wrapping_add(1)),
        4 => rest.iter_mut().take(1).for_each(|one| *one = one.wrapping_sub(1)),
        _ => rest
            .iter_mut()
            .take(1 + usize::from(byte % 8))
            .for_each(|one| *one = random.next() as u8),
    }
}
