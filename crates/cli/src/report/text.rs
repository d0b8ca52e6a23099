//! The report for a terminal of 80 columns. A trace is a row, or a block where each has several. KB
//! are 1,024 bytes.

use std::fmt::Write;

use oneflush_trace::report::{CLASSES, Quantiles, Report, Tables};

use crate::layout::{grouped, head, plural, printable, row, short, tenths, wrapped};

/// Databases that are told of each trace; the page has ten, JSON has all.
const DATABASES_COUNT_MAX: usize = 3;

pub fn tables(report: &Report) -> String {
    let mut out = String::new();
    for trace in &report.traces {
        heading(&mut out, trace);
    }
    let some: Vec<&Tables> = report.traces.iter().filter(|trace| trace.transactions > 0).collect();
    if some.is_empty() {
        return out;
    }
    let quantiles = ["median", "average", "75 %", "99 %", "99.9 %", "max"];
    head(&mut out, "Latency, ms", &quantiles);
    some.iter().for_each(|trace| row(&mut out, &trace.trace, &numbers(&trace.latency_ms)));
    head(&mut out, "KB a transaction", &quantiles);
    some.iter().for_each(|trace| row(&mut out, &trace.trace, &numbers(&trace.kb)));
    for trace in &some {
        head(&mut out, &of("KB by class", trace, some.len()), &quantiles);
        for (class, quantiles) in
            CLASSES.iter().zip(trace.kb_by_class.as_array()).take(observed_classes(trace))
        {
            row(&mut out, class, &numbers(quantiles));
        }
    }
    head(&mut out, "MB of all", &["db", "journal", "fs jrnl", "meta", "all", "db share"]);
    for trace in &some {
        let all = trace.bytes.total();
        let mut cells: Vec<String> = trace.bytes.as_array().map(|bytes| megabytes(*bytes)).into();
        cells[observed_classes(trace)..].fill("–".to_owned());
        let share = if all == 0 { 0.0 } else { trace.bytes.db as f64 / all as f64 };
        cells.extend([megabytes(all), format!("{:.0} %", share * 100.0)]);
        row(&mut out, &trace.trace, &cells);
    }
    for trace in &some {
        databases(&mut out, trace, some.len());
    }
    findings(&mut out, report);
    out
}

/// How many of the classes the trace can show: calls show nothing of the file system.
fn observed_classes(trace: &Tables) -> usize {
    if trace.flushes.is_some() { CLASSES.len() } else { 2 }
}

/// What is said of a file in place of the tables.
pub fn written(file: &str, report: &Report, traces_count: usize) -> String {
    let transactions: u64 = report.traces.iter().map(|trace| trace.transactions).sum();
    let of = plural(traces_count as u64, "trace");
    format!(
        "{file}: {} of {of}, {}",
        plural(transactions, "transaction"),
        plural(report.findings.len() as u64, "finding")
    )
}

fn heading(out: &mut String, trace: &Tables) {
    let _ = writeln!(
        out,
        "{}\n  {}, {} of {} in {} s",
        printable(&trace.name),
        trace.format,
        plural(trace.transactions, "transaction"),
        plural(trace.databases.len() as u64, "database"),
        tenths(trace.seconds)
    );
    let mut notes = Vec::new();
    if trace.rolled_back > 0 {
        notes.push(format!("{} rolled back", grouped(trace.rolled_back)));
    }
    if trace.cut_off > 0 {
        notes.push(format!("{} more cut off and in no table", grouped(trace.cut_off)));
    }
    notes.extend(trace.notes.iter().cloned());
    if !notes.is_empty() {
        wrapped(out, "  ", "  ", &printable(&notes.join("; ")));
    }
}

fn databases(out: &mut String, trace: &Tables, traces: usize) {
    let title = of("Databases", trace, traces);
    head(out, &title, &["txns", "share", "db MB", "jrnl MB", "fs MB", "flushes"]);
    for database in trace.databases.iter().take(DATABASES_COUNT_MAX) {
        let _ = writeln!(out, "  {}", printable(&database.database));
        let cells = [
            grouped(database.transactions),
            format!("{:.0} %", database.share_of_transactions * 100.0),
            megabytes(database.bytes.db),
            megabytes(database.bytes.journal),
            if database.flushes.is_none() {
                "–".to_owned()
            } else {
                megabytes(database.bytes.fs_journal)
            },
            database.flushes.map_or("–".to_owned(), |flushes| {
                format!("{:.2}", flushes as f64 / database.transactions as f64)
            }),
        ];
        row(out, &format!("  {}", database.mode), &cells);
    }
    let more = trace.databases.len().saturating_sub(DATABASES_COUNT_MAX);
    if more > 0 {
        let _ = writeln!(out, "  and {} with fewer transactions", plural(more as u64, "other"));
    }
}

fn findings(out: &mut String, report: &Report) {
    out.push_str("\nFindings\n");
    if report.findings.is_empty() {
        out.push_str("  none: there are too few transactions, or nothing stands out\n");
    }
    for finding in &report.findings {
        let of =
            if report.traces.len() > 1 { format!("{}: ", finding.trace) } else { String::new() };
        wrapped(out, "- ", "  ", &printable(&format!("{of}{}", finding.text)));
        wrapped(out, "    ", "    ", &printable(&format!("({})", finding.basis)));
        wrapped(out, "  → ", "    ", &printable(&finding.action));
    }
}

fn of(title: &str, trace: &Tables, traces: usize) -> String {
    if traces > 1 { format!("{title}, {}", trace.trace) } else { title.to_owned() }
}

fn numbers(quantiles: &Quantiles) -> Vec<String> {
    let Quantiles { median, average, q75, q99, q999, max, .. } = *quantiles;
    [median, average, q75, q99, q999, max].map(short).into()
}

fn megabytes(bytes: u64) -> String {
    short(bytes as f64 / 1024.0 / 1024.0)
}
