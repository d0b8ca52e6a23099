//! `oneflush recover --accept-loss`: recovers a database whose log is lost or damaged, without what
//! nobody can bring back.

use std::path::Path;
use std::time::UNIX_EPOCH;

use oneflush_vfs::{
    Aside, InspectError, Salvaged, Source, StrategyKind, shown_name, without_codes,
};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::options::Options;
use crate::failure::Failure;
use crate::output;
use crate::stats::count;

/// What a recovery without loss refuses, and this does not.
pub fn is_for(error: &InspectError) -> bool {
    match error {
        InspectError::LogMissing(_)
        | InspectError::PageSize { .. }
        | InspectError::OtherLog { .. }
        | InspectError::LinkedLog { .. }
        | InspectError::LogOfAnother { .. }
        | InspectError::Log { .. }
        | InspectError::Recover { .. } => true,
        InspectError::Read { .. } | InspectError::NotADatabase(_) | InspectError::InUse { .. } => {
            false
        }
    }
}

pub fn main(options: &Options, database: &Path, why: &InspectError) -> Result<(), Failure> {
    // In a dry run nothing is left behind, and nothing is written beside the database.
    let elsewhere = options.dry_run.then(std::env::temp_dir);
    let aside = Aside::copy(database, why, elsewhere.as_deref()).map_err(Failure::failed)?;
    let result = recover(options, database, &aside);
    if options.dry_run {
        aside.discard().map_err(Failure::failed)?;
    }
    result
}

fn recover(options: &Options, database: &Path, aside: &Aside) -> Result<(), Failure> {
    let mut problems = Vec::new();
    let sources = aside.sources().map_err(Failure::failed)?;
    for &source in &sources {
        let problem = match aside.make(source) {
            Ok(None) => "nothing of it can be used".to_owned(),
            Err(error) => error.to_string(),
            Ok(Some(salvaged)) => match check(&aside.recovered()) {
                Ok(()) => {
                    if !options.dry_run {
                        aside.put_in_place().map_err(|error| {
                            Failure::failed(format!(
                                "{error}. The copies are in {} [OF-328]",
                                shown_name(&aside.folder)
                            ))
                        })?;
                    }
                    return report(options, database, aside, &salvaged);
                }
                Err(problem) => problem,
            },
        };
        problems.push(format!("from {}: {problem} [OF-327]", name_of(source)));
    }
    let problems = problems.join("; ");
    let name = shown_name(&options.database);
    if options.dry_run {
        return Err(Failure::failed(format!(
            "{name}: {}. No consistent database can be had: {problems} [OF-334]",
            aside.damage
        )));
    }
    // For `.recover`, the best that there is; if it fails too, the copies are still there.
    let _ = sources.first().map(|&source| aside.make(source));
    Err(Failure::failed(format!(
        "{name}: {}. No consistent database can be had: {problems}. {name} and the files beside it \
            are as they were; copies are in {}. What rows can be read, SQLite's shell may save: \
            sqlite3 {} .recover [OF-326]",
        aside.damage,
        shown_name(&aside.folder),
        shown_name(&aside.recovered())
    )))
}

/// Copies the WAL that was made into the database, and checks that; what is wrong is an error.
fn check(made: &Path) -> Result<(), String> {
    let checked = || -> rusqlite::Result<Option<String>> {
        let db =
            Connection::open_with_flags_and_vfs(made, OpenFlags::SQLITE_OPEN_READ_WRITE, "unix")?;
        let found: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            return Ok(Some(found));
        }
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        db.close().map_err(|(_, error)| error)?;
        Ok(None)
    };
    match checked() {
        Ok(None) if made.with_extension("db-wal").exists() => {
            Err("its WAL could not be copied into it".to_owned())
        }
        Ok(None) => Ok(()),
        Ok(Some(found)) => {
            Err(format!("PRAGMA integrity_check says: {}", found.replace('\n', " ")))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn name_of(source: Source) -> &'static str {
    match source {
        Source::Log => "the log, up to its damage",
        Source::Image => "the WAL image",
        Source::Database => "the database file alone",
    }
}

fn is_maw(aside: &Aside) -> bool {
    aside.strategy == Some(StrategyKind::Maw) && !aside.is_plain
}

/// When the lost data was written: the last checkpoint changed the database file, the last commit
/// the log.
fn time_of(aside: &Aside, suffix: &str) -> Option<String> {
    let changed = aside.changed(suffix)?.max(UNIX_EPOCH);
    Some(humantime::format_rfc3339_seconds(changed).to_string())
}

/// What is known of what a database lacks that was made.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    /// The database file needs no log.
    None,
    /// It has all that can be read of the log.
    Unreadable,
    /// It has an image, and no record of the log tells whether the image has every commit.
    Unknown,
    /// With `maw`: every commit was written to it, and no record of the log tells whether they all
    /// outlived a loss of power.
    InPlace,
    /// It lacks records of the log.
    Records,
}

impl Loss {
    fn of(aside: &Aside, salvaged: &Salvaged) -> Loss {
        match salvaged.source {
            _ if aside.is_plain => Loss::None,
            Source::Image if salvaged.records == Some(0) => Loss::Unknown,
            Source::Image => Loss::Unreadable,
            Source::Database if is_maw(aside) && salvaged.lost_records == Some(0) => {
                Loss::Unreadable
            }
            Source::Database if is_maw(aside) && salvaged.lost_records.is_none() => Loss::InPlace,
            Source::Log | Source::Database => Loss::Records,
        }
    }

