//! A line a mode, for who wants no more: commits/s, KB and the longest commit.

use super::format::{kilobytes, millis, option, significant};
use super::to_stock::is_stock;
use super::words::Words;
use super::{ModeReport, Report, laid_out, table};
use oneflush_measure::observe::Source;
use oneflush_measure::workload::Unit;

/// The most connections first, then each other number in one line.
pub fn render(report: &Report) -> String {
    let mut counts: Vec<u32> = report.modes.iter().map(|mode| mode.connections).collect();
    counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    counts.dedup();
    let with = |count: u32| report.modes.iter().filter(move |mode| mode.connections == count);
    let unit = match report.unit {
        Unit::Transaction => "commits/s",
        other => other.per_second(),
    };
    let mut text = String::new();
    for (at, &count) in counts.iter().enumerate() {
        let writers = if count == 1 { "One writer" } else { &format!("{count} writers at once") };
        if at == 0 {
            let are_durable = with(count).all(|mode| mode.mode.is_durable());
            let durable = if are_durable { ", each commit durable" } else { "" };
            text.push_str(&format!("{writers}{durable}:\n"));
            let width = with(count).map(|mode| name(mode).chars().count()).max().unwrap_or(0);
            for mode in with(count) {
                text.push_str(&format!(
                    "  {:<width$} {:>7} {unit} {:>6} KB each, the longest took {} ms\n",
                    name(mode),
                    rate(report, mode),
                    option(mode.median.bytes_per_transaction, kilobytes),
                    millis(mode.median.latency_ns.max),
                ));
            }
        } else {
            let each: Vec<String> =
                with(count).map(|mode| format!("{} {}", name(mode), rate(report, mode))).collect();
            text.push_str(&format!("{writers}: {} {unit}.\n", each.join(", ")));
        }
    }
    let mut notes = laid_out::sentences(report);
    if report.counted_at == Some(Source::Strategies) {
        notes.insert(0, format!("KB: {}.", report.counting().1));
    }
    for note in notes {
        text.push_str(&format!("{}\n", table::wrap(&note, "  ")));
    }
    text
}

/// "SQLite WAL", "WAL (plain)"
fn name(mode: &ModeReport) -> String {
    let own = Words::name(&mode.mode);
    if is_stock(&mode.mode) { format!("SQLite {own}") } else { own }
}

fn rate(report: &Report, mode: &ModeReport) -> String {
    let rate = mode.median.transactions_per_s * report.unit.in_rate();
    if rate < 100.0 { significant(rate) } else { format!("{rate:.0}") }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{latency, mode, report, round};
    use super::*;

    #[test]
    fn the_most_writers_have_a_line_a_mode_and_the_others_one_line() {
        let rounds = |rate: f64, max: u64| vec![round(rate, latency(max / 2, max))];
        let found = render(&report(vec![
            mode("wal", 1, rounds(3627.4, 9_000_000)),
            mode("wal", 16, rounds(3453.0, 2_938_000_000)),
            mode("wal:plain", 1, rounds(4015.0, 5_000_000)),
            mode("wal:plain", 16, rounds(20338.0, 6_900_000)),
        ]));
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 4, "{found}");
        assert_eq!(lines[0], "16 writers at once, each commit durable:");
        assert!(lines[1].starts_with("  SQLite WAL     3453 "), "{found}");
        assert!(lines[2].starts_with("  WAL (plain)   20338 "), "{found}");
        assert!(lines[2].ends_with("the longest took 6.90 ms"), "{found}");
        assert_eq!(lines[3], "One writer: SQLite WAL 3627, WAL (plain) 4015 commits/s.");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{found}");
    }
}
