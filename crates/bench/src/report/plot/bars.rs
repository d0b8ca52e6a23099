//! The upper panel: KB a transaction, one bar a mode, split by whose bytes they are.

use super::{
    Anchor, Canvas, Color, FAINT, GRID, INK, LABEL_WIDTH, MARGIN, PALETTE, PAPER, Pen, Rect, Style, WIDTH, font, ticks,
};
use crate::observe::{Class, Source};
use crate::report::Report;

const TITLE_HEIGHT: f32 = 44.0;
const ROW_HEIGHT: f32 = 30.0;
const BAR_HEIGHT: f32 = 18.0;
const AXIS_HEIGHT: f32 = 44.0;
/// Right of the longest bar, for its figures.
const TAIL_WIDTH: f32 = 190.0;

pub fn height(report: &Report) -> f32 {
    TITLE_HEIGHT + ROW_HEIGHT * report.modes.len() as f32 + AXIS_HEIGHT
}

pub fn draw(report: &Report, top: f32, canvas: &mut dyn Canvas) {
    let left = MARGIN + LABEL_WIDTH;
    let right = WIDTH - MARGIN - TAIL_WIDTH;
    let rows_top = top + TITLE_HEIGHT;
    let rows_bottom = rows_top + ROW_HEIGHT * report.modes.len() as f32;
    let unit = report.unit.singular();
    let title = match report.counted_at {
        Some(Source::Vfs) => format!("KB written per {unit}, as SQLite asked for"),
        _ => format!("KB written per {unit}, at the block device"),
    };
    canvas.text(MARGIN, top + 16.0, &title, Style::new(15.0, INK, Anchor::Start));
    legend(top + 16.0, canvas);

    let totals = report.modes.iter().filter_map(|mode| mode.median.bytes_per_transaction);
    let longest_kb = totals.fold(0.0f64, f64::max) / 1024.0;
    let step_kb = ticks::round_step(longest_kb / 6.0);
    let end_kb = (longest_kb / step_kb).ceil().max(1.0) * step_kb;
    let x_of = |kb: f64| left + (right - left) * (kb / end_kb) as f32;
    let mut tick_kb = 0.0;
    while tick_kb <= end_kb * 1.001 {
        let x = x_of(tick_kb);
        canvas.lines(&[(x, rows_top), (x, rows_bottom)], Pen { width: 1.0, color: GRID, dashed: false });
        let label = if step_kb < 1.0 { format!("{tick_kb:.1}") } else { format!("{tick_kb:.0}") };
        canvas.text(x, rows_bottom + 16.0, &label, Style::new(11.0, FAINT, Anchor::Middle));
        tick_kb += step_kb;
    }

    for (at, mode) in report.modes.iter().enumerate() {
        let row_top = rows_top + ROW_HEIGHT * at as f32 + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
        let baseline = row_top + 14.0;
        let name = font::shorten(&report.label(mode), 13.0, LABEL_WIDTH - 12.0);
        canvas.text(left - 10.0, baseline, &name, Style::new(13.0, INK, Anchor::End));
        let figures = &mode.median;
        let Some(bytes) = figures.bytes_per_transaction else {
            canvas.text(left + 8.0, baseline, "not counted", Style::new(12.0, FAINT, Anchor::Start));
            continue;
        };
        let mut from_kb = 0.0;
        for class in Class::ALL {
            let kb = figures.bytes_per_transaction_by_class.get(&class).copied().unwrap_or(0.0) / 1024.0;
            fill(canvas, x_of(from_kb), x_of(from_kb + kb), row_top, color_of(class));
            from_kb += kb;
        }
        // Totals without a split, as where the kernel has no tracefs.
        if figures.bytes_per_transaction_by_class.is_empty() {
            fill(canvas, left, x_of(bytes / 1024.0), row_top, color_of(Class::Other));
        }
        let tail = format!(
            "{:.1} KB, {:.1} writes, {:.2} {}",
            bytes / 1024.0,
            figures.writes_per_transaction.unwrap_or(0.0),
            figures.flushes_per_transaction.unwrap_or(0.0),
            if figures.counted_at == Some(Source::Vfs) { "syncs" } else { "flushes" },
        );
        let (x, style) = (x_of(bytes / 1024.0) + 8.0, Style::new(12.0, INK, Anchor::Start));
        // The grid must not strike the figures through.
        let behind = Rect { x: x - 4.0, y: row_top, width: font::width(&tail, style.size) + 8.0, height: BAR_HEIGHT };
        canvas.fill(behind, PAPER);
        canvas.text(x, baseline, &tail, style);
    }
}

fn fill(canvas: &mut dyn Canvas, from_x: f32, to_x: f32, y: f32, color: Color) {
    if to_x > from_x {
        canvas.fill(Rect { x: from_x, y, width: to_x - from_x, height: BAR_HEIGHT }, color);
    }
}

/// From the right, beside the panel's title.
fn legend(baseline: f32, canvas: &mut dyn Canvas) {
    let style = Style::new(12.0, INK, Anchor::End);
    let mut x = WIDTH - MARGIN;
    for class in Class::ALL.into_iter().rev() {
        let name = name_of(class);
        canvas.text(x, baseline, name, style);
        x -= font::width(name, style.size) + 18.0;
        canvas.fill(Rect { x, y: baseline - 10.0, width: 12.0, height: 12.0 }, color_of(class));
        x -= 18.0;
    }
}

fn name_of(class: Class) -> &'static str {
    match class {
        Class::Db => "database",
        Class::Journal => "journal, WAL or log",
        Class::FsJournal => "file-system journal",
        Class::Other => "other",
    }
}

fn color_of(class: Class) -> Color {
    match class {
        Class::Db => PALETTE[0],
        Class::Journal => PALETTE[1],
        Class::FsJournal => PALETTE[2],
        Class::Other => Color(0x99, 0x99, 0x99),
    }
}
