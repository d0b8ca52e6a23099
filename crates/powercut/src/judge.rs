//! What real SQLite makes of a mounted state, against what the notes say.
//!
//! All of these must hold for the databases of each case that was begun before the cut:
//!
//! - Each holds a whole state of its commit order, with every commit that was acknowledged before
//!   the cut.
//! - `integrity_check` says ok.
//! - A second opening finds the same, a commit more works, and SQLite alone finds the same after
//!   the close.
//!
//! Plain files beside the databases have their own judge (`files`).

use std::collections::BTreeMap;
use std::path::Path;

use oneflush_crashlab::{
    Allowed, Found, NOTHING, SQLITE_ALONE, Setting, Workload, commit_one_more, look,
};

use crate::directory::Directory;
use crate::files::Files;
use crate::notes::{Note, directory_of};

/// A case that was begun, with what its databases may hold.
struct Case {
    workload: Workload,
    setting: Setting,
    allowed: Allowed,
}

/// All cases that were begun before a cut.
#[derive(Default)]
pub struct Cases {
    databases: BTreeMap<usize, Case>,
    files: Option<Files>,
}

impl Cases {
    /// Goes on by one note.
    pub fn follow(&mut self, note: &Note) -> Result<(), String> {
        match note {
            Note::Case { case, workload, setting, .. } => {
                let nothing = vec![NOTHING; workload.files().len()];
                let allowed = Allowed::from(&nothing);
                let case_of = Case { workload: *workload, setting: setting.clone(), allowed };
                self.databases.insert(*case, case_of);
                Ok(())
            }
            Note::Mark { case, mark } => match self.databases.get_mut(case) {
                Some(case) => {
                    case.allowed.follow(mark);
                    Ok(())
                }
                None => Err(format!("case {case} has a mark, and was not begun")),
            },
            Note::Files { seed } => {
                self.files = Some(Files::new(*seed));
                Ok(())
            }
            Note::Step { process, step, is_done } => match &mut self.files {
                Some(files) => files.follow(*process, *step, *is_done),
                None => Err("there is a step of plain files, which were not begun".to_owned()),
            },
        }
    }

    /// Says what is wrong with a mounted state, if anything.
    pub fn judge(&self, mounted: &Path) -> Result<(), String> {
        for (number, case) in &self.databases {
            case.judge(&mounted.join(directory_of(*number))).map_err(|error| {
                format!("case {number}, {}, {}: {error}", case.workload, case.setting)
            })?;
        }
        self.files.as_ref().map_or(Ok(()), |files| files.judge(mounted))
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
        let found = each(&|file| look(&directory, &self.setting, file, true))?;
        if let Some(objection) = self.allowed.objection(&found) {
            return Err(objection);
        }
        let again = each(&|file| {
            commit_one_more(&directory, &self.setting, file)
                .map_err(|error| format!("one commit more: {error}"))
        })?;
        if again != found {
            return Err(format!("{again:?} after one commit more than {found:?}"));
        }
        let alone = each(&|file| {
            look(&directory, &Setting::of(SQLITE_ALONE), file, false)
                .map_err(|error| format!("SQLite alone, after the close: {error}"))
        })?;
        if alone != found {
            return Err(format!("SQLite alone finds {alone:?} after the close of {found:?}"));
        }
        Ok(())
    }
}
