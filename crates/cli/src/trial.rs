//! `oneflush try PATH`: what would change for a user, measured with a copy of their database on
//! their file system.

mod advice;
mod language;
mod text;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use oneflush_measure::interrupt;
use oneflush_measure::trial::{self, Plan, SECONDS_DEFAULT, SECONDS_MAX, SECONDS_MIN, TrialError};
use oneflush_vfs::shown_name;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::output;
use crate::progress::Terminal;
use language::Language;

const EXAMPLES: &str = "Examples:
  oneflush try app.db                  a copy of this database, here
  oneflush try /srv/data               no database yet: one of ours, there
  oneflush try app.db --dir /mnt/ssd   a copy on another file system
  oneflush try app.db --table orders   rows of this table, not of the largest
  oneflush try app.db --seconds 10     less time, and figures that vary more
  oneflush try app.db --language go    how to switch it on in Go
  oneflush try --language go           only that, without measuring

The original is only read: SQLite never opens it. The copy is made beside it, in
a directory of its own that goes away at the end, also after Ctrl-C. A program
may use the database meanwhile; a writer in a rollback mode waits 2 s at most.
The copy needs the room of the database and some 40 MB. One of 256 MiB or more
is a clone where the file system has clones (btrfs, XFS).

A commit moves one row of the table with the most pages to its end, with its
entry in each index. Your program's transactions may be larger or smaller. The
database is in memory and its WAL in use, as in a program that has run for a
while. 8 writers are threads, each with a connection. synchronous is FULL.

KB and flushes are counted at the disk; KB are 1,024 bytes. Others use the disk
too: what they do is measured between the turns, and said where it matters.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Your database, or a directory on the file system that you mean
    #[arg(required_unless_present = "language")]
    path: Option<PathBuf>,
    /// Make the copy in this directory; default: beside the database
    #[arg(long, value_name = "DIR", requires = "path")]
    dir: Option<PathBuf>,
    /// Move rows of this table; default: of the one with the most pages
    #[arg(long, value_name = "NAME", requires = "path")]
    table: Option<String>,
    /// How long it may take in all
    #[arg(
        long,
        value_name = "N",
        default_value_t = SECONDS_DEFAULT,
        value_parser = clap::value_parser!(u64).range(SECONDS_MIN..=SECONDS_MAX),
        requires = "path"
    )]
    seconds: u64,
    /// How to switch it on in this language; without PATH nothing is measured
    #[arg(long, value_name = "NAME")]
    language: Option<Language>,
    /// Print one JSON object
    #[arg(long, requires = "path")]
    json: bool,
}

/// Strategies are for SQLite's journal and WAL.
fn of_lsmvbt(path: &Path) -> String {
    let name = shown_name(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    format!(
        "{name}: a database of LS-MVBT, which has neither a journal nor a WAL, so a strategy would \
        change nothing; its place can be measured: oneflush try {}; or a copy: oneflush convert \
        {name} COPY --engine sqlite",
        shown_name(folder.unwrap_or(Path::new(".")))
    )
}

pub fn main(options: &Options) -> Result<(), Failure> {
    let Some(path) = &options.path else {
        let language = options.language.unwrap_or(Language::Any);
        return output::print(&language.how(None));
    };
    if Engine::is_lsmvbt(path) {
        return Err(Failure::refused(of_lsmvbt(path)));
    }
    interrupt::install().map_err(Failure::failed)?;
    let plan = Plan {
        path: path.clone(),
        directory: options.dir.clone(),
        table: options.table.clone(),
        time: Duration::from_secs(options.seconds),
    };
    let trial = trial::run(&plan, &mut Terminal::new()).map_err(failure)?;
    let advice = advice::of(&trial);
    output::print(&match options.json {
        true => text::json(&trial, &advice),
        false => text::text(&trial, &advice, options.language),
    })
}

fn failure(error: TrialError) -> Failure {
    use TrialError::*;
    match error {
        Guarded { .. } | Changing { .. } => Failure::again(error),
        NoTable { .. } | UselessTable(_) => Failure::usage(error),
        NotAFile(_)
        | NotADatabase { .. }
        | Interrupted(_)
        | ManyDatabases(_)
        | NoRoom { .. }
        | TooLarge { .. }
        | Place { .. }
        | NoSync { .. }
        | Schema { .. } => Failure::refused(error),
        _ => Failure::failed(error),
    }
}
