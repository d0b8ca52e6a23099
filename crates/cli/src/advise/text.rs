//! The advice for a terminal of 80 columns: a table a database, one for all, and what to do. KB are
//! 1,024 bytes, GB and TB are powers of ten, as makers of devices count.

use std::fmt::Write;

use oneflush_trace::advise::{Advice, DatabaseAdvice, Life, Row, Step, Strategy, Wear};

use super::read::Trace;
use crate::layout::{grouped, head, line, plural, printable, row, short, tenths, wrapped};

/// Databases that are told; JSON has all.
const DATABASES_COUNT_MAX: usize = 3;
/// A recording of less than this says little of a day.
const SECONDS_ENOUGH: f64 = 3600.0;
/// What it was recorded with is named where it shows.
const AS_RECORDED: &str = "as recorded";
const COLUMNS: [&str; 6] = ["likely", "least", "most", "flushes", "GB/day", "fl/day"];

pub fn advice(trace: &Trace, advice: &Advice, wear: Option<&Wear>) -> String {
    let mut out = String::new();
    heading(&mut out, trace, advice);
    if advice.transactions == 0 {
        return out;
    }
    for database in advice.databases.iter().take(DATABASES_COUNT_MAX) {
        of_database(&mut out, database, advice);
    }
    let more = advice.databases.len().saturating_sub(DATABASES_COUNT_MAX);
    if more > 0 {
        let others = plural(more as u64, "other");
        let _ = writeln!(out, "\nand {others} with fewer transactions (--json has all)");
    }
    if advice.databases.len() > 1 {
        out.push_str("\nall databases; one without an estimate counts as recorded\n");
        table(&mut out, &advice.total, advice.is_of_device, false, None);
    }
    // Without times there is no rate.
    if !advice.seconds.is_nan() {
        at_this_rate(&mut out, advice);
        if let Some(wear) = wear {
            of_wear(&mut out, advice, wear);
        }
    }
    for database in advice.databases.iter().take(DATABASES_COUNT_MAX) {
        order(&mut out, database, advice.databases.len() > 1);
    }
    out
}

fn heading(out: &mut String, trace: &Trace, advice: &Advice) {
    let _ = writeln!(
        out,
        "{}\n  {}, {} of {} in {} s",
        printable(&trace.name),
        trace.format,
        plural(advice.transactions, "transaction"),
        plural(advice.databases.len() as u64, "database"),
        tenths(advice.seconds)
    );
    if !trace.notes.is_empty() {
        wrapped(out, "  ", "  ", &printable(&trace.notes.join("; ")));
    }
}

fn of_database(out: &mut String, database: &DatabaseAdvice, advice: &Advice) {
    let _ = writeln!(out, "\n{}", printable(&database.database));
    let mut writers = plural(database.threads, "thread");
    if database.processes > 1 {
        let _ = write!(writers, " in {} processes", grouped(database.processes));
    }
    let words = format!(
        "{}; {}, {} a second, by {writers}; pages of {} bytes{}",
        database.modes.join(", "),
        plural(database.transactions, "transaction"),
        short(database.transactions_per_second),
        grouped(database.page_bytes),
        if database.page_bytes_known { "" } else { " (assumed)" },
    );
    wrapped(out, "  ", "  ", &words);
    let is_rollback =
        database.rows.iter().any(|row| row.strategy == Strategy::Maw && row.estimate.is_some());
    table(out, &database.rows, advice.is_of_device, is_rollback, database.recorded);
    for note in &database.notes {
        wrapped(out, "  ", "  ", &printable(note));
    }
}

fn table(
    out: &mut String,
    rows: &[Row],
    is_of_device: bool,
    is_rollback: bool,
    recorded: Option<Strategy>,
) {
    let mut columns = COLUMNS;
    if !is_of_device {
        (columns[3], columns[5]) = ("syncs", "sy/day");
    }
    head(out, "KB a transaction", &columns);
    for each in rows {
        let recorded = recorded.filter(|_| each.strategy == Strategy::Stock);
        let recorded = recorded.map(|recorded| format!("{AS_RECORDED}, {}", recorded.name()));
        let name = recorded.as_deref().unwrap_or_else(|| name(each.strategy, is_rollback));
        let Some(estimate) = &each.estimate else {
            let why = each.not_estimated.map_or("", |why| why.words());
            line(out, &format!("  {name}"), std::iter::empty());
            let _ = writeln!(out, "    –, {why}");
            continue;
        };
        let is_range = estimate.kb.is_range();
        let limit = |kb: f64| if is_range { short(kb) } else { String::new() };
        let cells = [
            short(estimate.kb.likely),
            limit(estimate.kb.low),
            limit(estimate.kb.high),
            format!("{:.2}", estimate.flushes.likely),
            short(estimate.gb_per_day.likely),
            count(estimate.flushes_per_day.likely),
        ];
        row(out, name, &cells);
    }
}

fn name(strategy: Strategy, is_rollback: bool) -> &'static str {
    match (strategy, is_rollback) {
        (Strategy::Stock, _) => AS_RECORDED,
        (Strategy::Plain, true) => "plain, in WAL mode",
        (Strategy::Eager, true) => "eager, in WAL mode",
        (Strategy::Waldio, true) => "waldio, in WAL mode",
        _ => strategy.name(),
    }
}

