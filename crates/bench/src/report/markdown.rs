//! The report as GitHub-flavoured Markdown, for issues and result files.

use super::Report;
use super::table::{self, Table};

pub fn render(report: &Report) -> String {
    let mut text = format!("**{}**\n\n{}. {}\n\n", report.conclusion, report.headline(), table::COMMITS_UNITS);
    text.push_str(&table(&table::commits(report)));
    text.push('\n');
    text.push_str(&table(&table::bytes(report)));
    text.push_str(&format!("\n{}.\n", report.floor_line()));
    for note in &report.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    text.push_str(&format!("\n```text\n{}```\n", report.environment));
    text
}

fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(table.head.iter().map(|cell| (*cell).to_owned()).collect());
    let align = |at| if at == 0 { "---" } else { "---:" }.to_owned();
    text.push_str(&line((0..table.head.len()).map(align).collect()));
    for row in &table.rows {
        text.push_str(&line(row.clone()));
    }
    text
}
