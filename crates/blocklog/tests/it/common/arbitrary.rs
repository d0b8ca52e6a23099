//! What the random histories of both kinds of log draw.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::common::{Memory, offset};

pub fn length() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..6000usize, 2 => 6000..80_000usize, 1 => 200_000..600_000usize]
}

pub fn payload(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index ^ index >> 8) as u8 ^ seed).collect()
}

/// The file after a device failed: the power is gone, or only the process.
pub fn after_failure(memory: &Memory, power: bool, seed: u64) -> Memory {
    memory.heal();
    let mut rng = fastrand::Rng::with_seed(seed);
    let odds = rng.f64() * 1.2;
    if power { memory.crash(|_| rng.f64() < odds) } else { memory.clone() }
}

#[derive(Clone, Debug)]
pub struct Damage {
    /// Where, how many bytes, and what they are then.
    places: Vec<(Index, usize, u8)>,
    cut: Index,
}

pub fn damage() -> impl Strategy<Value = Damage> {
    let place = (any::<Index>(), 1..2000usize, any::<u8>());
    (prop::collection::vec(place, 1..4), any::<Index>())
        .prop_map(|(places, cut)| Damage { places, cut })
}

impl Damage {
    /// A damaged copy of a file whose blocks have 512 bytes.
    pub fn done_to(&self, memory: &Memory) -> Memory {
        let mut bytes = memory.bytes();
        for (place, length, value) in &self.places {
            // Where the records are, and the first block.
            let start = match place.index(3) {
                0 => place.index(512),
                lane => offset(512, lane as u64 - 1, 0) + place.index(20_000),
            };
            bytes[start..start + length].fill(*value);
        }
        if self.cut.index(4) == 0 {
            bytes.truncate(self.cut.index(bytes.len()));
        }
        Memory::of(512, bytes)
    }
}
