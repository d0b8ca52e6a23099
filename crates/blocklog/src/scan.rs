//! Reading: which epoch counts, its records in order, and whether a record stands where none can
//! be.
//!
//! The newer of the two records at position 0 names the newest epoch. Three ends look alike at
//! first. What is behind them tells them apart:
//!
//! | end | at the place of the next record | what it means |
//! |---|---|---|
//! | the end | nothing recognised, an older epoch, or a torn record (V8) | never acknowledged |
//! | an epoch not begun | the newest record at position 0 is torn | the epoch before counts |
//! | damage | the same, and a record of this epoch or a newer one behind it | an error |
//!
//! - *An epoch not begun*: the epoch before it is whole, in the other lane.
//! - *Damage*: records become durable one after another. So what is missing in between was
//!   acknowledged, and the answer is an error, never a shorter log.
//!
//! Blocks of a torn record's payload are not looked at: they hold pages, not headers.

use crate::layout::lane_of;
use crate::log::failed;
use crate::reader::{Reader, damaged, read_otherwise};
use crate::record::RecordHeader;
use crate::{AlignedBuffer, Error, Head, Log, Lsn, Storage};

impl<S: Storage> Log<S> {
    /// Reads the newest epoch's records in order and answers the head behind the last. `None`: the
    /// log has no record. Reads both lanes, and holds one record at a time.
    ///
    /// What was visited is durable, also where its process died before its flush. On an error, drop
    /// what the visits built: damage may be found behind records that were visited.
    pub fn scan<E: From<Error>>(
        &self,
        mut visit: impl FnMut(u8, Lsn, &[u8]) -> Result<(), E>,
    ) -> Result<Option<Head>, E> {
        self.storage().flush().map_err(failed("flush before reading"))?;
        self.walk(|kind, head, payload| visit(kind, head.lsn, payload))
    }

    /// Like [`scan`](Log::scan), without its flush. `visit` gets the head behind each record.
    fn walk<E: From<Error>>(
        &self,
        visit: impl FnMut(u8, &Head, &[u8]) -> Result<(), E>,
    ) -> Result<Option<Head>, E> {
        self.refuse_directory()?;
        let mut reader = Reader::new(self)?;
        let Some(first) = reader.newest_epoch()? else { return Ok(None) };
        let mut head = reader.before(&first);
        let behind = reader.walk(&mut head, None, visit)?;
        reader.refuse_behind(&head, behind)?;
        Ok(Some(head))
    }

