//! XFS's exchange of file contents as a provider (rule 6 of `maw`).
//!
//! | step | what survives a crash after it |
//! |---|---|
//! | 1. the temporary file is emptied, and gets the length | nothing of the transaction |
//! | 2. the database file is made longer, where it grows | the same; the file is longer |
//! | 3. whole blocks with the pages are written to it, at their own offsets | the same |
//! | 4. the exchange | the transaction, durably |
//! | 5. the file is made shorter, where the transaction has done so | the transaction |
//!
//! A crash after step 2 or 4 leaves a file that is longer than its header says. SQLite takes no
//! notice of the rest. So an error of step 5 is none of the transaction. A new database has no
//! header that says so: it is declined.
//!
//! - Pages that are smaller than a block carry their neighbours, from the file as it is after
//!   step 2. The block at the end of the file goes over only as far as the file does.
//! - Blocks come back by the exchange: step 1 throws them away. Otherwise old pages would go over
//!   with the next one.
//! - After an error of steps 1 to 4 the file gets its old length back. So it does where the kernel
//!   refuses the two files; then the provider declines.
//! - An error of step 4 within its chain of transactions shuts the file system down. Whether the
//!   transaction survives is known after the next mount: see [`Poison`].

use super::outcome::Outcome;
use super::overlay::Batch;
use super::provider::{Poison, Provider};
use crate::config::Atomic;
use crate::error::{Code, Error};
use crate::mutant::{self, Mutant};
use crate::port::{Below, ExchangeFile};

pub struct Xfs {
    file: Box<dyn ExchangeFile>,
    poison: Poison,
}

impl Xfs {
    pub fn new(file: Box<dyn ExchangeFile>) -> Xfs {
        Xfs { file, poison: Poison::default() }
    }

    /// Steps 1 to 4. False: the kernel refuses the exchange.
    fn exchange(&self, main: &dyn Below, batch: &Batch<'_>) -> Result<bool, Code> {
        let size_bytes = batch.size_bytes.max(batch.size_bytes_before);
        if !mutant::is(Mutant::TemporaryNotEmptied) {
            self.file.empty()?;
        }
        self.file.resize(size_bytes)?;
        if size_bytes > batch.size_bytes_before {
            main.truncate(size_bytes)?;
        }
        let mut blocks = Blocks { file: &*self.file, main, size_bytes, block: None, first: None };
        for (offset, unit) in batch.writes() {
            blocks.write(batch.inside(offset, unit), offset)?;
        }
        blocks.finish()?;
        let Some(first) = blocks.first else { return Ok(true) };
        let block_bytes = self.file.block_bytes();
        let end = batch.end_bytes().min(batch.size_bytes).next_multiple_of(block_bytes);
        self.file.exchange(main, first..end.min(size_bytes))
    }

    fn undo(&self, main: &dyn Below, batch: &Batch<'_>) {
        if self.poison.after_error(main, batch) {
            self.file.say_unknown();
        } else if batch.size_bytes > batch.size_bytes_before {
            let _ = main.truncate(batch.size_bytes_before);
        }
        // The room that it takes may be what somebody lacks.
        let _ = self.file.empty();
    }
}

impl Provider for Xfs {
    fn commit(&self, main: &dyn Below, batch: &Batch<'_>) -> Result<Outcome, Error> {
        self.poison.check()?;
        if batch.size_bytes_before == 0 {
            return Ok(Outcome::Declined);
        }
        match self.exchange(main, batch) {
            Ok(true) => {}
            Ok(false) => {
                self.undo(main, batch);
                return Ok(Outcome::Declined);
            }
            Err(code) => {
                self.undo(main, batch);
                return Err(code.into());
            }
        }
        if batch.size_bytes < batch.size_bytes_before {
            let _ = main.truncate(batch.size_bytes);
        }
        Ok(Outcome::Committed)
    }

    fn before_reading(&self, _: &dyn Below) {}

    /// Names and exchanges go through one log, which the exchange forces.
    fn keeps_order(&self) -> bool {
        true
    }

