//! Which versions never were: intervals that recovery, or a rollback, has made void.

use crate::Version;

/// What of the anchor says which directories count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voids {
    /// First and last version, in order. They do not overlap.
    intervals: Vec<(Version, Version)>,
    /// No version above this one was given to a transaction. A directory that claims one is damage.
    newest: Version,
}

impl Default for Voids {
    fn default() -> Voids {
        Voids::new(Vec::new(), Version::MAX)
    }
}

impl Voids {
    pub fn new(intervals: Vec<(Version, Version)>, newest: Version) -> Voids {
        Voids { intervals, newest }
    }

    pub fn holds(&self, version: Version) -> bool {
        let after = self.intervals.partition_point(|&(first, _)| first <= version);
        after > 0 && version <= self.intervals[after - 1].1
    }

    pub fn newest(&self) -> Version {
        self.newest
    }

    pub fn set_newest(&mut self, newest: Version) {
        self.newest = newest;
    }

    pub fn intervals(&self) -> &[(Version, Version)] {
        &self.intervals
    }

    /// Adds an interval that ends above all others.
    pub fn add(&mut self, mut first: Version, last: Version) {
        while let Some(&(begin, end)) = self.intervals.last()
            && end.next() >= first
        {
            first = first.min(begin);
            self.intervals.pop();
        }
        self.intervals.push((first, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_void_in_an_interval_and_at_its_ends() {
        let mut voids = Voids::new(vec![(Version(3), Version(5))], Version(99));
        voids.add(Version(9), Version(9));
        voids.add(Version(10), Version(12));
        assert_eq!(voids.intervals().len(), 2);
        let held: Vec<u64> = (0..15).filter(|&version| voids.holds(Version(version))).collect();
        assert_eq!(held, [3, 4, 5, 9, 10, 11, 12]);
        voids.add(Version(7), Version(14));
        assert_eq!(voids.intervals(), [(Version(3), Version(5)), (Version(7), Version(14))]);
    }
}
