//! A journal that an earlier transaction has left, before a provider commits without one.
//!
//! SQLite deletes a journal without a sync of the directory, but at EXTRA. Its next transaction
//! syncs that directory, with its own journal. A commit without a journal does not. So a loss of
//! power could bring the deleted journal back, and SQLite would play it back over the commit.
//!
//! Whoever commits adds one to the file's change counter. While the counter is as this process left
//! it, nobody else has committed. What is not noticed: another process has spilled pages and rolled
//! back. (The log has no such question. Nobody writes a journal beside its guard.)

use super::journal::FINISHED_BYTES;
use super::overlay::Batch;
use crate::error::Code;
use crate::names::journal_path;
use crate::port::{Below, SyncRequest};
use crate::strategy::guard;
use crate::strategy::log_files::LogFiles;
use crate::sync::{Mutex, lock, ranks};

/// The change counter as this process has left it.
#[derive(Default)]
pub struct LastCommit(Mutex<Option<u32>, { ranks::FILES }>);

impl LastCommit {
    /// A batch is about to be committed. Makes sure that no journal of another can come back.
    pub fn bury_journal(
        &self,
        main: &dyn Below,
        files: &dyn LogFiles,
        database: &str,
    ) -> Result<(), Code> {
        let mut known = lock(&self.0);
        if known.is_some() && *known == guard::change_counter(&guard::header(main)?) {
            return Ok(());
        }
        *known = None;
        bury_journal(files, database)
    }

    /// A transaction of this process makes a real journal. It may fail before it has changed the
    /// counter.
    pub fn forget(&self) {
        *lock(&self.0) = None;
    }

    /// The batch was committed.
    pub fn note(&self, batch: &Batch<'_>) {
        *lock(&self.0) = batch.page(1).and_then(guard::change_counter);
    }
}

/// Makes it durable that the journal is finished, or not there. The caller has the database locked
/// exclusively, and SQLite has played back what was hot.
pub fn bury_journal(files: &dyn LogFiles, database: &str) -> Result<(), Code> {
    let path = journal_path(database);
    // The first sync of a journal that was opened to be created syncs the directory.
    let journal = files.create_journal(&path)?;
    journal.write(&[0; FINISHED_BYTES], 0)?;
    journal.sync(SyncRequest::ALL)?;
    drop(journal);
    files.delete(&path, false)
}
