//! What the names in a trace stand for: the names of files, and those of threads.

use std::sync::Arc;

use super::databases::Databases;
use super::files::{self, Role, Writer};
use crate::model::{NameId, Names};

#[derive(Clone)]
pub(super) enum File {
    Of(usize, Role),
    SuperJournal(Arc<str>),
}

/// By the numbers of the names.
#[derive(Default)]
pub(super) struct Meanings {
    files: Vec<Option<File>>,
    writers: Vec<Option<Writer>>,
    /// A file had a name.
    pub(super) names_seen: bool,
}

impl Meanings {
    /// What a thread of this name writes for.
    pub(super) fn writer(&mut self, name: Option<NameId>, names: &Names) -> Writer {
        let Some(name) = name else { return Writer::Program };
        let number = name.0 as usize;
        if let Some(&Some(known)) = self.writers.get(number) {
            return known;
        }
        if self.writers.len() <= number {
            self.writers.resize(number + 1, None);
        }
        *self.writers[number].insert(files::writer(names.text(name)))
    }

    /// The file is a database of LS-MVBT from here on, or none any more.
    pub(super) fn is_lsmvbt(
        &mut self,
        file: NameId,
        names: &Names,
        databases: &mut Databases,
        is_lsmvbt: bool,
    ) -> Option<usize> {
        let number = file.0 as usize;
        if self.files.len() <= number {
            self.files.resize(number + 1, None);
        }
        if !is_lsmvbt {
            self.files[number] = None;
            return None;
        }
        let path = names.text(file);
        self.names_seen |= path.contains('/');
        let index = databases.with_path(path);
        self.files[number] = Some(File::Of(index, Role::Lsmvbt));
        Some(index)
    }

    /// The role of the file, and its database.
    pub(super) fn file(
        &mut self,
        file: NameId,
        names: &Names,
        databases: &mut Databases,
    ) -> Option<File> {
        let number = file.0 as usize;
        if let Some(Some(known)) = self.files.get(number) {
            return Some(known.clone());
        }
        let path = names.text(file);
        // A path without a folder is the number of an inode whose name nobody knows.
        self.names_seen |= path.contains('/');
        let known = match files::classify(path) {
            Some((main, Role::SuperJournal)) => File::SuperJournal(main.into()),
            Some((database, role)) => File::Of(databases.with_path(database), role),
            None => File::Of(databases.of_path(path)?, Role::Database),
        };
        if self.files.len() <= number {
            self.files.resize(number + 1, None);
        }
        self.files[number] = Some(known.clone());
        Some(known)
    }
}
