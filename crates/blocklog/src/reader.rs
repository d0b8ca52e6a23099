//! A log as it is read: records at their places, the newest epoch, and an epoch from record to
//! record. What is read of it, and what must not be there, say `scan.rs` and `epochs.rs`.

use crate::layout::lane_of;
use crate::log::failed;
use crate::record::{RecordHeader, first_previous};
use crate::{AlignedBuffer, Epoch, Error, Head, Log, Lsn, Storage};

/// A recognised record (V1 to V3), with its checksum.
type Recognised = (RecordHeader, u32);

/// The newest epoch that began.
pub(crate) struct Newest {
    pub(crate) first: RecordHeader,
    /// The first record of the next epoch, if it is torn.
    pub(crate) not_begun: Option<RecordHeader>,
}

enum Next {
    /// A valid record. Its payload is in the reader.
    Record(RecordHeader, u32),
    /// No valid record. From the position `behind` on there must be none of this epoch.
    End { behind: u64 },
}

pub(crate) struct Reader<'a, S> {
    pub(crate) log: &'a Log<S>,
    pub(crate) lane_bytes: u64,
    /// The chunk at `loaded`, which is lane and position.
    chunk: AlignedBuffer,
    loaded: Option<(u64, u64)>,
    /// Of the record that was read last.
    pub(crate) payload: Vec<u8>,
}

impl<'a, S: Storage> Reader<'a, S> {
    pub(crate) fn new(log: &'a Log<S>) -> Result<Reader<'a, S>, Error> {
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
    pub(crate) fn recognise(
        &mut self,
        lane: u64,
        position: u64,
    ) -> Result<Option<Recognised>, Error> {
        if position >= self.lane_bytes {
            return Ok(None);
        }
        let uuid = self.log.uuid();
        Ok(RecordHeader::recognise(self.bytes_at(lane, position)?, uuid, lane, position))
    }

    /// Reads a record's payload. True: it is whole (V8). V4 must hold, since it bounds what is
    /// allocated.
    pub(crate) fn read_payload(&mut self, header: &RecordHeader) -> Result<bool, Error> {
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

    pub(crate) fn check_fits(&self, header: &RecordHeader) -> Result<(), Error> {
        if header.fits(self.log.layout(), self.lane_bytes) {
            return Ok(());
        }
        Err(damaged(header, "the file is shorter than it was when the record was written"))
    }

    /// The newest epoch that began. Where the next one's first record is torn, the rest of both
    /// lanes is checked for newer records.
    pub(crate) fn newest(&mut self) -> Result<Option<Newest>, Error> {
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
            return Ok(Some(Newest { first: newest, not_begun: None }));
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
                Ok(Some(Newest { first: before, not_begun: Some(newest) }))
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

    /// The head in front of an epoch's first record.
    pub(crate) fn before(&self, first: &RecordHeader) -> Head {
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
    pub(crate) fn walk<E: From<Error>>(
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

    pub(crate) fn refuse_behind(&mut self, head: &Head, behind: u64) -> Result<(), Error> {
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

    /// The first record from `position` on that is recognised and wanted.
    pub(crate) fn recognised_from(
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

pub(crate) fn damaged(header: &RecordHeader, what: &'static str) -> Error {
    Error::Damaged {
        epoch: Epoch(header.epoch),
        lsn: Lsn(header.lsn),
        position: header.position,
        what,
    }
}

/// What was read up to this head is there no more.
pub(crate) fn read_otherwise(to: &Head) -> Error {
    Error::Damaged {
        epoch: to.epoch,
        lsn: to.lsn,
        position: to.position,
        what: "the records before it read otherwise than a moment ago",
    }
}
