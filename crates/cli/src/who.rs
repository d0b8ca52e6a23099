//! `oneflush who DB`: every process that has a database open, and what it holds.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use oneflush_measure::interrupt;
use oneflush_vfs::who::{Asker, Hold, Row, Sightings, WhoError, to_json, who};
use oneflush_vfs::{open_database, shown_name};

use crate::failure::Failure;
use crate::output::folded;
use crate::{output, top};

const EXAMPLES: &str = "Examples:
  oneflush who app.db              who has it open, who reads, writes or waits
  sudo oneflush who app.db         processes of other users as well
  oneflush who app.db --json       the same as one JSON array
  oneflush who app.db --watch 1    again each second, with how long it is so

Programs with SQLite alone are seen as well as those with Oneflush. Nothing is
locked, and nothing is changed: the kernel's lists tell it. CONN counts the
descriptors of the database file. STOPPED is a program that a signal or a
debugger has stopped; what it holds stays held. A program asks the same with
PRAGMA oneflush_who.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The database file
    database: PathBuf,
    /// Look again after so many seconds, 0.1 or more, until Ctrl-C
    #[arg(long, value_name = "SECONDS", value_parser = top::interval)]
    watch: Option<Duration>,
    /// Print one JSON array; with --watch one on each line
    #[arg(long)]
    json: bool,
}

/// So late a signal is noticed at most.
const PATIENCE: Duration = Duration::from_millis(50);

pub fn main(options: &Options) -> Result<(), Failure> {
    check_file(&options.database)?;
    let Some(interval) = options.watch else {
        let rows = who(&options.database, Asker::Outside).map_err(Failure::failed)?;
        return output::print(&text(options, &rows, None));
    };
    interrupt::install().map_err(Failure::failed)?;
    let mut sightings = Sightings::default();
    let mut due = Instant::now();
    loop {
        let mut rows = who(&options.database, Asker::Outside).map_err(Failure::failed)?;
        let now = SystemTime::now();
        sightings.note(&mut rows, now);
        if !output::print_next(&text(options, &rows, Some(now)))? {
            return Ok(());
        }
        due += interval;
        while Instant::now() < due {
            if interrupt::requested() {
                return Ok(());
            }
            std::thread::sleep(PATIENCE.min(due.saturating_duration_since(Instant::now())));
        }
    }
}

/// A folder, a pipe or a file that is not there has no users that could be meant.
fn check_file(database: &Path) -> Result<(), Failure> {
    // Who may not read the file may still ask who uses it.
    let forbidden = |error: &std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
    match open_database(database).and_then(|mut file| file.read(&mut [0; 1])) {
        Err(source) if !forbidden(&source) => {
            Err(Failure::failed(WhoError::Database { database: database.to_owned(), source }))
        }
        _ => Ok(()),
    }
}

fn text(options: &Options, rows: &[Row], now: Option<SystemTime>) -> String {
    match options.json {
        true => format!("{}\n", to_json(rows)),
        false => table(&options.database, rows, now),
    }
}

const LINE_CHARS_MAX: usize = 80;
/// The columns before the last one.
const BEFORE_HOLDS: usize = 35;

/// With `now` it says how long each process, and each lock, has been seen.
fn table(database: &Path, rows: &[Row], now: Option<SystemTime>) -> String {
    let mut text = format!("{}\n", shown_name(database));
    if rows.iter().all(|row| row.pid.is_none()) {
        text += "  nobody has it open";
        text += if rows.is_empty() { "\n" } else { ", as far as can be seen\n" };
    } else {
        text += &format!("  {:>8}  {:15}  {:>4}  HOLDS\n", "PID", "PROGRAM", "CONN");
    }
    for row in rows.iter().filter(|row| row.pid.is_some()) {
        let pid = row.pid.map(|pid| pid.to_string()).unwrap_or_default();
        let program = row.program.as_deref().unwrap_or("?");
        let connections = row.connections.map_or_else(|| "?".to_owned(), |count| count.to_string());
        let lines = folded(&said(row, now), LINE_CHARS_MAX - BEFORE_HOLDS);
        text += &format!("  {pid:>8}  {program:15}  {connections:>4}  {}\n", lines[0]);
        for line in &lines[1..] {
            text += &format!("{:BEFORE_HOLDS$}{line}\n", "");
        }
    }
    for note in rows.iter().filter(|row| row.pid.is_none()).filter_map(|row| row.note.as_ref()) {
        text += &format!("  {note}\n");
    }
    text
}

/// What a process holds, in words.
fn said(row: &Row, now: Option<SystemTime>) -> String {
    let age = |since_ms: Option<u64>| {
        let now_ms = now?.duration_since(UNIX_EPOCH).ok()?.as_millis() as u64;
        Some(now_ms.saturating_sub(since_ms?) / 1000)
    };
    let row_age = age(row.since_ms);
    let with_age = |words: &str| {
        let hold = row.holds.iter().find(|hold: &&Hold| hold.says == words);
        match hold.and_then(|hold| age(hold.since_ms)) {
            Some(seconds) if Some(seconds) != row_age => format!("{words}, for {seconds} s"),
            _ => words.to_owned(),
        }
    };
    let mut all: Vec<String> = row.words().into_iter().map(with_age).collect();
    all.extend(row_age.map(|seconds| format!("seen for {seconds} s")));
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let hold = |lock: &str, says: &str, since_ms| Hold {
            file: "a.db-shm".to_owned(),
            lock: lock.to_owned(),
            exclusive: false,
            waits: false,
            frames_behind: None,
            says: says.to_owned(),
            since_ms: Some(since_ms),
        };
        Row {
            pid: Some(4_194_304),
            program: Some("fifteen-letters".to_owned()),
            stopped: Some(true),
            connections: Some(2),
            strategy: None,
            holds: vec![
                hold("mapped", "open in WAL mode", 1000),
                hold("read mark 2", "reads, 4000000 frames behind the newest (read mark 2)", 5000),
            ],
            since_ms: Some(1000),
            note: None,
            start_ticks: 0,
        }
    }

    #[test]
    fn lines_have_80_columns_and_say_how_long_it_has_been_so() {
        let unseen = Row {
            pid: None,
            holds: Vec::new(),
            note: Some("9 processes cannot be seen: run as root".to_owned()),
            ..row()
        };
        let now = Some(UNIX_EPOCH + Duration::from_secs(8));
        let text = table(Path::new("/d/a.db"), &[row(), unseen.clone()], now);
        assert!(text.lines().all(|line| line.chars().count() <= LINE_CHARS_MAX), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "4194304 fifteen-letters 2 STOPPED; open in WAL mode; reads, 4000000 frames",
            "(read mark 2), for 3 s; seen for 7 s",
            "9 processes cannot be seen: run as root",
        ] {
            assert!(words.contains(part), "{part}: {text}");
        }
        let nobody = table(Path::new("/d/a.db"), &[unseen], None);
        assert!(nobody.contains("nobody has it open, as far as can be seen\n"), "{nobody}");
        assert_eq!(table(Path::new("a.db"), &[], None), "a.db\n  nobody has it open\n");
        assert!(!table(Path::new("a.db"), &[row()], None).contains("seen for"));
    }
}
