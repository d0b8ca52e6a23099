//! Latencies over time in bounded memory. For each stretch of the run it has the number of commits
//! that ended in it, their median and the longest. So a checkpoint is seen as the spike that it is.
//!
//! The length of a run is not known when it begins. Stretches begin with a millisecond. Whenever
//! there would be too many, each pair becomes one. The maximum of a stretch is exact. Its median
//! comes from counts by size, within 6 %.

use serde::{Deserialize, Serialize};

const STRETCHES_MAX: usize = 512;
const FIRST_STRETCH_NS: u64 = 1_000_000;
/// Sizes in each power of two.
const SIZES_BITS: u32 = 4;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timeline {
    stretch_ns: u64,
    stretches: Vec<Stretch>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Stretch {
    max_ns: u64,
    /// (size, how many), in no order: commits of one stretch have few sizes.
    counts: Vec<(u32, u32)>,
}

/// What is drawn and stored. One entry a stretch in each list; all are 0 where no commit ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TimelineFigures {
    pub stretch_ns: u64,
    pub counts: Vec<u64>,
    pub p50_ns: Vec<u64>,
    pub max_ns: Vec<u64>,
}

impl Timeline {
    pub fn new() -> Timeline {
        Timeline { stretch_ns: FIRST_STRETCH_NS, stretches: Vec::new() }
    }

    /// `at_ns`: the commit's end, since the run's begin.
    pub fn record(&mut self, at_ns: u64, latency_ns: u64) {
        while at_ns / self.stretch_ns >= STRETCHES_MAX as u64 {
            self.widen();
        }
        let at = (at_ns / self.stretch_ns) as usize;
        if at >= self.stretches.len() {
            self.stretches.resize_with(at + 1, Stretch::default);
        }
        let stretch = &mut self.stretches[at];
        stretch.add(size_of(latency_ns), 1);
        stretch.max_ns = stretch.max_ns.max(latency_ns);
    }

    /// Adds another worker's, which began at the same time.
    pub fn merge(&mut self, other: &Timeline) {
        let mut other = other.clone();
        while self.stretch_ns < other.stretch_ns {
            self.widen();
        }
        while other.stretch_ns < self.stretch_ns {
            other.widen();
        }
        if self.stretches.len() < other.stretches.len() {
            self.stretches.resize_with(other.stretches.len(), Stretch::default);
        }
        for (stretch, more) in self.stretches.iter_mut().zip(&other.stretches) {
            stretch.merge(more);
        }
    }

    pub fn figures(&self) -> TimelineFigures {
        TimelineFigures {
            stretch_ns: self.stretch_ns,
            counts: self.stretches.iter().map(Stretch::count).collect(),
            p50_ns: self.stretches.iter().map(Stretch::median_ns).collect(),
            max_ns: self.stretches.iter().map(|stretch| stretch.max_ns).collect(),
        }
    }

    fn widen(&mut self) {
        self.stretch_ns *= 2;
        let pairs = self.stretches.chunks(2).map(|pair| {
            let mut sum = pair[0].clone();
            pair[1..].iter().for_each(|more| sum.merge(more));
            sum
        });
        self.stretches = pairs.collect();
    }
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline::new()
    }
}

impl Stretch {
    fn add(&mut self, size: u32, count: u32) {
        match self.counts.iter_mut().find(|(known, _)| *known == size) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.counts.push((size, count)),
        }
    }

    fn merge(&mut self, more: &Stretch) {
        for (size, count) in &more.counts {
            self.add(*size, *count);
        }
        self.max_ns = self.max_ns.max(more.max_ns);
    }

    fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    fn median_ns(&self) -> u64 {
        let mut counts = self.counts.clone();
        counts.sort_unstable();
        let mut left = self.count().div_ceil(2);
        for (size, count) in counts {
            if left <= u64::from(count) {
                return middle_of(size).min(self.max_ns);
            }
            left -= u64::from(count);
        }
        0
    }
}

/// The power of two, and the bits behind its leading one.
fn size_of(latency_ns: u64) -> u32 {
    let latency_ns = latency_ns.max(1 << SIZES_BITS);
    let power = latency_ns.ilog2();
    (power << SIZES_BITS) | (latency_ns >> (power - SIZES_BITS)) as u32 & ((1 << SIZES_BITS) - 1)
}

fn middle_of(size: u32) -> u64 {
    let power = size >> SIZES_BITS;
    let low = (u64::from(size & ((1 << SIZES_BITS) - 1)) | 1 << SIZES_BITS) << (power - SIZES_BITS);
    low + (1 << (power - SIZES_BITS)) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_commits_need_no_more_room_than_a_thousand_and_keep_their_spike() {
        let mut timeline = Timeline::new();
        for number in 0..1_000_000u64 {
            let latency_ns = if number == 700_000 { 123_456_789 } else { 200_000 + number % 1_000 };
            timeline.record(number * 200_000, latency_ns);
        }
        assert!(timeline.stretches.len() <= STRETCHES_MAX);
        assert!(timeline.stretches.iter().all(|stretch| stretch.counts.len() <= 3));
        let figures = timeline.figures();
        assert_eq!(figures.counts.iter().sum::<u64>(), 1_000_000);
        let spike_at = (700_000 * 200_000 / figures.stretch_ns) as usize;
        assert_eq!(figures.max_ns[spike_at], 123_456_789);
        assert_eq!(figures.max_ns.iter().filter(|max| **max > 1_000_000).count(), 1);
        for p50 in figures.p50_ns {
            assert!((188_000..=212_000).contains(&p50), "{p50}");
        }
    }

    #[test]
    fn workers_of_different_length_are_added_stretch_by_stretch() {
        let (mut short, mut long) = (Timeline::new(), Timeline::new());
        short.record(500_000, 1_000_000);
        long.record(100_000, 3_000_000);
        long.record(2_000_000_000, 5_000_000);
        let last = |timeline: &Timeline| *timeline.figures().max_ns.last().unwrap();
        let mut all = short.clone();
        all.merge(&long);
        assert_eq!(
            (all.figures().counts[0], all.figures().max_ns[0], last(&all)),
            (2, 3_000_000, 5_000_000)
        );
        long.merge(&short);
        assert_eq!(long.figures().counts, all.figures().counts);
    }

    #[test]
    fn a_size_holds_its_latencies_within_six_percent() {
        for latency_ns in [16, 1_000, 123_456, 4_334_000_000, 600_000_000_000] {
            let ratio = middle_of(size_of(latency_ns)) as f64 / latency_ns as f64;
            assert!((0.94..=1.06).contains(&ratio), "{latency_ns}: {ratio}");
        }
    }
}
