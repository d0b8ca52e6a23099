//! `oneflush recover DB`: an open and a close, which is all that a recovery is.

mod accept_loss;
mod options;

use std::path::{Path, PathBuf};

use oneflush_vfs::{AsideLog, InspectError, LogContents, Said, StrategyKind, shown_name};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::stats::count;
use crate::{mount, output, uri};
pub use options::Options;

pub fn main(options: &Options) -> Result<(), Failure> {
    if options.fs {
        let log = options.log.as_deref();
        return mount::recover(&options.database, log, options.over_changes, options.json);
    }
    let database = options.database.canonicalize().map_err(|source| {
        Failure::failed(InspectError::Read { path: options.database.clone(), source })
    })?;
    if !database.is_file() {
        let name = shown_name(&options.database);
        return Err(Failure::refused(format!(
            "{name}: not a regular file; name the database file itself [OF-319]"
        )));
    }
    if Engine::is_lsmvbt(&database) {
        return of_lsmvbt(options);
    }
    let with = options.with.as_deref().map(other_side).transpose()?;
    let contents = match oneflush_vfs::inspect(&database) {
        Err(error) if accept_loss::is_for(&error) && options.accept_loss => {
            return accept_loss::main(options, &database, &error);
        }
        Err(error) if accept_loss::is_for(&error) => {
            return Err(Failure::refused(format!(
                "{error}. If there is nothing to put back, `oneflush recover --accept-loss` keeps \
                    what can be kept [OF-318]"
            )));
        }
        contents => contents.map_err(|error| match error {
            InspectError::InUse { .. } => Failure::again(error),
            InspectError::NotADatabase(_) => Failure::refused(error),
            _ => Failure::failed(error),
        })?,
    };
    let recovered = match &contents {
        None if !options.dry_run => {
            oneflush_vfs::remove_leftovers(&database).map_err(Failure::failed)?;
            false
        }
        Some(_) if !options.dry_run => {
            let failed = |error| format!("{}: {error}", shown_name(&database));
            check_name(&database).map_err(|error| Failure::refused(failed(error)))?;
            recover(&database, contents.as_ref().map(|log| log.strategy))
                .map_err(|error| Failure::failed(failed(error)))?;
            true
        }
        _ => false,
    };
    let said = Said { with: with.as_deref(), forget: options.forget.as_deref() };
    let (stays, is_known) =
        oneflush_vfs::settle_aside(&database, said, options.dry_run).map_err(Failure::failed)?;
    let name = shown_name(&options.database);
    if let Some(forget) = options.forget.as_deref().filter(|_| !is_known && !options.dry_run) {
        return Err(Failure::failed(format!(
            "{name}: no log that was set aside beside it names {}. Without --forget it says which \
                databases are missing, if any is [OF-351]",
            shown_name(forget)
        )));
    }
    if options.json {
        let json =
            json!({ "database": name, "recovered": recovered, "log": contents, "stays": stays });
        return output::print(&format!("{json}\n"));
    }
    output::print(&match contents {
        None => format!("{name}: a plain database file; there is nothing to recover\n"),
        Some(log) if recovered => {
            format!("{name}: recovered {}; it is a plain database file now\n", held(&log))
        }
        Some(log) => format!("{name}: the log holds {}; nothing was changed\n", held(&log)),
    })?;
    stays.iter().try_for_each(|log| output::print(&why_it_stays(&name, log)))
}

/// The file that the user names with `--with`, made known to the strategy.
fn other_side(file: &Path) -> Result<PathBuf, Failure> {
    let file = file
        .canonicalize()
        .map_err(|source| Failure::failed(InspectError::Read { path: file.to_owned(), source }))?;
    oneflush_vfs::name_other_side(&file.to_string_lossy());
    Ok(file)
}

/// Other databases need a log of this one.
fn why_it_stays(name: &str, log: &AsideLog) -> String {
    let mut text = format!(
        "{}: stays, for it has commits of other databases:\n",
        shown_name(log.path.file_name().unwrap_or_default())
    );
    for needed in &log.needed_by {
        let why = if needed.found { "not recovered yet" } else { "not found" };
        text.push_str(&format!("  {}: {why}\n", needed.database));
    }
    text.push_str(&format!(
        "Recover them, then {name} again. One that has another name: --with FILE; one that\n\
        is gone for good: oneflush recover {name} --forget FILE\n"
    ));
    text
}

/// It has no log beside it.
fn of_lsmvbt(options: &Options) -> Result<(), Failure> {
    let name = shown_name(&options.database);
    output::print(&match options.json {
        true => format!(
            "{}\n",
            json!({ "database": name, "engine": "lsmvbt", "recovered": false, "log": null })
        ),
        false => format!(
            "{name}: a database of LS-MVBT, which has no log; there is nothing to recover\n\
            after a crash the next open does what is needed; is it sound? oneflush mvbt check\n"
        ),
    })
}

fn held(log: &LogContents) -> String {
    let pages = count(log.pages, "page");
    match (log.frames, log.records) {
        (Some(frames), _) => {
            let behind = match log.frames_behind.unwrap_or_default() {
                0 => String::new(),
                behind => format!(
                    " (and {} behind them that a crash cut off before its commit, or that were \
                        damaged)",
                    count(behind.into(), "frame")
                ),
            };
            format!("{} of {pages}{behind}", count(frames.into(), "frame"))
        }
        (None, records) => format!("{} of {pages}", count(records.unwrap_or_default(), "record")),
    }
}

fn check_name(database: &Path) -> Result<(), Box<dyn std::error::Error>> {
    match database.to_str() {
        Some(_) => Ok(()),
        None => Err("a strategy with a log opens no database whose path is not UTF-8, and so \
            cannot recover it here. Rename the database, and the files beside it alike, or move \
            them together to another folder; then recover it [OF-320]"
            .into()),
    }
}

fn recover(
    database: &Path,
    strategy: Option<StrategyKind>,
) -> Result<(), Box<dyn std::error::Error>> {
    oneflush_vfs::register()?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(uri::of(database, strategy), flags)?;
    db.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0))?;
    db.close().map_err(|(_, error)| error)?;
    match oneflush_vfs::inspect(database) {
        // The log of another database lies beside this one. It is not needed here.
        Ok(None) | Err(InspectError::LogOfAnother { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(Some(_)) => {
            Err("the log could not be copied into the database file; is the disk full? [OF-321]"
                .into())
        }
    }
}
