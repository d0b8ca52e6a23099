//! The requests of a device that are recorded if not all are: those of chosen threads, on one
//! partition.
//!
//! The thread that asks is known where a request is queued. Later events of the request's life come
//! from workers of the kernel. They are therefore recognized by their sectors.

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Default)]
pub(super) struct Own {
    /// First sector → one behind the last, of each request that was queued and has not ended.
    queued: BTreeMap<u64, u64>,
    /// Flushes that were queued and have not ended.
    flushes: u64,
}

impl Own {
    pub(super) fn queue(&mut self, sectors: Range<u64>, asks_flush: bool) {
        if asks_flush {
            self.flushes += 1;
        }
        if !sectors.is_empty() {
            let end = self.queued.entry(sectors.start).or_default();
            *end = (*end).max(sectors.end);
        }
    }

    pub(super) fn has(&self, sectors: &Range<u64>) -> bool {
        if sectors.is_empty() {
            return self.flushes > 0;
        }
        // Requests that begin before the range may reach into it. None is longer than the longest
        // request.
        self.queued.range(..sectors.end).rev().take(LOOKED_AT).any(|(_, end)| *end > sectors.start)
    }

    pub(super) fn complete(&mut self, sectors: Range<u64>) {
        if sectors.is_empty() {
            self.flushes = self.flushes.saturating_sub(1);
        }
        self.queued.retain(|start, end| *start < sectors.start || *end > sectors.end);
    }
}

/// Limit of the requests that are on their way at once and begin close together.
const LOOKED_AT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_queued_is_known_until_it_ends() {
        let mut own = Own::default();
        own.queue(8..16, false);
        own.queue(16..24, false);
        assert!(
            own.has(&(8..24)) && own.has(&(12..13)) && !own.has(&(24..32)) && !own.has(&(0..8))
        );
        own.complete(8..24);
        assert!(!own.has(&(8..24)));
    }

    #[test]
    fn flushes_are_counted() {
        let mut own = Own::default();
        assert!(!own.has(&(0..0)));
        own.queue(8..16, true);
        assert!(own.has(&(0..0)));
        own.complete(0..0);
        assert!(!own.has(&(0..0)));
    }
}
