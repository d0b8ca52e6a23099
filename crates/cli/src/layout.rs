//! Tables and words for a terminal of 80 columns: a name and six columns of figures.

use std::fmt::Write;

pub use oneflush_trace::report::grouped;

pub const WIDTH: usize = 80;
/// Columns for the name of a row.
pub const NAME_WIDTH: usize = 24;

pub fn head(out: &mut String, title: &str, columns: &[&str; 6]) {
    out.push('\n');
    if title.chars().count() > NAME_WIDTH {
        let _ = writeln!(out, "{}", shortened(&printable(title), WIDTH));
        return line(out, "", columns.iter().copied());
    }
    line(out, &printable(title), columns.iter().copied());
}

pub fn row(out: &mut String, name: &str, cells: &[String]) {
    let name = shortened(&printable(name), NAME_WIDTH - 2);
    line(out, &format!("  {name}"), cells.iter().map(String::as_str));
}

pub fn line<'a>(out: &mut String, name: &str, cells: impl Iterator<Item = &'a str>) {
    let mut text = format!("{name:NAME_WIDTH$}");
    for cell in cells {
        let _ = write!(text, " {cell:>8}");
    }
    let _ = writeln!(out, "{}", text.trim_end());
}

/// A name in a trace is whatever a program chose; it must not steer the terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

/// The end of a name tells it from others.
pub fn shortened(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length - width + 1).collect();
    format!("…{end}")
}

/// What nobody knows is a dash.
pub fn short(number: f64) -> String {
    match number {
        number if number.is_nan() => "–".to_owned(),
        0.0 => "0".to_owned(),
        number if number < 10.0 => format!("{number:.2}"),
        number if number < 10_000.0 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}

pub fn tenths(number: f64) -> String {
    if number.is_nan() { short(number) } else { format!("{number:.1}") }
}

pub fn plural(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Words into lines of 80 columns.
pub fn wrapped(out: &mut String, first: &str, others: &str, words: &str) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            others.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_and_numbers_keep_to_80_columns() {
        let mut out = String::new();
        head(&mut out, "KB by class", &["median", "average", "75 %", "99 %", "99.9 %", "max"]);
        let cells = [99_999_999.0, 9_999.94, 0.0, 1.0, 2.0, 3.0].map(short);
        row(&mut out, &"long name ".repeat(9), &cells);
        wrapped(&mut out, "- ", "  ", &"eleven long words ".repeat(20));
        assert!(out.lines().count() > 5);
        assert!(out.lines().all(|line| line.chars().count() <= WIDTH), "{out}");
        assert!(out.contains("…"), "{out}");
    }
}
