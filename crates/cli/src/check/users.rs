//! The programs that have the database open: with which SQLite, and whether with Oneflush.

use oneflush_vfs::who::Row;

use super::facts::Facts;
use super::finding::{Finding, Status};
use super::libraries::{Found, Libraries};

const USERS: &str = "users";
/// So many processes of one program are named.
const NAMED: usize = 3;

/// What is found of one process. Processes of one program often have the same.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    status: Status,
    says: String,
    way_out: Option<&'static str>,
}

pub fn findings(facts: &Facts) -> Vec<Finding> {
    let rows = match &facts.users {
        Ok(rows) => rows,
        Err(why) => return vec![Finding::of_reason(Status::Unknown, USERS, why, "mount /proc")],
    };
    let is_wal = facts.survey.journal_mode == "wal";
    let mut libraries = Libraries::default();
    let mut groups: Vec<(String, Said, Vec<u32>)> = Vec::new();
    for row in rows {
        let Some(pid) = row.pid else { continue };
        let program = row.program.clone().unwrap_or_else(|| "?".to_owned());
        let all = match libraries.of_process(pid) {
            Ok(found) => said(row, &found, is_wal),
            Err(_) => vec![unseen()],
        };
        for said in all {
            match groups.iter_mut().find(|group| group.0 == program && group.1 == said) {
                Some(group) => group.2.push(pid),
                None => groups.push((program.clone(), said, vec![pid])),
            }
        }
    }
    let mut findings: Vec<Finding> = groups.into_iter().map(finding).collect();
    // All those that cannot be seen have one row.
    for note in rows.iter().filter(|row| row.pid.is_none()).filter_map(|row| row.note.as_ref()) {
        let (says, way_out) = note.split_once(": ").unwrap_or((note, "run as root"));
        findings.push(Finding::new(Status::Unknown, USERS, says, way_out));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(USERS, "nobody has it open"));
    }
    findings
}

fn finding((program, said, pids): (String, Said, Vec<u32>)) -> Finding {
    let named: Vec<String> = pids.iter().take(NAMED).map(u32::to_string).collect();
    let more = match pids.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Finding {
        about: USERS,
        status: said.status,
        says: format!("{program} ({}{more}): {}", named.join(", "), said.says),
        way_out: said.way_out.map(str::to_owned),
    }
}

fn unseen() -> Said {
    Said {
        status: Status::Unknown,
        says: "its SQLite cannot be seen".to_owned(),
        way_out: Some("run as root"),
    }
}

fn said(row: &Row, found: &Found, is_wal: bool) -> Vec<Said> {
    let has_oneflush = uses_oneflush(row, found);
    let mut all = Vec::new();
    if let [(first_name, first), (second_name, second), ..] = &found.sqlites[..] {
        let says = format!(
            "has two SQLites, {first} ({first_name}) and {second} ({second_name}). If both open \
                this database, a close in one takes the locks of the other away"
        );
        let way_out = "load one of them alone, so that all parts of the program use it";
        all.push(Said { status: Status::Warn, says, way_out: Some(way_out) });
    }
    let with = match (has_oneflush, row.strategy) {
        (true, Some(strategy)) => format!("with Oneflush ({strategy})"),
        (true, None) => "with Oneflush".to_owned(),
        (false, _) => "alone".to_owned(),
    };
    for (_, version) in &found.sqlites {
        let one = match version.has_wal_reset_bug() {
            Some(true) if is_wal && !has_oneflush => Said {
                status: Status::Warn,
                says: format!(
                    "{version} alone, in WAL mode. Its checkpoints can lose commits (the \
                        WAL-reset bug)"
                ),
                way_out: Some(
                    "update its SQLite to 3.51.3 (or 3.50.7, 3.44.6), or use Oneflush there",
                ),
            },
            None if is_wal && !has_oneflush => Said {
                status: Status::Unknown,
                says: format!("{version}, alone"),
                way_out: Some("look there that sqlite_version() is 3.51.3 or newer"),
            },
            _ => Said { status: Status::Ok, says: format!("{version} {with}"), way_out: None },
        };
        if !all.contains(&one) {
            all.push(one);
        }
    }
    if let Some(name) = &found.unread {
        all.push(Said {
            status: Status::Unknown,
            says: format!("{name} cannot be read, or was replaced since the program began"),
            way_out: Some("run as root, or start the program anew"),
        });
    }
    if all.is_empty() {
        all.push(match row.connections {
            None => unseen(),
            Some(_) => Said {
                status: Status::Unknown,
                says: "has it open, and no SQLite was found in it".to_owned(),
                way_out: Some("see that it only reads: a copy of a database in use may be torn"),
            },
        });
    }
    all
}

