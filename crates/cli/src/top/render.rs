//! A table as lines of text, for the screen and for plain output.
//!
//! ```text
//!   txn/s KB/txn fl/tx p99 ms jrnl  mode            process       database
//!  1234.5   48.7  6.00   1.23  75%  PERSIST FULL    python3 12345 app.db
//! ```
//! The last column takes what is left of the width. In plain text nothing of a name is cut: one
//! that does not fit 80 columns has a line of its own.

use oneflush_trace::identify::{JournalMode, Synchronous};
use oneflush_trace::live::{Figures, Load, Row, Snapshot};

use super::view::View;
use crate::identify::table::{kb, short};
use crate::layout::{grouped, plural, printable};

/// How a line looks on a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Plain,
    Title,
    Head,
    Total,
    /// A database that is silent just now.
    Silent,
    Alarm,
}

#[derive(Debug)]
pub struct Line {
    pub text: String,
    pub look: Look,
}

/// Columns and lines of a screen.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub columns: usize,
    pub lines: usize,
}

const COLUMNS_MIN: usize = 80;
const PROCESS_COLUMNS: usize = 13;
const PROCESS_COLUMNS_WIDE: usize = 24;
const MODE_COLUMNS: usize = 15;
/// What stands before the name of a database.
const BEFORE_NAME_COLUMNS: usize = 34 + MODE_COLUMNS + 1 + PROCESS_COLUMNS + 1;

const KEYS: &str = "sort: t k f p j n   space: pause   ?: help   q: quit";

pub fn table(view: &View, mut snapshot: Snapshot, size: Option<Size>) -> Vec<Line> {
    view.sorted(&mut snapshot);
    let mut lines = heading(view, &snapshot);
    let widths = Widths::new(size);
    let count = snapshot.rows.len();
    let title = |look, text| Line { text, look };
    lines.push(title(Look::Head, widths.head()));
    let all = if count == 1 {
        "1 database".to_owned()
    } else {
        format!("all {} databases", grouped(count as u64))
    };
    lines.push(title(
        Look::Total,
        format!("{}  {all}", figures(snapshot.total_rate, &snapshot.total, true)),
    ));
    // Two lines are below: what is left out, and the keys.
    let room = size.map_or(count, |size| size.lines.saturating_sub(lines.len() + 2));
    for row in snapshot.rows.iter().take(room) {
        let look = if row.is_current { Look::Plain } else { Look::Silent };
        lines.push(Line { text: widths.row(view, row), look });
    }
    if count == 0 {
        lines.push(title(
            Look::Plain,
            "no transaction seen yet; each is shown when the next one begins".to_owned(),
        ));
    }
    if count > room {
        lines.push(title(Look::Plain, format!("… {} more", grouped((count - room) as u64))));
    }
    if let Some(size) = size {
        finish(&mut lines, size);
    }
    lines
}

pub fn help(view: &View, size: Size) -> Vec<Line> {
    let mut lines: Vec<Line> =
        HELP.lines().map(|line| Line { text: line.to_owned(), look: Look::Plain }).collect();
    lines[0].look = Look::Title;
    let sorted = Line { text: format!("Sorted by {} now.", view.sort.column()), look: Look::Plain };
    lines.push(sorted);
    finish(&mut lines, size);
    lines
}

const HELP: &str = "oneflush top: what SQLite does to a block device, figures of the last 10 s

  t  txn/s    transactions a second
  k  KB/txn   written for a transaction: database, journals, metadata
  f  fl/tx    how often a transaction has the device empty its cache
  p  p99 ms   99 % of the transactions took at most so long
  j  jrnl     share of the bytes that is not the database: SQLite's journal,
              the file system's journal and metadata
  n  database by name; the other keys: the largest first

  space  stop and go on; figures are taken meanwhile
  ?      this, and back
  q      end; also Ctrl-C

A transaction is known when the next one of its database begins. Dark rows: none
in the window, figures of the last one. WAL with NORMAL shows one a checkpoint.
device: what it was sent. no transaction: other files, and what nobody caused.
";

/// Cuts all to the size, with the keys in the last line.
fn finish(lines: &mut Vec<Line>, size: Size) {
    lines.truncate(size.lines.saturating_sub(1));
    while lines.len() + 1 < size.lines {
        lines.push(Line { text: String::new(), look: Look::Plain });
    }
    lines.push(Line { text: KEYS.to_owned(), look: Look::Title });
    for line in lines {
        line.text = begin(&line.text, size.columns);
    }
}

