//! Writing: a log is created, appended to, begun anew in the other lane, and extended.
//!
//! One record is one durable write. Only a record that crosses a chunk's border is several writes
//! and one flush. Their order does not matter, because the payload's checksum (V8) covers them all.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use crate::header::{
    FORMAT_VERSION, FORMAT_VERSION_OF_DIRECTORY, FORMAT_VERSION_OF_EQUAL_CHUNKS, FileHeader,
    HEADER_BYTES as FILE_HEADER_BYTES, is_page_size,
};
use crate::invariant;
use crate::layout::{CHUNK_BYTES, Layout, is_block_size, lane_of};
use crate::mutant::{self, Mutant};
use crate::record::{self, RecordHeader};
use crate::{AlignedBuffer, Epoch, Error, Head, Lsn, Storage, Uuid, Written};

/// One log file. Appends are for one caller at a time; see [`Head`].
#[derive(Debug)]
pub struct Log<S> {
    storage: S,
    uuid: Uuid,
    version: u32,
    page_bytes: u32,
    layout: Layout,
    /// In the log of a directory: the newest epoch that is known to be released; 0: none is.
    pub(crate) released: AtomicU64,
    /// Without contention, since one append runs at a time.
    writing: Mutex<Writing>,
}

#[derive(Debug)]
struct Writing {
    /// Blocks on their way to the storage, a chunk at most.
    scratch: AlignedBuffer,
    /// Epoch, end and LSN of the last record that this handle has written.
    last: (u64, u64, u64),
}

impl<S: Storage> Log<S> {
    /// Makes an empty log in a file that is empty, or holds zeros. The caller makes the file's name
    /// durable. The head is of epoch 0, which has no records: [`begin_epoch`](Log::begin_epoch)
    /// comes next.
    pub fn create(
        storage: S,
        uuid: Uuid,
        page_bytes: u32,
        lane_bytes: u64,
    ) -> Result<(Log<S>, Head), Error> {
        Log::create_of_version(storage, FORMAT_VERSION, uuid, page_bytes, lane_bytes)
    }

    pub(crate) fn create_of_version(
        storage: S,
        version: u32,
        uuid: Uuid,
        page_bytes: u32,
        lane_bytes: u64,
    ) -> Result<(Log<S>, Head), Error> {
        let block_bytes = storage.block_bytes();
        if !is_block_size(block_bytes) {
            return Err(Error::BlockSize {
                log_bytes: FILE_HEADER_BYTES as u32,
                storage_bytes: block_bytes,
            });
        }
        if !is_page_size(page_bytes) {
            return Err(Error::BadSize { what: "SQLite has no such pages" });
        }
        let header = FileHeader { version, block_bytes: block_bytes as u32, page_bytes, uuid };
        let layout = header.layout();
        let (_, file_bytes) = lane_size(layout, lane_bytes)?;
        storage.extend(file_bytes).map_err(failed("create the log"))?;
        let mut block = AlignedBuffer::zeroed(block_bytes);
        block[..FILE_HEADER_BYTES].copy_from_slice(&header.encode());
        // The first block comes last: where it is there, all the zeros are.
        storage.write_durable(&block, 0).map_err(failed("write the log's first block"))?;
        let log = Log::of(storage, &header, block);
        let head = log.empty_head()?;
        Ok((log, head))
    }

    fn of(storage: S, header: &FileHeader, scratch: AlignedBuffer) -> Log<S> {
        Log {
            storage,
            uuid: header.uuid,
            version: header.version,
            page_bytes: header.page_bytes,
            layout: header.layout(),
            released: AtomicU64::new(0),
            writing: Mutex::new(Writing { scratch, last: (0, 0, 0) }),
        }
    }

    /// Reads and checks the first block, no more. The log of a directory is refused.
    pub fn open(storage: S) -> Result<Log<S>, Error> {
        let log = Log::open_of_any_kind(storage)?;
        if log.is_of_directory() { Err(Error::OfDirectory) } else { Ok(log) }
    }

