//! How many freed pages readers hold back.
//!
//! A reader that never ends keeps each page that its version reaches, and the dead cells in them. A
//! page that is full of dead cells is left to it, and counts as freed. So the pages that were freed
//! since a reader began say what it costs. From a limit on no transaction begins.

use std::collections::VecDeque;

use crate::history::Horizon;
use crate::{Error, Result, Version};

/// No more than so many sums are remembered. With more, each second one is forgotten.
const SUMS_MAX: usize = 1024;

/// Pages that this opening has freed.
#[derive(Default)]
pub struct Garbage {
    freed: u64,
    /// How many had been freed after a version, in order.
    sums: VecDeque<(Version, u64)>,
}

impl Garbage {
    /// A transaction has freed so many pages.
    pub fn note(&mut self, version: Version, pages: u64) {
        if pages == 0 {
            return;
        }
        self.freed += pages;
        self.sums.push_back((version, self.freed));
        if self.sums.len() > SUMS_MAX {
            let mut is_kept = false;
            self.sums.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
    }

    /// How many were freed by versions behind one, up to another. Forgotten sums make this a little
    /// more or less.
    fn between(&self, from: Version, to: Version) -> u64 {
        let sum = |version: Version| {
            let behind = self.sums.partition_point(|&(sum, _)| sum <= version);
            behind.checked_sub(1).map_or(0, |at| self.sums[at].1)
        };
        sum(to).saturating_sub(sum(from))
    }

    /// An error if readers alone hold too many pages. What the history needs does not count.
    pub fn refuse_stale_reader(&self, newest: Version, horizon: Horizon, limit: u64) -> Result<()> {
        let oldest = horizon.version;
        let pages = self.between(oldest, horizon.kept.unwrap_or(newest));
        if pages < limit.max(1) {
            return Ok(());
        }
        Err(Error::StaleReader { oldest, behind: newest.0.saturating_sub(oldest.0), pages, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_between_versions_and_thinned_sums_are_no_worse_than_their_neighbours() {
        let mut garbage = Garbage::default();
        for version in 1..=3000 {
            garbage.note(Version(version), 2);
        }
        assert!(garbage.sums.len() <= SUMS_MAX);
        for (from, to) in [(0, 3000), (10, 3000), (500, 2000), (2990, 3000)] {
            let found = garbage.between(Version(from), Version(to));
            assert!(found.abs_diff(2 * (to - from)) <= 64, "{from} {to}: {found}");
        }
        assert_eq!(garbage.between(Version(3000), Version(3000)), 0);
    }
}
