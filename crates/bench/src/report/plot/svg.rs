//! A canvas that writes SVG. Texts stay texts, so that they can be searched and read aloud.

use std::fmt::Write;

use super::{Anchor, Canvas, Color, Pen, Rect, Style};

pub struct SvgCanvas {
    text: String,
}

impl SvgCanvas {
    /// `title`: what is read aloud instead of the picture.
    pub fn new(width: f32, height: f32, title: &str) -> SvgCanvas {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" \
                height=\"{height:.0}\" \
             viewBox=\"0 0 {width} {height:.0}\" font-family=\"'Noto Sans', 'Open Sans', 'DejaVu \
             Sans', sans-serif\">\n<title>{}</title>\n",
            escape(title)
        );
        SvgCanvas { text }
    }

    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.text.write_fmt(element);
        self.text.push('\n');
    }
}

impl Canvas for SvgCanvas {
    fn fill(&mut self, rect: Rect, color: Color) {
        let Rect { x, y, width, height } = rect;
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                fill=\"{}\"/>",
            hex(color)
        ));
    }

    fn lines(&mut self, points: &[(f32, f32)], pen: Pen) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dashes = if pen.dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" \
                stroke-linejoin=\"round\"{dashes}/>",
            points.join(" "),
            hex(pen.color),
            pen.width
        ));
    }

    fn text(&mut self, x: f32, y: f32, text: &str, style: Style) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let escaped = escape(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{}\" fill=\"{}\" \
                text-anchor=\"{anchor}\">{escaped}</text>",
            style.size,
            hex(style.color)
        ));
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn hex(color: Color) -> String {
    format!("#{:02x}{:02x}{:02x}", color.0, color.1, color.2)
}