    fn kind(&self) -> Atomic {
        Atomic::Xfs
    }
}

/// Writes whole blocks to the temporary file.
struct Blocks<'a> {
    file: &'a dyn ExchangeFile,
    main: &'a dyn Below,
    /// Of both files.
    size_bytes: u64,
    /// A block of which a part was written, with its neighbours, and where it is.
    block: Option<(u64, Vec<u8>)>,
    /// Where the first block is.
    first: Option<u64>,
}

impl Blocks<'_> {
    /// In the order of the offsets.
    fn write(&mut self, data: &[u8], offset: u64) -> Result<(), Code> {
        let block_bytes = self.file.block_bytes();
        self.first.get_or_insert(offset / block_bytes * block_bytes);
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (of, inside) = (at / block_bytes * block_bytes, (at % block_bytes) as usize);
            if inside == 0 {
                // As many whole blocks as there are.
                let whole = (data.len() - done) as u64 / block_bytes * block_bytes;
                if whole > 0 {
                    self.file.write(&data[done..done + whole as usize], at)?;
                    done += whole as usize;
                    continue;
                }
            }
            let part = (block_bytes as usize - inside).min(data.len() - done);
            let block = self.block_at(of)?;
            block[inside..inside + part].copy_from_slice(&data[done..done + part]);
            done += part;
        }
        Ok(())
    }

    fn block_at(&mut self, of: u64) -> Result<&mut [u8], Code> {
        if self.block.as_ref().is_none_or(|(there, _)| *there != of) {
            self.finish()?;
            let len = self.file.block_bytes().min(self.size_bytes.saturating_sub(of));
            let mut bytes = vec![0; len as usize];
            match self.main.read(&mut bytes, of) {
                Ok(()) | Err(Code::SHORT_READ) => self.block = Some((of, bytes)),
                Err(code) => return Err(code),
            }
        }
        self.block.as_mut().map(|(_, bytes)| &mut bytes[..]).ok_or(Code::IOERR_WRITE)
    }

    fn finish(&mut self) -> Result<(), Code> {
        match self.block.take() {
            Some((of, bytes)) => self.file.write(&bytes, of),
            None => Ok(()),
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use super::super::fakes::{Call, Disk, Temporary, changes, overlay_of};
    use super::*;

    /// The last one: its blocks stay, against the contract.
    struct Fake(Arc<Disk>, Temporary, bool);

    impl ExchangeFile for Fake {
        fn block_bytes(&self) -> u64 {
            self.1.block_bytes
        }

        fn empty(&self) -> Result<(), Code> {
            self.0.step(Call::Empty)?;
            if !self.2 {
                self.1.resize(0);
            }
            Ok(())
        }

        fn resize(&self, size_bytes: u64) -> Result<(), Code> {
            self.0.step(Call::Resize)?;
            self.1.resize(size_bytes);
            Ok(())
        }

        fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
            self.0.step(Call::TemporaryWrite)?;
            self.1.write(data, offset);
            Ok(())
        }

        fn exchange(&self, _: &dyn Below, range: Range<u64>) -> Result<bool, Code> {
            self.0.step(Call::Exchange)?;
            if self.0.step(Call::Refused).is_err() {
                return Ok(false);
            }
            self.1.exchange(&self.0, range);
            self.0.step(Call::Durable).map(|()| true)
        }

        fn say_unknown(&self) {
            self.0.say();
        }
    }

    fn provider(disk: &Arc<Disk>, block_bytes: u64) -> Xfs {
        Xfs::new(Box::new(Fake(Arc::clone(disk), Temporary::new(block_bytes), false)))
    }

    const BLOCKS: [u64; 3] = [512, 1024, 4096];

    #[test]
    fn all_changes_are_there_after_a_commit_and_the_neighbours_stay() {
        for block_bytes in BLOCKS {
            for (name, change) in changes() {
                let (disk, mut overlay, expected) = overlay_of(change);
                let provider = provider(&disk, block_bytes);
                let batch = overlay.batch(&*disk).unwrap().unwrap();
                let outcome = provider.commit(&*disk, &batch).unwrap();
                assert_eq!(outcome, Outcome::Committed, "{name}, {block_bytes}");
                assert!(disk.bytes() == expected, "{name}, {block_bytes}");
            }
        }
    }

    #[test]
    fn an_error_at_any_call_leaves_the_file_as_it_was() {
        for block_bytes in BLOCKS {
            for (name, change) in changes() {
                for failing in [Call::Empty, Call::Resize, Call::TemporaryWrite, Call::Exchange] {
                    let (disk, mut overlay, expected) = overlay_of(change);
                    let before = disk.bytes();
                    let provider = provider(&disk, block_bytes);
                    let batch = overlay.batch(&*disk).unwrap().unwrap();
                    disk.fail(failing, Code::FULL);
                    let of = format!("{name}, {block_bytes}, {failing:?}");
                    match provider.commit(&*disk, &batch) {
                        Err(error) => assert_eq!(error.code(), Code::FULL.0, "{of}"),
                        // A mere cut writes nothing.
                        Ok(_) => assert!(batch.units.is_empty(), "{of}"),
                    }
                    if !batch.units.is_empty() {
                        assert!(disk.bytes() == before && !disk.has_said(), "{of}");
                    }
                    disk.heal();
                    assert_eq!(provider.commit(&*disk, &batch).unwrap(), Outcome::Committed);
                    assert!(disk.bytes() == expected, "{of}");
                }
            }
        }
    }

    #[test]
    fn an_exchange_that_is_refused_and_a_new_database_are_declined() {
        for (name, change) in changes() {
            let (disk, mut overlay, _) = overlay_of(change);
            let before = disk.bytes();
            let provider = provider(&disk, 4096);
            let batch = overlay.batch(&*disk).unwrap().unwrap();
            if !batch.units.is_empty() {
                disk.fail(Call::Refused, Code::READONLY);
                assert_eq!(provider.commit(&*disk, &batch).unwrap(), Outcome::Declined, "{name}");
                assert!(disk.bytes() == before, "{name}");
            }
            let new = Batch { size_bytes_before: 0, ..batch };
            assert_eq!(provider.commit(&*disk, &new).unwrap(), Outcome::Declined, "{name}");
            assert!(disk.bytes() == before, "{name}");
        }
    }

    #[test]
    fn after_an_exchange_that_nobody_knows_the_connection_commits_nothing_more() {
        let (disk, mut overlay, _) = overlay_of(changes()[0].1);
        let provider = provider(&disk, 4096);
        let batch = overlay.batch(&*disk).unwrap().unwrap();
        disk.fail(Call::Durable, Code::IOERR_FSYNC);
        assert!(provider.commit(&*disk, &batch).is_err() && disk.has_said());
        disk.heal();
        assert!(provider.commit(&*disk, &batch).is_err());
    }

    /// Two commits with one temporary file. False: the second one brings other bytes as well.
    fn two_commits_are_right(keeps_blocks: bool) -> bool {
        let (disk, mut overlay, _) = overlay_of((&[1, 2, 6], 11));
        let fake = Fake(Arc::clone(&disk), Temporary::new(512), keeps_blocks);
        let provider = Xfs::new(Box::new(fake));
        let batch = overlay.batch(&*disk).unwrap().unwrap();
        provider.commit(&*disk, &batch).unwrap();
        let (_, mut overlay, _) = overlay_of((&[1, 11], 11));
        let batch = overlay.batch(&*disk).unwrap().unwrap();
        let mut expected = disk.bytes();
        for (offset, unit) in batch.writes() {
            expected[offset as usize..][..unit.len()].copy_from_slice(unit);
        }
        provider.commit(&*disk, &batch).unwrap();
        disk.bytes() == expected
    }

    #[test]
    fn blocks_that_came_back_are_thrown_away() {
        assert!(two_commits_are_right(false));
        assert!(!two_commits_are_right(true), "the control puts old pages back");
    }
}
