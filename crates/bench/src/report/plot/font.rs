//! The font that the picture is set in, and how wide a text is in it.

use std::sync::OnceLock;

use ttf_parser::{Face, GlyphId};

/// Noto Sans is part of the program; if it did not parse, texts would be missing and nothing else.
pub fn face() -> Option<&'static Face<'static>> {
    static FACE: OnceLock<Option<Face<'static>>> = OnceLock::new();
    FACE.get_or_init(|| Face::parse(ttf_noto_sans::REGULAR, 0).ok()).as_ref()
}

/// Each letter's glyph and how far the next is from it, in pixels.
pub fn glyphs(text: &str, size: f32) -> Vec<(GlyphId, f32)> {
    let Some(face) = face() else { return Vec::new() };
    let scale = size / f32::from(face.units_per_em());
    text.chars()
        .map(|letter| {
            let glyph = face.glyph_index(letter).unwrap_or(GlyphId(0));
            (glyph, f32::from(face.glyph_hor_advance(glyph).unwrap_or(0)) * scale)
        })
        .collect()
}

pub fn width(text: &str, size: f32) -> f32 {
    glyphs(text, size).iter().map(|(_, advance)| advance).sum()
}

/// The text, cut with an ellipsis where it is wider than `limit`.
pub fn shorten(text: &str, size: f32, limit: f32) -> String {
    if width(text, size) <= limit {
        return text.to_owned();
    }
    let mut short = text.to_owned();
    while short.pop().is_some() {
        let cut = format!("{}…", short.trim_end());
        if width(&cut, size) <= limit {
            return cut;
        }
    }
    String::new()
}

/// Lines that are at most `limit` wide, broken at blanks.
pub fn wrap(text: &str, size: f32, limit: f32) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last().map_or("", String::as_str);
        let longer = if last.is_empty() { word.to_owned() } else { format!("{last} {word}") };
        if last.is_empty() || width(&longer, size) <= limit {
            lines.pop();
            lines.push(longer);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_every_letter_that_plots_use() {
        let face = face().expect("the font parses");
        for letter in "abcXYZ0189.,:;%()×µ…/+".chars() {
            assert!(face.glyph_index(letter).is_some(), "{letter}");
        }
    }

    #[test]
    fn long_texts_are_cut_to_the_width() {
        let short = shorten(&"word ".repeat(100), 12.0, 200.0);
        assert!(short.ends_with('…') && width(&short, 12.0) <= 200.0, "{short}");
        assert_eq!(shorten("word", 12.0, 200.0), "word");
    }
}
