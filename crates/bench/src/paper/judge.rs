//! The verdict on a claim.

use serde::Serialize;

use super::{Across, Cell, Claim, Figure, Measured, Of, Rule, Unmeasured};
use crate::report::significant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Holds,
    InPart,
    NotHere,
}

impl Verdict {
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InPart => "holds in part",
            Verdict::NotHere => "does not hold here",
        }
    }
}

/// A claim with what was found.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    pub source: &'static str,
    pub claim: &'static str,
    pub theirs: Option<f64>,
    pub ours: Option<f64>,
    /// None where a figure is missing.
    pub verdict: Option<Verdict>,
    pub rule: String,
    pub why: String,
}

impl Judged {
    /// Of ours to theirs.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.theirs?).filter(|ratio| ratio.is_finite())
    }
}

impl Rule {
    pub fn verdict(self, value: f64) -> Verdict {
        let (holds, in_part) = match self {
            Rule::AtMost { holds, in_part } => (value <= holds, value <= in_part),
            Rule::AtLeast { holds, in_part } => (value >= holds, value >= in_part),
            Rule::Between { holds, in_part } => {
                let within = |[low, high]: [f64; 2]| (low..=high).contains(&value);
                (within(holds), within(in_part))
            }
        };
        match (holds, in_part) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::InPart,
            _ => Verdict::NotHere,
        }
    }

    fn words(self) -> String {
        match self {
            Rule::AtMost { holds, in_part } => {
                format!("at most {}, in part {}", significant(holds), significant(in_part))
            }
            Rule::AtLeast { holds, in_part } => {
                format!("at least {}, in part {}", significant(holds), significant(in_part))
            }
            Rule::Between { holds, in_part } => {
                let [low, high, lower, higher] =
                    [holds[0], holds[1], in_part[0], in_part[1]].map(significant);
                format!("{low} to {high}, in part {lower} to {higher}")
            }
        }
    }
}

impl Claim {
    pub fn judge(&self, measured: &Measured) -> Judged {
        let cells = || self.over.iter().chain(self.under);
        let missing = cells().find_map(|cell| measured.value(cell).err());
        let product = |cells: &[Cell]| -> Option<f64> {
            cells.iter().map(|cell| measured.value(cell).ok()).product()
        };
        // A ratio to nothing is none.
        let ours = product(self.over)
            .zip(product(self.under))
            .map(|(over, under)| over / under)
            .filter(|ratio| ratio.is_finite());
        let verdict = ours.map(|ours| self.rule.verdict(ours));
        let figures = |cells: &[Cell]| -> String {
            let told = cells.iter().filter_map(|cell| {
                let experiment =
                    if cells.len() > 1 { format!("{}: ", cell.experiment) } else { String::new() };
                Some(format!("{experiment}{}", told(cell, measured.value(cell).ok()?)))
            });
            told.collect::<Vec<_>>().join(" and ")
        };
        let mut why = match &missing {
            Some(missing) => format!("Not measured: {missing}."),
            None if self.under.is_empty() => format!("{}.", figures(self.over)),
            None => format!("{} against {}.", figures(self.over), figures(self.under)),
        };
        if !self.unless.is_empty() && matches!(verdict, Some(Verdict::InPart | Verdict::NotHere)) {
            why.push_str(&format!(" {}", self.unless));
        }
        Judged {
            source: self.source,
            claim: self.says,
            theirs: self.theirs,
            ours,
            verdict,
            rule: self.rule.words(),
            why,
        }
    }
}

impl Across {
    pub fn judge(&self, measured: &Measured) -> Judged {
        // One that is missing does not take the others' word.
        let mut values: Vec<(f64, &Cell, [f64; 2])> = Vec::new();
        let mut missing = None;
        for (own, other) in self.pairs {
            match measured.value(own).and_then(|value| Ok([value, measured.value(other)?])) {
                Ok([value, beside]) => {
                    let one = match self.of {
                        Of::LargestDifference | Of::SmallestDifference => value - beside,
                        _ => value / beside,
                    };
                    if one.is_finite() {
                        values.push((one, own, [value, beside]));
                    }
                }
                Err(why) => missing = Some(why),
            }
        }
        values.sort_by(|one, other| one.0.total_cmp(&other.0));
        let logarithms: f64 = values.iter().map(|(value, ..)| value.ln()).sum();
        let ours = match self.of {
            Of::LargestRatio | Of::LargestDifference => values.last().map(|(value, ..)| *value),
            Of::SmallestRatio | Of::SmallestDifference => values.first().map(|(value, ..)| *value),
            Of::MeanRatio if values.is_empty() => None,
            Of::MeanRatio => Some((logarithms / values.len() as f64).exp()),
        };
        let shown = match self.of {
            Of::LargestRatio | Of::LargestDifference => values.last(),
            _ => values.first(),
        };
        let mut why = match (shown, &missing) {
            (None, Some(missing)) => format!("Not measured: {missing}."),
            (None, None) => "Not measured.".to_owned(),
            (Some((_, own, [value, beside])), _) => {
                let unit = own.figure.unit();
                let of = match self.of {
                    Of::LargestRatio | Of::LargestDifference => "Most",
                    Of::SmallestRatio | Of::SmallestDifference => "Least",
                    Of::MeanRatio => "The least of them",
                };
                format!(
                    "{of} at {}: {}{unit} against {}{unit}, of {} workloads.",
                    own.experiment,
                    significant(*value),
                    significant(*beside),
                    values.len()
                )
            }
        };
        let verdict = ours.map(|ours| self.rule.verdict(ours));
        if !self.unless.is_empty() && matches!(verdict, Some(Verdict::InPart | Verdict::NotHere)) {
            why.push_str(&format!(" {}", self.unless));
        }
        Judged {
            source: self.source,
            claim: self.says,
            theirs: self.theirs,
            ours,
            verdict,
            rule: self.rule.words(),
            why,
        }
    }
}

