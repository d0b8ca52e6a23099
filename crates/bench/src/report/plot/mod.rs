//! The report as pictures: what a commit costs in each mode, or every mode's latencies over time.
//!
//! The layout draws on a small `Canvas`. SVG and PNG are two of them, so both look the same. The
//! PNG brings its own font, because the machines that measure often have none. An SVG is set in the
//! fonts of the machine that shows it. The layout therefore gives each text room (`font::room`),
//! and no text depends on where another one ends.

#[cfg(test)]
mod boxes;
mod font;
mod png;
mod summary;
mod svg;
mod ticks;
mod timelines;
mod title;

use std::path::{Path, PathBuf};

use super::{ModeReport, Report};
use crate::report::format::{millis, significant};
use oneflush_measure::mode::Strategy;
use oneflush_measure::workload::Unit;
use title::Title;

/// The picture's size in pixels; its height depends on what is in it.
const WIDTH: f32 = 880.0;
const MARGIN: f32 = 28.0;

/// A background of its own: pages that show the picture may be dark.
const PAPER: Color = Color(0xff, 0xff, 0xff);
const FRAME: Color = Color(0xd0, 0xd7, 0xde);
const INK: Color = Color(0x1f, 0x23, 0x28);
const FAINT: Color = Color(0x59, 0x63, 0x6e);
const GRID: Color = Color(0xd8, 0xde, 0xe4);
/// A bar, and the bar that the title is about. They differ in lightness too.
const BAR: Color = Color(0xa8, 0xb3, 0xbf);
const SUBJECT: Color = Color(0x00, 0x6d, 0x52);

