//! `oneflush check DB`: is a database in a safe place, used safely, and whole?
//!
//! ```text
//! survey, who (of the VFS) ── Facts ── place, locks, users, orphans, state, log, content ── table
//! ```
//!
//! Each file below answers the findings of one subject.
//!
//! Invariants:
//!
//! 1. The database and the files beside it are opened to read. SQLite opens it with `immutable=1`
//!    alone: it takes no lock, recovers nothing, and makes no file.
//! 2. What cannot be looked at is said. It counts neither as ok nor as a fault.
//! 3. Each finding that is not ok has its way out.

mod facts;
mod finding;
mod libraries;
mod orphans;
mod place;
mod quick;
mod state;
mod users;
mod version;

use std::path::PathBuf;

use clap::Args;
use oneflush_measure::interrupt;
use oneflush_vfs::{InspectError, shown_name};
use serde_json::json;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::output;
use facts::Facts;
use finding::Status;

const EXAMPLES: &str = "Examples:
  oneflush check app.db            the place, the programs, the files
  oneflush check app.db --quick    its pages as well, by PRAGMA quick_check
  sudo oneflush check app.db       with the programs of other users
  oneflush check app.db --json     the same as one JSON object

The database is not changed, not locked, and not recovered. Locks are tried on a
scratch file in its folder. Programs are looked at in /proc: which SQLite each
one has, and whether it is one with a known fault.

Each line begins with one of these words:
  ok      nothing to do
  ?       could not be looked at; no fault, and no promise
  WARN    can go wrong, or something is to be done
  FAULT   is wrong: commits may be lost, or are

Exit code 1 tells of a WARN or a FAULT.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The database file
    database: PathBuf,
    /// Read all pages too: PRAGMA quick_check, where nobody has to recover first
    #[arg(long)]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error(
        "{name}: a database of LS-MVBT. `oneflush mvbt check` checks its pages, and `oneflush \
            probe` its folder [OF-343]"
    )]
    OfLsmvbt { name: String },
    #[error("{name}: {bad} of {all} findings are not ok; each says what to do [OF-344]")]
    Found { name: String, bad: usize, all: usize },
    #[error("{name}: interrupted, so not all was looked at [OF-345]")]
    Interrupted { name: String },
}

pub fn main(options: &Options) -> Result<(), Failure> {
    interrupt::install().map_err(Failure::failed)?;
    let name = shown_name(&options.database).into_owned();
    let database = options.database.canonicalize().map_err(|source| {
        Failure::failed(InspectError::Read { path: options.database.clone(), source })
    })?;
    if Engine::is_lsmvbt(&database) {
        return Err(Failure::refused(CheckError::OfLsmvbt { name }));
    }
    let facts = Facts::of(database).map_err(Failure::failed)?;
    let mut findings = place::findings(&facts);
    findings.extend(users::findings(&facts));
    findings.extend(orphans::findings(&facts));
    findings.extend(state::findings(&facts));
    if options.quick {
        findings.push(quick::finding(&facts));
    }
    if interrupt::requested() {
        return Err(Failure::failed(CheckError::Interrupted { name }));
    }
    output::print(&match options.json {
        true => format!("{}\n", json!({ "database": name, "findings": findings })),
        false => finding::table(&name, &findings),
    })?;
    let bad = findings.iter().filter(|finding| finding.status >= Status::Warn).count();
    match bad {
        0 => Ok(()),
        _ => Err(Failure::failed(CheckError::Found { name, bad, all: findings.len() })),
    }
}
