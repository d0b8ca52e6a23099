//! `oneflush convert DB --reserve N`: reserved bytes at the end of each page of a database that is
//! there already. `oneflush convert DB COPY --engine NAME`: the same database in the other engine.

mod compare;
mod copy;
mod error;
mod facts;
mod options;
mod plan;
mod rewrite;
mod source;
mod suffix;
mod to_engine;

use std::path::Path;

use oneflush_measure::interrupt;
use oneflush_vfs::{Survey, shown_name, survey};
use serde_json::json;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::output;
use error::ConvertError;
pub use options::Options;
use plan::{Pages, Plan, Wish};
use rewrite::{Converted, Locked};
use source::{file, look};

/// What came of it.
enum Outcome {
    /// As many bytes are reserved as wanted. Unsure: a WAL or journal may say otherwise.
    Already {
        pages: Pages,
        unsure: bool,
    },
    Planned {
        pages: Pages,
        plan: Plan,
        unsure: bool,
    },
    Converted(Converted),
}

pub fn main(options: &Options) -> Result<(), Failure> {
    let said = match (options.engine, &options.copy, options.reserve) {
        (Some(engine), Some(copy), _) => to_engine::run(options, engine, copy),
        (_, _, reserve) => {
            let wish = Wish { reserved: reserve.unwrap_or_default(), is_forced: options.force };
            run(options, wish).map(|outcome| match options.json {
                true => format!("{}\n", as_json(options, wish, &outcome)),
                false => as_text(options, wish, &outcome),
            })
        }
    };
    output::print(&said?)
}

fn run(options: &Options, wish: Wish) -> Result<Outcome, ConvertError> {
    let database = file(&options.database)?;
    if Engine::is_lsmvbt(&database) {
        return Err(ConvertError::OfLsmvbt(database));
    }
    let survey = look(&database)?;
    let pages = Pages::of(&survey).ok_or_else(|| ConvertError::Empty(database.clone()))?;
    let unsure = is_unsure(&survey);
    let plan = match plan::plan(&database, pages, wish) {
        Ok(None) if options.dry_run || !unsure => return Ok(Outcome::Already { pages, unsure }),
        Ok(plan) => plan,
        // What the last commit says decides, under the lock.
        Err(_) if unsure && !options.dry_run => None,
        Err(error) => return Err(error),
    };
    plan::check_rights(&database)?;
    if !survey.users.is_empty() {
        return Err(ConvertError::InUse { database, users: survey.users });
    }
    match plan {
        Some(plan) if options.dry_run => Ok(Outcome::Planned { pages, plan, unsure }),
        _ => convert(&database, wish),
    }
}

/// True if a WAL or journal may have another header than the database file.
fn is_unsure(survey: &Survey) -> bool {
    let has_journal =
        survey.side_files.iter().any(|file| file.suffix == "-journal" && file.bytes > 0);
    survey.wal_frames.is_some() || has_journal
}

fn convert(database: &Path, wish: Wish) -> Result<Outcome, ConvertError> {
    interrupt::install()
        .map_err(|source| ConvertError::File { path: database.to_owned(), source })?;
    let locked = Locked::new(database).map_err(|error| match error {
        // The connection that found the lock taken is closed, so the files may be looked at.
        ConvertError::InUse { database, .. } => {
            let users = survey(&database).map(|survey| survey.users).unwrap_or_default();
            ConvertError::InUse { database, users }
        }
        error => error,
    })?;
    // A crash may have left the last commits beside the database file.
    let pages = locked.pages()?;
    match plan::plan(database, pages, wish)? {
        None => Ok(Outcome::Already { pages, unsure: false }),
        Some(_) => locked.convert(wish).map(Outcome::Converted),
    }
}

fn as_json(options: &Options, wish: Wish, outcome: &Outcome) -> serde_json::Value {
    let (before, plan, converted, unsure) = match outcome {
        Outcome::Already { pages, unsure } => (pages, None, None, *unsure),
        Outcome::Planned { pages, plan, unsure } => (pages, Some(plan), None, *unsure),
        Outcome::Converted(converted) => (&converted.before, None, Some(converted), false),
    };
    json!({
        "database": shown_name(&options.database),
        "converted": converted.is_some(),
        "unsure": unsure,
        "page_bytes": before.page_bytes,
        "reserved_bytes_before": before.reserved,
        "reserved_bytes_wanted": wish.reserved,
        "pages_before": before.count,
        "pages": converted.map(|converted| converted.after.count),
        "tables": converted.map(|converted| converted.tables),
        "rows": converted.map(|converted| converted.rows),
        "needed_bytes": plan.map(|plan| plan.needed_bytes),
        "free_bytes": plan.map(|plan| plan.free_bytes),
    })
}

fn as_text(options: &Options, wish: Wish, outcome: &Outcome) -> String {
    let name = shown_name(&options.database);
    let reserved =
        |pages: &Pages| format!("{} of {} bytes of each page", pages.reserved, pages.page_bytes);
    match outcome {
        Outcome::Already { pages, unsure } => format!(
            "{name}: {} are reserved already; nothing was changed\n{}",
            reserved(pages),
            doubt(*unsure)
        ),
        Outcome::Planned { pages, plan, unsure } => format!(
            "{name}: {} are reserved, and {} would be\nthe conversion would write {} pages anew\n\
            room: up to {} MiB needed, {} MiB free\nnothing was changed\n{}",
            reserved(pages),
            wish.reserved,
            pages.count - pages.free.min(pages.count),
            plan.needed_bytes.div_ceil(1 << 20),
            plan.free_bytes >> 20,
            doubt(*unsure),
        ),
        Outcome::Converted(Converted { before, after, tables, rows }) => format!(
            "{name}: {} are reserved; before it was {}\n{} pages; before it was {}\n\
            checked: PRAGMA integrity_check, the schema, {rows} rows of {tables} tables\n",
            reserved(after),
            before.reserved,
            after.count,
            before.count,
        ),
    }
}

fn doubt(unsure: bool) -> &'static str {
    match unsure {
        true => "a WAL or journal beside it may say otherwise; the next open copies it\n",
        false => "",
    }
}
