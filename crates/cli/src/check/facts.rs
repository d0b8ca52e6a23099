//! What the findings are made of.

use std::path::{Path, PathBuf};

use oneflush_vfs::who::{Asker, Row, who};
use oneflush_vfs::{InspectError, Survey, shown_name, survey, without_codes};

/// What the findings are made of.
pub(super) struct Facts {
    /// Without links: SQLite's other files lie beside what they lead to.
    pub database: PathBuf,
    /// Without its folder.
    pub name: String,
    pub survey: Survey,
    /// The processes that have it open. The error says why they cannot be seen.
    pub users: Result<Vec<Row>, String>,
}

impl Facts {
    pub fn of(database: PathBuf) -> Result<Facts, InspectError> {
        let name = shown_name(database.file_name().unwrap_or_default()).into_owned();
        let survey = survey(&database)?;
        let users =
            who(&database, Asker::Outside).map_err(|error| without_codes(&error.to_string()));
        Ok(Facts { database, name, survey, users })
    }

    pub fn folder(&self) -> &Path {
        self.database.parent().unwrap_or(Path::new("/"))
    }

    /// The processes that have it open, as far as they can be seen.
    pub fn processes(&self) -> impl Iterator<Item = &Row> {
        self.users.iter().flatten().filter(|row| row.pid.is_some())
    }

    /// A process has locks on it. In WAL mode that is each one that has read from it.
    pub fn is_in_use(&self) -> bool {
        self.processes().any(|row| !row.holds.is_empty()) || !self.survey.users.is_empty()
    }

    /// A process writes in a rollback mode just now.
    pub fn is_written(&self) -> bool {
        let writes = ["RESERVED", "PENDING", "EXCLUSIVE"];
        let mut holds = self.processes().flat_map(|row| &row.holds);
        holds.any(|hold| !hold.waits && writes.contains(&hold.lock.as_str()))
    }

    /// The size of a file beside the database. None: it is not there.
    pub fn side_bytes(&self, suffix: &str) -> Option<u64> {
        let mut files = self.survey.side_files.iter();
        files.find(|file| file.suffix == suffix).map(|file| file.bytes)
    }
}
