//! What was found, as markdown and as JSON: verdicts first, then the tables, theirs beside ours.

use std::collections::BTreeMap;

use serde::Serialize;

use super::judge::{Judged, Verdict};
use super::measure::PaperPlan;
use super::measured::Measured;
use super::pattern::{LEGEND, PatternSheetFound};
use super::{Across, Cell, Claim, Ours, Row, Sheet, Unmeasured};
use crate::report::{MEANING, significant};

const MISSING: &str = "–";
/// Of a control's name in the head of a ratio.
const CONTROL_COLUMNS: usize = 12;
/// Of prose. Tables may be wider, up to 100.
const COLUMNS: usize = 90;

#[derive(Debug, Serialize)]
pub struct PaperReport {
    pub paper: &'static str,
    pub title: &'static str,
    pub device_of_theirs: &'static str,
    pub rounds: u32,
    pub verdicts: Vec<Judged>,
    pub sheets: Vec<SheetFound>,
    pub patterns: Vec<PatternSheetFound>,
    pub notes: Vec<String>,
    #[serde(flatten)]
    pub measured: Measured,
}

/// A sheet with its figures.
#[derive(Debug, Serialize)]
pub struct SheetFound {
    pub source: &'static str,
    pub title: &'static str,
    /// Of their numbers, then of ours.
    pub heads: Vec<String>,
    pub rows: Vec<RowFound>,
    /// None where nothing of ours was measured.
    pub chart: Option<Chart>,
}

#[derive(Debug, Serialize)]
pub struct RowFound {
    pub label: &'static str,
    /// The mode that gave ours.
    pub mode: Option<&'static str>,
    /// None: nobody has it.
    pub values: Vec<Option<f64>>,
}

impl PaperReport {
    pub fn new(plan: &PaperPlan, measured: Measured) -> PaperReport {
        let PaperPlan { paper, rounds, operations, .. } = *plan;
        let mut notes: Vec<String> = paper.notes.iter().map(|note| (*note).to_owned()).collect();
        if let Some(operations) = operations {
            notes.insert(
                0,
                format!(
                    "Every experiment had {operations} operations in place of its own number \
                        (--txns), so the figures are no repetition of theirs."
                ),
            );
        }
        notes.extend(missing(plan, &measured));
        let is_run =
            |cell: &Cell| measured.experiments.iter().any(|one| one.name == cell.experiment);
        let was_run = |claim: &&Claim| claim.over.iter().chain(claim.under).all(is_run);
        let of_claims = paper.claims().filter(was_run).map(|claim| claim.judge(&measured));
        let all_run =
            |claim: &&Across| claim.pairs.iter().all(|(own, other)| is_run(own) && is_run(other));
        let of_across = paper.across.iter().filter(all_run).map(|claim| claim.judge(&measured));
        // A part of the paper has no room for them.
        let of_unmeasured =
            paper.unmeasured.iter().filter(|_| plan.only.is_none()).map(Unmeasured::judge);
        PaperReport {
            paper: paper.name,
            title: paper.title,
            device_of_theirs: paper.device,
            rounds,
            verdicts: of_claims.chain(of_across).chain(of_unmeasured).collect(),
            sheets: plan.sheets().map(|sheet| sheet.fill(&measured)).collect(),
            patterns: plan.patterns().map(|sheet| sheet.fill(&measured)).collect(),
            notes,
            measured,
        }
    }

    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    pub fn to_markdown(&self) -> String {
        let mut text = format!("# `oneflush bench --paper {}`\n\n", self.paper);
        text.push_str(&format!("{}\n\n", wrap(&format!("{}.", self.title), "")));
        text.push_str(&format!("{}\n\n", wrap(&self.summary(), "")));
        text.push_str(&format!("## Claims\n\n{}", self.claims()));
        for sheet in &self.sheets {
            let title = format!("{}: {}", sheet.source, sheet.title);
            text.push_str(&format!("\n## {title}\n\n{}", sheet.table()));
        }
        for sheet in &self.patterns {
            text.push_str(&format!(
                "\n## {}: {}\n\n{}",
                sheet.source,
                sheet.title,
                sheet.text(MISSING)
            ));
            text.push_str(&format!("\n{}\n", wrap(LEGEND, "")));
        }
        text.push_str("\n## To compare the two\n\n");
        text.push_str(&self.comparing());
        for environment in self.measured.environments() {
            text.push_str(&format!("\n```text\n{environment}```\n"));
        }
        if !self.measured.guests.is_empty() {
            text.push_str(&format!("\n{}\n", wrap(&format!("- Guests. {MEANING}"), "  ")));
        }
        for environment in &self.measured.guests {
            text.push_str(&format!("\n```text\n{environment}```\n"));
        }
        text
    }

