//! The lower panel: which part of the commits was done within which time, one curve a mode.

use super::{Anchor, Canvas, FAINT, GRID, INK, MARGIN, Pen, Rect, Style, WIDTH, color_of_mode, font, ticks};
use crate::report::format::millis;
use crate::report::{ModeReport, Report};

pub const HEIGHT: f32 = 400.0;

const TITLE_HEIGHT: f32 = 44.0;
const AXIS_HEIGHT: f32 = 56.0;
const LEGEND_WIDTH: f32 = 230.0;
/// A curve needs no more points than it has pixels.
const POINTS_MAX: usize = 600;

pub fn draw(report: &Report, top: f32, canvas: &mut dyn Canvas) {
    let left = MARGIN + 44.0;
    let right = WIDTH - MARGIN - LEGEND_WIDTH;
    let plot_top = top + TITLE_HEIGHT;
    let bottom = top + HEIGHT - AXIS_HEIGHT;
    let what = report.unit.timed();
    let title = format!(
        "{}{} done within a time (all rounds; the time axis is logarithmic)",
        what[..1].to_uppercase(),
        &what[1..]
    );
    canvas.text(MARGIN, top + 16.0, &title, Style::new(15.0, INK, Anchor::Start));

    let (from_ns, to_ns) = range(report);
    let x_of = |ns: f64| left + (right - left) * ((ns / from_ns).ln() / (to_ns / from_ns).ln()) as f32;
    let y_of = |ratio: f64| bottom - (bottom - plot_top) * ratio as f32;
    let grid = Pen { width: 1.0, color: GRID, dashed: false };
    for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let y = y_of(percent / 100.0);
        canvas.lines(&[(left, y), (right, y)], grid);
        canvas.text(left - 8.0, y + 4.0, &format!("{percent:.0} %"), Style::new(11.0, FAINT, Anchor::End));
    }
    for ns in ticks::logarithmic(from_ns, to_ns, 3.5) {
        let x = x_of(ns);
        canvas.lines(&[(x, plot_top), (x, bottom)], grid);
        canvas.text(x, bottom + 16.0, &ticks::label(ns), Style::new(11.0, FAINT, Anchor::Middle));
    }

    let floor_ns = report.floor.p50_ns as f64;
    if floor_ns > from_ns {
        let x = x_of(floor_ns);
        canvas.lines(&[(x, plot_top - 4.0), (x, bottom)], Pen { width: 1.5, color: FAINT, dashed: true });
        let text = format!("floor {} ms", millis(report.floor.p50_ns));
        canvas.text(x, plot_top - 8.0, &text, Style::new(11.0, FAINT, Anchor::Middle));
    }
    for (at, mode) in report.modes.iter().enumerate() {
        let points: Vec<(f32, f32)> =
            curve(mode).into_iter().map(|(ns, ratio)| (x_of(ns.max(from_ns)), y_of(ratio))).collect();
        canvas.lines(&thin_out(points), Pen { width: 2.2, color: color_of_mode(at), dashed: false });
        legend(report, mode, at, right + 24.0, plot_top, canvas);
    }
}

fn legend(report: &Report, mode: &ModeReport, at: usize, x: f32, top: f32, canvas: &mut dyn Canvas) {
    let row_top = top + 38.0 * at as f32;
    if row_top + 30.0 > top + HEIGHT - TITLE_HEIGHT {
        return;
    }
    canvas.fill(Rect { x, y: row_top + 6.0, width: 16.0, height: 4.0 }, color_of_mode(at));
    let name = font::shorten(&report.label(mode), 13.0, LEGEND_WIDTH - 48.0);
    canvas.text(x + 24.0, row_top + 12.0, &name, Style::new(13.0, INK, Anchor::Start));
    let latency = &mode.median.latency_ns;
    let text = format!("p50 {}  p99 {}  max {} ms", millis(latency.p50), millis(latency.p99), millis(latency.max));
    canvas.text(x + 24.0, row_top + 27.0, &text, Style::new(11.0, FAINT, Anchor::Start));
}

/// From the floor or the shortest commit to where all but a thousandth of every mode's commits are done.
fn range(report: &Report) -> (f64, f64) {
    let shortest = report.modes.iter().filter_map(|mode| mode.latency_histogram_ns.counts.first());
    let from = shortest.map(|(ns, _)| *ns).chain([report.floor.p50_ns]).filter(|ns| *ns > 0).min().unwrap_or(1_000);
    let to = report.modes.iter().map(|mode| mode.median.latency_ns.p999.max(1)).max().unwrap_or(1_000_000);
    let from = from as f64 * 0.8;
    (from, (to as f64 * 1.3).max(from * 10.0))
}

/// (latency, part of the commits that took at most as long), ascending.
fn curve(mode: &ModeReport) -> Vec<(f64, f64)> {
    let counts = &mode.latency_histogram_ns.counts;
    let total = counts.iter().map(|(_, count)| count).sum::<u64>().max(1) as f64;
    let mut done = 0;
    let mut points = Vec::with_capacity(counts.len() + 1);
    if let Some((ns, _)) = counts.first() {
        points.push((*ns as f64, 0.0));
    }
    for (ns, count) in counts {
        done += count;
        points.push((*ns as f64, done as f64 / total));
    }
    points
}

fn thin_out(points: Vec<(f32, f32)>) -> Vec<(f32, f32)> {
    let clipped = points.into_iter().map(|(x, y)| (x.min(WIDTH - MARGIN - LEGEND_WIDTH), y));
    let points: Vec<(f32, f32)> = clipped.collect();
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let last = points.last().copied();
    let mut kept: Vec<(f32, f32)> = points.into_iter().step_by(every).collect();
    kept.extend(last);
    kept
}
