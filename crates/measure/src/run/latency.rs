//! Latencies of commits: a histogram with three significant digits, and the exact maximum and sum.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longer than any commit that a busy timeout of a minute allows.
const MAX_NS: u64 = 600 * 1_000_000_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Buckets", from = "Buckets")]
pub struct Latencies {
    histogram: Histogram<u64>,
    max_ns: u64,
    sum_ns: u64,
}

/// What is sent and stored: `[latency in ns, how many]`, ascending.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Buckets {
    pub max_ns: u64,
    pub sum_ns: u64,
    pub counts: Vec<(u64, u64)>,
}

impl Latencies {
    pub fn new() -> Latencies {
        let histogram =
            Histogram::new_with_bounds(1, MAX_NS, 3).expect("constant bounds are valid");
        Latencies { histogram, max_ns: 0, sum_ns: 0 }
    }

    pub fn record(&mut self, latency_ns: u64) {
        self.record_n(latency_ns, 1);
    }

    fn record_n(&mut self, latency_ns: u64, count: u64) {
        // Saturates, so it cannot fail.
        self.histogram.saturating_record_n(latency_ns.max(1), count);
        self.max_ns = self.max_ns.max(latency_ns);
        self.sum_ns += latency_ns * count;
    }

    pub fn merge(&mut self, other: &Latencies) {
        for bucket in other.histogram.iter_recorded() {
            self.histogram.saturating_record_n(bucket.value_iterated_to(), bucket.count_at_value());
        }
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// 0 if there is none.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count().max(1) as f64
    }

    /// `quantile` from 0 to 1.
    pub fn at_quantile_ns(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile).min(self.max_ns)
    }

    pub fn buckets(&self) -> Buckets {
        let counts = self
            .histogram
            .iter_recorded()
            .map(|b| (b.value_iterated_to(), b.count_at_value()))
            .collect();
        Buckets { max_ns: self.max_ns, sum_ns: self.sum_ns, counts }
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

impl From<Latencies> for Buckets {
    fn from(latencies: Latencies) -> Buckets {
        latencies.buckets()
    }
}

impl From<Buckets> for Latencies {
    fn from(buckets: Buckets) -> Latencies {
        let mut latencies = Latencies::new();
        for (latency_ns, count) in buckets.counts {
            latencies.record_n(latency_ns, count);
        }
        latencies.max_ns = buckets.max_ns;
        latencies.sum_ns = buckets.sum_ns;
        latencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_and_the_mean_are_exact_and_survive_being_sent() {
        let mut latencies = Latencies::new();
        for latency_ns in [100_000, 200_000, 123_456_789] {
            latencies.record(latency_ns);
        }
        let text = serde_json::to_string(&latencies).unwrap();
        let back: Latencies = serde_json::from_str(&text).unwrap();
        assert_eq!(back.max_ns(), 123_456_789);
        assert_eq!(back.count(), 3);
        assert_eq!(back.mean_ns(), 123_756_789.0 / 3.0);
        assert_eq!(back.at_quantile_ns(0.5), latencies.at_quantile_ns(0.5));
    }

    #[test]
    fn merging_adds_counts() {
        let mut all = Latencies::new();
        for latency_ns in [10_000, 20_000] {
            let mut one = Latencies::new();
            one.record(latency_ns);
            all.merge(&one);
        }
        assert_eq!(all.count(), 2);
        assert_eq!(all.max_ns(), 20_000);
    }
}
