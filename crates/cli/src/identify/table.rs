//! The table of one trace: its databases with what a transaction of each cost, what belongs to no
//! transaction, what was skipped.
//!
//! A database's name has a line of its own, because paths are long. Below it are a line of figures
//! and a line of words for each pair of journal mode and synchronization that its transactions had.
//! That is nearly always one pair. KB are 1,024 bytes. All fits 80 columns but names.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use hdrhistogram::Histogram;
use oneflush_trace::identify::{
    Amount, Confidence, Database, JournalMode, Observed, Outcome, Process, Scope, Summary,
    Synchronous, Traffic, Transaction,
};
use oneflush_trace::import::{Reader, Skipped};
use oneflush_trace::model::{Event, Names};

use super::shown;
use crate::layout::{grouped, plural, printable, tenths};

const WIDTH: usize = 80;
/// In place of a figure that the trace cannot show.
const NOT_OBSERVED: &str = "–";
/// Processes that are told apart for one database.
const PROCESSES_COUNT_MAX: usize = 64;

/// What stands before the table.
#[derive(Default)]
pub struct Heading {
    events: u64,
    begin_ns: Option<u64>,
    end_ns: u64,
}

impl Heading {
    pub fn event(&mut self, event: &Event) {
        if !event.has_time() {
            return;
        }
        self.events += 1;
        self.begin_ns =
            Some(self.begin_ns.map_or(event.time_ns, |begin_ns| begin_ns.min(event.time_ns)));
        self.end_ns = self.end_ns.max(event.time_ns);
    }

    #[cfg(feature = "laboratory")]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Times of the first and the last event; both 0 without any.
    #[cfg(feature = "laboratory")]
    pub fn span(&self) -> (u64, u64) {
        (self.begin_ns.unwrap_or(0), self.end_ns)
    }
}

#[derive(Default)]
pub struct Table {
    /// Boxed, since a map has room for eleven, and nearly every database has one.
    rows: BTreeMap<Database, BTreeMap<(JournalMode, Synchronous), Box<Row>>>,
    count: u64,
}

#[derive(Default)]
struct Row {
    count: u64,
    rolled_back: u64,
    joint: u64,
    processes: Vec<(Process, u64)>,
    traffic: Traffic,
    flushes: u64,
    syncs: u64,
    latency: Option<Histogram<u32>>,
    least: Option<Confidence>,
}

impl Table {
    pub fn add(&mut self, transaction: &Transaction) {
        self.count += 1;
        let modes = self.rows.entry(transaction.database.clone()).or_default();
        let row = modes.entry((transaction.journal_mode, transaction.synchronous)).or_default();
        row.count += 1;
        row.rolled_back += u64::from(transaction.outcome == Outcome::RolledBack);
        row.joint += u64::from(!transaction.others.is_empty());
        row.traffic += transaction.traffic;
        row.flushes += transaction.flushes;
        row.syncs += transaction.syncs;
        // Microseconds, within 1 %. A trace may hold very many databases, and another digit costs
        // eight times the memory.
        let latency = row.latency.get_or_insert_with(|| {
            let mut latency = Histogram::new(2).expect("two digits are allowed");
            latency.auto(true);
            latency
        });
        latency.record(transaction.latency_ns() / 1000).expect("it grows by itself");
        if let Some((_, count)) =
            row.processes.iter_mut().find(|(process, _)| *process == transaction.process)
        {
            *count += 1;
        } else if row.processes.len() < PROCESSES_COUNT_MAX {
            row.processes.push((transaction.process, 1));
        }
        if row.least.is_none_or(|least| transaction.confidence.value < least.value) {
            row.least = Some(transaction.confidence);
        }
    }

