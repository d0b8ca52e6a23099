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
use crate::record::{RecordHeader, first_previous};
use crate::{AlignedBuffer, Epoch, Error, Head, Log, Lsn, Storage};

/// A recognised record (V1 to V3), with its checksum.
type Recognised = (RecordHeader, u32);

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
        let &Head { epoch, lsn, position, .. } = to;
        Err(Error::Damaged {
            epoch,
            lsn,
            position,
            what: "the records before it read otherwise than a moment ago",
        }
        .into())
    }

    /// Writes the record `lsn` again, as it reads, if it is the last. This is for a record whose
    /// append failed. Where reads come from a cache, the record may read as if it were there,
    /// though the device lacks it. What is appended behind would then stand on a hole.
    ///
    /// Only for a record that was never acknowledged: it can be torn while it is written.
    pub fn write_again(&self, lsn: Lsn) -> Result<(), Error> {
        let (mut from, mut end) = (0, 0);
        let last = self.walk(|_, head, _| {
            (from, end) = (end, head.position);
            Ok::<(), Error>(())
        })?;
        let Some(last) = last.filter(|last| last.lsn == lsn) else { return Ok(()) };
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

enum Next {
    /// A valid record. Its payload is in the reader.
    Record(RecordHeader, u32),
    /// No valid record. From the position `behind` on there must be none of this epoch.
    End { behind: u64 },
}

struct Reader<'a, S> {
    log: &'a Log<S>,
    lane_bytes: u64,
    /// The chunk at `loaded`, which is lane and position.
    chunk: AlignedBuffer,
    loaded: Option<(u64, u64)>,
    payload: Vec<u8>,
}