/// By its locks. Who has none has not read yet: then by what is loaded.
fn uses_oneflush(row: &Row, found: &Found) -> bool {
    let of_seatbelt = ["in use", "canary", "turn to close", "door", "WAL shown"];
    row.strategy.is_some()
        || row.holds.iter().any(|hold| of_seatbelt.contains(&hold.lock.as_str()))
        || (row.holds.is_empty() && found.has_oneflush)
}

#[cfg(test)]
mod tests {
    use oneflush_vfs::who::Hold;

    use super::super::version::Content;
    use super::*;

    #[test]
    fn processes_of_one_program_share_a_line() {
        let said =
            || Said { status: Status::Ok, says: "SQLite 3.54.1 alone".to_owned(), way_out: None };
        let found = finding(("app".to_owned(), said(), vec![1, 2, 3, 4, 5]));
        assert_eq!(found.says, "app (1, 2, 3 and 2 more): SQLite 3.54.1 alone");
        assert_eq!(
            finding(("app".to_owned(), said(), vec![7])).says,
            "app (7): SQLite 3.54.1 alone"
        );
    }

    fn row(strategy: Option<&'static str>, locks: &[&str]) -> Row {
        let hold = |lock: &&str| Hold {
            file: "a.db".to_owned(),
            lock: (*lock).to_owned(),
            exclusive: false,
            waits: false,
            frames_behind: None,
            says: String::new(),
            since_ms: None,
        };
        Row {
            pid: Some(7),
            program: Some("app".to_owned()),
            stopped: Some(false),
            connections: Some(1),
            strategy,
            holds: locks.iter().map(hold).collect(),
            since_ms: None,
            note: None,
            start_ticks: 0,
        }
    }

    #[test]
    fn an_affected_sqlite_is_warned_of_in_wal_mode_without_oneflush() {
        let bytes = b"cannot start a transaction within a transaction\0\
            2022-12-28 14:03:47 df5c253c0b3dd24916e4ec7cf77d3db5294cc9fd45ae7b9c5e82ad8197f3alt1\0\
            3.40.1\0";
        let version = Content::of(bytes).sqlite.unwrap();
        let found = |has_oneflush| Found {
            sqlites: vec![("libsqlite3.so".to_owned(), version.clone())],
            has_oneflush,
            unread: None,
        };
        let status = |row: &Row, is_wal, has_oneflush| {
            said(row, &found(has_oneflush), is_wal).iter().map(|said| said.status).max().unwrap()
        };
        let reader = row(None, &["SHARED", "mapped"]);
        assert_eq!(status(&reader, true, false), Status::Warn);
        assert_eq!(status(&reader, true, true), Status::Warn, "another connection has Oneflush");
        assert_eq!(status(&reader, false, false), Status::Ok);
        assert_eq!(status(&row(Some("plain"), &["SHARED"]), true, true), Status::Ok);
        assert_eq!(status(&row(None, &["SHARED", "in use"]), true, true), Status::Ok);
        assert_eq!(status(&row(None, &[]), true, true), Status::Ok, "it has not read yet");
        assert_eq!(status(&row(None, &[]), true, false), Status::Warn);
    }
}
