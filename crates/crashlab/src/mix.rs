//! The one hash function of this crate: fast, and the same in every run. With 64 bits two of some
//! ten million images of a run never share a value in practice.

/// Spreads the bits of one number (the finaliser of splitmix64).
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One number of two; the order counts.
pub fn mix2(first: u64, second: u64) -> u64 {
    mix(mix(first) ^ second.rotate_left(32))
}

/// One number of some bytes.
pub fn mix_bytes(bytes: &[u8]) -> u64 {
    let mut hash = [bytes.len() as u64, 1, 2, 3];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        for (lane, word) in hash.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = (*lane ^ u64::from_le_bytes(*word))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
        }
    }
    let tail = rest.iter().fold(0u64, |sum, byte| mix2(sum, u64::from(*byte)));
    hash.into_iter().fold(tail, mix2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_length_and_every_byte_count() {
        assert_ne!(mix2(1, 2), mix2(2, 1));
        assert_ne!(mix_bytes(&[0; 31]), mix_bytes(&[0; 32]));
        let page = [7u8; 4096];
        for at in [0, 31, 32, 511, 4095] {
            let mut other = page;
            other[at] ^= 1;
            assert_ne!(mix_bytes(&page), mix_bytes(&other), "byte {at}");
        }
    }
}
