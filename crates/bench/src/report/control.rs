//! Each mode beside its control, round by round: what the two have in common (a noisy minute) is then not in the ratio.
//!
//! The control of a mode is the one with the same number of connections that runs without our VFS, or, where there is none,
//! with the strategy that changes nothing, or, where there is none either, the first.

use serde::Serialize;

use super::figures::median;
use super::{Figures, ModeReport};
use crate::mode::Strategy;

#[derive(Clone, Debug, Serialize)]
pub struct ToControl {
    pub control: String,
    pub mean: Spread,
    pub p50: Spread,
    /// Processor time: what others on the machine did is hardly in it, nor is waiting for the device.
    pub cpu: Spread,
    pub transactions_per_s: Spread,
}

/// Of the rounds' ratios.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Spread {
    fn of(ratios: Vec<f64>) -> Spread {
        Spread {
            lowest: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            highest: ratios.iter().copied().fold(0.0, f64::max),
            median: median(ratios),
        }
    }
}

/// One entry a mode; none for a control itself.
pub fn compare(modes: &[ModeReport]) -> Vec<Option<ToControl>> {
    let control_of = |mode: &ModeReport| {
        let alike = || modes.iter().filter(|other| other.connections == mode.connections);
        let with = |strategy| alike().find(move |other| other.mode.strategy == strategy);
        with(Strategy::Sqlite).or_else(|| with(Strategy::STOCK)).or_else(|| alike().next())
    };
    let to_control = |mode: &ModeReport| {
        let control = control_of(mode).filter(|control| !std::ptr::eq(*control, mode))?;
        let ratios = |pick: fn(&Figures) -> f64| {
            let pairs = mode.rounds.iter().zip(&control.rounds);
            Spread::of(pairs.map(|(own, other)| pick(own) / pick(other).max(f64::MIN_POSITIVE)).collect())
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
        assert_eq!(Spread::of(vec![1.02, 0.99, 1.4]), Spread { median: 1.02, lowest: 0.99, highest: 1.4 });
    }
}
