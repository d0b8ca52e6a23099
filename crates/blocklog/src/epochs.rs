//! Reading the log of a directory: which epochs are needed, their records in order, and whether a
//! record stands where none can be.
//!
//! ```text
//! lane 1   epoch 1 ■■■■■■■■■             epoch 3 ■■■■■■■■■■
//! lane 0             epoch 2 ■■■■■■R■■■■■■■■             epoch 4 ■■■
//!                                  R: epoch 1 is released
//! ```
//!
//! Appends move to epoch n while what epoch n-1 logged is made durable elsewhere. That takes
//! seconds. Then a durable record of epoch n **releases** epoch n-1. Until then both are *live*.
//!
//! - **E1** Epoch n+1 begins, over epoch n-1, only when epoch n has the release of epoch n-1.
//!   Epoch 1 has none before it.
//! - **E2** A release is not its epoch's first record, and names the epoch before its own.
//! - **E3** The newest epoch n that began is live. Epoch n-1 is live unless n has its release.
//! - **E4** A live epoch n-1 is whole, in the other lane. The LSN of its last record is one less
//!   than that of n's first.
//! - **E5** Behind the end of a live epoch no record of it or of a newer one is recognised.
//! - **E6** In the lane of a released epoch n-1 no record is newer than n, but for a torn first
//!   record of epoch n+1. Anything older may be there.
//! - **E7** Where that torn record is, E1 holds for it. Its LSN is at most one more than that of
//!   n's last record.
//!
//! What breaks one of these is damage, and the answer is an error, never a shorter log.
//!
//! **Why that is so.** Records become durable one after another, in both lanes. After an append
//! that failed nothing is appended before a scan. So at most one record is in flight: the last, or
//! the first of an epoch that does not count then. What is missing elsewhere was acknowledged.
//!
//! - *Before the release is durable* nothing has written to the lane of epoch n-1 since n began. So
//!   E4 holds.
//! - *After it* the first record of epoch n+1 may be in flight there. It goes over epoch n-1 only.
//! - *E7 has "at most"*: that record may be from before a scan, and epoch n went on after it.
//!
//! What cannot be told apart is the same as in the log of a database. The log's very last record
//! and an epoch's only one look torn where the medium has damaged them. Where the last record is a
//! release, epoch n-1 is visited again, and it is whole.

use crate::directory::KIND_RELEASE;
use crate::layout::lane_of;
use crate::log::failed;
use crate::reader::{Reader, damaged, read_otherwise};
use crate::record::RecordHeader;
use crate::{Epoch, Error, Head, Log, Lsn, Storage};

impl<S: Storage> Log<S> {
    /// Reads the records of the live epochs in order, the older epoch first, and answers the head
    /// behind the last. `None`: the log has no record. Releases are not visited. Reads both lanes,
    /// the newest epoch twice, and holds one record at a time.
    ///
    /// What was visited is durable, also where its process died before its flush. On an error, drop
    /// what the visits built: damage may be found behind records that were visited.
    pub fn scan_epochs<E: From<Error>>(
        &self,
        mut visit: impl FnMut(Epoch, u8, Lsn, &[u8]) -> Result<(), E>,
    ) -> Result<Option<Head>, E> {
        if !self.is_of_directory() {
            return Err(Error::OfDatabase.into());
        }
        self.storage().flush().map_err(failed("flush before reading"))?;
        let mut reader = Reader::new(self)?;
        let Some(newest) = reader.newest()? else {
            self.note_released(Epoch(0));
            return Ok(None);
        };
        let first = newest.first;
        let (end, is_alone) = reader.walk_epoch(&first, |_, _, _| Ok::<(), Error>(()))?;
        match newest.not_begun {
            Some(not_begun) => check_not_begun(&not_begun, &end, is_alone)?,
            None if is_alone => reader.refuse_newer(first.epoch)?,
            None => reader.visit_before(&first, &mut visit)?,
        }
        reader.visit_again(&first, &end, &mut visit)?;
        let unreleased = if is_alone { 1 } else { 2 };
        self.note_released(Epoch(first.epoch.saturating_sub(unreleased)));
        Ok(Some(end))
    }
}

