//! Histograms of durations.

use serde::Serialize;

/// Two significant digits are enough for a quantile. The maximum and the sum are exact.
const SIGNIFICANT_DIGITS: u8 = 2;

/// Takes no memory before the first recording.
#[derive(Default)]
pub struct Histogram(Option<Recorded>);

struct Recorded {
    histogram: hdrhistogram::Histogram<u64>,
    max: u64,
    sum: u64,
}

/// Quantiles in the unit of what was recorded. All are 0 while `count` is 0.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Quantiles {
    pub count: u64,
    pub sum: u64,
    pub mean: f64,
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Histogram {
    /// Never fails. The histogram grows to hold the value. Without memory for it the value is left
    /// out.
    pub fn record(&mut self, value: u64) {
        if self.0.is_none() {
            let Ok(histogram) = hdrhistogram::Histogram::new(SIGNIFICANT_DIGITS) else { return };
            self.0 = Some(Recorded { histogram, max: 0, sum: 0 });
        }
        if let Some(recorded) = &mut self.0
            && recorded.histogram.record(value).is_ok()
        {
            recorded.max = recorded.max.max(value);
            recorded.sum = recorded.sum.saturating_add(value);
        }
    }

    pub fn quantiles(&self) -> Quantiles {
        let Some(recorded) = &self.0 else { return Quantiles::default() };
        let at = |quantile| recorded.histogram.value_at_quantile(quantile).min(recorded.max);
        let count = recorded.histogram.len();
        Quantiles {
            count,
            sum: recorded.sum,
            mean: (recorded.sum as f64 / count as f64).round(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: recorded.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_two_digits_and_the_maximum_is_exact() {
        let mut latency = Histogram::default();
        for value in 1..=1000 {
            latency.record(value * 1000);
        }
        let quantiles = latency.quantiles();
        assert_eq!(quantiles.count, 1000);
        assert_eq!(quantiles.max, 1_000_000);
        assert_eq!(quantiles.mean, 500_500.0);
        assert!((495_000..=505_000).contains(&quantiles.p50), "{quantiles:?}");
        assert!((980_000..=1_000_000).contains(&quantiles.p99), "{quantiles:?}");
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(Histogram::default().quantiles().count, 0);
    }
}
