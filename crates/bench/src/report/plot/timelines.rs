//! A picture of its own: every mode's latencies over time, one panel each, so that checkpoints are
//! seen as spikes.
//!
//! A panel shows the round with the mode's longest commit. For each stretch of time it has the
//! longest commit (peaks in colour) and the median (the dark line). All panels share both axes: the
//! time since the run's begin, and the logarithmic one of latencies. The ground of a panel ends
//! where its mode was done.

use std::ops::Range;

use super::{
    Anchor, BLUE, Canvas, Color, FAINT, GRID, INK, MARGIN, Pen, Rect, Style, WIDTH, connections,
    font, grouped, name, paragraph, ticks,
};
use crate::report::{ModeReport, Report};

const PANEL_HEIGHT: f32 = 146.0;
/// Above a panel's ground, for its mode.
const NAME_HEIGHT: f32 = 36.0;
const GROUND: Color = Color(0xee, 0xf1, 0xf4);
/// Baselines of the labels of latencies.
const LABELS_APART: f32 = 20.0;
const LEFT: f32 = MARGIN + 66.0;
const RIGHT: f32 = WIDTH - MARGIN;

/// What all panels share.
struct Axes {
    from_ns: f64,
    to_ns: f64,
    end_s: f64,
}

impl Axes {
    /// From the floor or the shortest median to the longest commit of all, and as long as the
    /// longest run.
    fn of(report: &Report) -> Axes {
        let timelines = || report.modes.iter().map(|mode| &mode.latency_timeline);
        let medians = timelines().flat_map(|timeline| timeline.p50_ns.iter().copied());
        let from_ns =
            medians.chain([report.floor.p50_ns]).filter(|ns| *ns > 0).min().unwrap_or(1_000) as f64
                * 0.8;
        let longest = timelines().flat_map(|timeline| timeline.max_ns.iter().copied()).max();
        Axes {
            from_ns,
            to_ns: (longest.unwrap_or(0) as f64 * 1.2).max(from_ns * 10.0),
            end_s: report.modes.iter().map(length_s).fold(f64::MIN_POSITIVE, f64::max),
        }
    }

    fn x_of(&self, seconds: f64) -> f32 {
        LEFT + (RIGHT - LEFT) * (seconds / self.end_s) as f32
    }

    fn share(&self, ns: f64) -> f32 {
        ((ns.clamp(self.from_ns, self.to_ns) / self.from_ns).ln()
            / (self.to_ns / self.from_ns).ln()) as f32
    }
}

pub fn draw(report: &Report, top: f32, canvas: &mut dyn Canvas) -> f32 {
    let axes = Axes::of(report);
    let text = format!(
        "Latencies of {}, logarithmic, in the round with the mode's longest; peaks: the longest of \
            a stretch of time, dark line: \
         its median, dashes: the floor. All panels have the same time axis, and their ground ends \
         when the mode was done.",
        report.unit.timed()
    );
    let style = Style::new(14.0, FAINT, Anchor::Start);
    let mut bottom = paragraph(&text, (MARGIN, top + 10.0), WIDTH - 2.0 * MARGIN, style, canvas);
    for mode in &report.modes {
        bottom = panel(report, mode, bottom + 8.0, &axes, canvas);
    }
    time_axis(&axes, bottom, canvas)
}

/// How long the round took.
fn length_s(mode: &ModeReport) -> f64 {
    let timeline = &mode.latency_timeline;
    timeline.counts.len() as f64 * timeline.stretch_ns as f64 / 1e9
}