    /// `left_out`: what was asked for, and how many transactions were of other databases.
    pub fn render(
        &self,
        heading: &Heading,
        name: &str,
        reader: &Reader,
        summary: &Summary,
        left_out: Option<(&str, u64)>,
        (known, notes): (Scope, &[String]),
    ) -> String {
        let mut out = String::new();
        let seconds =
            heading.begin_ns.map_or(0.0, |begin_ns| (heading.end_ns - begin_ns) as f64 / 1e9);
        let events = grouped(heading.events);
        let seconds = tenths(if known.has_times { seconds } else { f64::NAN });
        let _ = writeln!(out, "{name}: {}, {events} events in {seconds} s", reader.format());
        let of = plural(self.rows.len() as u64, "database");
        let _ = writeln!(out, "{} of {of}", plural(self.count, "transaction"));
        if let Some((wanted, count)) = left_out {
            let count = plural(count, "transaction");
            let _ =
                writeln!(out, "left out: {count} of databases without \"{wanted}\" in their name");
        }
        notes.iter().for_each(|note| wrapped(&mut out, note));
        if !self.rows.is_empty() {
            let is_of_calls = known.observed.syncs && !known.observed.device;
            out.push_str(&if is_of_calls {
                HEAD.replace("flushes", "  syncs")
            } else {
                HEAD.to_owned()
            });
        }
        let mut most_first: Vec<_> = self.rows.iter().collect();
        most_first
            .sort_by_key(|(_, modes)| Reverse(modes.values().map(|row| row.count).sum::<u64>()));
        let mut total = Row::default();
        for (database, modes) in most_first {
            let _ = writeln!(out, "{}", printable(&database.to_string()));
            for ((mode, synchronous), row) in modes {
                row.figures(&mut out, &format!("{mode} {synchronous}"), known);
                row.words(&mut out, reader.names());
                total.merge(row);
            }
        }
        if self.rows.len() > 1 {
            out.push_str("all databases\n");
            total.figures(&mut out, "", known);
        }
        for (title, lines) in
            [("of no transaction", rest(summary)), ("skipped", skipped(reader.skipped(), true))]
        {
            if !lines.is_empty() {
                let _ = writeln!(out, "\n{title}\n{}", lines.join("\n"));
            }
        }
        out
    }
}

impl Row {
    fn merge(&mut self, other: &Row) {
        self.count += other.count;
        self.traffic += other.traffic;
        self.flushes += other.flushes;
        self.syncs += other.syncs;
        let Some(latency) = &other.latency else { return };
        match &mut self.latency {
            Some(all) => all.add(latency).expect("it grows by itself"),
            none => *none = Some(latency.clone()),
        }
    }

    fn figures(&self, out: &mut String, mode: &str, known: Scope) {
        let count = self.count as f64;
        let kb = |amount: Amount| kb(amount.bytes as f64 / count);
        let Traffic { db, journal, fs_journal, metadata } = self.traffic;
        let ms = |quantile| {
            self.latency.as_ref().map_or(0.0, |us| us.value_at_quantile(quantile) as f64 / 1000.0)
        };
        let flushes = match known.observed {
            Observed { device: true, .. } => format!("{:.2}", self.flushes as f64 / count),
            Observed { syncs: true, .. } => format!("{:.2}", self.syncs as f64 / count),
            Observed { .. } => NOT_OBSERVED.to_owned(),
        };
        let times = |text: String| if known.has_times { text } else { NOT_OBSERVED.to_owned() };
        let (p50, p99) = (times(short(ms(0.5))), times(short(ms(0.99))));
        let of_device =
            |text: String| if known.observed.device { text } else { NOT_OBSERVED.to_owned() };
        let share = format!("{:.0} %", self.traffic.journaling_share() * 100.0);
        let (db, journal) = (kb(db), kb(journal));
        let (fs_journal, metadata) = (of_device(kb(fs_journal)), of_device(kb(metadata)));
        let _ = writeln!(
            out,
            "  {mode:15}{count:>6}{db:>7}{journal:>8}{fs_journal:>8}{metadata:>7}\
            {flushes:>8}{p50:>6}{p99:>7}{share:>6}"
        );
    }

    /// Who, what was not an ordinary commit, and how sure the least sure one is.
    fn words(&self, out: &mut String, names: &Names) {
        let mut words = match self.processes.iter().max_by_key(|(_, count)| *count) {
            Some((process, _)) => said(process, names),
            None => String::new(),
        };
        if self.processes.len() > 1 {
            let _ = write!(words, " and {}", plural(self.processes.len() as u64 - 1, "other"));
        }
        if self.rolled_back > 0 {
            let _ = write!(words, "; {} rolled back", self.rolled_back);
        }
        if self.joint > 0 {
            let _ = write!(words, "; {} over several databases", self.joint);
        }
        if let Some(Confidence { value, reason }) = self.least {
            let least = if self.count > 1 { "confidence at least" } else { "confidence" };
            let _ = write!(words, "; {least} {value}: {reason}");
        }
        wrapped(out, &words);
    }
}