    pub(crate) fn open_of_any_kind(storage: S) -> Result<Log<S>, Error> {
        let size_bytes = storage.size_bytes().map_err(failed("ask for the log's size"))?;
        let storage_block_bytes = storage.block_bytes();
        if !is_block_size(storage_block_bytes) {
            return Err(Error::BlockSize {
                log_bytes: FILE_HEADER_BYTES as u32,
                storage_bytes: storage_block_bytes,
            });
        }
        let mut block = AlignedBuffer::zeroed(storage_block_bytes);
        if size_bytes < block.len() as u64 {
            return Err(if size_bytes == 0 { Error::Unfinished } else { Error::NotALog });
        }
        storage.read_at(&mut block, 0).map_err(failed("read the log's first block"))?;
        let header = match FileHeader::decode(&block) {
            Err(Error::NotALog) if is_zero(&block) => {
                // The first block was never written, or is lost. In the second case there is
                // something behind it.
                return Err(if holds_only_zeros(&storage, size_bytes)? {
                    Error::Unfinished
                } else {
                    Error::HeaderDamaged
                });
            }
            answer => answer?,
        };
        if !(header.block_bytes as usize).is_multiple_of(storage_block_bytes) {
            return Err(Error::BlockSize {
                log_bytes: header.block_bytes,
                storage_bytes: storage_block_bytes,
            });
        }
        Ok(Log::of(storage, &header, block))
    }

    /// Opens a log whose first block is damaged. The database knows its UUID. Answers a log for
    /// each layout that it may have, the newest first. Records can be read with the right one.
    pub fn open_without_header(
        storage: impl Fn() -> Result<S, Error>,
        uuid: Uuid,
        page_bytes: u32,
    ) -> Result<Vec<Log<S>>, Error> {
        let of_version = |version| {
            let storage = storage()?;
            let block_bytes = storage.block_bytes();
            let header = FileHeader { version, block_bytes: block_bytes as u32, page_bytes, uuid };
            Ok(Log::of(storage, &header, AlignedBuffer::zeroed(block_bytes)))
        };
        [FORMAT_VERSION, FORMAT_VERSION_OF_EQUAL_CHUNKS].into_iter().map(of_version).collect()
    }

    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// True if two of its epochs may be needed, until a record releases the older one.
    pub(crate) fn is_of_directory(&self) -> bool {
        self.version == FORMAT_VERSION_OF_DIRECTORY
    }

    /// True if its records may have copies between their pages. In a log of version 1 they may not.
    pub fn has_rows(&self) -> bool {
        self.version >= 2
    }

