//! The report for a terminal of 80 columns.

use super::format::{kilobytes, megabytes, millis, option, significant};
use super::{FlashFigures, ModeReport, Report, laid_out, special};
use oneflush_measure::observe::{Class, Source};
use oneflush_measure::workload::Unit;

/// A line may be longer than 80 rather than have no room for a name.
const NAME_COLUMNS_MIN: usize = 6;

/// Rows of cells; the first column is aligned to the left, the others to the right.
pub struct Table {
    pub head: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn render(&self) -> String {
        let width = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].chars().count());
            cells.chain([self.head[at].chars().count()]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        // Two blanks between columns as long as the line stays within 80.
        let gaps = widths.len() - 1;
        let gap = if widths.iter().sum::<usize>() + 2 * gaps <= 80 { "  " } else { " " };
        // A name that still makes the line too long stands on a line of its own.
        let others = widths[1..].iter().sum::<usize>() + gap.len() * gaps;
        widths[0] = widths[0].min(80_usize.saturating_sub(others).max(NAME_COLUMNS_MIN));
        let total: usize = widths.iter().sum();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for (at, cell) in cells.enumerate() {
                let width = widths[at];
                text.push_str(&if at == 0 && cell.chars().count() > width {
                    format!("{cell}\n{:<width$}", "")
                } else if at == 0 {
                    format!("{cell:<width$}")
                } else {
                    format!("{gap}{cell:>width$}")
                });
            }
            format!("{}\n", text.trim_end())
        };
        let mut text = line(&mut self.head.iter().copied());
        text.push_str(&format!("{}\n", "─".repeat(total + gap.len() * (widths.len() - 1))));
        for row in &self.rows {
            text.push_str(&line(&mut row.iter().map(String::as_str)));
        }
        text
    }
}

/// A table with what its head has no room for.
pub struct Titled {
    pub title: String,
    pub table: Table,
}

/// All tables of a report, the most important first.
pub fn all(report: &Report) -> Vec<Titled> {
    let titled = |title: &str, table| Titled { title: title.to_owned(), table };
    let ratios = || {
        report.modes.iter().any(|mode| mode.to_control.is_some()).then(|| special::ratios(report))
    };
    if report.unit == Unit::Read {
        let beside = report.modes.iter().any(|mode| mode.median.beside.is_some());
        let title = if beside {
            "Times of reads in µs; right the writer beside them, its p99 in ms:"
        } else {
            "Times of reads in µs:"
        };
        return [titled(title, special::reads(report))].into_iter().chain(ratios()).collect();
    }
    if report.in_turns {
        let title = format!("Latencies of {} in ms:", report.unit.timed());
        return [titled(&title, special::in_turns(report))].into_iter().chain(ratios()).collect();
    }
    let counts = match report.counting() {
        _ if report.counted_at.is_none() => String::new(),
        (flushes, place) => {
            format!("; KB, writes and {flushes} a {} {place}", report.unit.singular())
        }
    };
    let title = format!("Latencies of {} in ms{counts}:", report.unit.timed());
    let mut tables = vec![titled(&title, commits(report))];
    if report.modes.iter().any(|mode| !mode.median.phases.is_empty()) {
        let title = "Before, while and after the reader keeps its snapshot: commits/s, their \
            longest in ms; the WAL at the end in MB:";
        tables.push(titled(title, special::phases(report)));
    }
    tables.push(titled("", bytes(report)));
    if report.modes.iter().any(|mode| mode.median.flash.is_some()) {
        let title = format!(
            "The emulated flash for a {}; days of its life at one a second:",
            report.unit.singular()
        );
        tables.push(titled(&title, flash(report)));
    }
    tables
}

/// The head of [`speed`].
pub(super) fn speed_head(report: &Report) -> Vec<&'static str> {
    vec!["mode", report.unit.per_second(), "p50", "p95", "p99", "p99.9", "max"]
}

/// A row's first cells.
pub(super) fn speed(report: &Report, mode: &ModeReport) -> Vec<String> {
    let latency = &mode.median.latency_ns;
    let rate = mode.median.transactions_per_s * report.unit.in_rate();
    let mut cells = vec![report.label(mode), format!("{rate:.0}")];
    cells.extend([latency.p50, latency.p95, latency.p99, latency.p999, latency.max].map(millis));
    cells
}

/// Of the median.
pub(super) fn floors(report: &Report, mode: &ModeReport) -> f64 {
    mode.median.latency_ns.p50 as f64 / report.floor.p50_ns.max(1) as f64
}

