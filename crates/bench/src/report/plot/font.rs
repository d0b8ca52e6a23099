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

/// Common fonts are up to a quarter wider than Noto Sans: Verdana, DejaVu Sans.
const WIDEST: f32 = 1.25;

/// How wide a text may be in the font of whoever looks at it.
pub fn room(text: &str, size: f32) -> f32 {
    width(text, size) * WIDEST
}

pub fn width(text: &str, size: f32) -> f32 {
    glyphs(text, size).iter().map(|(_, advance)| advance).sum()
}

/// The text, cut with an ellipsis where it needs more room than `limit`.
pub fn shorten(text: &str, size: f32, limit: f32) -> String {
    if room(text, size) <= limit {
        return text.to_owned();
    }
    let mut short = text.to_owned();
    while short.pop().is_some() {
        let cut = format!("{}…", short.trim_end());
        if room(&cut, size) <= limit {
            return cut;
        }
    }
    String::new()
}

/// Breaks a text at blanks into lines that have room in `limit`. A word that is too long is broken
/// where it must be.
pub fn wrap(text: &str, size: f32, limit: f32) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace().flat_map(|word| pieces(word, size, limit)) {
        let last = lines.last().map_or("", String::as_str);
        let longer = if last.is_empty() { word.clone() } else { format!("{last} {word}") };
        if last.is_empty() || room(&longer, size) <= limit {
            lines.pop();
            lines.push(longer);
        } else {
            lines.push(word);
        }
    }
    lines
}

fn pieces(word: &str, size: f32, limit: f32) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for letter in word.chars() {
        let piece = pieces.last().map_or("", String::as_str);
        let longer = format!("{piece}{letter}");
        if piece.is_empty() || room(&longer, size) <= limit {
            pieces.pop();
            pieces.push(longer);
        } else {
            pieces.push(letter.to_string());
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_every_letter_that_plots_use() {
        let face = face().expect("the font parses");
        for letter in "abcXYZ0189.,:;%()×µ…/+–—*".chars() {
            assert!(face.glyph_index(letter).is_some(), "{letter}");
        }
    }

    #[test]
    fn long_texts_are_cut_to_the_width() {
        let short = shorten(&"word ".repeat(100), 12.0, 200.0);
        assert!(short.ends_with('…') && room(&short, 12.0) <= 200.0, "{short}");
        assert_eq!(shorten("word", 12.0, 200.0), "word");
    }

    #[test]
    fn lines_are_broken_at_blanks_and_in_long_words_and_nothing_is_lost() {
        let text = format!("two words, {}, end", "/a-long-directory".repeat(8));
        let lines = wrap(&text, 12.0, 200.0);
        assert!(lines.len() > 3 && lines[0] == "two words,", "{lines:?}");
        assert!(lines.iter().all(|line| room(line, 12.0) <= 200.0), "{lines:?}");
        let letters = |text: &str| text.replace(' ', "");
        assert_eq!(letters(&lines.concat()), letters(&text));
    }
}