const HEAD: &str = "
                                KB a transaction      flushes  latency ms journ-
  mode             txns     db journal fs-jrnl   meta   a txn   p50    p99 aling
";

/// What belongs to no transaction.
fn rest(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    if summary.partial_count > 0 {
        let count = plural(summary.partial_count, "transaction");
        lines.push(format!("  cut off         {count} of which the trace holds only a part"));
    }
    let Traffic { db, journal, fs_journal, metadata } = summary.partial;
    let amounts = [
        ("databases", db),
        ("journals", journal),
        ("their fs journal", fs_journal),
        ("their metadata", metadata),
        ("other files", summary.other),
        ("fs journal", summary.fs_journal),
        ("metadata", summary.metadata),
    ];
    for (what, amount) in amounts {
        if amount != Amount::default() {
            let requests = plural(amount.requests, "request");
            lines.push(format!("  {what:17} {:>9} KB in {requests}", kb(amount.bytes as f64)));
        }
    }
    if summary.flushes > 0 {
        lines.push(format!("  {:17} {:>9}", "flushes", grouped(summary.flushes)));
    }
    lines
}

/// What no event came of; `all`: also what is nothing to worry about.
pub fn skipped(skipped: &Skipped, all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if skipped.lost > 0 {
        lines.push(format!(
            "  {} lost while recording, as the trace says",
            plural(skipped.lost, "event")
        ));
    }
    if skipped.lost_uncounted > 0 {
        let places = plural(skipped.lost_uncounted, "place");
        lines.push(format!("  events lost at {places}, the trace does not say how many"));
    }
    if skipped.disordered > 0 {
        lines.push(format!("  {}", shown::disordered(skipped)));
    }
    if let Some(why) = skipped.cut_off {
        lines.push(format!("  the trace is cut off: {why}"));
    }
    lines.extend(shown::options(skipped).into_iter().map(|line| format!("  {line}")));
    if skipped.names_left_out > 0 {
        lines.push(format!(
            "  names left out in {}: there are too many",
            plural(skipped.names_left_out, "event")
        ));
    }
    if all && skipped.ignored > 0 {
        lines.push(format!(
            "  {} of kinds that say nothing about transactions",
            plural(skipped.ignored, "event")
        ));
    }
    if skipped.count > 0 {
        let first =
            if skipped.count > skipped.first.len() as u64 { ", the first of them" } else { "" };
        lines.push(format!("  {} not understood{first}:", plural(skipped.count, "line or record")));
        let width = skipped.first.last().map_or(0, |line| line.number.to_string().len());
        for line in &skipped.first {
            let text: String = printable(&line.text).chars().take(WIDTH - 6 - width).collect();
            lines.push(format!("    {:width$}  {text}", line.number));
        }
    }
    lines
}

fn said(process: &Process, names: &Names) -> String {
    let id = if process.process != 0 { process.process } else { process.thread };
    match (process.name, id) {
        (None, 0) => "written back by the kernel".to_owned(),
        (None, id) => format!("process {id}"),
        (Some(name), 0) => printable(names.text(name)),
        (Some(name), id) => format!("{} {id}", printable(names.text(name))),
    }
}

/// Words into lines of 80 columns, indented.
fn wrapped(out: &mut String, words: &str) {
    const INDENT: &str = "   ";
    let mut column = 0;
    for word in words.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > WIDTH {
            out.push('\n');
            column = 0;
        }
        if column == 0 {
            out.push_str(INDENT);
            column = INDENT.len();
        }
        out.push(' ');
        out.push_str(word);
        column += 1 + width;
    }
    out.push('\n');
}

pub fn kb(bytes: f64) -> String {
    let kb = bytes / 1024.0;
    if kb < 10_000.0 { format!("{kb:.1}") } else { format!("{kb:.0}") }
}

pub fn short(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 1000.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD, WIDTH, grouped, printable, wrapped};

    #[test]
    fn words_and_the_head_keep_to_80_columns() {
        let mut out = String::new();
        wrapped(&mut out, &"eleven long words ".repeat(20));
        assert!(out.lines().count() > 3);
        assert!(out.lines().chain(HEAD.lines()).all(|line| line.chars().count() <= WIDTH), "{out}");
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jé.db"), "a\\u{1b}[2Jé.db");
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([1, 999, 1000, 1_234_567].map(grouped), ["1", "999", "1,000", "1,234,567"]);
    }
}
