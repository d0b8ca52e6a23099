//! The report as GitHub-flavoured Markdown, for issues and result files.

use super::Report;
use super::table::{self, Table, Titled};

pub fn render(report: &Report) -> String {
    let mut text = format!("**{}**\n\n{}.", report.conclusion, report.headline());
    for (at, Titled { title, table }) in table::all(report).iter().enumerate() {
        // The first title goes on where the headline ends.
        let gap = if at == 0 { " " } else { "\n" };
        let title = if title.is_empty() { String::new() } else { format!("{gap}{title}\n") };
        text.push_str(&format!("{title}\n{}", markdown(table)));
    }
    text.push_str(&format!("\n{}.\n", report.floor_line()));
    for note in &report.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    text.push_str(&format!("\n```text\n{}```\n", report.environment));
    text
}

fn markdown(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(table.head.iter().map(|cell| (*cell).to_owned()).collect());
    let align = |at| if at == 0 { "---" } else { "---:" }.to_owned();
    text.push_str(&line((0..table.head.len()).map(align).collect()));
    for row in &table.rows {
        text.push_str(&line(row.clone()));
    }
    text
}