/// Of all databases together, which may have been recorded with several strategies.
fn of_all(strategy: Strategy) -> &'static str {
    name(strategy, false)
}

/// 9,999, then thousands and millions.
fn count(number: f64) -> String {
    match number {
        number if number.is_nan() => short(number),
        number if number < 10_000.0 => grouped(number.round() as u64),
        number if number < 1e6 => format!("{:.0} k", number / 1e3),
        number => format!("{:.1} M", number / 1e6),
    }
}

fn estimated(advice: &Advice) -> impl Iterator<Item = (Strategy, f64, f64, f64)> + '_ {
    advice.total.iter().filter_map(|row| {
        let estimate = row.estimate?;
        let gb = estimate.gb_per_day;
        Some((row.strategy, gb.low, gb.likely, gb.high))
    })
}

fn at_this_rate(out: &mut String, advice: &Advice) {
    let each: Vec<String> = estimated(advice)
        .map(|(strategy, _, likely, _)| format!("{} {} GB/day", of_all(strategy), short(likely)))
        .collect();
    let mut words = format!("At this rate: {}.", each.join(", "));
    if advice.seconds < SECONDS_ENOUGH {
        let _ = write!(
            words,
            " Extrapolated: {:.1} s were recorded, and a day is taken to be like them.",
            advice.seconds
        );
    }
    out.push('\n');
    wrapped(out, "", "", &words);
}

/// Years that the device lasts, or how much longer.
fn of_wear(out: &mut String, advice: &Advice, wear: &Wear) {
    let mut words = String::new();
    if let (Some(min), Some(max)) = (wear.used_share_min, wear.used_share_max) {
        let (min, max) = (min * 100.0, max * 100.0);
        let _ = match min >= 100.0 {
            true => write!(words, "{}: all of its life is used. ", wear.source),
            false => write!(words, "{}: {min:.0} to {max:.0} % of its life is used. ", wear.source),
        };
    } else if wear.tbw_bytes.is_none() {
        let _ = write!(words, "{}: the device does not say how worn it is. ", wear.source);
    }
    if let Some(warning) = wear.warning {
        let _ = write!(words, "Warning: {warning}. ");
    }
    let lives: Vec<String> = estimated(advice)
        .filter_map(|(strategy, _, likely, _)| {
            Some(format!("{} {}", of_all(strategy), life(wear.life(likely * 1e9)?)))
        })
        .collect();
    if let Some((min, max)) = wear.left_bytes().filter(|_| !lives.is_empty()) {
        let (min, max) = (short(min / 1e12), short(max / 1e12));
        let left = if min == max { min } else { format!("{min} to {max}") };
        let _ = write!(words, "{left} TB written last: {}.", lives.join(", "));
    } else {
        let stock = estimated(advice).next().map_or(0.0, |(_, _, likely, _)| likely);
        let times: Vec<String> = estimated(advice)
            .skip(1)
            .filter(|(_, _, likely, _)| *likely > 0.0)
            .map(|(strategy, _, likely, _)| format!("{} {:.1}", strategy.name(), stock / likely))
            .collect();
        let _ = write!(
            words,
            "What is left lasts so many times as long as recorded, if nothing else writes: {}. \
             --tbw gives years.",
            times.join(", ")
        );
    }
    wrapped(out, "", "", &printable(&words));
    wrapped(
        out,
        "",
        "",
        "Of these databases' writes alone, and as the device is sent them: what it writes itself \
         for them is not known.",
    );
}

fn life(life: Life) -> String {
    let said = |years: f64| match years {
        years if years >= 10.0 => format!("{years:.0} years"),
        years if years >= 1.0 => format!("{years:.1} years"),
        years => format!("{:.0} days", years * 365.25),
    };
    let (min, max) = (said(life.years_min), said(life.years_max));
    if min == max { max } else { format!("{min} to {max}") }
}

fn order(out: &mut String, database: &DatabaseAdvice, is_named: bool) {
    if database.order.is_empty() {
        return;
    }
    let of = if is_named { format!(" with {}", database.database) } else { String::new() };
    let _ = writeln!(out, "\nWhat to do{}", printable(&of));
    for (number, Step { strategy, text, how }) in database.order.iter().enumerate() {
        let words = format!("{}: {}.", strategy.name(), text);
        wrapped(out, &format!("{}. ", number + 1), "   ", &printable(&words));
        for line in how {
            let _ = writeln!(out, "     {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_fit_their_column() {
        assert_eq!(
            [0.4, 9_999.0, 12_345.0, 6_000_000.0].map(count),
            ["0", "9,999", "12 k", "6.0 M"]
        );
    }

    #[test]
    fn a_life_is_said_in_days_or_years() {
        let said = |years_min, years_max| life(Life { years_min, years_max });
        assert_eq!(said(132.4, 132.4), "132 years");
        assert_eq!(said(0.5, 1.5), "183 days to 1.5 years");
    }
}