/// E7.
fn check_not_begun(not_begun: &RecordHeader, end: &Head, is_alone: bool) -> Result<(), Error> {
    if !is_alone {
        return Err(damaged(not_begun, "it went over an epoch that was not released"));
    }
    if not_begun.lsn > end.lsn.0.saturating_add(1) {
        return Err(missing(end, "a record of the next epoch has a later number"));
    }
    Ok(())
}

impl<S: Storage> Reader<'_, S> {
    /// Visits an epoch's records but for releases. Answers the head behind the last (E5). The epoch
    /// is *alone* if it has the release of the one before (E2), or there is none.
    fn walk_epoch<E: From<Error>>(
        &mut self,
        first: &RecordHeader,
        mut visit: impl FnMut(u8, Lsn, &[u8]) -> Result<(), E>,
    ) -> Result<(Head, bool), E> {
        let log = self.log;
        let mut is_alone = first.epoch == 1;
        let mut head = self.before(first);
        let behind = self.walk(&mut head, None, |kind, head, payload| {
            if kind != KIND_RELEASE {
                return visit(kind, head.lsn, payload);
            }
            let names_it = first.epoch > 1 && payload == (first.epoch - 1).to_le_bytes();
            if head.lsn.0 == first.lsn || !names_it {
                let start = head.position - log.record_bytes(payload.len());
                let at = Head { position: start, ..*head };
                return Err(at_record(&at, "it does not release the epoch before its own").into());
            }
            is_alone = true;
            Ok(())
        })?;
        self.refuse_behind(&head, behind)?;
        Ok((head, is_alone))
    }

    /// Visits the epoch before this first record's, which is live (E4, and E1 for its own time).
    fn visit_before<E: From<Error>>(
        &mut self,
        next: &RecordHeader,
        visit: &mut impl FnMut(Epoch, u8, Lsn, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let epoch = Epoch(next.epoch - 1);
        let first = self.recognise(lane_of(epoch.0), 0)?.map(|(first, _)| first);
        let Some(first) = first.filter(|first| first.epoch == epoch.0) else {
            let what = "the epoch before it is not released, and not in the other lane";
            return Err(damaged(next, what).into());
        };
        let (end, is_alone) =
            self.walk_epoch(&first, |kind, lsn, payload| visit(epoch, kind, lsn, payload))?;
        if end.position == 0 || end.lsn.0.checked_add(1) != Some(next.lsn) {
            return Err(missing(&end, "the next epoch begins behind another record").into());
        }
        if !is_alone {
            return Err(damaged(next, "it went over an epoch that was not released").into());
        }
        Ok(())
    }

    /// Visits the records that were walked to this end.
    fn visit_again<E: From<Error>>(
        &mut self,
        first: &RecordHeader,
        end: &Head,
        visit: &mut impl FnMut(Epoch, u8, Lsn, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut head = self.before(first);
        self.walk(&mut head, Some(end.lsn), |kind, head, payload| match kind {
            KIND_RELEASE => Ok(()),
            _ => visit(head.epoch, kind, head.lsn, payload),
        })?;
        if head == *end { Ok(()) } else { Err(read_otherwise(end).into()) }
    }

    /// E6, where no torn record begins the other lane.
    fn refuse_newer(&mut self, epoch: u64) -> Result<(), Error> {
        match self.recognised_from(1 - lane_of(epoch), 0, |found| found.epoch > epoch)? {
            Some(found) => Err(damaged(&found, "it is valid, but its epoch's first record is not")),
            None => Ok(()),
        }
    }
}

/// The record at this head is missing.
fn missing(end: &Head, what: &'static str) -> Error {
    at_record(&Head { lsn: Lsn(end.lsn.0.saturating_add(1)), ..*end }, what)
}

fn at_record(at: &Head, what: &'static str) -> Error {
    Error::Damaged { epoch: at.epoch, lsn: at.lsn, position: at.position, what }
}
