//! Figures by class of bytes.

use serde::Serialize;

/// One thing for each class of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByClass<T> {
    pub db: T,
    pub journal: T,
    pub fs_journal: T,
    pub metadata: T,
}

impl<T> ByClass<T> {
    /// In the order of [`super::CLASSES`].
    pub fn of(make: impl FnMut(usize) -> T) -> ByClass<T> {
        let [db, journal, fs_journal, metadata] = [0, 1, 2, 3].map(make);
        ByClass { db, journal, fs_journal, metadata }
    }

    pub fn as_array(&self) -> [&T; 4] {
        [&self.db, &self.journal, &self.fs_journal, &self.metadata]
    }
}

impl ByClass<u64> {
    pub fn total(&self) -> u64 {
        self.as_array().into_iter().sum()
    }

    pub(super) fn add(&mut self, bytes: [u64; 4]) {
        let own = [&mut self.db, &mut self.journal, &mut self.fs_journal, &mut self.metadata];
        own.into_iter().zip(bytes).for_each(|(own, bytes)| *own += bytes);
    }
}