fn heading(view: &View, snapshot: &Snapshot) -> Vec<Line> {
    let Snapshot { device, no_transaction, seconds, lost, .. } = *snapshot;
    let load = |what: &str, load: Load| {
        let each_second = |number: u64| if seconds > 0.0 { number as f64 / seconds } else { 0.0 };
        let kb = kb(each_second(load.bytes));
        format!("{what:<15}{kb:>9} KB/s {:>9.1} flushes/s", each_second(load.flushes))
    };
    let paused = if view.is_paused { "   PAUSED" } else { "" };
    let plain = |text| Line { text, look: Look::Plain };
    let mut lines = vec![
        Line { text: printable(&format!("oneflush top  {}", view.described)), look: Look::Title },
        plain(format!("{}   by {}", load("device", device), view.sort.column())),
        plain(format!("{}   last {seconds:.1} s{paused}", load("no transaction", no_transaction))),
        plain(String::new()),
    ];
    if lost > 0 {
        let text = format!("{} lost since the begin: figures are too low", plural(lost, "event"));
        lines[3] = Line { text, look: Look::Alarm };
    }
    lines
}

/// `is_current`: the latency is one of the window.
fn figures(rate: f64, figures: &Figures, is_current: bool) -> String {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let bytes = or_none(figures.bytes_each().map(kb));
    let flushes = or_none(figures.flushes_each().map(|flushes| format!("{flushes:.2}")));
    let p99 = or_none(figures.p99_ms().filter(|_| is_current).map(short));
    let share = or_none(figures.journaling_share().map(|share| format!("{:.0}%", share * 100.0)));
    format!("{rate:>7.1} {bytes:>6} {flushes:>5} {p99:>6} {share:>4}")
}

struct Widths {
    process: usize,
    /// None: as long as it is, where need be on a line of its own.
    name: Option<usize>,
}

impl Widths {
    fn new(size: Option<Size>) -> Widths {
        let Some(size) = size else { return Widths { process: PROCESS_COLUMNS, name: None } };
        let more = size.columns.saturating_sub(COLUMNS_MIN);
        let process = (PROCESS_COLUMNS + more / 3).min(PROCESS_COLUMNS_WIDE);
        let before = BEFORE_NAME_COLUMNS - PROCESS_COLUMNS + process;
        Widths { process, name: Some(size.columns.saturating_sub(before)) }
    }

    fn head(&self) -> String {
        format!(
            "  txn/s KB/txn fl/tx p99 ms jrnl  {:<MODE_COLUMNS$} {:<2$} database",
            "mode", "process", self.process
        )
    }

    fn row(&self, view: &View, row: &Row) -> String {
        let figures = figures(row.rate, &row.figures, row.is_current);
        let mode = mode(row.journal_mode, row.synchronous);
        let process = process(row, self.process);
        let name = printable(&view.name(&row.database));
        let before = format!("{figures}  {mode:<MODE_COLUMNS$} {process:<0$} ", self.process);
        match self.name {
            Some(width) => before + &end(&name, width),
            None if before.chars().count() + name.chars().count() <= COLUMNS_MIN => before + &name,
            None => format!("{}\n    {name}", before.trim_end()),
        }
    }
}

fn mode(mode: JournalMode, synchronous: Synchronous) -> String {
    let mode = if mode == JournalMode::Unknown { "?".to_owned() } else { mode.to_string() };
    let synchronous =
        if synchronous == Synchronous::Unknown { "?".to_owned() } else { synchronous.to_string() };
    format!("{mode} {synchronous}")
}

/// Name and number of the process that committed last, and how many others did. The name makes room
/// for the numbers.
fn process(row: &Row, width: usize) -> String {
    let mut number = row.owner.id.map_or_else(String::new, |id| format!(" {id}"));
    if row.figures.processes() > 1 {
        number += &format!(" +{}", row.figures.processes() - 1);
    }
    let name = row.owner.name.as_deref().map_or_else(|| "?".to_owned(), printable);
    format!("{}{number}", begin(&name, width.saturating_sub(number.len())))
}

/// The begin of a text, so that it fits.
fn begin(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let cut = text.chars().take(width.saturating_sub(1)).collect::<String>();
    if width == 0 { cut } else { cut + "…" }
}

/// The end of a path, which tells it from others.
fn end(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let cut = text.chars().skip(count + 1 - width.max(1)).collect::<String>();
    if width == 0 { cut } else { format!("…{cut}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_does_not_fit_keeps_its_begin_or_its_end() {
        assert_eq!((begin("abcdef", 4), end("abcdef", 4)), ("abc…".to_owned(), "…def".to_owned()));
        assert_eq!((begin("äbc", 3), end("äbc", 3)), ("äbc".to_owned(), "äbc".to_owned()));
        assert_eq!((begin("ab", 0), end("ab", 0)), (String::new(), String::new()));
    }

    #[test]
    fn the_head_and_the_help_fit_on_80_columns_and_24_lines() {
        let size = Size { columns: 80, lines: 24 };
        assert!(Widths::new(Some(size)).head().chars().count() <= 80);
        // One line says the order, one the keys.
        assert!(
            HELP.lines().count() + 2 <= 24 && HELP.lines().all(|line| line.chars().count() <= 80)
        );
        assert_eq!(BEFORE_NAME_COLUMNS, Widths::new(Some(size)).head().find("database").unwrap());
        assert!(KEYS.len() <= 80);
    }
}
