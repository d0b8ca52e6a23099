//! One transaction: its journal, its changes, and how it becomes an ordinary journaled one. The
//! states are at the head of [`maw`](super).
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. While it is absorbed, no file has anything of it.
//! 2. Before the first page is written in place, the journal is in a real file, and durable where
//!    SQLite has asked for a sync.
//! 3. What SQLite plays back is never committed (rule 2 of `maw`).
//! 4. In a real journal a header is valid only when its records are durable. SQLite's checksum of a
//!    record looks at one byte in 200, so a lost sector may pass it.

use super::journal::{Journal, VALID_BYTES};
use super::outcome::Outcome;
use super::overlay::{Batch, Overlay};
use crate::config::{Durability, Options};
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::names::journal_path;
use crate::port::{Below, SyncRequest};
use crate::strategy::guard;
use crate::strategy::log_files::LogFiles;

#[derive(Default)]
pub struct Transaction {
    journal: Journal,
    overlay: Overlay,
    /// The journal of an ordinary transaction. It stays open until SQLite closes it, for the sync
    /// that follows the end.
    real: Option<Box<dyn Below>>,
    is_ordinary: bool,
    /// The real journal was written to since its last sync.
    is_real_unsynced: bool,
    /// Begun by `SQLITE_FCNTL_BEGIN_ATOMIC_WRITE`, without a journal.
    is_batch: bool,
    /// SQLite has synced the journal or the database file.
    is_synced: bool,
    /// It is durable. Its journal has still to be ended.
    is_committed: bool,
    /// The next end of the journal fails with this code, once.
    fails_to_end: Option<Code>,
    /// Its journal may name a super-journal that is in memory only.
    pub is_named: bool,
    /// SQLite plays back the whole journal (invariant 3).
    plays_back: bool,
    /// A batch was committed. The sync that SQLite sends next has nothing left to do.
    is_batch_durable: bool,
}

/// What becomes of the call that ends a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is done.
    Done,
    /// It goes to the real journal.
    Ordinary,
}

/// The smallest and the largest page of SQLite.
const PAGE_BYTES: std::ops::RangeInclusive<u64> = 512..=65_536;

impl Transaction {
    pub fn is_none(&self) -> bool {
        !self.is_ordinary && !self.is_absorbed()
    }

    pub fn is_absorbed(&self) -> bool {
        !self.is_ordinary && (self.is_batch || !self.journal.is_empty())
    }

    pub fn is_ordinary(&self) -> bool {
        self.is_ordinary
    }

    /// SQLite has written to the journal, and not ended it.
    pub fn has_begun(&self) -> bool {
        self.is_ordinary || !self.journal.is_empty()
    }

    /// SQLite has asked for a sync, or the user has asked for one in every commit. Without either,
    /// `synchronous` is OFF.
    pub fn is_synced(&self, options: &Options) -> bool {
        self.is_synced || options.durability == Durability::Full
    }

    pub fn is_synced_by_sqlite(&self) -> bool {
        self.is_synced
    }

    pub fn memory_bytes(&self) -> u64 {
        self.journal.size_bytes() + self.overlay.bytes()
    }

    /// Something was written to the database.
    pub fn has_changes(&self) -> bool {
        !self.overlay.is_empty()
    }

    /// False after a rollback, or where nothing was written to the database.
    pub fn has_changes_to_commit(&mut self, main: &dyn Below) -> Result<bool, Code> {
        if self.overlay.is_empty() {
            return Ok(false);
        }
        let is_rolled_back = self.plays_back && !self.changes_page_one(main)?;
        Ok(!is_rolled_back || mutant::is(Mutant::RollbackCommits))
    }

    /// Page 1 is another one than in the file. What SQLite has played back is as in the file, and a
    /// commit changes the counter in that page.
    fn changes_page_one(&mut self, main: &dyn Below) -> Result<bool, Code> {
        let Some(batch) = self.overlay.batch(main)? else { return Ok(false) };
        let Some(page) = batch.page(1) else { return Ok(false) };
        let mut before = vec![0; page.len()];
        match guard::read(main, &mut before, 0) {
            Ok(()) => Ok(before != page),
            Err(Code::SHORT_READ) => Ok(false),
            Err(code) => Err(code),
        }
    }

