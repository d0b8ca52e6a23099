//! Many numbers of which quantiles are asked for: all of them, or a sketch of them.
//!
//! | form | kept | error of a quantile |
//! |---|---|---|
//! | exact | each number | none |
//! | fine | how many fell into each of some 1,000 bins for each power of two | 0.1 % |
//! | rough | the same, 64 bins, and only those that have something | 1.6 % |
//!
//! Count, sum, least and greatest are exact in each form. An exact one becomes a sketch
//! ([`Values::blur`]), never the other way round.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::quantiles::{Curve, Quantiles, curve, curve_of_counts, quantile};

/// Digits of a fine sketch: one part in 1,000.
const DIGITS: u8 = 3;
/// A rough bin is a 64th of a power of two.
const ROUGH_BITS: u32 = 6;

#[derive(Clone, Debug, Default)]
pub struct Values {
    form: Form,
    count: u64,
    sum: u128,
    max: u64,
}

#[derive(Clone, Debug)]
enum Form {
    Exact(Vec<u64>),
    Fine(Box<Histogram<u64>>),
    /// Number of the bin → how many.
    Rough(BTreeMap<u16, u64>),
}

impl Default for Form {
    fn default() -> Form {
        Form::Exact(Vec::new())
    }
}

/// How much a sketch may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    Fine,
    Rough,
}

impl Values {
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
        self.form.add(value);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn blur(&mut self, grain: Grain) {
        let Form::Exact(values) = &mut self.form else { return };
        let values = std::mem::take(values);
        self.form = match grain {
            Grain::Fine => {
                let mut sketch = Histogram::new(DIGITS).expect("three digits are allowed");
                sketch.auto(true);
                Form::Fine(Box::new(sketch))
            }
            Grain::Rough => Form::Rough(BTreeMap::new()),
        };
        values.into_iter().for_each(|value| self.form.add(value));
    }

    /// No more come: quantiles may be asked for.
    pub(super) fn seal(&mut self) {
        if let Form::Exact(values) = &mut self.form {
            values.sort_unstable();
        }
    }

    /// The least value that at least this share does not exceed; 0 without values. Sealed.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        if share >= 1.0 {
            return self.max;
        }
        let found = match &self.form {
            Form::Exact(sorted) => quantile(sorted, share),
            Form::Fine(sketch) => sketch.value_at_quantile(share),
            Form::Rough(bins) => {
                let rank = ((share * self.count as f64).ceil() as u64).max(1);
                let mut below = 0;
                let bin = bins.iter().find(|(_, count)| {
                    below += **count;
                    below >= rank
                });
                bin.map_or(0, |(bin, _)| middle(*bin))
            }
        };
        found.min(self.max)
    }

    /// How many are at least so large; a sketch's bin counts whole. Sealed.
    pub(super) fn count_from(&self, value: u64) -> u64 {
        match &self.form {
            Form::Exact(sorted) => {
                (sorted.len() - sorted.partition_point(|other| *other < value)) as u64
            }
            Form::Fine(sketch) => sketch
                .iter_recorded()
                .filter(|bin| bin.value_iterated_to() >= value)
                .map(|bin| bin.count_at_value())
                .sum(),
            Form::Rough(bins) => bins.range(bin(value)..).map(|(_, count)| count).sum(),
        }
    }

    /// `unit`: so many of the values are 1. Sealed.
    pub(super) fn quantiles(&self, unit: f64) -> Quantiles {
        let at = |share| self.quantile(share) as f64 / unit;
        let average =
            if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 / unit };
        Quantiles {
            q25: at(0.25),
            median: at(0.5),
            average,
            q75: at(0.75),
            q99: at(0.99),
            q999: at(0.999),
            max: at(1.0),
        }
    }

    /// Sealed.
    pub(super) fn curve(&self, unit: f64) -> Curve {
        match &self.form {
            Form::Exact(sorted) => curve(sorted, unit),
            Form::Fine(sketch) => {
                let counts = sketch
                    .iter_recorded()
                    .map(|bin| (bin.value_iterated_to().min(self.max), bin.count_at_value()));
                curve_of_counts(counts, self.count, unit)
            }
            Form::Rough(bins) => {
                let counts = bins.iter().map(|(bin, count)| (middle(*bin).min(self.max), *count));
                curve_of_counts(counts, self.count, unit)
            }
        }
    }
}

impl Form {
    fn add(&mut self, value: u64) {
        match self {
            Form::Exact(values) => values.push(value),
            Form::Fine(sketch) => sketch.record(value).expect("it grows by itself"),
            Form::Rough(bins) => *bins.entry(bin(value)).or_default() += 1,
        }
    }
}

/// Numbers below 64 have a bin each. Behind them, each power of two has 64.
fn bin(value: u64) -> u16 {
    let power = value.checked_ilog2().unwrap_or(0).saturating_sub(ROUGH_BITS);
    ((power << ROUGH_BITS) as u64 + (value >> power)) as u16
}

fn middle(bin: u16) -> u64 {
    let bin = u64::from(bin);
    let power = (bin >> ROUGH_BITS).saturating_sub(1);
    let least = (bin - (power << ROUGH_BITS)) << power;
    least + ((1 << power) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl Iterator<Item = u64>) -> Values {
        let mut all = Values::default();
        values.for_each(|value| all.add(value));
        all
    }

    #[test]
    fn a_rough_bin_is_within_a_128th_of_its_values() {
        for value in (0..100_000).chain((17..63).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 1]))
        {
            let told = middle(bin(value));
            assert!(told.abs_diff(value) * 128 <= value + 127, "{value} {told}");
        }
        assert!(bin(u64::MAX) < u16::MAX);
    }

    #[test]
    fn a_sketch_is_as_near_as_it_says() {
        let values = || (0..200_000u64).map(|n| n * n % 1_000_003 * 977);
        let mut exact = of(values());
        exact.seal();
        for (grain, error) in [(Grain::Fine, 0.001), (Grain::Rough, 0.016)] {
            let mut sketch = of(values());
            sketch.blur(grain);
            sketch.seal();
            for share in [0.001, 0.25, 0.5, 0.75, 0.99, 0.999] {
                let (told, truth) = (sketch.quantile(share) as f64, exact.quantile(share) as f64);
                assert!((told / truth - 1.0).abs() <= error, "{grain:?} {share} {told} {truth}");
            }
            let (told, truth) = (sketch.quantiles(1.0), exact.quantiles(1.0));
            assert_eq!((told.max, told.average), (truth.max, truth.average));
            let half = exact.quantile(0.5);
            let apart = sketch.count_from(half).abs_diff(exact.count_from(half));
            assert!(apart as f64 <= 2.0 * error * 200_000.0, "{grain:?} {apart}");
            let curve = sketch.curve(1.0);
            assert!(
                curve.values.is_sorted() && curve.shares.is_sorted() && curve.values.len() < 300
            );
            assert_eq!((curve.values.last(), curve.shares.last()), (Some(&truth.max), Some(&1.0)));
        }
    }

    #[test]
    fn nothing_has_quantiles_of_0() {
        for grain in [None, Some(Grain::Fine), Some(Grain::Rough)] {
            let mut none = Values::default();
            grain.into_iter().for_each(|grain| none.blur(grain));
            none.seal();
            assert_eq!(none.quantiles(1.0), Quantiles::default());
            assert_eq!(none.curve(1.0), Curve::default());
        }
    }
}