/// Told apart by people with any colour vision (Okabe and Ito).
const BLUE: Color = Color(0x00, 0x72, 0xb2);
const ORANGE: Color = Color(0xe6, 0x9f, 0x00);
const VERMILION: Color = Color(0xd5, 0x5e, 0x00);
const GRAY: Color = Color(0x99, 0x99, 0x99);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Color(u8, u8, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text is set; `size` is in pixels.
#[derive(Clone, Copy, Debug)]
struct Style {
    size: f32,
    color: Color,
    anchor: Anchor,
}

impl Style {
    fn new(size: f32, color: Color, anchor: Anchor) -> Style {
        Style { size, color, anchor }
    }
}

#[derive(Clone, Copy, Debug)]
struct Rect {
    x: f32,
    y: f32,
    width: f32,
    height: f32,
}

/// A line's look.
#[derive(Clone, Copy, Debug)]
struct Pen {
    width: f32,
    color: Color,
    dashed: bool,
}

trait Canvas {
    fn fill(&mut self, rect: Rect, color: Color);
    fn lines(&mut self, points: &[(f32, f32)], pen: Pen);
    /// `y` is the baseline.
    fn text(&mut self, x: f32, y: f32, text: &str, style: Style);
}

#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    #[error("{option} {}: the name must end in .svg or .png", path.display())]
    Format { option: &'static str, path: PathBuf },
    #[error("{option} {}: {source}; give a name in an existing, writable \
        directory", path.display())]
    Write { option: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the picture could not be drawn: {0}")]
    Draw(String),
}

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// Commits a second, KB a commit by class, and times of commits.
    Summary,
    /// Latencies over time.
    Timelines,
}

/// A picture to be drawn, and where.
#[derive(Clone, Debug)]
pub struct Plot {
    pub picture: Picture,
    pub path: PathBuf,
    format: PlotFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlotFormat {
    Svg,
    Png,
}

impl Picture {
    fn option(self) -> &'static str {
        match self {
            Picture::Summary => "--plot",
            Picture::Timelines => "--plot-latency",
        }
    }

    fn title(self, report: &Report) -> Title {
        match self {
            Picture::Summary => title::speed(report),
            Picture::Timelines => title::longest(report),
        }
    }

    /// How high the picture is.
    fn draw(self, report: &Report, canvas: &mut dyn Canvas) -> f32 {
        let title = self.title(report);
        let top = header(report, &title, canvas);
        let bottom = match self {
            Picture::Summary => summary::draw(report, title.subject, top, canvas),
            Picture::Timelines => timelines::draw(report, top, canvas),
        };
        footer(report, bottom, canvas)
    }
}

/// Where a picture is drawn to learn its height.
struct Nowhere;

impl Canvas for Nowhere {
    fn fill(&mut self, _: Rect, _: Color) {}
    fn lines(&mut self, _: &[(f32, f32)], _: Pen) {}
    fn text(&mut self, _: f32, _: f32, _: &str, _: Style) {}
}

impl Plot {
    /// The format is the file's extension.
    pub fn new(picture: Picture, path: &Path) -> Result<Plot, PlotError> {
        let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
        let format = match extension.as_ref().and_then(|extension| extension.to_str()) {
            Some("svg") => PlotFormat::Svg,
            Some("png") => PlotFormat::Png,
            _ => return Err(PlotError::Format { option: picture.option(), path: path.to_owned() }),
        };
        Ok(Plot { picture, path: path.to_owned(), format })
    }

    /// To be asked before a run of minutes. A file that is already there keeps its contents.
    pub fn check_writable(&self) -> Result<(), PlotError> {
        let existed = self.path.exists();
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(&self.path);
        let removed =
            opened.and_then(|_| if existed { Ok(()) } else { std::fs::remove_file(&self.path) });
        removed.map_err(|source| self.write_error(source))
    }

    pub fn write(&self, report: &Report) -> Result<(), PlotError> {
        let height = self.picture.draw(report, &mut Nowhere);
        let bytes = match self.format {
            PlotFormat::Svg => {
                let mut canvas =
                    svg::SvgCanvas::new(WIDTH, height, &self.picture.title(report).text);
                background(height, &mut canvas);
                self.picture.draw(report, &mut canvas);
                canvas.finish().into_bytes()
            }
            PlotFormat::Png => {
                let mut canvas = png::PngCanvas::new(WIDTH, height)?;
                background(height, &mut canvas);
                self.picture.draw(report, &mut canvas);
                canvas.finish()?
            }
        };
        std::fs::write(&self.path, bytes).map_err(|source| self.write_error(source))
    }

    fn write_error(&self, source: std::io::Error) -> PlotError {
        PlotError::Write { option: self.picture.option(), path: self.path.clone(), source }
    }
}

fn background(height: f32, canvas: &mut dyn Canvas) {
    canvas.fill(Rect { x: 0.0, y: 0.0, width: WIDTH, height }, FRAME);
    canvas.fill(Rect { x: 1.0, y: 1.0, width: WIDTH - 2.0, height: height - 2.0 }, PAPER);
}

/// The largest that the title has room in; a title of long names is cut at the smallest.
const TITLE_SIZES: [f32; 5] = [26.0, 24.0, 22.0, 20.0, 18.0];

/// The title, and below it what was measured and where. Returns where that ends.
fn header(report: &Report, title: &Title, canvas: &mut dyn Canvas) -> f32 {
    let width = WIDTH - 2.0 * MARGIN;
    let fits = |size: &f32| font::room(&title.text, *size) <= width;
    let size = TITLE_SIZES.into_iter().find(fits).unwrap_or(TITLE_SIZES[TITLE_SIZES.len() - 1]);
    let baseline = MARGIN + 22.0;
    let text = font::shorten(&title.text, size, width);
    canvas.text(MARGIN, baseline, &text, Style::new(size, INK, Anchor::Start));
    let subtitle = format!("{}; {}", report.headline(), report.environment.place);
    paragraph(
        &subtitle,
        (MARGIN, baseline + 10.0),
        width,
        Style::new(14.0, FAINT, Anchor::Start),
        canvas,
    )
}

/// What the figures depend on. Returns the picture's height.
fn footer(report: &Report, top: f32, canvas: &mut dyn Canvas) -> f32 {
    let environment = &report.environment;
    let device = environment.device.as_ref().map_or(String::new(), |device| format!(", {device}"));
    let text = format!(
        "oneflush {}, SQLite {}, Linux {}, {} {}{device}; {}, {} CPUs; floor p50 {} ms; {}",
        environment.oneflush_version,
        environment.sqlite_version,
        environment.kernel,
        environment.fs,
        environment.mount_options,
        environment.cpu_model,
        environment.cpu_count,
        millis(report.floor.p50_ns),
        environment.date,
    );
    let style = Style::new(12.0, FAINT, Anchor::Start);
    paragraph(&text, (MARGIN, top + 16.0), WIDTH - 2.0 * MARGIN, style, canvas) + MARGIN * 0.7
}

/// A text of as many lines as it needs, from a left upper corner on. Returns where it ends.
fn paragraph(
    text: &str,
    (x, top): (f32, f32),
    width: f32,
    style: Style,
    canvas: &mut dyn Canvas,
) -> f32 {
    let mut bottom = top;
    for line in font::wrap(text, style.size, width) {
        let baseline = bottom + style.size * 1.1;
        canvas.text(x, baseline, &line, style);
        bottom += style.size * 1.4;
    }
    bottom
}

/// The mode as it is asked for. Where strategies are compared, none is left out.
fn name(report: &Report, mode: &ModeReport) -> String {
    let differs = |other: &ModeReport| other.mode.strategy != Strategy::STOCK;
    let says_nothing = mode.mode.strategy == Strategy::STOCK && mode.mode.parameters.is_empty();
    if says_nothing && report.modes.iter().any(differs) { mode.mode.in_full() } else { mode.name() }
}

/// "16 writers".
fn connections(report: &Report, count: u32) -> String {
    let who = if report.unit == Unit::Read { "reader" } else { "writer" };
    format!("{count} {who}{}", if count == 1 { "" } else { "s" })
}

/// 0.421, 4.21, 42.1, 421, 4,213.
fn count(value: f64) -> String {
    if value < 1000.0 { significant(value) } else { grouped(value.round() as u64) }
}

fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_counts_have_commas() {
        for (value, text) in
            [(0.5, "0.500"), (999.0, "999"), (7872.9, "7,873"), (1_234_567.0, "1,234,567")]
        {
            assert_eq!(count(value), text);
        }
        assert_eq!((grouped(40).as_str(), grouped(2000).as_str()), ("40", "2,000"));
    }

    #[test]
    fn the_format_is_the_files_extension() {
        let format = |name| Plot::new(Picture::Summary, Path::new(name)).map(|plot| plot.format);
        assert_eq!(format("a.SVG").unwrap(), PlotFormat::Svg);
        assert_eq!(format("b/c.png").unwrap(), PlotFormat::Png);
        let message = Plot::new(Picture::Timelines, Path::new("a.pdf")).unwrap_err().to_string();
        assert!(
            message.contains("--plot-latency a.pdf") && message.contains(".svg or .png"),
            "{message}"
        );
    }
}
