//! Round numbers for axes.

use crate::report::format::significant;

/// 1, 2 or 5 times a power of ten, at least `least`.
pub fn round_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power)
}

/// 1, 2 and 5 times each power of ten; only the powers where there are more than `decades_max`.
pub fn logarithmic(from_ns: f64, to_ns: f64, decades_max: f64) -> Vec<f64> {
    let decades = (to_ns / from_ns).log10();
    let factors: &[f64] = if decades > decades_max { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let first = from_ns.log10().floor() as i32;
    let last = to_ns.log10().ceil() as i32;
    (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        .filter(|ns| (from_ns..=to_ns).contains(ns))
        .collect()
}

/// A time with three digits that matter.
pub fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        // Of what would be rounded to 1000 the next unit.
        1_000..999_500 => (ns as f64 / 1e3, "µs"),
        999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", significant(value))
}

pub fn label(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 && ns > 0.0 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = match value {
        0.0 => return "0".to_owned(),
        value if (value - value.round()).abs() < 1e-6 => format!("{value:.0}"),
        value => significant(value).trim_end_matches('0').to_owned(),
    };
    format!("{digits} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(logarithmic(80_000.0, 3_000_000.0, 3.5), [1e5, 2e5, 5e5, 1e6, 2e6]);
        assert_eq!(logarithmic(80_000.0, 3_000_000.0, 1.0), [1e5, 1e6]);
    }

    #[test]
    fn labels_have_the_unit_that_fits() {
        for (ns, text) in
            [(0.0, "0"), (500.0, "500 ns"), (1e5, "100 µs"), (2e6, "2 ms"), (2.5e9, "2.5 s")]
        {
            assert_eq!(label(ns), text);
        }
    }

    #[test]
    fn durations_have_three_digits() {
        for (ns, text) in [
            (276_000, "276 µs"),
            (999_900, "1.00 ms"),
            (12_841_589, "12.8 ms"),
            (6_583_023_678, "6.58 s"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn axis_steps_are_round() {
        for (least, step) in [(0.7, 1.0), (11.0, 20.0), (34.0, 50.0), (0.0, 1.0)] {
            assert_eq!(round_step(least), step);
        }
    }
}