    /// One line each.
    pub(super) fn claims(&self) -> String {
        let line = |judged: &Judged| format!("{}\n", wrap(&judged.sentence(), "  "));
        self.verdicts.iter().map(line).collect()
    }

    /// What a reader must know.
    pub(super) fn comparing(&self) -> String {
        let line = |note: &String| format!("{}\n", wrap(&format!("- {note}"), "  "));
        let mut text: String = self.notes.iter().map(line).collect();
        let device = format!("- Their device: {}.", self.device_of_theirs);
        text.push_str(&format!("{}\n", wrap(&device, "  ")));
        text
    }

    pub(super) fn count(&self, verdict: Option<Verdict>) -> usize {
        self.verdicts.iter().filter(|one| one.verdict == verdict).count()
    }

    /// "Of 20 claims hold: 9; …"
    fn summary(&self) -> String {
        let count = |verdict| self.count(verdict);
        format!(
            "Of {} claims hold: {}; hold in part: {}; do not hold here: {}; not measured: {}. {} \
                of each mode, all modes in every round.",
            self.verdicts.len(),
            count(Some(Verdict::Holds)),
            count(Some(Verdict::InPart)),
            count(Some(Verdict::NotHere)),
            count(None),
            if self.rounds == 1 {
                "One round".to_owned()
            } else {
                format!("Medians of {} rounds", self.rounds)
            },
        )
    }
}

/// One note for each reason, with the modes.
fn missing(plan: &PaperPlan, measured: &Measured) -> Vec<String> {
    let mut by_why: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for missing in measured.experiments.iter().flat_map(|experiment| &experiment.missing) {
        let modes = by_why.entry(&missing.why).or_default();
        if !modes.contains(&missing.mode) {
            modes.push(missing.mode);
        }
    }
    let nothing = plan.sheets().flat_map(|sheet| sheet.rows).filter_map(|row| match row.ours {
        Ours::Nothing(why) => Some((row.label, why)),
        Ours::Mode(_) | Ours::Theirs(_) => None,
    });
    for (label, why) in nothing {
        let modes = by_why.entry(why).or_default();
        if !modes.contains(&label) {
            modes.push(label);
        }
    }
    let note = |(why, modes): (&str, Vec<&str>)| format!("`–` at {}: {why}.", modes.join(", "));
    by_why.into_iter().map(note).collect()
}

impl Judged {
    fn sentence(&self) -> String {
        let verdict = self.verdict.map_or("not measured", Verdict::words);
        let number = |value: Option<f64>| value.map_or(MISSING.to_owned(), significant);
        format!(
            "- **{verdict}** — {}: {}. Theirs {}, ours {}{}{}. {}",
            self.source,
            self.claim,
            number(self.theirs),
            number(self.ours),
            self.ratio().map_or(String::new(), |ratio| {
                format!(", {} times theirs", significant(ratio))
            }),
            if self.rule.is_empty() { String::new() } else { format!(" ({})", self.rule) },
            self.why
        )
    }
}

/// Bars of ours, and theirs beside them.
#[derive(Debug, Serialize)]
pub struct Chart {
    /// "inserts/s, × WAL"
    pub what: String,
    pub unit: &'static str,
    pub rows: Vec<ChartRow>,
}

