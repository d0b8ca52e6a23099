//! Quantiles and cumulative shares of sorted values, or of values with their counts.

use serde::Serialize;

/// Points of a curve between its ends. It has a few more at its tail.
const POINTS_COUNT: usize = 240;

/// The value that at least this share of the (sorted) values do not exceed; 0 without values.
pub fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// The quantiles of the paper's tables, and the lower quartile of its Figure 23. In the unit by
/// which the values were divided. What nobody knows is not a number, and null in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    pub q25: f64,
    pub median: f64,
    pub average: f64,
    pub q75: f64,
    pub q99: f64,
    pub q999: f64,
    pub max: f64,
}

impl Quantiles {
    pub(super) const UNKNOWN: Quantiles = Quantiles {
        q25: f64::NAN,
        median: f64::NAN,
        average: f64::NAN,
        q75: f64::NAN,
        q99: f64::NAN,
        q999: f64::NAN,
        max: f64::NAN,
    };

    /// Only the average is known.
    pub(super) fn of_average(self) -> Quantiles {
        Quantiles { average: self.average, ..Quantiles::UNKNOWN }
    }
}

/// A cumulative distribution: this share of all is at most this value. Values rise.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Curve {
    pub values: Vec<f64>,
    pub shares: Vec<f64>,
}

/// At most some 270 points, even in shares and denser at the tail, up to the largest value.
pub fn curve(sorted: &[u64], unit: f64) -> Curve {
    let count = sorted.len();
    let Some(last) = count.checked_sub(1) else { return Curve::default() };
    let even = (0..=POINTS_COUNT).map(|n| n * last / POINTS_COUNT);
    let tail = (0..usize::BITS).map(|n| 1usize << n).take_while(|&n| n <= last).map(|n| last - n);
    let mut ranks: Vec<usize> = even.chain(tail).collect();
    ranks.sort_unstable();
    let mut curve = Curve::default();
    for rank in ranks {
        let value = sorted[rank] as f64 / unit;
        // Of equal values the last one tells the share.
        let at_most = sorted.partition_point(|&other| other <= sorted[rank]);
        if curve.values.last() != Some(&value) {
            curve.values.push(value);
            curve.shares.push(at_most as f64 / count as f64);
        }
    }
    curve
}

/// The same of values that rise, each with how many there are; `count`: of all.
pub(super) fn curve_of_counts(
    counts: impl Iterator<Item = (u64, u64)>,
    count: u64,
    unit: f64,
) -> Curve {
    let mut curve = Curve::default();
    let (mut at_most, mut next) = (0, 0);
    for (value, number) in counts {
        at_most += number;
        let is_last = at_most == count;
        if at_most < next && !is_last {
            continue;
        }
        let value = value as f64 / unit;
        if curve.values.last() != Some(&value) {
            curve.values.push(value);
            curve.shares.push(at_most as f64 / count as f64);
        } else if let Some(share) = curve.shares.last_mut() {
            *share = at_most as f64 / count as f64;
        }
        // Even in shares; at the tail, half of what is left each time.
        let even = (count / POINTS_COUNT as u64).max(1);
        next = at_most + even.min((count - at_most) / 2).max(1);
    }
    curve
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_there() {
        assert_eq!(quantile(&[], 0.5), 0);
        assert_eq!(quantile(&[7], 0.999), 7);
        assert_eq!(quantile(&[1, 2, 3, 4], 0.5), 2);
        assert_eq!(quantile(&[1, 2, 3, 4], 0.75), 3);
        assert_eq!(quantile(&[1, 2, 3, 4], 1.0), 4);
        let thousand: Vec<u64> = (1..=1000).collect();
        assert_eq!([0.99, 0.999].map(|share| quantile(&thousand, share)), [990, 999]);
    }

    #[test]
    fn a_curve_ends_with_all_of_them() {
        let values: Vec<u64> = (1..=100_000).map(|n| n * n).collect();
        let curve = curve(&values, 1.0);
        assert!(curve.values.len() < 300, "{}", curve.values.len());
        assert!(curve.values.is_sorted() && curve.shares.is_sorted());
        assert_eq!((curve.values.last(), curve.shares.last()), (Some(&1e10), Some(&1.0)));
        for (value, share) in curve.values.iter().zip(&curve.shares) {
            assert_eq!((value.sqrt() / 1e5 * 1e6).round(), (share * 1e6).round());
        }
    }

    #[test]
    fn equal_values_are_one_point() {
        let Curve { values, shares } = curve(&[8, 8, 8, 16], 8.0);
        assert_eq!((values, shares), (vec![1.0, 2.0], vec![0.75, 1.0]));
    }
}
