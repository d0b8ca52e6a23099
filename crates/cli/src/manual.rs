//! `oneflush man DIR`: a man page for the program and for each of its commands.
//!
//! Hidden, for whoever makes a package. The pages come from the same `clap::Command` as `--help`.
//! What stands below the options in `--help` is read as blocks between empty lines:
//!
//! | a block begins with | section of the page |
//! |---|---|
//! | `Examples:` | EXAMPLES |
//! | `Exit codes:` | EXIT STATUS |
//! | anything else | NOTES |
//!
//! In a block a line without indentation is running text. `  TERM   WORDS` is a term with its
//! explanation, and a line that is indented further goes on with that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use clap::{Arg, Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use crate::failure::Failure;
use crate::output;

/// As the reproducible-builds.org project defines it: seconds since 1970.
const DATE_VARIABLE: &str = "SOURCE_DATE_EPOCH";
/// The year 10,000.
const SECONDS_MAX: u64 = 253_402_300_800;

#[derive(Args)]
pub struct Options {
    /// The folder, which is made if it is not there; pages in it are replaced
    dir: PathBuf,
}

/// `shown`: the program, without what is hidden.
pub fn main(options: &Options, shown: Command) -> Result<(), Failure> {
    let date = date().map_err(Failure::usage)?;
    let unwritable = |path: &Path, error: io::Error| {
        Failure::failed(format!(
            "{}: cannot be written: {error}; name a folder that can be written",
            path.display()
        ))
    };
    fs::create_dir_all(&options.dir).map_err(|error| unwritable(&options.dir, error))?;
    let mut program = shown.disable_help_subcommand(true);
    program.build();
    for command in all(&program) {
        let (name, page) = page(&program, command, &date).map_err(Failure::failed)?;
        let path = options.dir.join(name);
        fs::write(&path, page).map_err(|error| unwritable(&path, error))?;
        output::print(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

/// The program, its commands, and theirs.
fn all(program: &Command) -> impl Iterator<Item = &Command> {
    let with_own = |one| std::iter::once(one).chain(Command::get_subcommands(one));
    std::iter::once(program).chain(program.get_subcommands().flat_map(with_own))
}

/// Of the last change, `YYYY-MM-DD`. Without it a page has no date: the day of the build would give
/// other bytes each day.
fn date() -> Result<String, String> {
    let Some(text) = std::env::var_os(DATE_VARIABLE) else { return Ok(String::new()) };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let Some(seconds) = seconds.filter(|&seconds| seconds < SECONDS_MAX) else {
        return Err(format!(
            "{DATE_VARIABLE}: {text:?} is no time in seconds since 1970; unset it"
        ));
    };
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    let mut date = humantime::format_rfc3339_seconds(time).to_string();
    date.truncate("2026-01-01".len());
    Ok(date)
}

/// The name of its file, and the page.
fn page(program: &Command, command: &Command, date: &str) -> io::Result<(String, Vec<u8>)> {
    let man = Man::new(command.clone().mut_args(with_values));
    let name = command.get_display_name().unwrap_or(command.get_name());
    let version = program.get_version().unwrap_or_default();
    // Man's own title line leaves an empty date out, and what follows is taken for the date.
    let mut page =
        format!(".TH {name} 1 \"{date}\" \"oneflush {version}\" Oneflush\n").into_bytes();
    // An example that is hyphenated, or has more spaces, cannot be copied.
    page.extend_from_slice(b".nh\n.ad l\n");
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    if let Some(text) = command.get_after_help() {
        after_help(&mut rest, &text.to_string());
    }
    see_also(&mut rest, program, command);
    rest.to_writer(&mut page)?;
    Ok((man.get_filename(), page))
}

/// Has the values that an option takes in its help, as `--help` shows them. Man's own list of them
/// is set with macros that groff and mandoc complain of.
fn with_values(option: Arg) -> Arg {
    let values: Vec<String> = option
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("{} ({help})", value.get_name()),
            None => value.get_name().to_owned(),
        })
        .collect();
    let is_flag = !option.get_num_args().is_some_and(|number| number.takes_values());
    if values.is_empty() || is_flag || option.is_hide_possible_values_set() {
        return option;
    }
    let help = option.get_long_help().or(option.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    option
        .long_help(format!("{help} [possible values: {}]", values.join(", ")))
        .hide_possible_values(true)
}

fn after_help(page: &mut Roff, text: &str) {
    let (mut notes, mut exit_codes, mut examples) = (Vec::new(), Vec::new(), Vec::new());
    for block in text.split("\n\n") {
        if let Some(lines) = block.strip_prefix("Examples:\n") {
            examples.push(lines.to_owned());
        } else if let Some(lines) = block.strip_prefix("Exit codes:") {
            exit_codes.push(lines.trim_start().to_owned());
        } else {
            notes.push(block.to_owned());
        }
    }
    for (title, blocks) in [("NOTES", notes), ("EXIT STATUS", exit_codes), ("EXAMPLES", examples)] {
        if !blocks.is_empty() {
            page.control("SH", [title]);
        }
        for (number, text) in blocks.iter().enumerate() {
            if number > 0 {
                page.control("PP", []);
            }
            block(page, text);
        }
    }
}

enum Part {
    Text(String),
    Item { term: String, words: Vec<String> },
}

fn parts(block: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for line in block.lines() {
        let text = line.trim_start();
        match (line.len() - text.len(), parts.last_mut()) {
            (0, _) => parts.push(Part::Text(text.to_owned())),
            (3.., Some(Part::Item { words, .. })) => words.push(text.to_owned()),
            _ => {
                let (term, words) = text.split_once("  ").unwrap_or((text, ""));
                let words = words.trim_start();
                let words = if words.is_empty() { Vec::new() } else { vec![words.to_owned()] };
                parts.push(Part::Item { term: term.to_owned(), words });
            }
        }
    }
    parts
}

fn block(page: &mut Roff, text: &str) {
    // A paragraph has begun, by a title or by the macro for it.
    let mut is_first = true;
    for part in parts(text) {
        match part {
            Part::Text(text) => {
                page.text([roman(text)]);
            }
            Part::Item { term, words } if words.is_empty() => {
                if !is_first {
                    page.control("PP", []);
                }
                page.text([bold(term)]);
            }
            Part::Item { term, words } => {
                page.control("TP", []);
                page.text([bold(term)]);
                for words in words {
                    page.text([roman(words)]);
                }
            }
        }
        is_first = false;
    }
}

fn see_also(page: &mut Roff, program: &Command, command: &Command) {
    let names = std::iter::once(program)
        .chain(program.get_subcommands())
        .filter(|other| other.get_name() != command.get_name())
        .map(|other| other.get_display_name().unwrap_or(other.get_name()));
    let mut all: Vec<Inline> = Vec::new();
    for name in names {
        if !all.is_empty() {
            all.push(roman(", "));
        }
        all.extend([bold(name), roman("(1)")]);
    }
    page.control("SH", ["SEE ALSO"]);
    page.text(all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_have_their_words_also_those_of_the_next_line() {
        let mut page = Roff::new();
        after_help(
            &mut page,
            "What it is.\n\nExamples:\n  one -x   a\n           b\n  two\n\nExit codes: 0 fine",
        );
        let page = page.render();
        let expected = ".SH NOTES\nWhat it is.\n.SH \"EXIT STATUS\"\n0 fine\n.SH EXAMPLES\n.TP\n\
            \\fBone \\-x\\fR\na\nb\n.PP\n\\fBtwo\\fR\n";
        assert!(page.ends_with(expected), "{page}");
    }
}
