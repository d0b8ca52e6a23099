//! The write cache: units that were answered and are not yet on the array.
//!
//! A unit that is written again keeps its place. They leave in the order of arrival. A loss of
//! power takes them all.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::geometry::Logical;
use crate::nand::Payload;

#[derive(Debug, Default)]
pub(super) struct WriteCache {
    by_arrival: BTreeMap<u64, Logical>,
    units: FxHashMap<Logical, (u64, Payload)>,
    arrivals: u64,
}

impl WriteCache {
    pub fn len(&self) -> usize {
        self.units.len()
    }

    pub fn get(&self, logical: Logical) -> Option<&Payload> {
        self.units.get(&logical).map(|(_, payload)| payload)
    }

    pub fn put(&mut self, logical: Logical, payload: Payload) {
        if let Some(held) = self.units.get_mut(&logical) {
            held.1 = payload;
            return;
        }
        self.arrivals += 1;
        self.by_arrival.insert(self.arrivals, logical);
        self.units.insert(logical, (self.arrivals, payload));
    }

    pub fn remove(&mut self, logical: Logical) {
        if let Some((arrival, _)) = self.units.remove(&logical) {
            self.by_arrival.remove(&arrival);
        }
    }

    /// The one that came first.
    pub fn pop(&mut self) -> Option<(Logical, Payload)> {
        let (_, logical) = self.by_arrival.pop_first()?;
        let (_, payload) = self.units.remove(&logical)?;
        Some((logical, payload))
    }
}
