//! Each mode beside its control, round by round. What the two have in common, such as a noisy
//! minute, is then not in the ratio.
//!
//! The control of a mode has the same number of connections. It is the first of these that exists:
//! of a mode that is mounted, the same that is not; the mode without our VFS; the mode with the
//! strategy that changes nothing; the first mode.

use serde::{Deserialize, Deserializer, Serialize};

use super::figures::median;
use super::to_stock::unmounted;
use super::{Figures, ModeReport};
use oneflush_measure::mode::{Mode, Strategy};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToControl {
    pub control: String,
    pub mean: Spread,
    pub p50: Spread,
    /// Processor time. It contains hardly anything of what others on the machine did, and no
    /// waiting for the device.
    pub cpu: Spread,
    pub transactions_per_s: Spread,
}

/// Of the rounds' ratios.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    #[serde(deserialize_with = "null_is_no_number")]
    pub median: f64,
    #[serde(deserialize_with = "null_is_no_number")]
    pub lowest: f64,
    #[serde(deserialize_with = "null_is_no_number")]
    pub highest: f64,
    /// The bounds that contain the median of endlessly many rounds with 95 % confidence. They are
    /// two of the ratios, found by order alone (sign test), so the kind of noise does not matter.
    /// None below six rounds.
    #[serde(deserialize_with = "nulls_are_no_numbers")]
    pub bounds: Option<[f64; 2]>,
}

/// A ratio to nothing is written as null: JSON has no infinity.
fn null_is_no_number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn nulls_are_no_numbers<'de, D>(from: D) -> Result<Option<[f64; 2]>, D::Error>
where
    D: Deserializer<'de>,
{
    let bounds: Option<[Option<f64>; 2]> = Option::deserialize(from)?;
    Ok(bounds.map(|bounds| bounds.map(|bound| bound.unwrap_or(f64::NAN))))
}

impl Spread {
    pub(super) fn of(mut ratios: Vec<f64>) -> Spread {
        ratios.sort_by(f64::total_cmp);
        let outside = outside_bounds(ratios.len());
        Spread {
            lowest: ratios.first().copied().unwrap_or(f64::INFINITY),
            highest: ratios.last().copied().unwrap_or(0.0),
            bounds: outside.map(|outside| [ratios[outside], ratios[ratios.len() - 1 - outside]]),
            median: median(ratios),
        }
    }
}

/// How many of `count` values may be left out at each end, so that the median is between the others
/// with 95 % confidence. That the median is beyond them is as likely as so few heads in `count`
/// tosses of a coin.
fn outside_bounds(count: usize) -> Option<usize> {
    let count_f = count as f64;
    let mut ln_ways = 0.0_f64;
    let mut beyond = 0.0;
    let mut outside = None;
    for heads in 0..count / 2 {
        beyond += 2.0 * (ln_ways - count_f * std::f64::consts::LN_2).exp();
        if beyond > 0.05 {
            break;
        }
        outside = Some(heads);
        ln_ways += ((count - heads) as f64).ln() - ((heads + 1) as f64).ln();
    }
    outside
}

/// One entry a mode; none for a control itself.
pub fn compare(modes: &[ModeReport]) -> Vec<Option<ToControl>> {
    let control_of = |mode: &ModeReport| {
        let alike = || modes.iter().filter(|other| other.connections == mode.connections);
        // LS-MVBT has no strategy either, and is what is compared, as a mount is.
        let is_compared = |other: &Mode| other.is_lsmvbt() || other.is_mounted;
        let stock = || alike().filter(|other| !is_compared(&other.mode));
        let is_twin =
            |other: &&ModeReport| mode.mode.is_mounted && other.mode == unmounted(&mode.mode);
        let with = |strategy| stock().find(move |other| other.mode.strategy == strategy);
        let twin = alike().find(is_twin);
        twin.or_else(|| with(Strategy::Sqlite))
            .or_else(|| with(Strategy::STOCK))
            .or_else(|| alike().next())
    };
    let to_control = |mode: &ModeReport| {
        let control = control_of(mode).filter(|control| !std::ptr::eq(*control, mode))?;
        let ratios = |pick: fn(&Figures) -> f64| {
            let pairs = mode.rounds.iter().zip(&control.rounds);
            Spread::of(
                pairs.map(|(own, other)| pick(own) / pick(other).max(f64::MIN_POSITIVE)).collect(),
            )
        };
        Some(ToControl {
            control: control.mode.to_string(),
            mean: ratios(|figures| figures.latency_ns.mean as f64),
            p50: ratios(|figures| figures.latency_ns.p50 as f64),
            cpu: ratios(|figures| figures.cpu_us_per_transaction),
            transactions_per_s: ratios(|figures| figures.transactions_per_s),
        })
    };
    modes.iter().map(to_control).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_and_both_ends() {
        let spread = Spread::of(vec![1.02, 0.99, 1.4]);
        assert_eq!(spread, Spread { median: 1.02, lowest: 0.99, highest: 1.4, bounds: None });
    }

    /// The ratios to a control that did nothing in most of its rounds were written as null, and
    /// then `--from` refused the report that `--json` had printed.
    #[test]
    fn bounds_without_a_number_are_read_again() {
        let spread = Spread::of([vec![1.0; 2], vec![f64::INFINITY; 8]].concat());
        assert_eq!(spread.bounds, Some([1.0, f64::INFINITY]));
        let again: Spread = serde_json::from_str(&serde_json::to_string(&spread).unwrap()).unwrap();
        let [low, high] = again.bounds.unwrap();
        assert!(low == 1.0 && high.is_nan() && again.median.is_nan());
    }

    /// From tables of the confidence interval of a median.
    #[test]
    fn bounds_of_the_median_are_those_of_the_sign_test() {
        let outside = [
            (5, None),
            (6, Some(0)),
            (10, Some(1)),
            (20, Some(5)),
            (50, Some(17)),
            (100, Some(39)),
        ];
        for (count, expected) in outside {
            assert_eq!(outside_bounds(count), expected, "{count}");
        }
        assert_eq!(outside_bounds(2000), Some(955));
        let spread = Spread::of((1..=10).map(f64::from).collect());
        assert_eq!(spread.bounds, Some([2.0, 9.0]));
    }
}
