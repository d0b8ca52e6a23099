//! F2FS's atomic write as a provider (rule 7 of `maw`).
//!
//! | step | what survives a crash after it |
//! |---|---|
//! | 1. start | nothing of the transaction |
//! | 2. each page is written, behind the end of the file too | the same: F2FS keeps them apart |
//! | 3. commit | the transaction, durably |
//! | 4. the file is made shorter, where the transaction has done so | the transaction |
//!
//! A crash before step 4 leaves a file that is longer than its header says. SQLite takes no notice
//! of the rest. So an error of step 4 is none of the transaction.
//!
//! - What cannot start is declined: another owner's file, a pinned or compressed one. So is a new
//!   database, since the first kernels with this call make a file longer before the commit.
//! - Any other error aborts the write. Afterwards the file is as before, except where the commit
//!   itself fails after its pages are in place: see [`Poison`].
//! - `EAGAIN` of a commit is an error of the commit. SQLite's user may repeat the transaction.
//! - Before a connection reads, it aborts what a dead process may have left.

use super::outcome::Outcome;
use super::overlay::Batch;
use super::provider::{Poison, Provider};
use crate::config::Atomic;
use crate::error::{Code, Error};
use crate::port::{AtomicWrite, Below};

/// A block of F2FS.
const BLOCK_BYTES: u64 = 4096;

pub struct F2fs {
    file: Box<dyn AtomicWrite>,
    poison: Poison,
}

impl F2fs {
    pub fn new(file: Box<dyn AtomicWrite>) -> F2fs {
        F2fs { file, poison: Poison::default() }
    }

    /// Steps 2 and 3.
    fn write(&self, main: &dyn Below, batch: &Batch<'_>) -> Result<(), Code> {
        for (offset, unit) in batch.writes() {
            self.file.write(main, batch.inside(offset, unit), offset)?;
        }
        self.file.commit(main)
    }

    /// The file is as before the start, or the provider is poisoned.
    fn undo(&self, main: &dyn Below, batch: &Batch<'_>) {
        self.file.abort(main);
        if self.poison.after_error(main, batch) {
            self.file.say_unknown();
        } else if main.size_bytes().is_ok_and(|size_bytes| size_bytes > batch.size_bytes_before) {
            let _ = main.truncate(batch.size_bytes_before);
        }
    }
}

impl Provider for F2fs {
    fn commit(&self, main: &dyn Below, batch: &Batch<'_>) -> Result<Outcome, Error> {
        self.poison.check()?;
        let new = batch.size_bytes_before..batch.size_bytes;
        let comes_in_parts = !new.is_empty() && !batch.unit_bytes.is_multiple_of(BLOCK_BYTES);
        if new.start == 0 || !self.file.start(main, comes_in_parts.then_some(new)) {
            return Ok(Outcome::Declined);
        }
        if let Err(code) = self.write(main, batch) {
            self.undo(main, batch);
            return Err(code.into());
        }
        if batch.size_bytes < batch.size_bytes_before {
            let _ = main.truncate(batch.size_bytes);
        }
        Ok(Outcome::Committed)
    }

    fn before_reading(&self, main: &dyn Below) {
        self.file.abort(main);
    }

    fn keeps_order(&self) -> bool {
        false
    }

