//! Which key the n-th row has.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    Sequential,
    /// Each number below 2^24 once, in an order that looks like none.
    Random,
}

const BITS: u32 = 24;

impl Keys {
    pub fn of(self, row: u64) -> u64 {
        match self {
            Keys::Sequential => row,
            Keys::Random => shuffled(row),
        }
    }
}

/// Each step can be undone, so no two rows have one key.
fn shuffled(row: u64) -> u64 {
    const MASK: u64 = (1 << BITS) - 1;
    let mut key = row.wrapping_mul(0x9e37_79b1) & MASK;
    key ^= key >> (BITS / 2);
    key = key.wrapping_mul(0x85eb_ca6b) & MASK;
    key ^ (key >> (BITS / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_keys_are_all_different_and_stay_below_their_limit() {
        let mut seen = vec![false; 1 << BITS];
        for row in 0..1 << BITS {
            let key = Keys::Random.of(row) as usize;
            assert!(!std::mem::replace(&mut seen[key], true), "{key} twice");
        }
    }

    #[test]
    fn random_keys_are_in_no_order() {
        let rises = (0..10_000).filter(|&row| Keys::Random.of(row) < Keys::Random.of(row + 1));
        let count = rises.count();
        assert!((4_000..6_000).contains(&count), "{count}");
    }
}
