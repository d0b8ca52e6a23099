//! The picture of a run, one row a mode: commits a second, KB a commit split by their class, and
//! the median and the longest time of a commit.
//!
//! Each column has its legend below it, an entry a line.

use super::{
    Anchor, BAR, BLUE, Canvas, Color, FAINT, GRAY, GRID, INK, MARGIN, ORANGE, PAPER, Pen, Rect,
    SUBJECT, Style, VERMILION, WIDTH, connections, count, font, name, paragraph, ticks,
};
use crate::report::{ModeReport, Report, laid_out};
use oneflush_measure::observe::Class;
use oneflush_measure::workload::Unit;

/// What was written once, beside what each commit writes: paler than a log.
const AHEAD: Color = Color(0xf6, 0xdd, 0xa8);

const NAME_SIZE: f32 = 16.0;
const FIGURE_SIZE: f32 = 15.0;
const HINT_SIZE: f32 = 13.0;
const NAME_WIDTH_MAX: f32 = 210.0;
/// Between columns.
const GAP: f32 = 26.0;
const ROW_HEIGHT: f32 = 30.0;
const BAR_HEIGHT: f32 = 18.0;
/// How far a row's options begin above the end of its height, which is more than its name's.
const OPTIONS_OVERLAP: f32 = 6.0;
const GROUP_HEIGHT: f32 = 34.0;
const MARK: f32 = 12.0;
/// A figure beside its bar or mark.
const BESIDE: f32 = 7.0;

/// From where to where a column goes.
#[derive(Clone, Copy)]
struct Column {
    left: f32,
    right: f32,
}

/// Where a row is, and what it shows.
struct Row<'a> {
    mode: &'a ModeReport,
    top: f32,
    /// Whether the title is about this mode.
    subject: bool,
}

impl Row<'_> {
    fn baseline(&self) -> f32 {
        self.top + ROW_HEIGHT / 2.0 + 5.5
    }

    fn middle(&self) -> f32 {
        self.top + ROW_HEIGHT / 2.0
    }

    fn bar(&self, left: f32, right: f32) -> Rect {
        Rect {
            x: left,
            y: self.middle() - BAR_HEIGHT / 2.0,
            width: right - left,
            height: BAR_HEIGHT,
        }
    }

    fn figure(&self, x: f32, text: &str, color: Color, anchor: Anchor, canvas: &mut dyn Canvas) {
        canvas.text(x, self.baseline(), text, Style::new(FIGURE_SIZE, color, anchor));
    }
}

pub fn draw(report: &Report, subject: Option<usize>, top: f32, canvas: &mut dyn Canvas) -> f32 {
    let labels: Vec<String> = report.modes.iter().map(label_of(report)).collect();
    let widest = labels.iter().map(|label| font::room(label, NAME_SIZE)).fold(60.0, f32::max);
    let names = Column { left: MARGIN, right: MARGIN + widest.min(NAME_WIDTH_MAX) };
    let columns = columns(report, names.right + GAP * 0.6);
    let head_bottom = heads(report, &columns, top + 20.0, canvas);

    let mut rows = Vec::new();
    let mut bottom = head_bottom + 6.0;
    let mut group = None;
    for (at, mode) in report.modes.iter().enumerate() {
        if group != Some(mode.connections) && (report.connections.len() > 1 || mode.connections > 1)
        {
            bottom = group_head(report, mode.connections, bottom, canvas);
        }
        group = Some(mode.connections);
        let row = Row { mode, top: bottom, subject: subject == Some(at) };
        bottom = label(&labels[at], names.left, &row, canvas);
        rows.push(row);
    }

    rates(&rows, report.unit, columns.rate, canvas);
    if let Some(column) = columns.bytes {
        bytes(&rows, column, canvas);
    }
    let axis_bottom = times(&rows, columns.time, bottom + 4.0, canvas);

    let first = Column { left: MARGIN, right: columns.rate.right };
    let below = bottom + 12.0;
    let mut ends = vec![
        risks(report, first, below, canvas),
        times_legend(report, columns.time, axis_bottom, canvas),
    ];
    ends.extend(columns.bytes.map(|column| classes_legend(&rows, column, below, canvas)));
    ends.into_iter().fold(bottom, f32::max)
}

