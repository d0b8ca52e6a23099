//! A canvas that paints pixels, two for each of the layout's, and ends as PNG.

use tiny_skia::{FillRule, LineJoin, Paint, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};
use ttf_parser::OutlineBuilder;

use super::{Anchor, Canvas, Color, Pen, PlotError, Rect, Style, font};

/// Sharp on dense screens, still readable where it is scaled down.
const SCALE: f32 = 2.0;

pub struct PngCanvas {
    pixels: Pixmap,
}

impl PngCanvas {
    pub fn new(width: f32, height: f32) -> Result<PngCanvas, PlotError> {
        let pixels = Pixmap::new((width * SCALE) as u32, (height.round() * SCALE) as u32)
            .ok_or_else(|| {
                PlotError::Draw(format!("{width} x {height} is no size for a picture"))
            })?;
        Ok(PngCanvas { pixels })
    }

    pub fn finish(self) -> Result<Vec<u8>, PlotError> {
        self.pixels.encode_png().map_err(|error| PlotError::Draw(error.to_string()))
    }
}

impl Canvas for PngCanvas {
    fn fill(&mut self, rect: Rect, color: Color) {
        if let Some(rect) = tiny_skia::Rect::from_xywh(rect.x, rect.y, rect.width, rect.height) {
            self.pixels.fill_rect(rect, &paint(color), scale(), None);
        }
    }

    fn lines(&mut self, points: &[(f32, f32)], pen: Pen) {
        let mut path = PathBuilder::new();
        for (at, (x, y)) in points.iter().enumerate() {
            if at == 0 { path.move_to(*x, *y) } else { path.line_to(*x, *y) }
        }
        if let Some(path) = path.finish() {
            let stroke = Stroke {
                width: pen.width,
                line_join: LineJoin::Round,
                dash: pen.dashed.then(|| StrokeDash::new(vec![5.0, 4.0], 0.0)).flatten(),
                ..Stroke::default()
            };
            self.pixels.stroke_path(&path, &paint(pen.color), &stroke, scale(), None);
        }
    }

    fn text(&mut self, x: f32, y: f32, text: &str, style: Style) {
        let Some(face) = font::face() else { return };
        let font_scale = style.size / f32::from(face.units_per_em());
        let mut pen_x = match style.anchor {
            Anchor::Start => x,
            Anchor::Middle => x - font::width(text, style.size) / 2.0,
            Anchor::End => x - font::width(text, style.size),
        };
        let mut outline = Outline { path: PathBuilder::new(), x: 0.0, y, scale: font_scale };
        for (glyph, advance) in font::glyphs(text, style.size) {
            outline.x = pen_x;
            // A blank has no outline.
            let _ = face.outline_glyph(glyph, &mut outline);
            pen_x += advance;
        }
        if let Some(path) = outline.path.finish() {
            self.pixels.fill_path(&path, &paint(style.color), FillRule::Winding, scale(), None);
        }
    }
}

fn scale() -> Transform {
    Transform::from_scale(SCALE, SCALE)
}

fn paint(color: Color) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(color.0, color.1, color.2, 0xff);
    paint
}

/// Font units, y upwards, into the picture's, y downwards.
struct Outline {
    path: PathBuilder,
    x: f32,
    y: f32,
    scale: f32,
}

impl Outline {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, self.y - y * self.scale)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
