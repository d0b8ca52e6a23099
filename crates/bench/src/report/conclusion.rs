//! The result in words: each mode beside stock SQLite of the same run, and what is slower first.
//!
//! "With 16 connections WAL (eager) is 6.53 times as fast as stock SQLite: 23343 commits/s, there
//! 3573; the longest took 3.20 ms, there 2737."

use super::to_stock::{Kind, Measure, Pair, Verdict, is_stock, of_stock, stock_of};
use super::words::Words;
use super::{ModeReport, Report};
use oneflush_measure::mode::Journal;
use oneflush_measure::workload::Unit;

pub fn conclusion(report: &Report) -> String {
    let measured: Vec<&ModeReport> =
        report.modes.iter().filter(|mode| mode.median.transactions > 0).collect();
    if measured.is_empty() {
        return match report.unit {
            Unit::Transaction => "No transaction was committed.".to_owned(),
            unit => format!("No {} was done.", unit.singular()),
        };
    }
    let pairs =
        measured.iter().filter_map(|own| Some(Pair::new(report, own, stock_of(own, &measured)?)));
    let pairs: Vec<Pair> = pairs.collect();
    let alone = |own: &&ModeReport| !is_stock(&own.mode) && stock_of(own, &measured).is_none();
    let alone: Vec<&ModeReport> = measured.iter().copied().filter(alone).collect();

    let words = Words(report);
    let mut sentences = slower(&words, &pairs);
    sentences.extend(without_stock(report, &alone));
    let mut counts: Vec<u32> = measured.iter().map(|mode| mode.connections).collect();
    counts.sort_unstable();
    counts.dedup();
    for connections in counts {
        let with =
            |modes: &[&'_ ModeReport]| modes.iter().any(|mode| mode.connections == connections);
        let compared: Vec<&Pair> =
            pairs.iter().filter(|pair| pair.own.connections == connections).collect();
        sentences.extend(not_slower(&words, &compared));
        if with(&alone) {
            sentences.extend(among(&words, &alone, connections));
        } else if compared.is_empty() {
            sentences.extend(among(&words, &measured, connections).map(|text| match report.unit {
                Unit::Sync | Unit::Write | Unit::Piece => text,
                _ => format!("Stock SQLite: {text}"),
            }));
        }
    }
    if report.unit.is_to_last() && !measured.iter().any(|mode| mode.mode.is_durable()) {
        sentences.push("A power cut may take commits back in every mode of this run.".to_owned());
    }
    sentences.join(" ")
}

/// One sentence a mode that is slower in anything. The slowest comes first. Last come the modes
/// of which only the longest commit is longer.
fn slower(words: &Words, pairs: &[Pair]) -> Vec<String> {
    let mut slower: Vec<(&Pair, &Measure)> =
        pairs.iter().filter_map(|pair| Some((pair, pair.slower().next()?))).collect();
    slower.sort_by(|(_, a), (_, b)| {
        let longest = |measure: &Measure| measure.kind == Kind::Longest;
        longest(a).cmp(&longest(b)).then(f64::total_cmp(&b.times, &a.times))
    });
    slower.into_iter().map(|(pair, lead)| slower_sentence(words, pair, lead)).collect()
}

/// "WAL (eager) is 1.30 times SLOWER than stock SQLite with 1 connection: a commit takes 0.272 ms,
/// there 0.209; the longest took …"
fn slower_sentence(words: &Words, pair: &Pair, lead: &Measure) -> String {
    let (own, stock) = (words.own(pair), words.stock(pair));
    let with = words.circumstances(pair.own.connections);
    let slower = words.slower(lead);
    let mut text = match lead.kind {
        Kind::Longest => {
            let one = words.0.unit.one();
            format!("{own} {with} has a longest {one} that is {slower} than that of {stock}")
        }
        Kind::RateBeside => {
            format!("The writer beside reads with {own} is {slower} than with {stock} {with}")
        }
        Kind::RateWhile => {
            format!("{own} is {slower} than {stock} {with} while a reader keeps its snapshot")
        }
        Kind::Time | Kind::ReadTime | Kind::Rate => {
            format!("{own} is {slower} than {stock} {with}")
        }
    };
    text.push_str(&format!(": {}{}", words.figures(pair, lead), words.disagreement(lead)));
    for other in pair.measures.iter().filter(|other| other.kind != lead.kind) {
        let slower = other.verdict == Verdict::Slower;
        let middle = format!("the middle {} takes", words.0.unit.one());
        let what = match other.kind {
            Kind::Longest => "the longest took",
            Kind::Time if !slower => &middle,
            Kind::Rate if slower => "in all",
            Kind::RateWhile if slower => "while a reader keeps its snapshot",
            Kind::RateBeside if slower => "the writer beside",
            _ => continue,
        };
        text.push_str(&format!("; {what} {}", words.both(other)));
    }
    format!("{text}.")
}

/// The fastest with its figures, the others in few words. A mode that is slower in a part alone is
/// among them.
fn not_slower(words: &Words, pairs: &[&Pair]) -> Vec<String> {
    let part = |measure: &Measure| {
        matches!(measure.kind, Kind::Longest | Kind::RateWhile | Kind::RateBeside)
    };
    let fine = |pair: &&&Pair| pair.slower().all(part);
    let mut fine: Vec<(&Pair, &Measure)> = pairs
        .iter()
        .filter(fine)
        .filter_map(|pair| Some((*pair, pair.measures.first()?)))
        .collect();
    fine.sort_by(|(_, a), (_, b)| {
        b.verdict.cmp(&a.verdict).then(f64::total_cmp(&a.times, &b.times))
    });
    let sentence = |(at, (pair, lead)): (usize, &(&Pair, &Measure))| {
        let is = format!("{} is {} {}", words.own(pair), words.not_slower(lead), words.stock(pair));
        if at > 0 {
            return format!("{is}.");
        }
        let with = words.circumstances(pair.own.connections).replacen("with", "With", 1);
        let longest = pair
            .longest()
            .map_or(String::new(), |longest| format!("; the longest took {}", words.both(longest)));
        format!("{with} {is}: {}{}{longest}.", words.figures(pair, lead), words.noise(lead))
    };
    fine.iter().enumerate().map(sentence).collect()
}

/// What is missing in the run, and how to have it.
fn without_stock(report: &Report, alone: &[&ModeReport]) -> Option<String> {
    let mut names: Vec<String> = alone.iter().map(|own| Words::name(&own.mode)).collect();
    names.dedup();
    let mut modes: Vec<String> = Vec::new();
    let missing = alone.iter().map(|own| of_stock(&own.mode));
    for mode in missing
        .chain(report.modes.iter().map(|mode| mode.mode.clone()))
        .map(|mode| mode.to_string())
    {
        if !modes.contains(&mode) {
            modes.push(mode);
        }
    }
    (!alone.is_empty()).then(|| {
        let missing = match report.unit {
            Unit::Sync | Unit::Write | Unit::Piece => "nothing that is not mounted",
            _ => "no stock SQLite that promises the same",
        };
        format!(
            "There is nothing to compare {} with, because this run has {missing}: add it, \
                --modes {}.",
            names.join(" and "),
            modes.join(",")
        )
    })
}

/// Of modes that are all stock SQLite, or all ours: the fastest whose commits survive a power cut.
/// Beside it stands SQLite's default where that is among them, else the slowest.
fn among(words: &Words, modes: &[&ModeReport], connections: u32) -> Option<String> {
    let all = || modes.iter().copied().filter(|mode| mode.connections == connections);
    let durable = || all().filter(|mode| mode.mode.is_durable());
    let order = |a: &&ModeReport, b: &&ModeReport| {
        let pair = Pair::new(words.0, a, b);
        pair.measures
            .first()
            .map_or(std::cmp::Ordering::Equal, |measure| measure.times.total_cmp(&1.0))
    };
    let best = durable().min_by(order).or_else(|| all().min_by(order))?;
    let default = durable().filter(|mode| mode.mode.journal == Journal::Delete).max_by(order);
    let other = default.or_else(|| durable().max_by(order)).filter(|other| other.mode != best.mode);
    let pair = Pair::new(words.0, best, other.unwrap_or(best));
    let lead = pair.measures.first()?;

    let mut text = Words::name(&best.mode);
    if connections > 1 {
        text.push_str(&format!(" {}", words.circumstances(connections)));
    }
    text.push_str(&format!(" {}", words.does(lead)));
    if let Some(other) = other {
        text.push_str(&format!(", {} {}", words.relation(lead), Words::name(&other.mode)));
    }
    if let Some(floor) = words.floor(&pair, lead) {
        text.push_str(&format!(", {floor}"));
    }
    if let Some(longest) = pair.longest().filter(|_| lead.kind.is_rate()) {
        let took = if other.is_some() { words.both(longest) } else { words.own_figure(longest) };
        text.push_str(&format!("; the longest took {took}"));
    }
    Some(format!("{text}."))
}

#[cfg(test)]
#[path = "conclusion_tests.rs"]
mod tests;
