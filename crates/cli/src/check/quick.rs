//! `--quick`: SQLite's `PRAGMA quick_check`, on the database file alone.
//!
//! SQLite opens it with `immutable=1`: it takes no lock, looks for no journal or WAL, and writes
//! nothing. So that is done only where the file alone is the database. The answer counts only if
//! the file did not change meanwhile.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::facts::Facts;
use super::finding::{Finding, Status};
use super::state::unsettled;
use crate::uri;
use crate::watch::Watch;

const CONTENT: &str = "content";
/// So many faults are counted, and so many are told.
const FAULTS_MAX: usize = 100;
const TOLD: usize = 3;

pub fn finding(facts: &Facts) -> Finding {
    if facts.survey.bytes == 0 {
        return Finding::ok(CONTENT, "nothing to read: the file is empty");
    }
    if let Some(why) = unsettled(facts) {
        let way_out = match facts.is_in_use() {
            true => "run PRAGMA quick_check in a program that has it open",
            false => "see above; when it is recovered, check again",
        };
        return Finding::new(Status::Unknown, CONTENT, format!("not read: {why}"), way_out);
    }
    let before = Moment::of(&facts.database);
    let found = quick_check(facts);
    let is_same = before.is_some() && before == Moment::of(&facts.database);
    let again = "check again while nobody writes, or run PRAGMA quick_check in a program";
    match found {
        _ if !is_same => {
            Finding::new(Status::Unknown, CONTENT, "it was changed while it was read", again)
        }
        Ok(faults) if faults.is_empty() => Finding::ok(CONTENT, "quick_check found nothing"),
        Ok(faults) => damaged(facts, &faults),
        Err(rusqlite::Error::SqliteFailure(error, text))
            if matches!(error.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) =>
        {
            damaged(facts, &[text.unwrap_or_else(|| error.to_string())])
        }
        Err(error) => {
            let says = format!("quick_check ended early: {error}");
            Finding::new(Status::Unknown, CONTENT, says, again)
        }
    }
}

fn damaged(facts: &Facts, faults: &[String]) -> Finding {
    let name = &facts.name;
    let told = faults.iter().take(TOLD).map(|fault| fault.replace('\n', " "));
    let more = match faults.len() {
        all if all >= FAULTS_MAX => "; and more".to_owned(),
        all if all > TOLD => format!("; and {} more", all - TOLD),
        _ => String::new(),
    };
    let says = format!("quick_check: {}{more}", told.collect::<Vec<_>>().join("; "));
    let way_out = format!("copy {name}* aside; restore a backup, or sqlite3 {name} .recover");
    Finding::new(Status::Fault, CONTENT, says, way_out)
}

/// What changes with each write to the database file or its WAL.
#[derive(Debug, PartialEq, Eq)]
struct Moment([Option<(SystemTime, u64, u64)>; 3]);

impl Moment {
    /// None: the database file is gone.
    fn of(database: &Path) -> Option<Moment> {
        let of = |suffix: &str| {
            let mut name = database.as_os_str().to_owned();
            name.push(suffix);
            let file = fs::metadata(name).ok()?;
            Some((file.modified().ok()?, file.len(), file.ino()))
        };
        let moment = Moment(["", "-wal", "-journal"].map(of));
        moment.0[0].is_some().then_some(moment)
    }
}

fn quick_check(facts: &Facts) -> rusqlite::Result<Vec<String>> {
    let uri = format!("{}?immutable=1", uri::without_parameters(&facts.database));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags_and_vfs(uri, flags, "unix")?;
    let begun = bytes_read();
    // The structure of all pages, and then each row once more: this much at most.
    let all = 2 * facts.survey.bytes;
    let share = || Some((bytes_read()?.saturating_sub(begun?), all));
    let check = || {
        let mut statement = db.prepare(&format!("PRAGMA quick_check({FAULTS_MAX})"))?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        let found: rusqlite::Result<Vec<String>> = rows.collect();
        Ok(found?.into_iter().filter(|row| row != "ok").collect())
    };
    let handle = db.get_interrupt_handle();
    Watch::new(&facts.database).during("reading its pages", Some(&handle), share, check)
}

/// By calls of this process.
fn bytes_read() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}
