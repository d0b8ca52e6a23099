//! The report as pictures: whose bytes a transaction writes and how long commits take, or every mode's latencies over time.
//!
//! The layout draws on a small [`Canvas`]; SVG and PNG are two of them, so that both look the same.
//! The PNG brings its own font: the machines that measure often have none.

mod bars;
mod curves;
mod font;
mod png;
mod svg;
mod ticks;
mod timelines;

use std::path::{Path, PathBuf};

use super::Report;
use super::format::millis;

/// The picture's size in pixels; its height depends on the number of modes.
const WIDTH: f32 = 960.0;
const MARGIN: f32 = 28.0;
/// Of the modes' names.
const LABEL_WIDTH: f32 = 150.0;

const PAPER: Color = Color(0xff, 0xff, 0xff);
const INK: Color = Color(0x22, 0x22, 0x22);
const FAINT: Color = Color(0x66, 0x66, 0x66);
const GRID: Color = Color(0xdd, 0xdd, 0xdd);

/// Told apart by people with any colour vision (Okabe and Ito).
const PALETTE: [Color; 7] = [
    Color(0x00, 0x72, 0xb2),
    Color(0xe6, 0x9f, 0x00),
    Color(0xd5, 0x5e, 0x00),
    Color(0x00, 0x9e, 0x73),
    Color(0xcc, 0x79, 0xa7),
    Color(0x56, 0xb4, 0xe9),
    Color(0x44, 0x44, 0x44),
];

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
    #[error("{option} {}: {source}; give a name in an existing, writable directory", path.display())]
    Write { option: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the picture could not be drawn: {0}")]
    Draw(String),
}

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// KB by class, and the latencies' distributions.
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
        let removed = opened.and_then(|_| if existed { Ok(()) } else { std::fs::remove_file(&self.path) });
        removed.map_err(|source| self.write_error(source))
    }

    pub fn write(&self, report: &Report) -> Result<(), PlotError> {
        let height = HEADER_HEIGHT + FOOTER_HEIGHT + self.panels_height(report);
        let bytes = match self.format {
            PlotFormat::Svg => {
                let mut canvas = svg::SvgCanvas::new(WIDTH, height);
                self.draw(report, height, &mut canvas);
                canvas.finish().into_bytes()
            }
            PlotFormat::Png => {
                let mut canvas = png::PngCanvas::new(WIDTH, height)?;
                self.draw(report, height, &mut canvas);
                canvas.finish()?
            }
        };
        std::fs::write(&self.path, bytes).map_err(|source| self.write_error(source))
    }

    fn panels_height(&self, report: &Report) -> f32 {
        match self.picture {
            Picture::Summary => bars::height(report) + curves::HEIGHT,
            Picture::Timelines => timelines::height(report),
        }
    }

    fn draw(&self, report: &Report, height: f32, canvas: &mut dyn Canvas) {
        canvas.fill(Rect { x: 0.0, y: 0.0, width: WIDTH, height }, PAPER);
        header(report, canvas);
        let top = HEADER_HEIGHT;
        match self.picture {
            Picture::Summary => {
                bars::draw(report, top, canvas);
                curves::draw(report, top + bars::height(report), canvas);
            }
            Picture::Timelines => timelines::draw(report, top, canvas),
        }
        footer(report, height, canvas);
    }

    fn write_error(&self, source: std::io::Error) -> PlotError {
        PlotError::Write { option: self.picture.option(), path: self.path.clone(), source }
    }
}

const HEADER_HEIGHT: f32 = 92.0;
const FOOTER_HEIGHT: f32 = 30.0;

fn header(report: &Report, canvas: &mut dyn Canvas) {
    let environment = &report.environment;
    let conclusion = report.conclusion.trim_end_matches('.');
    let width = WIDTH - 2.0 * MARGIN;
    // One line, or two smaller ones.
    if font::width(conclusion, 19.0) <= width {
        canvas.text(MARGIN, 40.0, conclusion, Style::new(19.0, INK, Anchor::Start));
    } else {
        for (at, line) in font::wrap(conclusion, 15.0, width).iter().take(2).enumerate() {
            canvas.text(MARGIN, 22.0 + 20.0 * at as f32, line, Style::new(15.0, INK, Anchor::Start));
        }
    }
    let subtitle = format!("{}; {}", report.headline(), environment.place);
    let subtitle = font::shorten(&subtitle, 13.0, width);
    canvas.text(MARGIN, 62.0, &subtitle, Style::new(13.0, FAINT, Anchor::Start));
}

fn footer(report: &Report, height: f32, canvas: &mut dyn Canvas) {
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
    let style = Style::new(10.0, FAINT, Anchor::Start);
    for (at, line) in font::wrap(&text, style.size, WIDTH - 2.0 * MARGIN).iter().take(2).enumerate() {
        canvas.text(MARGIN, height - 32.0 + 14.0 * at as f32, line, style);
    }
}

/// The colour of a mode, the same in both panels.
fn color_of_mode(at: usize) -> Color {
    PALETTE[at % PALETTE.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_files_extension() {
        let format = |name| Plot::new(Picture::Summary, Path::new(name)).map(|plot| plot.format);
        assert_eq!(format("a.SVG").unwrap(), PlotFormat::Svg);
        assert_eq!(format("b/c.png").unwrap(), PlotFormat::Png);
        let message = Plot::new(Picture::Timelines, Path::new("a.pdf")).unwrap_err().to_string();
        assert!(message.contains("--plot-latency a.pdf") && message.contains(".svg or .png"), "{message}");
    }
}