/// A row's name. Options that have no room beside it go below. Returns where the row ends.
fn label(text: &str, left: f32, row: &Row<'_>, canvas: &mut dyn Canvas) -> f32 {
    let (name, options) = match text.split_once('+') {
        Some((name, options)) if font::room(text, NAME_SIZE) > NAME_WIDTH_MAX => (name, options),
        _ => (text, ""),
    };
    let name = font::shorten(name, NAME_SIZE, NAME_WIDTH_MAX);
    canvas.text(left, row.baseline(), &name, Style::new(NAME_SIZE, INK, Anchor::Start));
    let bottom = row.top + ROW_HEIGHT;
    if options.is_empty() {
        return bottom;
    }
    let options = format!("+{}", options.replace('+', " +"));
    let style = Style::new(HINT_SIZE, INK, Anchor::Start);
    paragraph(&options, (left, bottom - OPTIONS_OVERLAP), NAME_WIDTH_MAX, style, canvas)
}

struct Columns {
    rate: Column,
    /// None where nobody counted.
    bytes: Option<Column>,
    time: Column,
}

fn columns(report: &Report, left: f32) -> Columns {
    let right = WIDTH - MARGIN;
    let counted = report.modes.iter().any(|mode| mode.median.bytes_per_transaction.is_some());
    let gaps = if counted { 2.0 * GAP } else { GAP };
    // Two figures stand in the column of times, one in the others.
    let part = (right - left - gaps) / if counted { 3.8 } else { 2.8 };
    let rate = Column { left, right: left + part };
    let bytes = Column { left: rate.right + GAP, right: rate.right + GAP + part };
    let time = Column { left: right - 1.8 * part, right };
    Columns { rate, bytes: counted.then_some(bytes), time }
}

/// What each column shows, and below it in which sense. Returns where the longest of them ends.
fn heads(report: &Report, columns: &Columns, top: f32, canvas: &mut dyn Canvas) -> f32 {
    let rate = report.unit.rate();
    let rate = format!("{}{}", rate[..1].to_uppercase(), &rate[1..]);
    let one = report.unit.one();
    let (_, counted) = report.counting();
    let mut heads = vec![
        (columns.rate, rate, "more is better"),
        (columns.time, format!("Time of a {one}"), "logarithmic; left is better"),
    ];
    heads.extend(columns.bytes.map(|column| (column, format!("KB a {one}"), counted)));
    let mut bottom = top;
    for (column, head, hint) in heads {
        let width = column.right - column.left;
        let start = (column.left, top);
        let hint_top = paragraph(&head, start, width, Style::new(17.0, INK, Anchor::Start), canvas);
        let style = Style::new(HINT_SIZE, FAINT, Anchor::Start);
        bottom = paragraph(hint, (column.left, hint_top), width, style, canvas).max(bottom);
    }
    bottom
}

fn group_head(report: &Report, count: u32, top: f32, canvas: &mut dyn Canvas) -> f32 {
    let y = top + 6.0;
    canvas
        .lines(&[(MARGIN, y), (WIDTH - MARGIN, y)], Pen { width: 1.0, color: GRID, dashed: false });
    let style = Style::new(14.0, FAINT, Anchor::Start);
    canvas.text(MARGIN, top + 25.0, &connections(report, count), style);
    top + GROUP_HEIGHT
}

fn rates(rows: &[Row], unit: Unit, column: Column, canvas: &mut dyn Canvas) {
    let rate = |row: &Row| row.mode.median.transactions_per_s * unit.in_rate();
    let figure = |row: &Row| {
        if row.mode.median.transactions == 0 { "–".to_owned() } else { count(rate(row)) }
    };
    let end = bar_end(rows.iter().map(&figure), column);
    let most = rows.iter().map(rate).fold(f64::MIN_POSITIVE, f64::max);
    for row in rows {
        let right = column.left + (end - column.left) * (rate(row) / most) as f32;
        fill(canvas, row.bar(column.left, right), if row.subject { SUBJECT } else { BAR });
        row.figure(right + BESIDE, &figure(row), INK, Anchor::Start, canvas);
    }
}

