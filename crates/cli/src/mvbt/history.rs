//! `oneflush mvbt history FILE`: which versions can be read, and of which times they are.

use std::path::PathBuf;

use clap::Args;
use oneflush_mvbt::{History, Mark, Retain};
use oneflush_vfs::shown_name;
use serde_json::json;

use super::error::MvbtError;
use super::storage;
use super::text::{grouped, more, plural};
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "Examples:
  oneflush mvbt history app.mvbt           what is kept, and the last marks
  oneflush mvbt history app.mvbt --json    the same as one JSON object
  oneflush mvbt history app.mvbt --limit 1000

Nothing is changed. A mark says when a version was committed; versions without
one came within a second of the mark before. Programs set what a file keeps
(WriteTransaction::set_retain), and read it (Database::begin_read_at).";

/// Times from this one on have more than four digits for the year: 10000-01-01.
const END_OF_TIME_MS: u64 = 253_402_300_800_000;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The database file
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Show so many marks, the newest
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
}

pub fn main(options: &Options) -> Result<(), Failure> {
    let name = shown_name(&options.file).to_string();
    let failed = |source| Failure::failed(MvbtError::of(&name, source));
    let database = storage::database(&options.file).map_err(Failure::failed)?;
    let history = database.history().map_err(failed)?;
    output::print(&match options.json {
        true => format!("{}\n", as_json(&name, &history, options.limit)),
        false => table(&name, &history, options.limit),
    })
}

fn time(mark: &Mark) -> String {
    match mark.time_ms < END_OF_TIME_MS {
        true => humantime::format_rfc3339_millis(mark.time()).to_string(),
        false => format!("{} ms since 1970", grouped(mark.time_ms)),
    }
}

fn as_json(name: &str, history: &History, limit: usize) -> serde_json::Value {
    let retain = match history.retain {
        Retain::Off => serde_json::Value::Null,
        Retain::Versions(count) => json!({ "versions": count }),
        Retain::Duration(kept) => json!({ "duration_ms": kept.as_millis() as u64 }),
    };
    let mark = |mark: &Mark| {
        json!({
            "version": mark.version.0,
            "time": time(mark),
            "time_ms": mark.time_ms,
            "number": mark.number,
        })
    };
    let marks: Vec<_> = history.marks.iter().rev().take(limit).map(mark).collect();
    json!({
        "file": name,
        "retain": retain,
        "from": history.from.0,
        "to": history.to.0,
        "marks_count": history.marks.len(),
        "marks": marks,
    })
}

fn table(name: &str, history: &History, limit: usize) -> String {
    let kept = match history.retain {
        Retain::Off => {
            return format!("{name}: keeps no history\n{}", row("version", history.to.0));
        }
        Retain::Versions(count) => plural(count, "version"),
        Retain::Duration(kept) => {
            format!("the versions of {}", humantime::format_duration(kept))
        }
    };
    let mut text = format!("{name}: keeps {kept}\n");
    text += &row("from version", history.from.0);
    text += &row("to version", history.to.0);
    text += &row("marks", history.marks.len() as u64);
    text += &format!("\n  {:>20}{:>20}  {}\n", "version", "number", "time");
    for mark in history.marks.iter().rev().take(limit) {
        let (version, number) = (grouped(mark.version.0), grouped(mark.number));
        text += &format!("  {version:>20}{number:>20}  {}\n", time(mark));
    }
    if history.marks.len() > limit {
        text += &more(limit);
    }
    text
}

fn row(label: &str, value: u64) -> String {
    format!("  {label:20}{:>20}\n", grouped(value))
}

#[cfg(test)]
mod tests {
    use oneflush_mvbt::Version;

    use super::*;

    #[test]
    fn a_time_that_no_calendar_has_is_shown_in_milliseconds() {
        let mark = |time_ms| Mark { version: Version(1), time_ms, number: 1 };
        assert_eq!(time(&mark(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(&mark(END_OF_TIME_MS - 1)), "9999-12-31T23:59:59.999Z");
        assert_eq!(time(&mark((1 << 48) - 1)), "281,474,976,710,655 ms since 1970");
    }
}
