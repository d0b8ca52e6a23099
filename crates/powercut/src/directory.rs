//! The machine of an actor: a directory of a real file system, and the notes of its commits.

use std::path::PathBuf;

use oneflush_crashlab::{Machine, Mark};

use crate::notes::{Note, Notes};

/// A directory of a real file system.
pub struct Directory<'a> {
    path: PathBuf,
    notes: Option<(&'a Notes, usize)>,
    has_others: bool,
}

impl<'a> Directory<'a> {
    /// One whose commits are noted, for a case.
    pub fn noted(path: PathBuf, notes: &'a Notes, case: usize) -> Directory<'a> {
        Directory { path, notes: Some((notes, case)), has_others: false }
    }

    /// The same, where other processes change the databases, too.
    pub fn shared(path: PathBuf, notes: &'a Notes, case: usize) -> Directory<'a> {
        Directory { has_others: true, ..Directory::noted(path, notes, case) }
    }

    pub fn unnoted(path: PathBuf) -> Directory<'a> {
        Directory { path, notes: None, has_others: false }
    }
}

impl Machine for Directory<'_> {
    const BASE_VFS: &'static str = "unix";

    fn path(&self, _process: usize, file: &str) -> String {
        format!("{}{file}", self.path.display())
    }

    fn has_others(&self) -> bool {
        self.has_others
    }

    fn mark(&self, mark: Mark) {
        if let Some((notes, case)) = self.notes
            && let Err(error) = notes.write(&Note::Mark { case, mark })
        {
            // A commit that is not noted could be lost without a word.
            eprintln!("powercut: the notes: {error}");
            std::process::exit(1);
        }
    }
}