    /// What the file below lacks.
    pub fn batch(&mut self, main: &dyn Below) -> Result<Option<Batch<'_>>, Code> {
        self.overlay.batch(main)
    }

    /// The changes are durable. What SQLite does until the journal's end is of no effect.
    pub fn note_committed(&mut self) {
        self.overlay.clear();
        self.is_committed = true;
    }

    /// The changes are durable, and SQLite is told that they are not. It would keep the pages that
    /// it plays back from the journal, unless that fails. Then it forgets all pages.
    pub fn fail_to_end(&mut self, code: Code) {
        self.fails_to_end = Some(code);
    }

    pub fn take_failure_to_end(&mut self) -> Option<Code> {
        self.fails_to_end.take()
    }

    pub fn is_committed(&self) -> bool {
        self.is_committed
    }

    pub fn begin_batch(&mut self) {
        self.is_batch = true;
        self.is_synced = true;
    }

    /// The transaction has ended. A real journal stays open until SQLite closes it.
    pub fn clear(&mut self) {
        self.journal.clear();
        self.overlay.clear();
        let is_batch_durable = self.is_batch && self.is_batch_durable;
        let real = self.real.take();
        *self = Transaction {
            journal: std::mem::take(&mut self.journal),
            real,
            is_batch_durable,
            ..Transaction::default()
        };
    }

    /// Commits the changes by `provide`.
    pub fn commit(
        &mut self,
        main: &dyn Below,
        provide: impl FnOnce(&Batch<'_>) -> Result<Outcome, Error>,
    ) -> Result<Outcome, Error> {
        let outcome = match self.overlay.batch(main)? {
            None => Outcome::Committed,
            Some(batch) => provide(&batch)?,
        };
        self.is_batch_durable = self.is_batch && outcome == Outcome::Committed;
        Ok(outcome)
    }

    /// Goes on as an ordinary journaled transaction. On an error before the first page is in place,
    /// it is as before.
    pub fn materialise(
        &mut self,
        main: &dyn Below,
        files: &dyn LogFiles,
        database: &str,
        options: &Options,
    ) -> Result<(), Error> {
        let path = journal_path(database);
        let real = files.create_journal(&path)?;
        let is_synced = self.is_synced(options);
        let written = write_journal(&*real, self.journal.bytes(), is_synced);
        if let Err(code) = written {
            drop(real);
            let _ = files.delete(&path, false);
            return Err(code.into());
        }
        KillPoint::JournalWritten.reached();
        // From here on SQLite plays back the real journal if anything fails (invariant 2).
        self.real = Some(real);
        self.is_ordinary = true;
        self.is_real_unsynced = !is_synced;
        self.journal.clear();
        let mut overlay = std::mem::take(&mut self.overlay);
        if let Some(batch) = overlay.batch(main)? {
            write_in_place(main, &batch)?;
        }
        KillPoint::Materialised.reached();
        Ok(())
    }

    /// The call that ends the journal goes to the real file. A commit at NORMAL is durable too:
    /// SQLite does not sync this end then.
    pub fn end_ordinary(
        &mut self,
        options: &Options,
        end: impl FnOnce(&dyn Below) -> Result<(), Code>,
    ) -> Result<(), Error> {
        let Some(real) = self.real.as_deref() else { return Err(Error::Below(Code::IOERR_WRITE)) };
        end(real)?;
        if self.is_synced(options) {
            real.sync(SyncRequest::ALL)?;
        }
        self.clear();
        Ok(())
    }

    /// True if reads of this range of the database file have to come here.
    pub fn covers(&self, offset: u64, len: u64) -> bool {
        self.overlay.covers(offset, len)
    }

    pub fn read(&self, below: &dyn Below, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        self.overlay.read(below, buffer, offset)
    }

    pub fn write(&mut self, below: &dyn Below, data: &[u8], offset: u64) -> Result<(), Error> {
        if self.leaves_playback_out() {
            return Ok(());
        }
        let unit_bytes = self.unit_bytes(below, data.len() as u64)?;
        Ok(self.overlay.write(below, unit_bytes, data, offset)?)
    }

    pub fn truncate(&mut self, below: &dyn Below, size_bytes: u64) -> Result<(), Error> {
        if self.leaves_playback_out() {
            return Ok(());
        }
        let unit_bytes = self.unit_bytes(below, *PAGE_BYTES.start())?;
        Ok(self.overlay.truncate(below, unit_bytes, size_bytes)?)
    }

    /// The page size of the file, or of a new file's first write.
    fn unit_bytes(&self, below: &dyn Below, first_write: u64) -> Result<u64, Code> {
        let is_page = |bytes: &u64| bytes.is_power_of_two() && PAGE_BYTES.contains(bytes);
        if let Some(unit_bytes) = self.overlay.unit_bytes() {
            return Ok(unit_bytes);
        }
        let of_file = match guard::header(below) {
            Ok(header) => u64::from(guard::page_bytes(&header)),
            Err(Code::SHORT_READ) => 0,
            Err(code) => return Err(code),
        };
        let known = [of_file, first_write].into_iter().find(is_page);
        Ok(known.unwrap_or(*PAGE_BYTES.start()))
    }

    pub fn size_bytes(&self) -> Option<u64> {
        self.overlay.size_bytes()
    }

    pub fn read_journal(&mut self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        if let Some(real) = self.real.as_deref() {
            return Ok(real.read(buffer, offset)?);
        }
        self.plays_back |= self.journal.begins_playback(buffer.len(), offset);
        Ok(self.journal.read(buffer, offset)?)
    }

    pub fn write_journal(&mut self, data: &[u8], offset: u64) -> Result<(), Error> {
        if self.is_ordinary {
            let real = self.real.as_deref().ok_or(Error::Below(Code::IOERR_WRITE))?;
            if self.is_real_unsynced && Journal::is_validated_by(data) {
                // Invariant 4.
                real.sync(SyncRequest::ALL)?;
            }
            self.is_real_unsynced = true;
            return Ok(real.write(data, offset)?);
        }
        // The next transaction begins.
        self.real = None;
        Ok(self.journal.write(data, offset)?)
    }

    pub fn truncate_journal(&mut self, size_bytes: u64) -> Result<(), Error> {
        match self.real.as_deref() {
            Some(real) => real.truncate(size_bytes)?,
            None => self.journal.truncate(size_bytes),
        }
        Ok(())
    }

    pub fn journal_size_bytes(&self) -> Result<u64, Error> {
        match self.real.as_deref() {
            Some(real) => Ok(real.size_bytes()?),
            None => Ok(self.journal.size_bytes()),
        }
    }

    pub fn sync_journal(&mut self, request: SyncRequest) -> Result<(), Error> {
        self.note_sync();
        if let Some(real) = self.real.as_deref() {
            real.sync(request)?;
            self.is_real_unsynced = false;
        }
        Ok(())
    }

    /// A mutant: others see the absorbed journal.
    pub fn show_journal(&self, files: &dyn LogFiles, database: &str) -> Result<(), Code> {
        if !self.is_absorbed() {
            return Ok(());
        }
        let real = files.create_journal(&journal_path(database))?;
        write_journal(&*real, self.journal.bytes(), true)
    }

    /// A mutant: the playback of a rollback changes nothing.
    fn leaves_playback_out(&self) -> bool {
        self.plays_back && mutant::is(Mutant::RollbackCommits)
    }

    pub fn note_sync(&mut self) {
        self.is_synced = true;
    }

    /// A sync of the database file. True: there is nothing to do.
    pub fn sync_database(&mut self) -> bool {
        self.is_synced |= !self.is_none();
        if self.is_absorbed() {
            return true;
        }
        std::mem::take(&mut self.is_batch_durable)
    }

    /// SQLite closes the journal. The absorbed one outlives that (rule 1).
    pub fn close_journal(&mut self) {
        self.real = None;
    }
}

/// Writes a real journal, durably where that is wanted (invariant 4).
fn write_journal(real: &dyn Below, bytes: &[u8], is_synced: bool) -> Result<(), Code> {
    if !is_synced {
        return real.write(bytes, 0);
    }
    let (valid, records) = bytes.split_at(VALID_BYTES.min(bytes.len()));
    real.write(&[0; VALID_BYTES][..valid.len()], 0)?;
    real.write(records, VALID_BYTES as u64)?;
    real.sync(SyncRequest::ALL)?;
    real.write(valid, 0)?;
    real.sync(SyncRequest::ALL)
}

fn write_in_place(main: &dyn Below, batch: &Batch<'_>) -> Result<(), Code> {
    for (offset, unit) in batch.writes() {
        main.write(unit, offset)?;
    }
    if main.size_bytes()? != batch.size_bytes {
        main.truncate(batch.size_bytes)?;
    }
    Ok(())
}
