//! All papers on one page: markdown for the documentation, and one HTML file that needs nothing
//! else.

use serde::Serialize;

use super::judge::Verdict;
use super::render::{PaperReport, wrap};
use super::{PAPERS, Paper};
use crate::report::MEANING;

const TEMPLATE: &str = include_str!("../../assets/papers.html");
const SCRIPT: &str = include_str!("../../assets/papers.js");

/// What came of the papers, in their order.
#[derive(Debug, Default, Serialize)]
pub struct Papers {
    pub papers: Vec<PaperReport>,
    pub failed: Vec<Failed>,
}

/// A paper that could not be run at all.
#[derive(Debug, Serialize)]
pub struct Failed {
    pub paper: &'static str,
    pub why: String,
}

#[derive(Serialize)]
struct Data<'a> {
    program: &'a str,
    #[serde(flatten)]
    papers: &'a Papers,
}

impl Papers {
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// `program`: name and version of the program that made it.
    pub fn to_html(&self, program: &str) -> Result<String, serde_json::Error> {
        let data = serde_json::to_string(&Data { program, papers: self })?;
        Ok(oneflush_trace::report::frame(TEMPLATE, SCRIPT, &data))
    }

    pub fn to_markdown(&self) -> String {
        let mut text = String::from("# The papers, repeated\n\n");
        text.push_str(&format!("{}\n\n", wrap(LEAD, "")));
        text.push_str(&self.summary());
        for Failed { paper, why } in &self.failed {
            text.push_str(&format!(
                "\n{}\n",
                wrap(&format!("`{paper}` could not be run: {why}."), "")
            ));
        }
        for report in &self.papers {
            text.push_str(&format!("\n## `{}`\n\n{}\n\n", report.paper, wrap(report.title, "")));
            text.push_str(&report.claims());
            text.push_str(&format!("\nTo compare the two:\n\n{}", report.comparing()));
        }
        text.push_str("\n## Environment\n");
        for report in &self.papers {
            let environments = report.measured.environments();
            if environments.is_empty() {
                continue;
            }
            text.push_str(&format!("\n`{}`:\n", report.paper));
            for environment in environments {
                text.push_str(&format!("\n```text\n{environment}```\n"));
            }
        }
        if self.papers.iter().any(|report| !report.measured.guests.is_empty()) {
            text.push_str(&format!("\n{}\n", wrap(&format!("Guests. {MEANING}"), "")));
        }
        text
    }

    /// A table: the papers, and how many of their claims have which verdict.
    pub fn summary(&self) -> String {
        let mut text = String::from(
            "| paper | claims | hold | in part | do not hold here | not measured |\n\
             |---|---:|---:|---:|---:|---:|\n",
        );
        for report in &self.papers {
            let count = |verdict| report.count(verdict);
            text.push_str(&format!(
                "| `{}` | {} | {} | {} | {} | {} |\n",
                report.paper,
                report.verdicts.len(),
                count(Some(Verdict::Holds)),
                count(Some(Verdict::InPart)),
                count(Some(Verdict::NotHere)),
                count(None)
            ));
        }
        text
    }

    /// Those that are not in it yet.
    pub fn rest(&self) -> impl Iterator<Item = &'static Paper> {
        let is_there = |paper: &&Paper| {
            let is = |name: &str| name == paper.name;
            self.papers.iter().any(|report| is(report.paper))
                || self.failed.iter().any(|failed| is(failed.paper))
        };
        PAPERS.into_iter().filter(move |paper| !is_there(paper))
    }
}

const LEAD: &str = "Each claim of the five sources that this project stands on, measured again by \
    `oneflush bench --paper all`: theirs, ours, and whether it holds here. Where a claim has the \
    words \"on the emulated eMMC\", the file system was on a model of a phone's flash. Nothing \
    measured on that is a claim about a product. The rule by which a claim holds stands in \
    brackets, first for *holds*, then for *holds in part*.";

#[cfg(test)]
mod tests {
    use super::super::render::tests::report;
    use super::*;

    #[test]
    fn each_paper_and_each_claim_has_its_line_and_the_page_needs_nothing_else() {
        let papers = Papers {
            papers: PAPERS.into_iter().skip(1).map(report).collect(),
            failed: vec![Failed { paper: PAPERS[0].name, why: "</script> no disk".to_owned() }],
        };
        let text = papers.to_markdown();
        for report in &papers.papers {
            assert!(text.contains(&format!("## `{}`", report.paper)));
            for judged in &report.verdicts {
                assert!(!judged.why.is_empty(), "{}", judged.claim);
            }
        }
        let claims: usize = papers.papers.iter().map(|report| report.verdicts.len()).sum();
        assert_eq!(text.matches("\n- **").count(), claims);
        assert!(text.contains("`lsmvbt` could not be run: </script> no disk."), "{text}");
        assert_eq!(papers.rest().count(), 0);
        let html = papers.to_html("oneflush 0").unwrap();
        assert!(html.contains("\\u003c/script> no disk"), "nothing in a text ends the data");
        assert!(!html.contains("http://") && !html.contains("src="), "it asks for nothing");
        assert!(!html.contains("{{"), "each place is filled");
    }

    #[test]
    fn a_chart_compares_what_has_the_same_unit() {
        let waldio = report(Paper::find("waldio").unwrap());
        let sheet = waldio.sheets.iter().find(|sheet| sheet.source.starts_with("Fig. 14 and"));
        let chart = sheet.unwrap().chart.as_ref().unwrap();
        let of = |label: &str| chart.rows.iter().find(|row| row.label == label).unwrap();
        // 1,219 to 587 a second in theirs, 1,000 to 500 in ours.
        assert_eq!(of("WALDIO-FS").ours, Some(2.0));
        assert!((of("WALDIO-FS").theirs.unwrap() - 1219.0 / 587.0).abs() < 1e-9);
        assert_eq!((chart.unit, of("DELETE").theirs), (" ×", None));
    }
}