fn panel(
    report: &Report,
    mode: &ModeReport,
    top: f32,
    axes: &Axes,
    canvas: &mut dyn Canvas,
) -> f32 {
    let (plot_top, bottom) = (top + NAME_HEIGHT, top + PANEL_HEIGHT);
    let y_of = |ns: f64| bottom - (bottom - plot_top) * axes.share(ns);
    let caption = font::shorten(&caption(report, mode), 15.0, RIGHT - MARGIN);
    canvas.text(MARGIN, top + 20.0, &caption, Style::new(15.0, INK, Anchor::Start));

    let ground = Rect {
        x: LEFT,
        y: plot_top,
        width: axes.x_of(length_s(mode)) - LEFT,
        height: bottom - plot_top,
    };
    if ground.width > 0.0 {
        canvas.fill(ground, GROUND);
    }
    let grid = Pen { width: 1.0, color: GRID, dashed: false };
    let mut lowest_free = f32::INFINITY;
    for ns in ticks::logarithmic(axes.from_ns, axes.to_ns, 2.5) {
        canvas.lines(&[(LEFT, y_of(ns)), (RIGHT, y_of(ns))], grid);
        if y_of(ns) + LABELS_APART > lowest_free {
            continue;
        }
        lowest_free = y_of(ns);
        canvas.text(
            LEFT - 8.0,
            y_of(ns) + 4.5,
            &ticks::label(ns),
            Style::new(13.0, FAINT, Anchor::End),
        );
    }
    let floor_ns = report.floor.p50_ns as f64;
    if floor_ns > axes.from_ns {
        let pen = Pen { width: 1.2, color: FAINT, dashed: true };
        canvas.lines(&[(LEFT, y_of(floor_ns)), (RIGHT, y_of(floor_ns))], pen);
    }
    let stretch_s = mode.latency_timeline.stretch_ns as f64 / 1e9;
    let point =
        |number: usize, ns: u64| (axes.x_of((number as f64 + 0.5) * stretch_s), y_of(ns as f64));
    for run in runs(&mode.latency_timeline.counts) {
        let median = |number: usize| point(number, mode.latency_timeline.p50_ns[number]);
        let peak = |number: usize| {
            [median(number), point(number, mode.latency_timeline.max_ns[number]), median(number)]
        };
        let peaks: Vec<(f32, f32)> = run.clone().flat_map(peak).collect();
        canvas.lines(&peaks, Pen { width: 1.4, color: BLUE, dashed: false });
        let mut medians: Vec<(f32, f32)> = run.map(median).collect();
        if let [(x, y)] = medians[..] {
            // A stretch alone is seen too.
            medians = vec![(x - 1.5, y), (x + 1.5, y)];
        }
        canvas.lines(&medians, Pen { width: 1.4, color: INK, dashed: false });
    }
    bottom
}

/// Below the last panel.
fn time_axis(axes: &Axes, top: f32, canvas: &mut dyn Canvas) -> f32 {
    let pen = Pen { width: 1.0, color: FAINT, dashed: false };
    canvas.lines(&[(LEFT, top), (RIGHT, top)], pen);
    let step_s = ticks::round_step(axes.end_s / 8.0);
    for number in 0..=(axes.end_s / step_s) as u32 {
        let seconds = f64::from(number) * step_s;
        let (x, label) = (axes.x_of(seconds), ticks::label(seconds * 1e9));
        canvas.lines(&[(x, top), (x, top + 5.0)], pen);
        // The last one may have no room on both sides of its tick.
        let anchor =
            if x + font::room(&label, 13.0) / 2.0 > RIGHT { Anchor::End } else { Anchor::Middle };
        canvas.text(x, top + 20.0, &label, Style::new(13.0, FAINT, anchor));
    }
    top + 24.0
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
    let who = if report.connections.len() > 1 || mode.connections > 1 {
        format!("{}, {}", name(report, mode), connections(report, mode.connections))
    } else {
        name(report, mode)
    };
    let done = grouped(mode.latency_timeline.counts.iter().sum());
    let length = ticks::duration((length_s(mode) * 1e9) as u64);
    format!(
        "{who}: {done} {} in {length}, the longest {}",
        report.unit.timed(),
        ticks::duration(longest)
    )
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