    fn kind(&self) -> Atomic {
        Atomic::F2fs
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use super::super::fakes::{Call, Disk, changes, overlay_of};
    use super::*;

    impl AtomicWrite for Arc<Disk> {
        fn start(&self, _: &dyn Below, _: Option<Range<u64>>) -> bool {
            self.step(Call::Start).is_ok() && {
                self.begin();
                true
            }
        }

        fn commit(&self, _: &dyn Below) -> Result<(), Code> {
            self.step(Call::Commit)?;
            self.end(true);
            self.step(Call::Durable)
        }

        fn abort(&self, _: &dyn Below) {
            self.end(false);
        }

        fn say_unknown(&self) {
            self.say();
        }
    }

    #[test]
    fn all_changes_are_there_after_a_commit() {
        for (name, change) in changes() {
            let (disk, mut overlay, expected) = overlay_of(change);
            let provider = F2fs::new(Box::new(Arc::clone(&disk)));
            let batch = overlay.batch(&*disk).unwrap().unwrap();
            assert_eq!(provider.commit(&*disk, &batch).unwrap(), Outcome::Committed, "{name}");
            assert_eq!(disk.bytes(), expected, "{name}");
        }
    }

    #[test]
    fn an_error_at_any_call_leaves_the_file_as_it_was() {
        for (name, change) in changes() {
            for failing in [Call::Write, Call::Commit] {
                let (disk, mut overlay, expected) = overlay_of(change);
                let before = disk.bytes();
                let provider = F2fs::new(Box::new(Arc::clone(&disk)));
                let batch = overlay.batch(&*disk).unwrap().unwrap();
                if failing == Call::Write && batch.units.is_empty() {
                    continue;
                }
                disk.fail(failing, Code::FULL);
                let error = provider.commit(&*disk, &batch).unwrap_err();
                assert_eq!(error.code(), Code::FULL.0, "{name}, {failing:?}");
                assert_eq!((disk.bytes(), disk.has_said()), (before, false), "{name}, {failing:?}");
                // The next attempt succeeds.
                assert_eq!(provider.commit(&*disk, &batch).unwrap(), Outcome::Committed);
                assert_eq!(disk.bytes(), expected, "{name}, {failing:?}");
            }
        }
    }

    #[test]
    fn what_cannot_start_and_a_new_database_are_declined() {
        for (name, change) in changes() {
            let (disk, mut overlay, _) = overlay_of(change);
            let before = disk.bytes();
            let provider = F2fs::new(Box::new(Arc::clone(&disk)));
            let batch = overlay.batch(&*disk).unwrap().unwrap();
            disk.fail(Call::Start, Code::READONLY);
            assert_eq!(provider.commit(&*disk, &batch).unwrap(), Outcome::Declined, "{name}");
            assert_eq!(disk.bytes(), before, "{name}");
            let new = Batch { size_bytes_before: 0, ..batch };
            assert_eq!(provider.commit(&*disk, &new).unwrap(), Outcome::Declined, "{name}");
            assert_eq!(disk.bytes(), before, "{name}");
        }
    }

    #[test]
    fn after_a_commit_that_nobody_knows_the_connection_commits_nothing_more() {
        let (disk, mut overlay, _) = overlay_of(changes()[0].1);
        let provider = F2fs::new(Box::new(Arc::clone(&disk)));
        let batch = overlay.batch(&*disk).unwrap().unwrap();
        disk.fail(Call::Durable, Code::IOERR_FSYNC);
        assert!(provider.commit(&*disk, &batch).is_err() && disk.has_said());
        assert!(provider.commit(&*disk, &batch).is_err());
    }

    #[test]
    fn an_error_of_the_last_truncation_is_none_of_the_transaction() {
        for (name, change) in changes() {
            let (disk, mut overlay, expected) = overlay_of(change);
            let provider = F2fs::new(Box::new(Arc::clone(&disk)));
            let batch = overlay.batch(&*disk).unwrap().unwrap();
            disk.fail(Call::Truncate, Code::IOERR_WRITE);
            assert_eq!(provider.commit(&*disk, &batch).unwrap(), Outcome::Committed, "{name}");
            assert!(disk.bytes().starts_with(&expected), "{name}");
        }
    }

    #[test]
    fn a_reader_ends_what_a_dead_process_has_left() {
        let (disk, _, _) = overlay_of(changes()[0].1);
        let before = disk.bytes();
        let provider = F2fs::new(Box::new(Arc::clone(&disk)));
        disk.begin();
        Below::write(&*disk, &[0xee; 700], 100).unwrap();
        provider.before_reading(&*disk);
        assert_eq!(disk.bytes(), before);
    }
}