impl Unmeasured {
    pub fn judge(&self) -> Judged {
        Judged {
            source: self.source,
            claim: self.says,
            theirs: self.theirs,
            ours: None,
            verdict: None,
            rule: String::new(),
            why: format!("Not measured: {}", self.why),
        }
    }
}

/// "wal:waldio 4.41 MB"
fn told(cell: &Cell, value: f64) -> String {
    let what = match cell.figure {
        Figure::DataMegabytes | Figure::DataKilobytes => " outside the file system's journal",
        Figure::FsJournalKilobytes => " of the file system's journal",
        Figure::DbKilobytes => " in place",
        Figure::OneRequestPercent => " of the commits in one request",
        Figure::FsJournalPercent => " of the commits with a journal of the file system",
        Figure::SequentialPercent => " sequential",
        _ => "",
    };
    format!("{} {}{}{what}", cell.mode, significant(value), cell.figure.unit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::measured::tests::measured;

    const HALF: Rule = Rule::AtMost { holds: 0.5, in_part: 0.8 };

    #[test]
    fn a_rule_has_three_answers_and_its_bounds_belong_to_the_better_one() {
        for (value, verdict) in
            [(0.5, Verdict::Holds), (0.8, Verdict::InPart), (0.81, Verdict::NotHere)]
        {
            assert_eq!(HALF.verdict(value), verdict, "{value}");
        }
        let rule = Rule::AtLeast { holds: 2.0, in_part: 1.1 };
        for (value, verdict) in
            [(2.0, Verdict::Holds), (1.1, Verdict::InPart), (1.09, Verdict::NotHere)]
        {
            assert_eq!(rule.verdict(value), verdict, "{value}");
        }
        let rule = Rule::Between { holds: [0.9, 1.1], in_part: [0.8, 1.25] };
        for (value, verdict) in [
            (0.79, Verdict::NotHere),
            (0.8, Verdict::InPart),
            (1.1, Verdict::Holds),
            (1.26, Verdict::NotHere),
        ] {
            assert_eq!(rule.verdict(value), verdict, "{value}");
        }
    }

    const OWN: Cell = Cell { experiment: "x", mode: "wal:plain", figure: Figure::PerSecond };
    const STOCK: Cell = Cell { experiment: "x", mode: "wal:sqlite", figure: Figure::PerSecond };

    fn claim(over: &'static [Cell], under: &'static [Cell]) -> Claim {
        Claim {
            source: "Fig. 1",
            says: "half as fast",
            theirs: Some(0.4),
            over,
            under,
            rule: HALF,
            unless: "The device is another.",
        }
    }

    #[test]
    fn a_claim_is_judged_by_the_ratio_and_says_both_figures() {
        let found = measured(&[("x", "wal:plain", 60.0), ("x", "wal:sqlite", 100.0)]);
        let judged = claim(&[OWN], &[STOCK]).judge(&found);
        assert_eq!((judged.ours, judged.verdict), (Some(0.6), Some(Verdict::InPart)));
        assert_eq!(judged.why, "wal:plain 60.0/s against wal:sqlite 100/s. The device is another.");
        let single = claim(&[OWN], &[]).judge(&found);
        assert_eq!((single.ours, single.verdict), (Some(60.0), Some(Verdict::NotHere)));
        let held = claim(&[OWN], &[STOCK, STOCK]).judge(&found);
        assert_eq!(held.verdict, Some(Verdict::Holds));
        assert!(!held.why.contains("another"), "{}", held.why);
        assert_eq!(
            held.why,
            "wal:plain 60.0/s against x: wal:sqlite 100/s and x: wal:sqlite 100/s."
        );
    }

    #[test]
    fn of_several_workloads_the_best_the_worst_and_the_mean_count() {
        const PAIRS: [(Cell, Cell); 3] = [
            (OWN, STOCK),
            (Cell { experiment: "y", ..OWN }, Cell { experiment: "y", ..STOCK }),
            (Cell { experiment: "z", ..OWN }, Cell { experiment: "z", ..STOCK }),
        ];
        let found = measured(&[
            ("x", "wal:plain", 200.0),
            ("x", "wal:sqlite", 100.0),
            ("y", "wal:plain", 50.0),
            ("y", "wal:sqlite", 100.0),
        ]);
        let judged = |of| {
            let claim = Across {
                source: "Fig. 1",
                says: "faster",
                theirs: None,
                of,
                pairs: &PAIRS,
                rule: HALF,
                unless: "",
            };
            claim.judge(&found)
        };
        assert_eq!(judged(Of::LargestRatio).ours, Some(2.0));
        assert_eq!(judged(Of::SmallestRatio).ours, Some(0.5));
        assert!((judged(Of::MeanRatio).ours.unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(judged(Of::LargestDifference).ours, Some(100.0));
        let why = judged(Of::SmallestDifference).why;
        assert_eq!(why, "Least at y: 50.0/s against 100/s, of 2 workloads.");
    }

    #[test]
    fn what_was_not_measured_has_no_verdict_and_says_what_is_missing() {
        let found = measured(&[("x", "wal:plain", 60.0)]);
        let judged = claim(&[OWN], &[STOCK]).judge(&found);
        assert_eq!((judged.ours, judged.verdict), (None, None));
        assert!(judged.why.contains("wal:sqlite"), "{}", judged.why);
        let nothing = measured(&[("x", "wal:plain", 0.0), ("x", "wal:sqlite", 0.0)]);
        assert_eq!(claim(&[OWN], &[STOCK]).judge(&nothing).verdict, None);
    }
}
