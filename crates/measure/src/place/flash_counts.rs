//! What an emulated flash device counts, also in saved runs.

use serde::{Deserialize, Serialize};

/// What the device did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlashCounts {
    /// That the host wrote.
    pub host_bytes: u64,
    /// That were programmed for it: also padding, garbage collection and the map.
    pub programmed_bytes: u64,
    pub erases: u64,
    pub answers: u64,
    /// By so much, in sum, answers came later than the device would have given them. Delays of up
    /// to 20 µs are not in it.
    pub late_us: u64,
    /// Programmed bytes that the whole array takes in its life.
    pub life_bytes: u64,
}

impl FlashCounts {
    pub fn since(&self, before: &FlashCounts) -> FlashCounts {
        FlashCounts {
            host_bytes: self.host_bytes.saturating_sub(before.host_bytes),
            programmed_bytes: self.programmed_bytes.saturating_sub(before.programmed_bytes),
            erases: self.erases.saturating_sub(before.erases),
            answers: self.answers.saturating_sub(before.answers),
            late_us: self.late_us.saturating_sub(before.late_us),
            life_bytes: self.life_bytes,
        }
    }
}
