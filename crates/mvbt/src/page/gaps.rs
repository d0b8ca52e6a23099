//! Which bytes of a page are free.

use std::ops::Range;

use crate::page::HEADER_BYTES;

/// Free ranges, in order. No two touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps(Vec<Range<usize>>);

impl Gaps {
    /// All of a page but these ranges, which may overlap. None is empty.
    pub fn around(page_bytes: usize, mut used: Vec<Range<usize>>) -> Gaps {
        used.sort_unstable_by_key(|range| range.start);
        let mut gaps = Vec::new();
        let mut from = HEADER_BYTES;
        for range in used {
            if from < range.start {
                gaps.push(from..range.start);
            }
            from = from.max(range.end);
        }
        if from < page_bytes {
            gaps.push(from..page_bytes);
        }
        Gaps(gaps)
    }

    /// Takes bytes off the high end of the smallest gap that has them.
    pub fn take_high(&mut self, length: usize) -> Option<usize> {
        let fits = |gap: &&mut Range<usize>| gap.len() >= length;
        let gap = self.0.iter_mut().filter(fits).min_by_key(|gap| gap.len())?;
        gap.end -= length;
        let at = gap.end;
        self.0.retain(|gap| !gap.is_empty());
        Some(at)
    }

    /// Takes bytes off the low end of the first gap that has them, and `slack` more if one has.
    pub fn take_low(&mut self, length: usize, slack: usize) -> Option<usize> {
        let with = |least: usize| self.0.iter().position(|gap| gap.len() >= least);
        let index = with(length + slack).or_else(|| with(length))?;
        let at = self.0[index].start;
        self.0[index].start += length;
        self.0.retain(|gap| !gap.is_empty());
        Some(at)
    }

    /// True if all of these bytes are free.
    pub fn hold(&self, range: &Range<usize>) -> bool {
        let after = self.0.partition_point(|gap| gap.start <= range.start);
        after > 0 && range.end <= self.0[after - 1].end
    }

    pub fn give(&mut self, range: Range<usize>) {
        let index = self.0.partition_point(|gap| gap.start < range.start);
        self.0.insert(index, range);
        if index + 1 < self.0.len() && self.0[index].end == self.0[index + 1].start {
            self.0[index].end = self.0.remove(index + 1).end;
        }
        if index > 0 && self.0[index - 1].end == self.0[index].start {
            self.0[index - 1].end = self.0.remove(index).end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_and_given_back_leaves_the_same() {
        let mut gaps = Gaps::around(512, vec![200..300, 120..210, 400..512]);
        assert_eq!(gaps.0, [80..120, 300..400]);
        let before = gaps.clone();
        let high = gaps.take_high(30).unwrap();
        let low = gaps.take_low(90, 20).unwrap();
        assert_eq!((high, low), (90, 300));
        assert_eq!(gaps.0, [80..90, 390..400]);
        assert_eq!(gaps.take_high(11), None);
        assert!(before.hold(&(90..120)) && !before.hold(&(90..121)) && !before.hold(&(79..81)));
        gaps.give(300..390);
        gaps.give(90..120);
        assert_eq!(gaps, before);
    }

    #[test]
    fn a_gap_that_is_used_up_is_gone() {
        let used = std::iter::once(100..500);
        let mut gaps = Gaps::around(512, used.collect());
        assert_eq!(gaps.take_high(12), Some(500));
        assert_eq!(gaps.take_low(20, 8), Some(80));
        assert_eq!(gaps.0, []);
    }
}
