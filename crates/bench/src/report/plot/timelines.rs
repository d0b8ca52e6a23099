//! A picture of its own: every mode's latencies over time, one panel each, so that checkpoints are seen as spikes.
//!
//! A panel shows the round with the mode's longest commit. Of each stretch of time it has the longest commit (peaks in the
//! mode's colour) and the median (the dark line). All panels share the logarithmic axis of latencies; each has the time that
//! its mode took.

use std::ops::Range;

use super::{Anchor, Canvas, FAINT, GRID, INK, MARGIN, Pen, Style, WIDTH, color_of_mode, font, ticks};
use crate::report::format::millis;
use crate::report::{ModeReport, Report};

const TITLE_HEIGHT: f32 = 44.0;
const PANEL_HEIGHT: f32 = 170.0;
/// Above a panel's axis, for its mode.
const NAME_HEIGHT: f32 = 24.0;
const AXIS_HEIGHT: f32 = 30.0;
/// Between the last panel and the picture's foot.
const BELOW_HEIGHT: f32 = 14.0;

pub fn height(report: &Report) -> f32 {
    TITLE_HEIGHT + PANEL_HEIGHT * report.modes.len() as f32 + BELOW_HEIGHT
}

pub fn draw(report: &Report, top: f32, canvas: &mut dyn Canvas) {
    let what = report.unit.timed();
    let title =
        format!("Latencies of {what} over time: longest (colour) and median (dark) of each stretch, logarithmic");
    canvas.text(MARGIN, top + 16.0, &title, Style::new(15.0, INK, Anchor::Start));
    let (from_ns, to_ns) = range(report);
    for at in 0..report.modes.len() {
        panel(report, at, top + TITLE_HEIGHT + PANEL_HEIGHT * at as f32, (from_ns, to_ns), canvas);
    }
}

fn panel(report: &Report, at: usize, top: f32, (from_ns, to_ns): (f64, f64), canvas: &mut dyn Canvas) {
    let mode = &report.modes[at];
    let (left, right) = (MARGIN + 54.0, WIDTH - MARGIN);
    let (plot_top, bottom) = (top + NAME_HEIGHT, top + PANEL_HEIGHT - AXIS_HEIGHT);
    let y_of = |ns: f64| {
        bottom - (bottom - plot_top) * ((ns.clamp(from_ns, to_ns) / from_ns).ln() / (to_ns / from_ns).ln()) as f32
    };
    let stretches = mode.latency_timeline.counts.len().max(1);
    let stretch_s = mode.latency_timeline.stretch_ns as f64 / 1e9;
    let end_s = (stretches as f64 * stretch_s).max(f64::MIN_POSITIVE);
    let x_of = |seconds: f64| left + (right - left) * (seconds / end_s) as f32;

    canvas.text(left, top + 16.0, &caption(report, mode), Style::new(12.0, INK, Anchor::Start));
    let grid = Pen { width: 1.0, color: GRID, dashed: false };
    for ns in ticks::logarithmic(from_ns, to_ns, 2.5) {
        canvas.lines(&[(left, y_of(ns)), (right, y_of(ns))], grid);
        canvas.text(left - 8.0, y_of(ns) + 4.0, &ticks::label(ns), Style::new(11.0, FAINT, Anchor::End));
    }
    let step_s = ticks::round_step(end_s / 8.0);
    for number in 0..=(end_s / step_s) as u32 {
        let seconds = f64::from(number) * step_s;
        canvas.lines(&[(x_of(seconds), bottom), (x_of(seconds), bottom + 4.0)], grid);
        let style = Style::new(11.0, FAINT, Anchor::Middle);
        canvas.text(x_of(seconds), bottom + 16.0, &ticks::label(seconds * 1e9), style);
    }
    let floor_ns = report.floor.p50_ns as f64;
    if floor_ns > from_ns {
        canvas
            .lines(&[(left, y_of(floor_ns)), (right, y_of(floor_ns))], Pen { width: 1.2, color: FAINT, dashed: true });
    }
    let point = |number: usize, ns: u64| (x_of((number as f64 + 0.5) * stretch_s), y_of(ns as f64));
    for run in runs(&mode.latency_timeline.counts) {
        let median = |number: usize| point(number, mode.latency_timeline.p50_ns[number]);
        let peak =
            |number: usize| [median(number), point(number, mode.latency_timeline.max_ns[number]), median(number)];
        let peaks: Vec<(f32, f32)> = run.clone().flat_map(peak).collect();
        canvas.lines(&peaks, Pen { width: 1.4, color: color_of_mode(at), dashed: false });
        if run.len() > 1 {
            let medians: Vec<(f32, f32)> = run.map(median).collect();
            canvas.lines(&medians, Pen { width: 1.4, color: INK, dashed: false });
        }
    }
}

/// Where commits ended in one stretch after the other: no line leads over a gap in which none did.
fn runs(counts: &[u64]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (number, count) in counts.iter().enumerate() {
        match runs.last_mut() {
            _ if *count == 0 => {}
            Some(run) if run.end == number => run.end += 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}

fn caption(report: &Report, mode: &ModeReport) -> String {
    let longest = mode.latency_timeline.max_ns.iter().copied().max().unwrap_or(0);
    let stretch = ticks::label(mode.latency_timeline.stretch_ns as f64);
    let text = format!(
        "{}: {} {} in stretches of {stretch}, longest {} ms",
        report.label(mode),
        mode.latency_timeline.counts.iter().sum::<u64>(),
        report.unit.timed(),
        millis(longest),
    );
    font::shorten(&text, 12.0, WIDTH - 2.0 * MARGIN - 54.0)
}

/// From the floor or the shortest median to the longest commit of all.
fn range(report: &Report) -> (f64, f64) {
    let medians = report.modes.iter().flat_map(|mode| mode.latency_timeline.p50_ns.iter().copied());
    let from = medians.chain([report.floor.p50_ns]).filter(|ns| *ns > 0).min().unwrap_or(1_000) as f64 * 0.8;
    let longest = report.modes.iter().flat_map(|mode| mode.latency_timeline.max_ns.iter().copied()).max();
    (from, (longest.unwrap_or(0) as f64 * 1.2).max(from * 10.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_without_commits_breaks_the_line() {
        assert_eq!(runs(&[1, 2, 0, 0, 3, 0, 4]), [0..2, 4..5, 6..7]);
        assert!(runs(&[0, 0]).is_empty());
    }
}