impl<'a, S: Storage> Reader<'a, S> {
    fn new(log: &'a Log<S>) -> Result<Reader<'a, S>, Error> {
        let lane_bytes = log.lane_bytes()?;
        Ok(Reader {
            log,
            lane_bytes,
            chunk: AlignedBuffer::default(),
            loaded: None,
            payload: Vec::new(),
        })
    }

    /// The bytes of a lane from `position` to the end of its chunk. Whole chunks are read, since
    /// single blocks take ten times as long.
    fn bytes_at(&mut self, lane: u64, position: u64) -> Result<&[u8], Error> {
        let chunk = self.log.layout().chunk_at(position);
        let wanted = (lane, chunk.start);
        if self.loaded != Some(wanted) {
            self.loaded = None;
            self.chunk.reset((chunk.end - chunk.start) as usize);
            let offset = self.log.layout().offset(lane, chunk.start);
            self.log.storage().read_at(&mut self.chunk, offset).map_err(failed("read the log"))?;
            self.loaded = Some(wanted);
        }
        Ok(&self.chunk[(position - chunk.start) as usize..])
    }

    /// The record at a place, if it is recognised (V1 to V3).
    fn recognise(&mut self, lane: u64, position: u64) -> Result<Option<Recognised>, Error> {
        if position >= self.lane_bytes {
            return Ok(None);
        }
        let uuid = self.log.uuid();
        Ok(RecordHeader::recognise(self.bytes_at(lane, position)?, uuid, lane, position))
    }

    /// Reads a record's payload. True: it is whole (V8). V4 must hold, since it bounds what is
    /// allocated.
    fn read_payload(&mut self, header: &RecordHeader) -> Result<bool, Error> {
        let lane = lane_of(header.epoch);
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let length = crate::record::HEADER_BYTES + header.payload_bytes as usize;
        let mut done = crate::record::HEADER_BYTES;
        while done < length {
            let bytes = self.bytes_at(lane, header.position + done as u64)?;
            let part = bytes.len().min(length - done);
            payload.extend_from_slice(&bytes[..part]);
            done += part;
        }
        let whole = header.covers(&payload);
        self.payload = payload;
        Ok(whole)
    }

    fn check_fits(&self, header: &RecordHeader) -> Result<(), Error> {
        if header.fits(self.log.layout(), self.lane_bytes) {
            return Ok(());
        }
        Err(damaged(header, "the file is shorter than it was when the record was written"))
    }

    /// The first record of the epoch that counts. Checks also everything outside of that epoch's
    /// lane.
    fn newest_epoch(&mut self) -> Result<Option<RecordHeader>, Error> {
        let firsts = [self.recognise(0, 0)?, self.recognise(1, 0)?]
            .map(|found| found.map(|(header, _)| header));
        let Some(newest) = firsts.iter().flatten().max_by_key(|header| header.epoch).copied()
        else {
            for lane in [0, 1] {
                if let Some(found) = self.recognised_from(lane, 0, |_| true)? {
                    return Err(damaged(&found, "it is valid, but no epoch's first record is"));
                }
            }
            return Ok(None);
        };
        self.check_fits(&newest)?;
        let other = 1 - lane_of(newest.epoch);
        if self.read_payload(&newest)? {
            self.refuse_other_lane(&newest)?;
            return Ok(Some(newest));
        }
        // A torn beginning. The epoch then has no further record.
        let behind = newest.record_bytes(self.log.layout());
        if let Some(found) =
            self.recognised_from(1 - other, behind, |found| found.epoch >= newest.epoch)?
        {
            return Err(damaged(&found, "it is valid, but its epoch's first record is not"));
        }
        match firsts[other as usize] {
            Some(before) if before.epoch + 1 == newest.epoch => {
                self.check_fits(&before)?;
                if !self.read_payload(&before)? {
                    return Err(damaged(
                        &before,
                        "both lanes begin with a record whose payload is broken",
                    ));
                }
                if let Some(found) =
                    self.recognised_from(other, 0, |found| found.epoch > newest.epoch)?
                {
                    return Err(damaged(
                        &found,
                        "it is valid, but its epoch's first record is not",
                    ));
                }
                Ok(Some(before))
            }
            _ if newest.epoch == 1 && self.recognised_from(other, 0, |_| true)?.is_none() => {
                Ok(None)
            }
            _ => Err(damaged(
                &newest,
                "it is torn, and the epoch before it is not in the other lane",
            )),
        }
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

    /// The head in front of an epoch's first record.
    fn before(&self, first: &RecordHeader) -> Head {
        Head {
            epoch: Epoch(first.epoch),
            position: 0,
            lsn: Lsn(first.lsn - 1),
            previous: first_previous(self.log.uuid(), first.epoch),
            lane_bytes: self.lane_bytes,
        }
    }

    /// Visits records with the head behind each, to the epoch's end or up to the record `last`.
    /// Answers the position from which on there must be none.
    fn walk<E: From<Error>>(
        &mut self,
        head: &mut Head,
        last: Option<Lsn>,
        mut visit: impl FnMut(u8, &Head, &[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        while last.is_none_or(|last| head.lsn < last) {
            match self.next(head)? {
                Next::Record(header, checksum) => {
                    head.position += header.record_bytes(self.log.layout());
                    head.lsn = Lsn(header.lsn);
                    head.previous = checksum;
                    debug_assert!(
                        head.position <= self.lane_bytes,
                        "V4: a record lies in its lane"
                    );
                    visit(header.kind, head, &self.payload)?;
                }
                Next::End { behind } => return Ok(behind),
            }
        }
        Ok(head.position)
    }

    /// The record at the head (V4 to V8), or the end.
    fn next(&mut self, head: &Head) -> Result<Next, Error> {
        let block_bytes = self.log.layout().block_bytes;
        let lane = lane_of(head.epoch.0);
        let (header, checksum) = match self.recognise(lane, head.position)? {
            // V5: what the epoch before the last left here.
            Some((header, _)) if header.epoch < head.epoch.0 => {
                return Ok(Next::End { behind: head.position + block_bytes });
            }
            None => return Ok(Next::End { behind: head.position + block_bytes }),
            Some(found) => found,
        };
        if header.epoch > head.epoch.0 {
            return Err(damaged(&header, "it is valid, but its epoch's first record is not"));
        }
        self.check_fits(&header)?;
        if head.lsn.0.checked_add(1) != Some(header.lsn) || header.previous != head.previous {
            return Err(damaged(&header, "it does not follow the record before it"));
        }
        if self.read_payload(&header)? {
            Ok(Next::Record(header, checksum))
        } else {
            Ok(Next::End { behind: head.position + header.record_bytes(self.log.layout()) })
        }
    }

    fn refuse_behind(&mut self, head: &Head, behind: u64) -> Result<(), Error> {
        match self
            .recognised_from(lane_of(head.epoch.0), behind, |found| found.epoch >= head.epoch.0)?
        {
            None => Ok(()),
            Some(_) => Err(Error::Damaged {
                epoch: head.epoch,
                lsn: Lsn(head.lsn.0.saturating_add(1)),
                position: head.position,
                what: "a valid record stands behind it",
            }),
        }
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

    /// The first record from `position` on that is recognised and wanted.
    fn recognised_from(
        &mut self,
        lane: u64,
        position: u64,
        wanted: impl Fn(&RecordHeader) -> bool,
    ) -> Result<Option<RecordHeader>, Error> {
        let mut position = position;
        while position < self.lane_bytes {
            match self.recognise(lane, position)? {
                Some((header, _)) if wanted(&header) => return Ok(Some(header)),
                _ => position += self.log.layout().block_bytes,
            }
        }
        Ok(None)
    }
}

fn damaged(header: &RecordHeader, what: &'static str) -> Error {
    Error::Damaged {
        epoch: Epoch(header.epoch),
        lsn: Lsn(header.lsn),
        position: header.position,
        what,
    }
}