fn bytes(rows: &[Row], column: Column, canvas: &mut dyn Canvas) {
    let kb = |row: &Row| row.mode.median.all_bytes_per_transaction().map(|bytes| bytes / 1024.0);
    let figure = |row: &Row| {
        let each = row.mode.median.bytes_per_transaction? / 1024.0;
        let once = laid_out(row.mode).map_or(String::new(), |kb| format!(" +{kb:.1}"));
        Some(format!("{each:.1}{once}"))
    };
    let end = bar_end(rows.iter().filter_map(&figure), column);
    let most = rows.iter().filter_map(kb).fold(f64::MIN_POSITIVE, f64::max);
    let x_of = |kb: f64| column.left + (end - column.left) * (kb / most) as f32;
    for row in rows {
        let Some(figure) = figure(row) else {
            row.figure(column.left, "not counted", FAINT, Anchor::Start, canvas);
            continue;
        };
        let mut from_kb = 0.0;
        for (class, kb) in split(row.mode) {
            fill(canvas, row.bar(x_of(from_kb), x_of(from_kb + kb)), color_of(class));
            from_kb += kb;
        }
        if let Some(kb) = laid_out(row.mode) {
            fill(canvas, row.bar(x_of(from_kb), x_of(from_kb + kb)), AHEAD);
            from_kb += kb;
        }
        row.figure(x_of(from_kb) + BESIDE, &figure, INK, Anchor::Start, canvas);
    }
}

/// KB that were written once, for each commit of the run. None where no figure would show them.
fn laid_out(mode: &ModeReport) -> Option<f64> {
    let each = laid_out::bytes(mode)? / 1024.0 / mode.median.transactions.max(1) as f64;
    (each >= 0.05).then_some(each)
}

/// KB of each class; all as "other" where nobody split them, as where the kernel has no tracefs.
fn split(mode: &ModeReport) -> Vec<(Class, f64)> {
    let by_class = &mode.median.bytes_per_transaction_by_class;
    if by_class.is_empty() {
        return mode
            .median
            .bytes_per_transaction
            .map(|bytes| (Class::Other, bytes / 1024.0))
            .into_iter()
            .collect();
    }
    Class::ALL
        .into_iter()
        .filter_map(|class| by_class.get(&class).map(|bytes| (class, bytes / 1024.0)))
        .collect()
}

/// Where the longest bar ends, so that its figure has room behind it.
fn bar_end(figures: impl Iterator<Item = String>, column: Column) -> f32 {
    let room = figures.map(|figure| font::room(&figure, FIGURE_SIZE)).fold(0.0, f32::max);
    column.right - room - BESIDE
}

fn fill(canvas: &mut dyn Canvas, rect: Rect, color: Color) {
    if rect.width > 0.0 {
        canvas.fill(rect, color);
    }
}

/// A line from each mode's median to its longest, and one axis below all. Returns where that ends.
fn times(rows: &[Row], column: Column, axis: f32, canvas: &mut dyn Canvas) -> f32 {
    let figures = |row: &Row| {
        let latency = &row.mode.median.latency_ns;
        (row.mode.median.transactions > 0)
            .then_some((latency.p50.max(1), latency.max.max(latency.p50).max(1)))
    };
    let shortest =
        rows.iter().filter_map(figures).map(|(p50, _)| p50).min().unwrap_or(100_000) as f64;
    let longest =
        rows.iter().filter_map(figures).map(|(_, max)| max).max().unwrap_or(1_000_000) as f64;
    let longest = longest.max(shortest * 10.0);
    // The widest that a figure can be.
    let room = font::room("99.9 ms", FIGURE_SIZE) + BESIDE + MARK / 2.0;
    let (left, right) = (column.left + room, column.right - room);
    let x_of =
        |ns: f64| left + (right - left) * ((ns / shortest).ln() / (longest / shortest).ln()) as f32;
    for row in rows {
        let Some((p50, max)) = figures(row) else {
            row.figure(left, "–", INK, Anchor::Start, canvas);
            continue;
        };
        let (from, to, y) = (x_of(p50 as f64), x_of(max as f64), row.middle());
        let color = if row.subject { SUBJECT } else { INK };
        canvas.lines(&[(from, y), (to, y)], Pen { width: 3.0, color: BAR, dashed: false });
        mark((to, y), color, true, canvas);
        mark((from, y), color, false, canvas);
        row.figure(from - BESIDE - MARK / 2.0, &ticks::duration(p50), INK, Anchor::End, canvas);
        row.figure(to + BESIDE + MARK / 2.0, &ticks::duration(max), INK, Anchor::Start, canvas);
    }

    let line = Pen { width: 1.0, color: FAINT, dashed: false };
    canvas.lines(&[(left, axis), (right, axis)], line);
    let style = Style::new(12.0, FAINT, Anchor::Middle);
    let mut free = f32::NEG_INFINITY;
    for ns in ticks::logarithmic(shortest, longest, 1.0) {
        let (x, label) = (x_of(ns), ticks::label(ns));
        canvas.lines(&[(x, axis), (x, axis + 5.0)], line);
        let half = font::room(&label, style.size) / 2.0;
        if x - half > free {
            canvas.text(x, axis + 18.0, &label, style);
            free = x + half + 6.0;
        }
    }
    axis + 26.0
}