    /// Visits again what a [`scan`](Log::scan) visited that answered the head `to`. Only these
    /// records are read. The scan has seen that there is nothing where nothing can be.
    pub fn replay<E: From<Error>>(
        &self,
        to: &Head,
        mut visit: impl FnMut(u8, Lsn, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.refuse_directory()?;
        let mut reader = Reader::new(self)?;
        let first = reader.recognise(lane_of(to.epoch.0), 0)?;
        let mut head =
            first.map(|(first, _)| reader.before(&first)).filter(|head| head.epoch == to.epoch);
        if let Some(head) = &mut head {
            reader
                .walk(head, Some(to.lsn), |kind, head, payload| visit(kind, head.lsn, payload))?;
        }
        if head == Some(*to) {
            return Ok(());
        }
        Err(read_otherwise(to).into())
    }

    /// Writes the last record again, as it reads, if its number is `lsn` or a later one. This is
    /// for a record whose append failed, or whose process died in it. Where reads come from a
    /// cache, the record may read as if it were there, though the device lacks it. After a
    /// failed flush a later one does not bring it there. What is appended behind would then
    /// stand on a hole.
    ///
    /// Only for records that were never acknowledged: they can be torn while they are written.
    pub fn write_again(&self, lsn: Lsn) -> Result<(), Error> {
        let (mut from, mut end) = (0, 0);
        let last = self.walk(|_, head, _| {
            (from, end) = (end, head.position);
            Ok::<(), Error>(())
        })?;
        let Some(last) = last.filter(|last| last.lsn >= lsn) else { return Ok(()) };
        let mut piece_bytes = AlignedBuffer::default();
        for (offset, piece) in self.layout().pieces(lane_of(last.epoch.0), from, end - from) {
            piece_bytes.reset((piece.end - piece.start) as usize);
            self.storage().read_at(&mut piece_bytes, offset).map_err(failed("read a record"))?;
            self.storage().write(&piece_bytes, offset).map_err(failed("write a record again"))?;
        }
        self.storage().flush().map_err(failed("flush a record"))
    }
}

/// A record that can be read.
#[derive(Clone, Debug)]
pub struct ReadRecord {
    pub kind: u8,
    pub lsn: Lsn,
    /// `None`: the payload is damaged.
    pub payload: Option<Vec<u8>>,
}

/// What can be read of the newest epoch of a log that [`Log::scan`] takes for damaged.
#[derive(Debug, Default)]
pub struct Salvage {
    /// Records from the epoch's first one on, without a gap.
    pub records: Vec<ReadRecord>,
    /// Why no more could be read. `None`: these are all records.
    pub damage: Option<Error>,
    /// Records behind the damage, in the order of their LSNs.
    pub behind: Vec<ReadRecord>,
}

impl<S: Storage> Log<S> {
    /// Reads what can be read, for a caller that accepts the loss of the rest.
    pub fn salvage(&self) -> Result<Salvage, Error> {
        let mut found = Salvage::default();
        let scanned = self.scan(|kind, lsn, payload| {
            found.records.push(ReadRecord { kind, lsn, payload: Some(payload.to_vec()) });
            Ok::<(), Error>(())
        });
        found.damage = match scanned {
            Ok(_) => return Ok(found),
            Err(error @ Error::Damaged { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        let last = found.records.last().map_or(0, |record| record.lsn.0);
        let mut behind = Reader::new(self)?.all_recognised()?;
        let newest = behind.iter().map(|(epoch, _)| *epoch).max().unwrap_or(0);
        behind.retain(|(epoch, record)| *epoch == newest && record.lsn.0 > last);
        behind.sort_by_key(|(_, record)| record.lsn);
        found.behind = behind.into_iter().map(|(_, record)| record).collect();
        Ok(found)
    }
}

impl<S: Storage> Reader<'_, S> {
    /// The first record of the epoch that counts. Checks also everything outside of that epoch's
    /// lane.
    fn newest_epoch(&mut self) -> Result<Option<RecordHeader>, Error> {
        let Some(newest) = self.newest()? else { return Ok(None) };
        if newest.not_begun.is_none() {
            self.refuse_other_lane(&newest.first)?;
        }
        Ok(Some(newest.first))
    }

    /// In the other lane no record can be newer than the epoch that counts. And the epoch before
    /// must have ended where this one began.
    fn refuse_other_lane(&mut self, first: &RecordHeader) -> Result<(), Error> {
        let other = 1 - lane_of(first.epoch);
        let mut position = 0;
        let later = |found: &RecordHeader| {
            found.epoch > first.epoch || found.epoch + 1 == first.epoch && found.lsn >= first.lsn
        };
        while let Some(found) = self.recognised_from(other, position, later)? {
            if found.epoch > first.epoch {
                return Err(damaged(&found, "it is valid, but its epoch's first record is not"));
            }
            self.check_fits(&found)?;
            if self.read_payload(&found)? {
                return Err(damaged(
                    &found,
                    "its epoch went on after the next one began: two histories",
                ));
            }
            // The record was torn, and given up when the next epoch began. That is normal.
            position = found.position + found.record_bytes(self.log.layout());
        }
        Ok(())
    }

    /// Every record of both lanes that is recognised, with its epoch.
    fn all_recognised(&mut self) -> Result<Vec<(u64, ReadRecord)>, Error> {
        let mut all = Vec::new();
        for lane in [0, 1] {
            let mut position = 0;
            while let Some(found) = self.recognised_from(lane, position, |_| true)? {
                let is_whole =
                    found.fits(self.log.layout(), self.lane_bytes) && self.read_payload(&found)?;
                let payload = is_whole.then(|| self.payload.clone());
                let (kind, lsn) = (found.kind, Lsn(found.lsn));
                all.push((found.epoch, ReadRecord { kind, lsn, payload }));
                position = found.position + self.log.layout().block_bytes;
            }
        }
        Ok(all)
    }
}
