//! What real SQLite makes of a mounted state, against what the notes say.
//!
//! All of these must hold for the databases of each case that was begun before the cut:
//!
//! - Each holds a whole state of its commit order, with every commit that was acknowledged before
//!   the cut.
//! - `integrity_check` says ok.
//! - A second opening finds the same, a commit more works, and SQLite alone finds the same after
//!   the close.

use std::collections::BTreeMap;
use std::path::Path;

use oneflush_crashlab::{Allowed, Found, NOTHING, SQLITE_ALONE, Setting, Workload, find};
use rusqlite::OptionalExtension as _;

use crate::notes::{Note, directory_of};
use crate::work::Directory;

/// A case that was begun, with what its databases may hold.
struct Case {
    workload: Workload,
    setting: Setting,
    allowed: Allowed,
}

/// All cases that were begun before a cut.
#[derive(Default)]
pub struct Cases(BTreeMap<usize, Case>);

impl Cases {
    /// Goes on by one note.
    pub fn follow(&mut self, note: &Note) -> Result<(), String> {
        match note {
            Note::Case { case, workload, setting, .. } => {
                let nothing = vec![NOTHING; workload.files().len()];
                let allowed = Allowed::from(&nothing);
                self.0
                    .insert(*case, Case { workload: *workload, setting: setting.clone(), allowed });
                Ok(())
            }
            Note::Mark { case, mark } => match self.0.get_mut(case) {
                Some(case) => {
                    case.allowed.follow(mark);
                    Ok(())
                }
                None => Err(format!("case {case} has a mark, and was not begun")),
            },
        }
    }

    /// Says what is wrong with a mounted state, if anything.
    pub fn judge(&self, mounted: &Path) -> Result<(), String> {
        for (number, case) in &self.0 {
            case.judge(&mounted.join(directory_of(*number))).map_err(|error| {
                format!("case {number}, {}, {}: {error}", case.workload, case.setting)
            })?;
        }
        Ok(())
    }
}

impl Case {
    fn judge(&self, directory: &Path) -> Result<(), String> {
        // Its name is the file system's to lose until a file in it is durable.
        std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
        let directory = Directory::unnoted(directory.to_owned());
        let files = self.workload.files();
        let each = |look: &dyn Fn(&String) -> Result<Found, String>| {
            let looked = |file| look(file).map_err(|error| format!("{file}: {error}"));
            files.iter().map(looked).collect::<Result<Vec<Found>, String>>()
        };
        let found = each(&|file| self.look(&directory, file))?;
        if let Some(objection) = self.allowed.objection(&found) {
            return Err(objection);
        }
        let again = each(&|file| self.commit_one_more(&directory, file))?;
        if again != found {
            return Err(format!("{again:?} after one commit more than {found:?}"));
        }
        let alone = each(&|file| look_alone(&directory, file))?;
        if alone != found {
            return Err(format!("SQLite alone finds {alone:?} after the close of {found:?}"));
        }
        Ok(())
    }

    fn look(&self, directory: &Directory<'_>, file: &str) -> Result<Found, String> {
        let text = |error: rusqlite::Error| error.to_string();
        let connection = self.setting.open(directory, 0, file).map_err(text)?;
        let found = find(&connection, "main").map_err(text)?;
        let verdict: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(text)?;
        if verdict != "ok" {
            return Err(format!("integrity_check: {verdict}"));
        }
        connection.close().map_err(|(_, error)| format!("close: {error}"))?;
        Ok(found)
    }

    fn commit_one_more(&self, directory: &Directory<'_>, file: &str) -> Result<Found, String> {
        let text = |error: rusqlite::Error| format!("one commit more: {error}");
        let connection = self.setting.open(directory, 0, file).map_err(text)?;
        let journal = format!("PRAGMA journal_mode={}", self.setting.journal.name());
        connection.query_row(&journal, [], |_| Ok(())).optional().map_err(text)?;
        connection
            .execute_batch(
                "BEGIN IMMEDIATE; CREATE TABLE later(v);
                 INSERT INTO later VALUES(zeroblob(3000)); COMMIT",
            )
            .map_err(text)?;
        let found = find(&connection, "main").map_err(text)?;
        connection.close().map_err(|(_, error)| format!("close: {error}"))?;
        Ok(found)
    }
}

fn look_alone(directory: &Directory<'_>, file: &str) -> Result<Found, String> {
    let text = |error: rusqlite::Error| format!("SQLite alone, after the close: {error}");
    let connection = Setting::of(SQLITE_ALONE).open(directory, 0, file).map_err(text)?;
    find(&connection, "main").map_err(text)
}