    /// The size of SQLite's pages, as given at creation.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// By this handle of the file.
    pub fn written(&self) -> Written {
        self.storage.written()
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The length of each lane in the file as it is now.
    pub(crate) fn lane_bytes(&self) -> Result<u64, Error> {
        let file_bytes = self.storage.size_bytes().map_err(failed("ask for the log's size"))?;
        match self.layout.lane_bytes(file_bytes) {
            // No log is created so short.
            0 => Err(Error::Damaged {
                epoch: Epoch(1),
                lsn: Lsn(1),
                position: 0,
                what: "the file was cut off before it",
            }),
            lane_bytes => Ok(lane_bytes),
        }
    }

    /// The head of a log without records, for which [`scan`](Log::scan) answered `None`.
    pub fn empty_head(&self) -> Result<Head, Error> {
        Ok(Head {
            epoch: Epoch(0),
            position: 0,
            lsn: Lsn(0),
            previous: 0,
            lane_bytes: self.lane_bytes()?,
        })
    }

    /// Appends to the head's epoch; durable on return. `Error::Full`: the record does not fit, and
    /// nothing was written. After `Error::Io` the log may have the record or not: see [`Head`].
    pub fn append(&self, head: &Head, kind: u8, payload: &[u8]) -> Result<Head, Error> {
        if head.epoch.0 == 0 || head.position == 0 {
            return Err(Error::BadHead { what: "no epoch has begun" });
        }
        self.refuse_release(kind)?;
        self.put(head, kind, payload)
    }

    /// Writes the first record of the next epoch into the other lane; durable on return. From then
    /// on nothing of the head's epoch is replayed. `Error::Full`: the record does not fit, and
    /// nothing was written.
    ///
    /// In the log of a directory the head's epoch is replayed until it is [released](Log::release).
    /// The epoch before it must be released by now, or `Error::BadHead` is the answer.
    pub fn begin_epoch(&self, head: &Head, kind: u8, payload: &[u8]) -> Result<Head, Error> {
        self.refuse_release(kind)?;
        self.refuse_overwriting(head)?;
        let is_reused = mutant::is(Mutant::EpochReused) && head.epoch.0 > 0;
        let epoch = head.epoch.0.checked_add(u64::from(!is_reused));
        let epoch = epoch.ok_or(Error::BadHead { what: "there is no further epoch" })?;
        let previous = record::first_previous(self.uuid, epoch);
        let lsn = if mutant::is(Mutant::LsnReused) { Lsn(0) } else { head.lsn };
        self.put(&Head { epoch: Epoch(epoch), position: 0, previous, lsn, ..*head }, kind, payload)
    }

    /// Extends both lanes to at least `lane_bytes`; never shortens them.
    pub fn grow(&self, head: &Head, lane_bytes: u64) -> Result<Head, Error> {
        if lane_bytes <= head.lane_bytes {
            return Ok(*head);
        }
        let (lane_bytes, file_bytes) = lane_size(self.layout, lane_bytes)?;
        self.storage.extend(file_bytes).map_err(failed("extend the log"))?;
        Ok(Head { lane_bytes, ..*head })
    }

    /// Bytes that a record with so long a payload takes of a lane.
    pub fn record_bytes(&self, payload_len: usize) -> u64 {
        self.layout.record_bytes(payload_len as u64)
    }

    pub(crate) fn put(&self, head: &Head, kind: u8, payload: &[u8]) -> Result<Head, Error> {
        let block_bytes = self.layout.block_bytes;
        let sound = head.position.is_multiple_of(block_bytes)
            && self.layout.lane_of_at_least(head.lane_bytes) == Some(head.lane_bytes)
            && head.position <= head.lane_bytes
            && self.layout.file_bytes(head.lane_bytes).is_some();
        if !sound {
            return Err(Error::BadHead {
                what: "its position or the lane's size is not one of this log",
            });
        }
        let lsn =
            head.lsn.0.checked_add(1).ok_or(Error::BadHead { what: "there is no further LSN" })?;
        let payload_bytes = u32::try_from(payload.len()).map_err(|_| Error::TooLong {
            length: payload.len() as u64,
            limit: u64::from(u32::MAX),
        })?;
        let needed = self.record_bytes(payload.len());
        // The lane's last block is kept for the record that needs a longer lane. That record begins
        // in the old lane and names the longer one (V4). So a file that is cut to its old size
        // still shows that more is missing. A record that began behind the border would not be
        // missed.
        let free = (head.lane_bytes - head.position).saturating_sub(self.layout.block_bytes);
        if needed > free && !mutant::is(Mutant::LaneOverrun) {
            return Err(Error::Full { needed, free });
        }
        let header = RecordHeader {
            kind,
            epoch: head.epoch.0,
            lsn,
            position: head.position,
            payload_bytes,
            lane_chunks: u32::try_from(head.lane_bytes / self.layout.lane_unit_bytes())
                .map_err(|_| Error::BadHead { what: "the lane is too long" })?,
            previous: head.previous,
            payload_crc: crc32c::crc32c(payload),
        };
        invariant!(
            "L1",
            "a record lies in its lane",
            header.fits(self.layout, head.lane_bytes) && needed <= free
        );
        let (header_bytes, checksum) = header.encode(self.uuid);
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (epoch, end, last_lsn) = writing.last;
        invariant!(
            "L2",
            "a record is written behind the last one of its epoch",
            (epoch, end) <= (head.epoch.0, head.position)
        );
        invariant!("L3", "a record has a higher LSN than the one before it", last_lsn < lsn);
        // Its blocks have no meaning between appends. So a panic in an append leaves nothing half
        // done.
        let scratch = &mut writing.scratch;
        let lane = lane_of(head.epoch.0);
        self.write_record(scratch, lane, head.position, &header_bytes, payload, needed)?;
        writing.last = (head.epoch.0, head.position + needed, lsn);
        Ok(Head { position: head.position + needed, lsn: Lsn(lsn), previous: checksum, ..*head })
    }

    fn write_record(
        &self,
        scratch: &mut AlignedBuffer,
        lane: u64,
        position: u64,
        header: &[u8],
        payload: &[u8],
        length: u64,
    ) -> Result<(), Error> {
        let mut pieces = self.layout.pieces(lane, position, length).peekable();
        let mut several = false;
        while let Some((offset, piece)) = pieces.next() {
            scratch.reset((piece.end - piece.start) as usize);
            fill(scratch, piece.start as usize, header, payload);
            if pieces.peek().is_some() || (several && !mutant::is(Mutant::PieceUnflushed)) {
                several = true;
                self.storage.write(scratch, offset).map_err(failed("write a record"))?;
            } else {
                invariant!(
                    "L4",
                    "a record of several writes becomes durable by a flush behind them",
                    !several
                );
                return self
                    .storage
                    .write_durable(scratch, offset)
                    .map_err(failed("write a record"));
            }
        }
        self.storage.flush().map_err(failed("flush a record"))
    }
}

/// Fills `out` with header, payload and endless zeros, from byte `start` of these on.
fn fill(out: &mut [u8], start: usize, header: &[u8], payload: &[u8]) {
    let mut done = 0;
    for (part, part_start) in [(header, 0), (payload, header.len())] {
        // Where in this part the next byte of `out` is.
        let from = (start + done).saturating_sub(part_start).min(part.len());
        let length = (part.len() - from).min(out.len() - done);
        out[done..done + length].copy_from_slice(&part[from..from + length]);
        done += length;
    }
    out[done..].fill(0);
}

/// The sizes of a lane and of the file, for a lane of at least so many bytes and at least one
/// chunk.
fn lane_size(layout: Layout, lane_bytes: u64) -> Result<(u64, u64), Error> {
    let lane_bytes = layout.lane_of_at_least(lane_bytes);
    let size = lane_bytes.and_then(|lane_bytes| Some((lane_bytes, layout.file_bytes(lane_bytes)?)));
    size.filter(|(lane_bytes, _)| u32::try_from(lane_bytes / layout.lane_unit_bytes()).is_ok())
        .ok_or(Error::BadSize { what: "no file is as large as these lanes" })
}

fn is_zero(bytes: &[u8]) -> bool {
    // The inner loop has no early exit, so it is compiled for many bytes at once.
    bytes.chunks(512).all(|part| part.iter().fold(0, |seen, byte| seen | byte) == 0)
}

fn holds_only_zeros<S: Storage>(storage: &S, size_bytes: u64) -> Result<bool, Error> {
    Ok(!any_chunk(storage, size_bytes, |chunk| !is_zero(chunk))?)
}

/// True if a file that is not a log that can be opened has what looks like a record. It may be a
/// log with a damaged first block. Otherwise it is none, or a crash has interrupted its making.
pub fn shows_records<S: Storage>(storage: &S) -> Result<bool, Error> {
    let size_bytes = storage.size_bytes().map_err(failed("ask for the log's size"))?;
    let block_bytes = storage.block_bytes();
    any_chunk(storage, size_bytes, |chunk| chunk.chunks(block_bytes).any(record::is_marked))
}

/// True if `is_true` holds for a chunk of the file. Last bytes that are no whole block do not
/// count.
fn any_chunk<S: Storage>(
    storage: &S,
    size_bytes: u64,
    is_true: impl Fn(&[u8]) -> bool,
) -> Result<bool, Error> {
    let mut buffer = AlignedBuffer::default();
    let whole_bytes = size_bytes - size_bytes % storage.block_bytes() as u64;
    let mut offset = 0;
    while offset < whole_bytes {
        buffer.reset((whole_bytes - offset).min(CHUNK_BYTES) as usize);
        storage.read_at(&mut buffer, offset).map_err(failed("read the log"))?;
        if is_true(&buffer) {
            return Ok(true);
        }
        offset += buffer.len() as u64;
    }
    Ok(false)
}

pub(crate) fn failed(doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Io { doing, source }
}