#[derive(Debug, Serialize)]
pub struct ChartRow {
    pub label: &'static str,
    pub ours: Option<f64>,
    pub theirs: Option<f64>,
}

impl Sheet {
    /// Of the first of our columns, beside the first of theirs: as ratios to the control where both
    /// have it, so that rates of two machines compare.
    fn chart(&self, measured: &Measured) -> Option<Chart> {
        let column = self.columns.first()?;
        let ours = |row: &Row| {
            let mode = row.mode()?;
            let cell = Cell { experiment: column.experiment, mode, figure: column.figure };
            measured.value(&cell).ok()
        };
        let theirs = |row: &Row| match row.ours {
            Ours::Theirs(values) => values.first().copied().flatten(),
            _ => row.theirs.first().copied().flatten(),
        };
        let control = self.rows.iter().find(|row| row.mode() == Some(self.control));
        let of_control =
            |of: &dyn Fn(&Row) -> Option<f64>| control.and_then(of).filter(|value| *value > 0.0);
        let both = of_control(&ours).zip(of_control(&theirs));
        let has_theirs = self.rows.iter().any(|row| theirs(row).is_some());
        let is_ratio = both.is_some() || column.figure.is_time() && !has_theirs;
        let [ours_1, theirs_1] = match both {
            Some((ours, theirs)) => [ours, theirs],
            None if is_ratio => [of_control(&ours)?, 1.0],
            None => [1.0, 1.0],
        };
        let rows: Vec<ChartRow> = self
            .rows
            .iter()
            .map(|row| ChartRow {
                label: row.label,
                ours: ours(row).map(|value| value / ours_1),
                theirs: theirs(row).map(|value| value / theirs_1),
            })
            .filter(|row| row.ours.is_some() || row.theirs.is_some())
            .collect();
        let what = match control {
            Some(control) if is_ratio => format!("{}, × {}", column.head, control.label),
            _ => column.head.to_owned(),
        };
        let unit = if is_ratio { " ×" } else { column.figure.unit() };
        rows.iter().any(|row| row.ours.is_some()).then_some(Chart { what, unit, rows })
    }

    fn fill(&self, measured: &Measured) -> SheetFound {
        let mut heads: Vec<String> = self.theirs.iter().map(|head| (*head).to_owned()).collect();
        let control = self.rows.iter().find(|row| row.mode() == Some(self.control));
        let control = control.map_or(self.control, |row| row.label);
        // A long name has no room. The control's ratio is 1.
        let is_short = control.chars().count() <= CONTROL_COLUMNS;
        let ratio = if is_short { format!("× {control}") } else { "×".to_owned() };
        for column in self.columns {
            heads.push(column.head.to_owned());
            heads.extend(column.ratio_to.map(|_| ratio.clone()));
        }
        let rows = self.rows.iter().map(|row| RowFound {
            label: row.label,
            mode: row.mode(),
            values: row
                .theirs
                .iter()
                .copied()
                .chain((0..self.columns.len()).flat_map(|at| self.ours(row, at, measured)))
                .collect(),
        });
        let (rows, chart) = (rows.collect(), self.chart(measured));
        SheetFound { source: self.source, title: self.title, rows, heads, chart }
    }

    /// The figure of a column, and its ratio.
    fn ours(&self, row: &Row, at: usize, measured: &Measured) -> Vec<Option<f64>> {
        let column = &self.columns[at];
        if let Ours::Theirs(values) = row.ours {
            let own = values.get(at).copied().flatten();
            return std::iter::once(own).chain(column.ratio_to.map(|_| None)).collect();
        }
        let value = |experiment, mode| {
            measured.value(&Cell { experiment, mode, figure: column.figure }).ok()
        };
        let own = row.mode().and_then(|mode| value(column.experiment, mode));
        let ratio = |experiment| {
            Some(own? / value(experiment, self.control)?).filter(|ratio| ratio.is_finite())
        };
        std::iter::once(own).chain(column.ratio_to.map(ratio)).collect()
    }
}

