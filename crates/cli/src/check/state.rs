//! The files: the header, SQLite's journal and WAL, and the log of a strategy.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use oneflush_vfs::who::frames_not_copied;
use oneflush_vfs::{InspectError, inspect, open_database, without_codes};

use super::facts::Facts;
use super::finding::{Finding, Status};
use crate::stats::{count, size};

const STATE: &str = "state";
const LOG: &str = "log";

/// "Database File Format", sections 1.3.7 and 1.3.8: the size counts if these two are the same.
const CHANGES_AT: usize = 24;
const PAGES_AT: usize = 28;
const SIZE_VALID_FOR_AT: usize = 92;
const HEADER_BYTES: usize = 100;

/// The same page, section 3: a journal without it is not rolled back.
const OF_JOURNAL: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        [journal(facts), wal(facts), length(facts)].into_iter().flatten().collect();
    if findings.is_empty() {
        findings.push(Finding::ok(STATE, whole(facts)));
    }
    findings.extend(log(facts));
    findings
}

/// Why the database file alone is not the database. None: it is.
pub fn unsettled(facts: &Facts) -> Option<&'static str> {
    if facts.survey.guarded {
        return Some("commits may be in the log of a strategy");
    }
    if is_hot(facts) {
        return Some("its journal has a transaction to roll back, or one that runs");
    }
    (frames_waiting(facts) > 0).then_some("commits are in its WAL alone")
}

fn fault(says: impl Into<String>, way_out: impl Into<String>) -> Finding {
    Finding::new(Status::Fault, STATE, says, way_out)
}

/// Frames that the database file lacks, as far as the files tell.
fn frames_waiting(facts: &Facts) -> u32 {
    let frames = facts.survey.wal_frames.unwrap_or_default();
    // Without a user the index is of an earlier time, and the next open makes it anew.
    match facts.is_in_use() {
        true => frames_not_copied(&facts.database).unwrap_or(frames).min(frames),
        false => frames,
    }
}

fn is_hot(facts: &Facts) -> bool {
    let mut journal = facts.database.as_os_str().to_owned();
    journal.push("-journal");
    let mut bytes = [0; OF_JOURNAL.len()];
    let read = open_database(Path::new(&journal)).and_then(|mut file| file.read_exact(&mut bytes));
    read.is_ok() && bytes == OF_JOURNAL
}

fn journal(facts: &Facts) -> Option<Finding> {
    let name = &facts.name;
    if facts.survey.guarded || facts.is_written() || !is_hot(facts) {
        return None;
    }
    if facts.survey.wal_frames.is_some_and(|frames| frames > 0) {
        return Some(fault(
            format!("{name}-journal is hot, and {name}-wal has commits: one is of another time"),
            format!("open nothing; copy {name}* aside, and find out which files belong together"),
        ));
    }
    Some(Finding::new(
        Status::Warn,
        STATE,
        format!("{name}-journal is hot: a transaction was interrupted, and is not rolled back yet"),
        format!("never copy {name} without it; the next program that opens {name} rolls it back"),
    ))
}

fn wal(facts: &Facts) -> Option<Finding> {
    let (name, survey) = (&facts.name, &facts.survey);
    let frames = survey.wal_frames.filter(|&frames| frames > 0)?;
    let has = format!("{name}-wal has {}", count(frames.into(), "frame"));
    let other = format!("copy {name}* aside; keep {name}-wal for the database that it belongs to");
    if survey.bytes == 0 {
        let says = format!("{name} is empty, and {has}: the next open removes the WAL");
        let way_out = format!("open nothing; copy {name}-wal aside, then restore {name}");
        return Some(fault(says, way_out));
    }
    if let Some(in_wal) = survey.wal_page_bytes.filter(|&in_wal| in_wal != survey.page_bytes) {
        let pages = survey.page_bytes;
        let says = format!("{has} for pages of {in_wal} bytes, and {name} has pages of {pages}");
        return Some(fault(says, other));
    }
    if survey.journal_mode == "rollback" {
        let says = format!("{has}, and {name} is in a rollback mode: it is of another time");
        return Some(fault(says, other));
    }
    if survey.guarded || facts.is_in_use() {
        return None;
    }
    if survey.wal_is_of_another_time {
        let says = format!("{has}, and is of another time than {name}, by the change counters");
        return Some(fault(says, other));
    }
    Some(Finding::new(
        Status::Warn,
        STATE,
        format!("{has}, and nobody uses it: it was not closed, and the commits may be there alone"),
        format!("never copy {name} without it; the next program that opens {name} recovers it"),
    ))
}

