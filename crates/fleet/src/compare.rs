//! How many times as much a transaction of one group costs as one of another, with bounds.
//!
//! Transactions of a device resemble each other, so a hundred of one device say less than one of
//! each of a hundred. The bounds are therefore those of a ratio estimator over clusters (Cochran,
//! Sampling Techniques, 3rd edition, section 6.3): a device is one observation. The ratio of two
//! groups is taken in logarithms, with Student's t for the smaller number of clusters less one.
//!
//! A device that is in both groups makes the bounds wider than they need be, not narrower.

use serde::Serialize;

use crate::read::{Cluster, Group, Known};

/// Of the bounds.
pub const CONFIDENCE_PERCENT: u32 = 95;

/// What one group's transaction costs, as a multiple of the other's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    pub value: f64,
    /// None where a group has only one cluster, so that nobody knows how clusters differ.
    pub bounds: Option<[f64; 2]>,
}

/// Averages a transaction of `second`, divided by those of `first`. None where `first` has none, or
/// nobody knows one of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub column: String,
    pub first: String,
    pub second: String,
    pub transactions: [u64; 2],
    /// What bounds come from: devices or traces.
    pub clusters_are: &'static str,
    pub clusters: [usize; 2],
    pub confidence_percent: u32,
    pub bytes: Option<Ratio>,
    pub flushes: Option<Ratio>,
    pub latency: Option<Ratio>,
}

impl Comparison {
    pub fn new(column: &str, [first, second]: [&Group; 2], has_devices: bool) -> Comparison {
        let name = |group: &Group| group.value.clone().unwrap_or_default();
        let ratio = |part: fn(&Cluster) -> Known| {
            ratio([&first.clusters, &second.clusters].map(|clusters| {
                clusters
                    .iter()
                    .map(part)
                    .filter(|known| known.transactions > 0)
                    .map(|known| (known.sum as f64, known.transactions as f64))
                    .collect()
            }))
        };
        Comparison {
            column: column.to_owned(),
            first: name(first),
            second: name(second),
            transactions: [first, second].map(|group| group.trace.tally.count()),
            clusters_are: if has_devices { "devices" } else { "traces" },
            clusters: [first, second].map(|group| group.clusters.len()),
            confidence_percent: CONFIDENCE_PERCENT,
            bytes: ratio(|cluster| Known {
                transactions: cluster.transactions,
                sum: cluster.bytes,
            }),
            flushes: ratio(|cluster| cluster.flushes),
            latency: ratio(|cluster| cluster.latency_ns),
        }
    }
}

/// Of each group the sums and the counts of its clusters.
fn ratio([first, second]: [Vec<(f64, f64)>; 2]) -> Option<Ratio> {
    let [(mean, variance), (other_mean, other_variance)] =
        [&first, &second].map(|group| mean(group));
    let is_number = mean > 0.0 && mean.is_finite() && other_mean.is_finite();
    is_number.then(|| {
        let value = other_mean / mean;
        let clusters = first.len().min(second.len());
        let error =
            variance.zip(other_variance).filter(|_| other_mean > 0.0).map(|(one, other)| {
                (one / mean.powi(2) + other / other_mean.powi(2)).sqrt() * t(clusters - 1)
            });
        let bounds = error.map(|error| [value / error.exp(), value * error.exp()]);
        Ratio { value, bounds }
    })
}

/// The average a transaction, and its variance where there are two clusters or more.
fn mean(clusters: &[(f64, f64)]) -> (f64, Option<f64>) {
    let sum: f64 = clusters.iter().map(|(sum, _)| sum).sum();
    let count: f64 = clusters.iter().map(|(_, count)| count).sum();
    let mean = sum / count;
    let number = clusters.len() as f64;
    let variance = (clusters.len() > 1).then(|| {
        let squares: f64 = clusters.iter().map(|(sum, count)| (sum - mean * count).powi(2)).sum();
        number / (number - 1.0) * squares / count.powi(2)
    });
    (mean, variance)
}

/// Student's t for 95 % in the middle. Behind the table it is right within 0.003.
fn t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match freedom.checked_sub(1) {
        None => f64::INFINITY,
        Some(place) => TABLE.get(place).copied().unwrap_or(1.96 + 2.4 / freedom as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in 0..1, the same each time.
    fn random(state: &mut u64) -> f64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Devices with different averages and different numbers of transactions.
    fn fleet(state: &mut u64, devices: usize, average: f64) -> Vec<(f64, f64)> {
        (0..devices)
            .map(|_| {
                let count = 50.0 + 400.0 * random(state);
                let own = average * (0.6 + 0.8 * random(state));
                (own * count, count)
            })
            .collect()
    }

    #[test]
    fn bounds_hold_the_truth_about_as_often_as_they_say() {
        let mut state = 0x1234_5678_9abc_def1;
        for devices in [5, 12, 40] {
            let held = (0..2000)
                .filter(|_| {
                    let groups = [
                        fleet(&mut state, devices, 10_000.0),
                        fleet(&mut state, devices, 18_000.0),
                    ];
                    let [low, high] = ratio(groups).unwrap().bounds.unwrap();
                    low <= 1.8 && 1.8 <= high
                })
                .count();
            let share = held as f64 / 2000.0;
            assert!((0.925..=0.99).contains(&share), "{devices} devices: {share}");
        }
    }

    #[test]
    fn devices_that_do_not_differ_have_narrow_bounds() {
        let group = |average: f64| vec![(average * 100.0, 100.0); 4];
        let Ratio { value, bounds } = ratio([group(4096.0), group(8192.0)]).unwrap();
        assert_eq!((value, bounds), (2.0, Some([2.0, 2.0])));
    }

    #[test]
    fn one_device_has_no_bounds_and_nothing_has_no_ratio() {
        let one = vec![(100.0, 10.0)];
        assert_eq!(ratio([one.clone(), one.clone()]).unwrap(), Ratio { value: 1.0, bounds: None });
        assert_eq!(ratio([vec![(0.0, 10.0)], one.clone()]), None);
        assert_eq!(ratio([Vec::new(), one.clone()]), None);
        assert_eq!(ratio([one.clone(), Vec::new()]), None);
        assert_eq!(ratio([one.clone(), vec![(0.0, 5.0)]]).unwrap().value, 0.0);
    }
}