    /// The file that was changed when the last commit was.
    fn last_changed(self, strategy: Option<StrategyKind>) -> Option<(&'static str, &'static str)> {
        match self {
            Loss::Records if strategy == Some(StrategyKind::Waldio) => Some(("log", "-waldio")),
            Loss::Records | Loss::InPlace if strategy == Some(StrategyKind::Maw) => {
                Some(("log", "-maw"))
            }
            Loss::None | Loss::Unreadable | Loss::InPlace => None,
            Loss::Unknown => Some(("image", "-oneflush-wal")),
            Loss::Records => Some(("log", "-oneflush")),
        }
    }

    /// The line for it. `when` is what is known of the time, or empty.
    fn said(self, salvaged: &Salvaged, when: &str) -> String {
        match (self, salvaged.lost_records) {
            (Loss::None, _) => String::new(),
            (Loss::Unreadable, _) => {
                format!("lost: nothing that the readable part of the log has{when}\n")
            }
            (Loss::Unknown, _) => format!(
                "lost: cannot be known: no log tells what the image should have. The image of this \
                    database has every commit, but after a loss of power it may lack the last \
                    ones{when} [OF-330]\n"
            ),
            (Loss::InPlace, _) => format!(
                "lost: cannot be known: no log tells what the database file should have. Every \
                    commit was written to it, but after a loss of power it may lack the last \
                    ones{when} [OF-340]\n"
            ),
            (Loss::Records, None) => match salvaged.lost_frames {
                Some(0) => format!("lost: nothing that can be found in the log{when}\n"),
                Some(frames) => format!(
                    "lost: up to {} behind them, some perhaps never committed{when}\n",
                    count(frames, "frame")
                ),
                None => format!("lost: an unknown number of commits{when}\n"),
            },
            (Loss::Records, Some(records)) => format!(
                "lost: at least {} (those that can be read change {}){when}\n",
                count(records, "record"),
                count(salvaged.lost_pages, "page")
            ),
        }
    }
}

/// When the last checkpoint was written, what the last commit was written to, and when.
type Between = Option<(Option<String>, &'static str, Option<String>)>;

fn report(
    options: &Options,
    database: &Path,
    aside: &Aside,
    salvaged: &Salvaged,
) -> Result<(), Failure> {
    let loss = Loss::of(aside, salvaged);
    let between = loss
        .last_changed(aside.strategy)
        .map(|(name, suffix)| (time_of(aside, ""), name, time_of(aside, suffix)));
    if options.json {
        return output::print(&format!("{}\n", json_report(options, aside, salvaged, between)));
    }
    output::print(&text_report(options, database, aside, salvaged, (loss, between)))
}

fn json_report(
    options: &Options,
    aside: &Aside,
    salvaged: &Salvaged,
    between: Between,
) -> serde_json::Value {
    let mut json = json!({
        "database": shown_name(&options.database),
        "recovered": !options.dry_run,
        "log": null,
        "accepted_loss": {
            "reason": without_codes(&aside.damage),
            "copies": (!options.dry_run).then(|| shown_name(&aside.folder)),
            "files": aside.files.iter().map(shown_name).collect::<Vec<_>>(),
            "integrity_check": "ok",
            "written_between": between.map(|(from, _, until)| [from, until]),
        },
    });
    if let (Some(object), Ok(serde_json::Value::Object(more))) =
        (json["accepted_loss"].as_object_mut(), serde_json::to_value(salvaged))
    {
        object.extend(more);
    }
    json
}

fn text_report(
    options: &Options,
    database: &Path,
    aside: &Aside,
    salvaged: &Salvaged,
    (loss, between): (Loss, Between),
) -> String {
    let name = shown_name(&options.database);
    let mut text = format!("{name}: {}\n", aside.damage);
    if !options.dry_run {
        let files: Vec<_> = aside.files.iter().map(shown_name).collect();
        text += &format!("copied to {}: {}\n", shown_name(&aside.folder), files.join(", "));
    }
    text += &match salvaged.source {
        _ if aside.is_plain => "the database file needs no log, and is as it was\n".to_owned(),
        Source::Log => format!(
            "has {} of {}, up to the damage of the log\n",
            match (salvaged.frames, salvaged.records) {
                (Some(frames), _) => count(frames, "frame"),
                (None, records) => count(records.unwrap_or_default(), "record"),
            },
            count(salvaged.pages, "page")
        ),
        Source::Image => format!("has {} of the WAL image\n", count(salvaged.pages, "page")),
        Source::Database if is_maw(aside) => "has what the database file has\n".to_owned(),
        Source::Database => {
            "has what the last checkpoint has written to the database file\n".to_owned()
        }
    };
    let when = between.map_or_else(String::new, |(from, name, until)| {
        let or_unknown =
            |time: Option<String>| time.unwrap_or_else(|| "an unknown time".to_owned());
        let (from, until) = (or_unknown(from), or_unknown(until));
        format!("; the database file was last changed at {from}, the {name} at {until}")
    });
    text += &loss.said(salvaged, &when);
    text += "PRAGMA integrity_check: ok\n";
    if !salvaged.is_exact && is_maw(aside) {
        text += "not sure: whether a transaction is there in part only, since each is written to \
            the database file page by page; check what matters to you [OF-341]\n";
    } else if !salvaged.is_exact && !aside.is_plain {
        text += "not sure: whether a transaction is there in part only, since a checkpoint may \
            have copied later pages; check what matters to you [OF-329]\n";
    }
    text += &match options.dry_run {
        true => "nothing was changed\n".to_owned(),
        false => {
            format!(
                "{} is a plain database file now\n",
                shown_name(database.file_name().unwrap_or_default())
            )
        }
    };
    text
}