/// Speed and what reached the device.
fn commits(report: &Report) -> Table {
    let row = |mode: &ModeReport| {
        let figures = &mode.median;
        let mut cells = speed(report, mode);
        cells.extend([
            option(figures.bytes_per_transaction, kilobytes),
            option(figures.writes_per_transaction, |count| format!("{count:.1}")),
            // Several commits may share a flush: a tenth of one is much.
            option(figures.flushes_per_transaction, |count| format!("{count:.2}")),
        ]);
        cells
    };
    let flushes = if report.counted_at == Some(Source::Strategies) { "syncs" } else { "flush" };
    let mut head = speed_head(report);
    head.extend(["KB", "writes", flushes]);
    Table { head, rows: report.modes.iter().map(row).collect() }
}

/// Whose bytes, and what else a transaction costs.
fn bytes(report: &Report) -> Table {
    let has_laid_out = report.modes.iter().any(|mode| laid_out::bytes(mode).is_some());
    let row = |mode: &ModeReport| {
        let figures = &mode.median;
        let mut cells = vec![report.label(mode)];
        for class in Class::ALL {
            let of_class = figures.bytes_per_transaction_by_class.get(&class).copied();
            // A class that was never written is nothing. Where there is no split, it is unknown. A
            // strategy knows nothing of the file system's.
            let known = figures.counted_at == Some(Source::BlockDevice);
            cells.push(option(of_class.or(known.then_some(0.0)), kilobytes));
        }
        if has_laid_out {
            cells.push(option(laid_out::bytes(mode), megabytes));
        }
        cells.push(format!("{:.0}", figures.cpu_us_per_transaction));
        if report.unit.is_to_last() {
            cells.push(format!("{}x", significant(floors(report, mode))));
        }
        cells
    };
    let [own, beside] = match report.unit {
        Unit::Sync | Unit::Write | Unit::Piece => ["files", "log"],
        _ => ["db", "journal, WAL"],
    };
    let mut head = vec!["KB of", own, beside, "fs journal", "other"];
    if has_laid_out {
        head.push("once MB");
    }
    head.push("CPU µs");
    if report.unit.is_to_last() {
        head.push("p50/floor");
    }
    Table { head, rows: report.modes.iter().map(row).collect() }
}

/// What the flash below did.
fn flash(report: &Report) -> Table {
    let row = |mode: &ModeReport| {
        let flash = mode.median.flash.as_ref();
        let number = |of: &dyn Fn(&FlashFigures) -> f64| option(flash.map(of), significant);
        vec![
            report.label(mode),
            number(&|flash| flash.programmed_bytes_per_transaction / 1024.0),
            number(&|flash| flash.write_amplification),
            number(&|flash| flash.erases_per_1000_transactions),
            number(&|flash| flash.life_days),
            number(&|flash| flash.late_us_mean),
        ]
    };
    let head = vec!["mode", "KB programmed", "amplified", "erases/1000", "days", "late µs"];
    Table { head, rows: report.modes.iter().map(row).collect() }
}

pub fn render(report: &Report) -> String {
    let mut text = format!("{}\n{}\n", report.environment, wrap(&report.headline(), ""));
    for Titled { title, table } in all(report) {
        if !title.is_empty() {
            text.push_str(&format!("{}\n\n", wrap(&title, "")));
        }
        text.push_str(&table.render());
        text.push('\n');
    }
    text.push_str(&format!("{}\n", report.floor_line()));
    for note in &report.notes {
        text.push_str(&format!("{}\n", wrap(note, "  ")));
    }
    text.push_str(&format!("\n{}\n", wrap(&report.conclusion, "")));
    text
}

/// Breaks at blanks before column 80; `indent` is put before the second and later lines.
pub(super) fn wrap(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always a line");
        if last.chars().count() + 1 + word.chars().count() > 80 && !last.trim().is_empty() {
            lines.push(format!("{indent}{word}"));
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let table = Table {
            head: vec!["mode", "n"],
            rows: vec![vec!["wal".into(), "1".into()], vec!["x".into(), "22".into()]],
        };
        assert_eq!(table.render(), "mode   n\n────────\nwal    1\nx     22\n");
    }

    #[test]
    fn a_long_name_stands_on_a_line_of_its_own() {
        let name = "wal:normal:plain+prealloc=65536+keep_wal=off";
        let cells = |name: &str| {
            let others = (0..9).map(|at| format!("{at}23.45"));
            std::iter::once(name.to_owned()).chain(others).collect()
        };
        let head = vec!["mode", "a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let text = Table { head, rows: vec![cells(name), cells("wal")] }.render();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(lines[2], name);
        assert!(lines[3].starts_with("      ") && lines[4].starts_with("wal  "), "{text}");
        assert_eq!(lines[3].trim_start(), lines[4][3..].trim_start(), "{text}");
        assert_eq!(lines[3].len(), lines[4].len(), "{text}");
    }

    #[test]
    fn text_is_wrapped_at_80_columns() {
        let text = wrap(&"word ".repeat(40), "  ");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        assert!(text.lines().nth(1).unwrap().starts_with("  word"));
    }
}