/// A file that is shorter than its header says, and nothing has the rest.
fn length(facts: &Facts) -> Option<Finding> {
    let (name, survey) = (&facts.name, &facts.survey);
    if survey.bytes == 0 || survey.guarded || facts.is_written() || is_hot(facts) {
        return None;
    }
    // The header and the size of one moment, later than the survey's.
    let mut file = open_database(&facts.database).ok()?;
    let (wanted, bytes) = wanted_and_there(&mut file)?;
    let page_bytes = u64::from(survey.page_bytes.max(1));
    let missing = (wanted * page_bytes).saturating_sub(bytes).div_ceil(page_bytes);
    // A checkpoint that was interrupted has written page 1 before the last one.
    if missing == 0 || missing <= survey.wal_frames.unwrap_or_default().into() {
        return None;
    }
    Some(fault(
        format!(
            "{name} is cut: its header says {}, and the file has {}",
            count(wanted, "page"),
            size(bytes)
        ),
        format!("restore a backup; what is left: sqlite3 {name} .recover"),
    ))
}

/// Pages that the header says, and the file's size. None: the header does not say.
fn wanted_and_there(file: &mut File) -> Option<(u64, u64)> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact(&mut header).ok()?;
    let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    let pages = u32::from_be_bytes(word(PAGES_AT)).into();
    (word(CHANGES_AT) == word(SIZE_VALID_FOR_AT)).then_some((pages, file.metadata().ok()?.len()))
}

fn whole(facts: &Facts) -> String {
    let survey = &facts.survey;
    let mode = match survey.journal_mode {
        "none" => return "empty: no page was written yet".to_owned(),
        "wal" => "WAL mode",
        _ => "a rollback mode",
    };
    let pages = format!("{} of {}", count(survey.pages.into(), "page"), survey.page_bytes);
    let wal = match (survey.wal_frames, frames_waiting(facts)) {
        (Some(frames), 0) if frames > 0 => "; the file has all that the WAL has".to_owned(),
        (_, waiting) if waiting > 0 => {
            format!("; {} not in the file yet", count(waiting.into(), "frame"))
        }
        _ => String::new(),
    };
    let running = if facts.is_written() { "; a transaction runs" } else { "" };
    format!("{mode}, {pages} bytes{wal}{running}")
}

/// The log of a strategy, and whether it fits. None: there is none, and none is wanted.
fn log(facts: &Facts) -> Option<Finding> {
    let (name, survey) = (&facts.name, &facts.survey);
    let bad = |why: &str| {
        let way_out = format!("oneflush recover {name} --dry-run says what can be done");
        Some(Finding::new(Status::Fault, LOG, why, way_out))
    };
    if survey.live.as_ref().is_some_and(|live| live.failed) {
        let says = "a write or a sync has failed, and nothing is acknowledged any more";
        let way_out = "end all programs that use it; the next open recovers it";
        return Some(Finding::new(Status::Fault, LOG, says, way_out));
    }
    match (survey.guarded, survey.strategy, &survey.log_unread) {
        (true, None, _) => bad("it was in use with eager, waldio or maw, and its log is missing"),
        (true, Some(strategy), Some(_)) if !survey.users.is_empty() => {
            Some(Finding::ok(LOG, format!("in use with {strategy}")))
        }
        (true, Some(_), Some(why)) => bad(why),
        (true, Some(strategy), None) => {
            let says =
                format!("interrupted in use with {strategy}; its log is whole and has the commits");
            let way_out =
                format!("open it with {strategy}, or oneflush recover {name}; keep them together");
            Some(Finding::new(Status::Warn, LOG, says, way_out))
        }
        (false, _, Some(_)) => match inspect(&facts.database) {
            Err(InspectError::InUse { strategy, .. }) => {
                Some(Finding::ok(LOG, format!("in use with {strategy}")))
            }
            Err(error) => bad(&without_codes(&error.to_string())),
            Ok(_) => None,
        },
        (false, _, None) => None,
    }
}