impl SheetFound {
    fn table(&self) -> String {
        let mut lines = vec![vec![String::new()]];
        lines[0].extend(self.heads.iter().cloned());
        for row in &self.rows {
            let values = row.values.iter().map(|value| value.map_or(MISSING.into(), significant));
            lines.push(std::iter::once(row.label.to_owned()).chain(values).collect());
        }
        let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max();
        let widths: Vec<usize> =
            (0..lines[0].len()).map(|at| width(at).unwrap_or(0).max(2)).collect();
        let rule: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(at, width)| match at {
                0 => "-".repeat(*width),
                _ => format!("{}:", "-".repeat(width - 1)),
            })
            .collect();
        lines.insert(1, rule);
        let mut text = String::new();
        for line in lines {
            for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
                text.push_str(&match at {
                    0 => format!("| {cell:<width$} |"),
                    _ => format!(" {cell:>width$} |"),
                });
            }
            text.push('\n');
        }
        text
    }
}

/// Breaks at blanks; `indent` is put before the second and later lines.
pub(super) fn wrap(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("{indent}{word}"));
        } else {
            last.push_str(&format!(" {word}"));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::paper::measured::tests::measured;
    use crate::paper::{PAPERS, Paper};
    use oneflush_measure::run::PlaceChoice;

    /// Every experiment with its modes, as fast as each other, and the controls half as fast.
    pub fn report(paper: &'static Paper) -> PaperReport {
        let mut rates = Vec::new();
        for experiment in paper.experiments {
            for word in paper.modes(experiment) {
                let is_mode = crate::paper::guests::mode_of(word, false).is_ok();
                let is_trace = experiment.work == crate::paper::Work::Traces;
                if is_mode || is_trace || word.parse::<crate::kv::Subject>().is_ok() {
                    let rate = if word == "wal:sqlite" { 500.0 } else { 1000.0 };
                    rates.push((experiment.name, word, rate));
                }
            }
        }
        let plan = PaperPlan {
            paper,
            place: PlaceChoice::Temporary,
            rounds: 3,
            operations: Some(20),
            program: Default::default(),
            only: None,
            guests: None,
            inputs: None,
            is_short: false,
        };
        PaperReport::new(&plan, measured(&rates))
    }

    #[test]
    fn the_text_has_every_sheet_and_claim_and_stays_within_its_columns() {
        for paper in PAPERS {
            let text = report(paper).to_markdown();
            for sheet in paper.sheets {
                assert!(text.contains(sheet.title), "{}", sheet.title);
            }
            for sheet in paper.patterns {
                assert!(text.contains(sheet.title), "{}", sheet.title);
            }
            let claims = paper.claims().count() + paper.across.len() + paper.unmeasured.len();
            assert_eq!(text.matches("\n- **").count(), claims, "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{line}");
            }
            assert!(text.contains("20 operations in place of its own number"), "{text}");
        }
    }

    #[test]
    fn ratios_are_to_the_control_and_what_nobody_has_is_a_dash_and_null() {
        let report = report(Paper::find("waldio").unwrap());
        let sheet = &report.sheets.iter().find(|sheet| sheet.source.contains("insert")).unwrap();
        let of = |label: &str| {
            sheet.rows.iter().find(|row| row.label == label).map(|row| row.values.clone()).unwrap()
        };
        assert_eq!(of("WAL"), [Some(587.0), Some(1.0), Some(500.0), Some(1.0)]);
        assert_eq!(of("DELETE"), [None, None, Some(1000.0), Some(2.0)]);
        assert_eq!(of("WALDIO-NS"), [None, None, Some(1000.0), Some(2.0)]);
        let line = sheet.table().lines().find(|line| line.contains("DELETE")).unwrap().to_owned();
        assert_eq!(line.matches('–').count(), 2, "{line}");
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        let volume = &json["sheets"][0]["rows"][0]["values"];
        assert_eq!((&volume[0], &volume[2]), (&29.0.into(), &serde_json::Value::Null));
    }
}