/// The longest is filled, the median is not.
fn mark((x, y): (f32, f32), color: Color, filled: bool, canvas: &mut dyn Canvas) {
    let square =
        |size: f32| Rect { x: x - size / 2.0, y: y - size / 2.0, width: size, height: size };
    canvas.fill(square(MARK), color);
    if !filled {
        canvas.fill(square(MARK - 5.0), PAPER);
    }
}

const LEGEND_STYLE: Style = Style { size: HINT_SIZE, color: INK, anchor: Anchor::Start };
const ENTRY_HEIGHT: f32 = 20.0;
/// A legend's mark, and the room behind it.
const ENTRY_INDENT: f32 = 20.0;

fn times_legend(report: &Report, column: Column, top: f32, canvas: &mut dyn Canvas) -> f32 {
    let longest = if report.rounds > 1 { "longest of all rounds" } else { "longest" };
    let mut bottom = top;
    for (filled, text) in [(false, "median"), (true, longest)] {
        mark((column.left + MARK / 2.0, bottom + ENTRY_HEIGHT / 2.0), INK, filled, canvas);
        bottom = entry(text, column, bottom, canvas);
    }
    if !report.unit.is_to_last() {
        return bottom;
    }
    let floor = format!(
        "floor, a 4 KiB overwrite + fdatasync: median {}",
        ticks::duration(report.floor.p50_ns)
    );
    paragraph(&floor, (column.left, bottom + 2.0), column.right - column.left, LEGEND_STYLE, canvas)
}

/// What a mark at the column's left means. Returns where the next one begins.
fn entry(text: &str, column: Column, top: f32, canvas: &mut dyn Canvas) -> f32 {
    let left = column.left + ENTRY_INDENT;
    paragraph(text, (left, top), column.right - left, LEGEND_STYLE, canvas) + 2.0
}

fn classes_legend(rows: &[Row], column: Column, top: f32, canvas: &mut dyn Canvas) -> f32 {
    let mut bottom = top;
    let all = || rows.iter().flat_map(|row| split(row.mode));
    // Of what nobody can see in any bar there is no word.
    let least_kb = all().map(|(_, kb)| kb).fold(0.0, f64::max) / 200.0;
    let there = |class: Class| all().any(|(one, kb)| one == class && kb > least_kb);
    for class in Class::ALL.into_iter().filter(|class| there(*class)) {
        let swatch = Rect { x: column.left, y: bottom + 4.0, width: MARK, height: MARK };
        canvas.fill(swatch, color_of(class));
        bottom = entry(name_of(class), column, bottom, canvas);
    }
    if rows.iter().any(|row| laid_out(row.mode).is_some()) {
        let swatch = Rect { x: column.left, y: bottom + 4.0, width: MARK, height: MARK };
        canvas.fill(swatch, AHEAD);
        bottom = entry("+ space ahead, written once", column, bottom, canvas);
    }
    bottom
}

/// What the star at a mode means.
fn risks(report: &Report, column: Column, top: f32, canvas: &mut dyn Canvas) -> f32 {
    if !report.unit.is_to_last() || report.modes.iter().all(|mode| mode.mode.is_durable()) {
        return top;
    }
    let text = "* A loss of power may take commits back, or damage the database.";
    paragraph(text, (column.left, top), column.right - column.left, LEGEND_STYLE, canvas)
}

fn label_of(report: &Report) -> impl Fn(&ModeReport) -> String {
    |mode| {
        let risky = report.unit.is_to_last() && !mode.mode.is_durable();
        format!("{}{}", name(report, mode), if risky { " *" } else { "" })
    }
}

fn name_of(class: Class) -> &'static str {
    match class {
        Class::Db => "database",
        Class::Journal => "journal, WAL or log",
        Class::FsJournal => "file system's journal",
        Class::Other => "other",
    }
}

fn color_of(class: Class) -> Color {
    match class {
        Class::Db => BLUE,
        Class::Journal => ORANGE,
        Class::FsJournal => VERMILION,
        Class::Other => GRAY,
    }
}
