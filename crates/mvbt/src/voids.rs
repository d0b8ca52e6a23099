//! Which versions never were: intervals that recovery, or a rollback, has made void.

use crate::Version;

/// First and last version of each interval, in order. They do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Voids(Vec<(Version, Version)>);

impl Voids {
    pub fn new(intervals: Vec<(Version, Version)>) -> Voids {
        Voids(intervals)
    }

    pub fn holds(&self, version: Version) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= version);
        after > 0 && version <= self.0[after - 1].1
    }

    pub fn intervals(&self) -> &[(Version, Version)] {
        &self.0
    }

    /// Adds an interval that ends above all others.
    pub fn add(&mut self, mut first: Version, last: Version) {
        while let Some(&(begin, end)) = self.0.last()
            && end.next() >= first
        {
            first = first.min(begin);
            self.0.pop();
        }
        self.0.push((first, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_void_in_an_interval_and_at_its_ends() {
        let mut voids = Voids::new(vec![(Version(3), Version(5))]);
        voids.add(Version(9), Version(9));
        voids.add(Version(10), Version(12));
        assert_eq!(voids.intervals().len(), 2);
        let held: Vec<u64> = (0..15).filter(|&version| voids.holds(Version(version))).collect();
        assert_eq!(held, [3, 4, 5, 9, 10, 11, 12]);
        voids.add(Version(7), Version(14));
        assert_eq!(voids.intervals(), [(Version(3), Version(5)), (Version(7), Version(14))]);
    }
}
