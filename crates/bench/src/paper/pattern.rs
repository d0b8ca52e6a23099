//! A figure of the paper that shows the writes of one commit in their order, theirs beside ours.

use serde::Serialize;

use super::Measured;

/// How the patterns are written; see [`crate::commits::Commits::pattern`].
pub const LEGEND: &str = "J: SQLite's journal, WAL or log; D: the database file; N: the file \
    system's journal or nodes; M: its other metadata; each with its KB; `|`: theirs a \
    `fdatasync()`, ours a flush of the device. Ours are those of most commits.";

pub struct PatternSheet {
    pub source: &'static str,
    pub title: &'static str,
    pub experiment: &'static str,
    pub rows: &'static [PatternRow],
}

pub struct PatternRow {
    pub label: &'static str,
    /// Empty where the paper has none.
    pub theirs: &'static str,
    pub mode: &'static str,
}

#[derive(Debug, Serialize)]
pub struct PatternSheetFound {
    pub source: &'static str,
    pub title: &'static str,
    pub rows: Vec<PatternFound>,
}

#[derive(Debug, Serialize)]
pub struct PatternFound {
    pub label: &'static str,
    pub theirs: &'static str,
    pub mode: &'static str,
    /// None: nobody has it.
    pub ours: Option<String>,
}

impl PatternSheet {
    pub fn fill(&self, measured: &Measured) -> PatternSheetFound {
        let rows = self.rows.iter().map(|row| PatternFound {
            label: row.label,
            theirs: row.theirs,
            mode: row.mode,
            ours: measured.pattern(self.experiment, row.mode).map(str::to_owned),
        });
        PatternSheetFound { source: self.source, title: self.title, rows: rows.collect() }
    }
}

impl PatternSheetFound {
    /// Two lines a row, since patterns are wide.
    pub fn text(&self, missing: &str) -> String {
        let mut text = String::from("```text\n");
        for row in &self.rows {
            let theirs = if row.theirs.is_empty() { missing } else { row.theirs };
            let ours = row.ours.as_deref().unwrap_or(missing);
            text.push_str(&format!(
                "{:<14} theirs  {theirs}\n{:<14} ours    {ours}\n",
                row.label, ""
            ));
        }
        text.push_str("```\n");
        text
    }
}
