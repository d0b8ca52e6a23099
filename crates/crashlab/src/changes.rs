//! What a transaction changes, drawn by seed: so many rows of so many bytes.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::model::Change;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    Small,
    Several,
    Large,
    /// Every row: some 90 KB.
    Bulk,
    /// Every row, and each with more than 13 KB: 600 KB.
    Huge,
}

/// No table has more rows.
const KEYS: usize = 40;

/// The changes of one transaction. Each row has so many bytes more.
pub fn changes(amount: Amount, seed: u64, more_bytes: usize) -> Vec<Change> {
    let mut rng = Rng::with_seed(seed);
    let (count, bytes) = match amount {
        Amount::Small => (rng.usize(1..3), 20..300),
        Amount::Several => (rng.usize(3..7), 20..900),
        Amount::Large => (rng.usize(20..30), 900..2500),
        Amount::Bulk => (KEYS, 2000..2500),
        Amount::Huge => (KEYS, 13_000..17_000),
    };
    let is_every_row = count == KEYS;
    (0..count)
        .map(|number| {
            let k = if is_every_row { number } else { rng.usize(..KEYS) } as i64;
            if !is_every_row && rng.u8(..6) == 0 {
                return Change::Delete { k };
            }
            let mut v = vec![0; rng.usize(bytes.clone()) + more_bytes];
            rng.fill(&mut v);
            Change::Put { k, a: rng.i64(0..9), v }
        })
        .collect()
}

pub fn thinning(seed: u64) -> Vec<Change> {
    (0..KEYS as i64).filter(|k| (seed >> k) & 3 != 0).map(|k| Change::Delete { k }).collect()
}

pub fn schema_changes(seed: u64, more_bytes: usize) -> Vec<Change> {
    let mut changes = changes(Amount::Small, seed, more_bytes);
    let n = (seed >> 8 & 1) as u8;
    changes.push(if seed & 1 == 0 { Change::ToggleTable { n } } else { Change::ToggleIndex { n } });
    changes
}
