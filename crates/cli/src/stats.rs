//! `oneflush stats DB`: what a database's files say of it, readable.

mod lsmvbt;
mod row;

use std::path::{Path, PathBuf};

use clap::Args;
use oneflush_eagerfs::mount::is_dead;
use oneflush_vfs::{Survey, shown_name, survey};

use crate::engine::Engine;
use crate::failure::Failure;
use crate::output::folded;
use crate::{mount, output};
use row::{Row, row};
pub use row::{count, size};

const EXAMPLES: &str = "Examples:
  oneflush stats app.db          journal mode, pages, WAL, log, who uses it
  oneflush stats app.db --json   the same as one JSON object
  oneflush stats /mnt/data       a mount of oneflush: its syncs, records, bytes

Nothing is changed, and the database is not opened. Counters of commits, bytes
and flushes live in the programs that have the database open; a program asks for
its own with PRAGMA oneflush_stats. Locks tell who uses it: in WAL mode whoever
has read from it, in the other modes whoever is in a transaction.

A database of LS-MVBT is read by its own engine, also while others use it.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The database file, or where oneflush mount has mounted
    database: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn main(options: &Options) -> Result<(), Failure> {
    if (options.database.is_dir() || is_dead(&options.database))
        && let Some(text) = mount::stats(&options.database, options.json)?
    {
        return output::print(&text);
    }
    if Engine::is_lsmvbt(&options.database) {
        let survey = lsmvbt::survey(&options.database).map_err(Failure::failed)?;
        return output::print(&match options.json {
            true => format!("{}\n", survey.json()),
            false => table(&options.database, survey.rows()),
        });
    }
    let survey = survey(&options.database).map_err(Failure::failed)?;
    if options.json {
        let json = serde_json::to_string(&survey).map_err(Failure::failed)?;
        return output::print(&format!("{json}\n"));
    }
    output::print(&table(&survey.database, rows(&survey)))
}

const LABEL_CHARS: usize = 13;
const LINE_CHARS_MAX: usize = 80;

fn rows(survey: &Survey) -> Vec<Row> {
    let mut rows = Vec::new();
    rows_of_files(survey, &mut rows);
    rows_of_log(survey, &mut rows);
    rows_of_users(survey, &mut rows);
    rows
}

fn table(database: &Path, rows: Vec<Row>) -> String {
    let mut text = format!("{}\n", shown_name(database));
    for (label, value) in rows {
        // A suffix may be longer than the column.
        let label_chars = LABEL_CHARS.max(label.chars().count() + 1);
        let lines = folded(&value, LINE_CHARS_MAX - label_chars - 2);
        text += &format!("  {label:label_chars$}{}\n", lines[0]);
        for line in &lines[1..] {
            text += &format!("  {:LABEL_CHARS$}{line}\n", "");
        }
    }
    text
}

/// The database file, and the files beside it.
fn rows_of_files(survey: &Survey, rows: &mut Vec<Row>) {
    let mode = match survey.journal_mode {
        "wal" => "wal",
        "none" => "none: no page was written yet",
        _ => "rollback (delete, truncate, persist or memory; of our strategies maw is for it)",
    };
    rows.push(row("journal mode", mode));
    let page_bytes = size(survey.page_bytes.into());
    let reserved = match survey.reserved_bytes {
        None | Some(0) => String::new(),
        Some(bytes) => format!(", {} reserved in each", count(bytes.into(), "byte")),
    };
    rows.push(row(
        "pages",
        format!("{} of {page_bytes}, {} free{reserved}", survey.pages, survey.free_pages),
    ));
    rows.push(row("file", size(survey.bytes)));
    for file in &survey.side_files {
        let what = match file.suffix.to_str().unwrap_or_default() {
            "-wal" => match survey.wal_frames {
                Some(frames) => format!(", SQLite's WAL: {}", count(frames.into(), "frame")),
                None => ", SQLite's WAL without content".to_owned(),
            },
            "-shm" => ", SQLite's WAL index".to_owned(),
            "-journal" => ", SQLite's rollback journal".to_owned(),
            "-oneflush" => ", the log of eager".to_owned(),
            "-waldio" => ", the log of waldio".to_owned(),
            "-maw" => ", the log of maw".to_owned(),
            "-oneflush-wal" => ", the WAL image of eager".to_owned(),
            "-oneflush-kept" => ", the WAL that plain keeps for the next open".to_owned(),
            "-oneflush-shm" => ", the board of those who use the log".to_owned(),
            "-oneflush-converting" | "-oneflush-converting-journal" => {
                ", the rest of a conversion that was killed, or one that runs".to_owned()
            }
            _ => String::new(),
        };
        rows.push(row(shown_name(&file.suffix), format!("{}{what}", size(file.bytes))));
    }
}

/// The guard, and the log as its file or its users say.
fn rows_of_log(survey: &Survey, rows: &mut Vec<Row>) {
    if survey.guarded {
        let state = match (survey.strategy, survey.users.is_empty()) {
            (None, _) => "set, and the log is missing: see oneflush recover".to_owned(),
            (Some(strategy), true) => format!(
                "set, and nobody uses the database: the next open with {strategy}, or oneflush \
                    recover, recovers it"
            ),
            (Some(strategy), false) => format!("set: the database is in use with {strategy}"),
        };
        rows.push(row("guard", state));
    }
    if let Some(log) = &survey.log {
        let pages = count(log.pages, "page");
        let value = match (log.frames, log.records) {
            (Some(frames), _) => format!(
                "{}, {pages}, layout {}, room for {}",
                count(frames.into(), "frame"),
                log.layout.unwrap_or("–"),
                log.slots.map_or_else(|| "–".to_owned(), |slots| count(slots.into(), "frame")),
            ),
            (None, records) => {
                let records = count(records.unwrap_or_default(), "record");
                let image =
                    log.image_frames.map(|frames| format!(", {frames} frames in the image"));
                format!("{records}, {pages}{}", image.unwrap_or_default())
            }
        };
        rows.push(row("log", value));
    }
    if let Some(live) = &survey.live {
        let value = match live.written_frames {
            Some(written) => format!(
                "frames: {written} written, {} of them known to be durable",
                live.logged_frames
            ),
            None => {
                let epoch = format!(
                    "epoch {}: {}, {}",
                    live.epoch.unwrap_or_default(),
                    count(live.records.unwrap_or_default(), "record"),
                    count(live.pages.unwrap_or_default(), "page"),
                );
                match live.committed_frames {
                    Some(committed) => format!(
                        "{epoch}; frames: {} logged, {committed} committed",
                        live.logged_frames
                    ),
                    None => epoch,
                }
            }
        };
        rows.push(row("log, live", value));
        if live.failed {
            let failed =
                "a write or sync has failed: nothing is acknowledged until all have closed it";
            rows.push(row("", failed));
        }
    }
    if let Some(why) = survey.log_unread.as_ref().filter(|_| survey.live.is_none()) {
        rows.push(row("log", why.as_str()));
    }
}

fn rows_of_users(survey: &Survey, rows: &mut Vec<Row>) {
    let users: Vec<String> =
        survey.users.iter().map(|user| format!("{} ({})", user.pid, user.command)).collect();
    let users = if users.is_empty() { "nobody".to_owned() } else { users.join(", ") };
    rows.push(row("used by", users));
    let counters = "of a program's own commits: PRAGMA oneflush_stats in that program";
    rows.push(row("counters", counters));
}
