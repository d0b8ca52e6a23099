//! The log's file: frames in and out of slots by direct I/O.
//!
//! Invariants, cited by number:
//!
//! 1. A slot is written only when it is there: written with zeros, and synced with the file's size
//!    ("Preallocation with Explicit Journaling", WALDIO section 4.1). So no write of a frame
//!    changes metadata. The same holds for a piece of the lane. This is for speed: a flush of
//!    frames makes the size durable too, where it is not yet.
//! 2. The writer of frames has SQLite's write lock. Readers read frames that are published.
//! 3. No block with frames that are acknowledged is written before the WAL begins anew. A frame and
//!    the block of the lane that it shares with others are of one transaction.
//!
//! A writer that finds slots that it did not lay out uses them as they are. Their maker may have
//! died between zeros and sync. Then the first flush of frames makes the size durable, too.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use oneflush_blocklog::group::page_crc;
use oneflush_blocklog::{
    AlignedBuffer, Error as LogError, Storage, Uuid, Written, invariant, is_full,
};
use rustc_hash::FxHashSet;

use super::header::{self, LogHeader};
use super::slots::{self, Displaced, Found, Geometry, Header, Place, WalSalts};
use crate::config::Layout;
use crate::error::Code;
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::strategy::chunk::chunk_at;
use crate::strategy::log_files::LogFile;
use crate::sync::{Mutex, lock, ranks};
use crate::wal_file::{FRAME_HEADER_BYTES, HEADER_BYTES};

/// Who reads one frame after the other gets so many at once.
pub const AHEAD_FRAMES: u32 = 64;

/// No more than this is read or written at once.
const RUN_BYTES_MAX: usize = 1 << 20;
/// The lane is made ready for so many slots at once.
const LANE_PIECE_SLOTS: u32 = 16;
/// Buffers that are kept for the next readers.
const BUFFERS_MAX: usize = 16;

const COPY_MAGIC: [u8; 8] = *b"1FLUSHP1";

pub struct SlotFile {
    storage: LogFile,
    header: LogHeader,
    /// Those of the WAL's header, as far as this process knows.
    salts: AtomicU64,
    /// So many slots are there.
    slots: AtomicU32,
    extensions: AtomicU64,
    /// Writes are durable when they return.
    writing: Mutex<Writing, { ranks::SLOTS }>,
    buffers: Mutex<Vec<AlignedBuffer>>,
    /// A frame needed the lane.
    used_lane: AtomicBool,
}

#[derive(Default)]
struct Writing {
    blocks: AlignedBuffer,
    /// Pieces of the lane that are there, by their first slot (invariant 1).
    lane_pieces: FxHashSet<u32>,
}

/// A block of the lane that is being filled.
struct LaneBlock {
    /// The frame that the block belongs to.
    head: u32,
    entries: Vec<(u32, Displaced)>,
}

/// How frames are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The slots hold nothing of this transaction yet.
    pub is_first: bool,
    /// The write is durable when it returns (`sync=pd`).
    pub durable: bool,
}

impl SlotFile {
    /// Makes a log in an empty file.
    pub fn create(
        storage: LogFile,
        uuid: Uuid,
        page_bytes: u32,
        layout: Layout,
    ) -> Result<SlotFile, LogError> {
        let geometry = Geometry::new(layout, page_bytes as usize, storage.block_bytes());
        if geometry.layout == Layout::Pad512 && storage.alignment_bytes() > 512 {
            return Err(LogError::BlockSize {
                log_bytes: 512,
                storage_bytes: storage.alignment_bytes(),
            });
        }
        let header = LogHeader { geometry, uuid };
        let create = |source| LogError::Io { doing: "create the log", source };
        storage.extend(geometry.bytes_min()).map_err(create)?;
        let mut block = AlignedBuffer::zeroed(geometry.block_bytes);
        block[..header::HEADER_BYTES].copy_from_slice(&header.encode());
        // The first block comes last: where it is there, all the zeros are.
        storage.write_durable(&block, 0).map_err(create)?;
        Ok(SlotFile::new(storage, header))
    }

    /// Reads and checks the first block, and the WAL's header.
    pub fn open(storage: LogFile) -> Result<SlotFile, LogError> {
        let failed = |source| LogError::Io { doing: "read the log's first blocks", source };
        let size_bytes = storage.size_bytes().map_err(failed)?;
        let mut block = AlignedBuffer::zeroed(storage.block_bytes());
        if size_bytes < block.len() as u64 {
            return Err(if size_bytes == 0 { LogError::Unfinished } else { LogError::NotALog });
        }
        storage.read_at(&mut block, 0).map_err(failed)?;
        let header = LogHeader::decode(&block)?;
        // The file had all of this durably before it had its first block.
        let least = header.geometry.bytes_min();
        if size_bytes < least {
            return Err(LogError::Cut { found: size_bytes, least });
        }
        let Geometry { block_bytes, layout, .. } = header.geometry;
        let needed_bytes = if layout == Layout::Pad512 { 512 } else { block_bytes };
        let is_aligned = match layout {
            Layout::Pad512 => storage.alignment_bytes() <= 512,
            _ => block_bytes.is_multiple_of(storage.block_bytes()),
        };
        if !is_aligned {
            return Err(LogError::BlockSize {
                log_bytes: needed_bytes as u32,
                storage_bytes: storage.block_bytes(),
            });
        }
        let file = SlotFile::new(storage, header);
        file.read_wal_header().map_err(|code| LogError::Io {
            doing: "read the WAL's header in the log",
            source: io::Error::other(format!("code {}", code.0)),
        })?;
        Ok(file)
    }

    /// Opens a log whose first block is damaged, for a salvage, with each layout that it may have.
    /// `open` opens its file, each time anew.
    pub fn open_without_header(
        open: impl Fn() -> Result<LogFile, LogError>,
        uuid: Uuid,
        page_bytes: usize,
    ) -> Result<Vec<SlotFile>, LogError> {
        let mut files = Vec::new();
        for layout in Layout::ALL {
            let storage = open()?;
            let geometry = Geometry::new(layout, page_bytes, storage.block_bytes());
            let file = SlotFile::new(storage, LogHeader { geometry, uuid });
            // A file that is too short for this layout has nothing.
            files.extend(file.read_wal_header().is_ok().then_some(file));
        }
        Ok(files)
    }

    fn new(storage: LogFile, header: LogHeader) -> SlotFile {
        SlotFile {
            storage,
            header,
            salts: AtomicU64::new(0),
            slots: AtomicU32::new(0),
            extensions: AtomicU64::new(0),
            writing: Mutex::default(),
            buffers: Mutex::default(),
            used_lane: AtomicBool::new(false),
        }
    }

    pub fn uuid(&self) -> Uuid {
        self.header.uuid
    }

    pub fn geometry(&self) -> &Geometry {
        &self.header.geometry
    }

    /// How often the log was made longer.
    pub fn extensions(&self) -> u64 {
        self.extensions.load(Relaxed)
    }

    pub fn written(&self) -> Written {
        self.storage.written()
    }

    pub fn used_lane(&self) -> bool {
        self.used_lane.load(Relaxed)
    }

    fn salts(&self) -> WalSalts {
        let salts = self.salts.load(Relaxed);
        WalSalts([(salts >> 32) as u32, salts as u32])
    }

    /// True if the frame at the beginning of these bytes was written since the WAL began.
    pub fn is_of_this_life(&self, frame: &[u8]) -> bool {
        frame.first_chunk().is_some_and(|header| self.salts().are_of(header))
    }

    fn set_salts(&self, header: &[u8; HEADER_BYTES as usize]) {
        let WalSalts([first, second]) = WalSalts::of(header);
        self.salts.store(u64::from(first) << 32 | u64::from(second), Relaxed);
    }

    fn buffer(&self, length: usize) -> AlignedBuffer {
        let mut buffer = lock(&self.buffers).pop().unwrap_or_default();
        buffer.reset(length);
        buffer
    }

    fn give_back(&self, buffer: AlignedBuffer) {
        let mut buffers = lock(&self.buffers);
        if buffers.len() < BUFFERS_MAX && buffer.len() <= RUN_BYTES_MAX {
            buffers.push(buffer);
        }
    }

    /// Reads blocks and gives them to `with`.
    fn read_blocks<T>(
        &self,
        offset: u64,
        length: usize,
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Code> {
        let mut buffer = self.buffer(length);
        let read = self.storage.read_at(&mut buffer, offset).map_err(|error| read_code(&error));
        let result = read.map(|()| with(&buffer));
        self.give_back(buffer);
        result
    }

    /// The header of the WAL. From now on its salts count.
    pub fn read_wal_header(&self) -> Result<[u8; HEADER_BYTES as usize], Code> {
        let geometry = self.geometry();
        let mut header = [0; HEADER_BYTES as usize];
        self.read_blocks(geometry.wal_header(), geometry.block_bytes, |block| {
            header.copy_from_slice(&block[..HEADER_BYTES as usize]);
        })?;
        let before = self.salts();
        self.set_salts(&header);
        if self.salts() != before {
            self.forget_space();
        }
        Ok(header)
    }

    /// The WAL begins anew with this header. It is not durable.
    ///
    /// A life of the WAL ends with that, and a checkpoint may have copied a page 1 of that life. So
    /// the copy of page 1 is older than the database file, and does not count any more. That is
    /// durable first: beside a WAL without a header the copy counts ([`is_unbegun`]).
    /// `SQLITE_IOERR_FSYNC`: it may not be durable, and the WAL has the header that it had.
    ///
    /// [`is_unbegun`]: SlotFile::is_unbegun
    pub fn begin_wal(&self, header: &[u8; HEADER_BYTES as usize]) -> Result<(), Code> {
        if !self.is_unbegun()? && self.read_page_one()?.is_some() {
            // Where a part of it was written, the next reader sees no copy, durable or not.
            self.forget_page_one().and_then(|()| self.flush()).map_err(unsynced)?;
        }
        self.write_wal_header(header)
    }

    /// The WAL has no header. If there is a copy of page 1, the database file has the same page 1:
    /// the copy was made, and no checkpoint has written page 1 since.
    pub fn is_unbegun(&self) -> Result<bool, Code> {
        Ok(self.read_wal_header()? == [0; HEADER_BYTES as usize])
    }

    fn forget_page_one(&self) -> Result<(), Code> {
        let geometry = self.geometry();
        let mut trailer = self.buffer(geometry.block_bytes);
        trailer.fill(0);
        let at = geometry.copy() + (geometry.copy_bytes() - geometry.block_bytes) as u64;
        let written = self.write_blocks(&trailer, at, false);
        self.give_back(trailer);
        written
    }

    /// Writes the header of the WAL. It is not durable.
    pub fn write_wal_header(&self, header: &[u8; HEADER_BYTES as usize]) -> Result<(), Code> {
        let geometry = self.geometry();
        let mut writing = lock(&self.writing);
        writing.blocks.reset(geometry.block_bytes);
        writing.blocks.fill(0);
        writing.blocks[..header.len()].copy_from_slice(header);
        self.storage
            .write(&writing.blocks, geometry.wal_header())
            .map_err(|error| write_code(&error))?;
        self.set_salts(header);
        Ok(())
    }

    /// How many slots the file has, durable or not.
    pub fn slots_there(&self) -> Result<u32, Code> {
        Ok(self.geometry().slots(self.size_bytes()?))
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        self.storage.size_bytes().map_err(|error| read_code(&error))
    }

    /// Reads the frames from `first` on, headers and pages, into `frames`.
    pub fn read_frames(&self, first: u32, frames: &mut [u8]) -> Result<(), Code> {
        let geometry = self.geometry();
        let (salts, mut frame) = (self.salts(), first);
        let in_a_run = (RUN_BYTES_MAX / geometry.slot_bytes) as u32;
        let frame_bytes = geometry.frame_bytes() as usize;
        let mut rest = frames;
        while !rest.is_empty() {
            let left = (rest.len() / frame_bytes) as u32;
            let run = left.min(geometry.slots_in_a_row(frame)).min(in_a_run.max(1));
            let (now, later) = rest.split_at_mut(run as usize * frame_bytes);
            let offset = geometry.slot(frame);
            let mut lanes = Vec::new();
            self.read_blocks(offset, run as usize * geometry.slot_bytes, |slots| {
                let slots = slots.chunks_exact(geometry.slot_bytes);
                for (at, (slot, out)) in slots.zip(now.chunks_exact_mut(frame_bytes)).enumerate() {
                    let (header, page) = out.split_at_mut(FRAME_HEADER_BYTES);
                    let mut found = [0; FRAME_HEADER_BYTES];
                    if let Found::Lane(back) = geometry.decode(salts, slot, &mut found, page) {
                        lanes.push((at, back));
                    }
                    header.copy_from_slice(&found);
                }
            })?;
            for (at, back) in lanes {
                let page = &mut now[at * frame_bytes + FRAME_HEADER_BYTES..(at + 1) * frame_bytes];
                self.read_lane(frame + at as u32, back, page)?;
            }
            (rest, frame) = (later, frame + run);
        }
        Ok(())
    }

    /// Reads the page of a frame of this life of the WAL.
    ///
    /// SQLite does not look at the checksum of a frame that is published. Under other salts the
    /// page would be given out with its header in it. So any other frame is an error.
    pub fn read_page(&self, frame: u32, page: &mut [u8]) -> Result<(), Code> {
        let mut header: Header = [0; FRAME_HEADER_BYTES];
        self.decode_page(frame, &mut header, page)?;
        if self.is_of_this_life(&header) {
            return Ok(());
        }
        self.read_wal_header()?;
        self.decode_page(frame, &mut header, page)?;
        if self.is_of_this_life(&header) { Ok(()) } else { Err(Code::CORRUPT) }
    }

    fn decode_page(&self, frame: u32, header: &mut Header, page: &mut [u8]) -> Result<(), Code> {
        let geometry = self.geometry();
        let found = self.read_blocks(geometry.slot(frame), geometry.slot_bytes, |slot| {
            geometry.decode(self.salts(), slot, header, page)
        })?;
        match found {
            Found::Whole => Ok(()),
            Found::Lane(back) => self.read_lane(frame, back, page),
        }
    }

    /// Puts the displaced bytes of a frame, which are in the lane, back into its page.
    fn read_lane(&self, frame: u32, back: u32, page: &mut [u8]) -> Result<(), Code> {
        let geometry = self.geometry();
        let Some(head) = frame.checked_sub(back).filter(|&head| head > 0) else { return Ok(()) };
        let (at, end) = (back as usize * FRAME_HEADER_BYTES, page.len() - FRAME_HEADER_BYTES);
        let read = self.read_blocks(geometry.lane(head), geometry.block_bytes, |block| {
            page[end..].copy_from_slice(&block[at..at + FRAME_HEADER_BYTES]);
        });
        match read {
            // A slot that a crash has garbled may name a block that is not there.
            Err(Code::SHORT_READ) => Ok(()),
            read => read,
        }
    }

    /// True if the header of one of these frames has no place in its page.
    pub fn needs_lane(&self, frames: &[u8]) -> bool {
        let geometry = self.geometry();
        let mut frames = frames.chunks_exact(geometry.frame_bytes() as usize);
        geometry.displaces() && frames.any(|frame| !slots::has_place(&frame[FRAME_HEADER_BYTES..]))
    }

    /// Writes whole frames, headers and pages, from `first` on. The slots are there, or the file
    /// has no space ahead.
    pub fn write_frames(&self, first: u32, frames: &[u8], how: Write) -> Result<(), Code> {
        let geometry = self.geometry();
        let mut writing = lock(&self.writing);
        let frame_bytes = geometry.frame_bytes() as usize;
        let in_a_run = (RUN_BYTES_MAX / geometry.slot_bytes).max(1);
        let (mut frame, mut rest) = (first, frames);
        while !rest.is_empty() {
            let left = rest.len() / frame_bytes;
            let run = left.min(geometry.slots_in_a_row(frame) as usize).min(in_a_run);
            let (now, later) = rest.split_at(run * frame_bytes);
            self.write_run(&mut writing, frame, now, how)?;
            (rest, frame) = (later, frame + run as u32);
        }
        Ok(())
    }

    fn write_run(
        &self,
        writing: &mut Writing,
        first: u32,
        frames: &[u8],
        how: Write,
    ) -> Result<(), Code> {
        let geometry = self.geometry();
        let salts = self.salts();
        let frame_bytes = geometry.frame_bytes() as usize;
        let count = frames.len() / frame_bytes;
        let mut blocks = std::mem::take(&mut writing.blocks);
        blocks.reset(count * geometry.slot_bytes);
        let mut lane: Vec<LaneBlock> = Vec::new();
        for (at, bytes) in frames.chunks_exact(frame_bytes).enumerate() {
            let (frame, slot) = (first + at as u32, at * geometry.slot_bytes);
            let (header, page) = bytes.split_at(FRAME_HEADER_BYTES);
            let header: &Header = header.try_into().map_err(|_| Code::MISUSE)?;
            let head = self.lane_head(frame, lane.last());
            let back = frame - head;
            let slot = &mut blocks[slot..slot + geometry.slot_bytes];
            match geometry.encode(salts, header, page, back, slot) {
                Some(Place::Slot) => {}
                Some(Place::Lane(displaced)) => match lane.last_mut() {
                    Some(block) if block.head == head => block.entries.push((back, displaced)),
                    _ => lane.push(LaneBlock { head, entries: vec![(back, displaced)] }),
                },
                None => {
                    debug_assert!(false, "SQLite writes frames of the WAL that it has begun");
                    return Err(Code::IOERR_WRITE);
                }
            }
        }
        let displaced: usize = lane.iter().map(|block| block.entries.len()).sum();
        let written = lane
            .iter()
            .try_fold(0, |done, block| Ok(done + self.write_lane(writing, block, how)?))
            .map(|done| {
                invariant!(
                    "W1",
                    "what a frame displaces is in the lane before its slot is written",
                    done == displaced
                );
            })
            .and_then(|()| self.write_again_before(first, how))
            .and_then(|()| self.write_blocks(&blocks, geometry.slot(first), how.durable));
        writing.blocks = blocks;
        written
    }

    /// The frame whose block of the lane gets the displaced bytes of `frame`.
    fn lane_head(&self, frame: u32, last: Option<&LaneBlock>) -> u32 {
        if mutant::is(Mutant::LaneShared) {
            return frame - (frame - 1) % LANE_PIECE_SLOTS;
        }
        let has_room = |head: &u32| frame - head < self.geometry().lane_entries();
        last.map(|block| block.head).filter(has_room).unwrap_or(frame)
    }

    /// [`Mutant::BlockRewritten`].
    fn write_again_before(&self, first: u32, how: Write) -> Result<(), Code> {
        let before = first - 1;
        if before == 0 || !how.is_first || !mutant::is(Mutant::BlockRewritten) {
            return Ok(());
        }
        let mut slot = self.buffer(self.geometry().slot_bytes);
        let offset = self.geometry().slot(before);
        self.storage.read_at(&mut slot, offset).map_err(|error| read_code(&error))?;
        self.write_blocks(&slot, offset, how.durable)
    }

    /// How many entries were written.
    fn write_lane(
        &self,
        writing: &mut Writing,
        lane: &LaneBlock,
        how: Write,
    ) -> Result<usize, Code> {
        let geometry = self.geometry();
        self.used_lane.store(true, Relaxed);
        let has_entries = self.prepare_lane(writing, lane.head)?;
        let mut block = self.buffer(geometry.block_bytes);
        block.fill(0);
        if (!how.is_first || mutant::is(Mutant::LaneShared)) && has_entries {
            // Other frames of this transaction may have entries there (invariant 3).
            match self.storage.read_at(&mut block, geometry.lane(lane.head)) {
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                    return Err(read_code(&error));
                }
                _ => {}
            }
        }
        for (back, displaced) in &lane.entries {
            let at = *back as usize * FRAME_HEADER_BYTES;
            block[at..at + FRAME_HEADER_BYTES].copy_from_slice(displaced);
        }
        let is_forgotten = mutant::is(Mutant::LaneForgotten);
        if !is_forgotten {
            let durable = how.durable && !mutant::is(Mutant::LaneUnflushed);
            self.write_blocks(&block, geometry.lane(lane.head), durable)?;
            KillPoint::LaneWritten.reached();
        }
        self.give_back(block);
        Ok(if is_forgotten { 0 } else { lane.entries.len() })
    }

    /// Makes a piece of the lane ready (invariant 1). A piece with nothing but zeros may be a hole.
    /// True: the piece may have entries.
    fn prepare_lane(&self, writing: &mut Writing, frame: u32) -> Result<bool, Code> {
        let first = (frame - 1) / LANE_PIECE_SLOTS * LANE_PIECE_SLOTS + 1;
        if !writing.lane_pieces.insert(first) {
            return Ok(true);
        }
        let made = self.make_lane_piece(first);
        if made.is_err() {
            writing.lane_pieces.remove(&first);
        }
        made
    }

    fn make_lane_piece(&self, first: u32) -> Result<bool, Code> {
        let geometry = self.geometry();
        let block_bytes = geometry.block_bytes as u64;
        let begin = geometry.lane(first);
        let end = begin + u64::from(LANE_PIECE_SLOTS) * block_bytes;
        // The file may end in the piece. What is there may be entries of acknowledged frames.
        let there = (self.size_bytes()?.clamp(begin, end) - begin) / block_bytes * block_bytes;
        let has_entries = there > 0
            && self.read_blocks(begin, there as usize, |piece| piece.iter().any(|&b| b != 0))?;
        let missing = if has_entries { begin + there..end } else { begin..end };
        if !missing.is_empty() {
            self.storage.zero(missing).map_err(|error| write_code(&error))?;
            self.flush()?;
        }
        Ok(has_entries)
    }

    fn write_blocks(&self, blocks: &[u8], offset: u64, durable: bool) -> Result<(), Code> {
        match durable {
            // Whether the write or its sync has failed, nobody knows.
            true => self.storage.write_durable(blocks, offset).map_err(|error| sync_code(&error)),
            false => self.storage.write(blocks, offset).map_err(|error| write_code(&error)),
        }
    }

    /// Makes sure that the slots up to `last` are there (invariant 1). The file grows by chunks of
    /// `chunk_bytes`, or by less while it is small. 0: no space is made ahead.
    pub fn lay_out(&self, last: u32, chunk_bytes: u64) -> Result<(), Code> {
        if chunk_bytes == 0 || last <= self.slots.load(Relaxed) {
            return Ok(());
        }
        let geometry = self.geometry();
        let mut there = self.slots_there()?;
        if last > there {
            let slot_bytes = geometry.slot_bytes as u64;
            let chunk = chunk_at(u64::from(there) * slot_bytes, chunk_bytes).max(slot_bytes);
            let wanted = (u64::from(last) * slot_bytes).next_multiple_of(chunk) / slot_bytes;
            let wanted = u32::try_from(wanted).unwrap_or(last).max(last);
            match self.zero_slots(there + 1, wanted) {
                Ok(()) => there = wanted,
                // There may be room for less.
                Err(Code::FULL) => {
                    self.zero_slots(there + 1, last)?;
                    there = last;
                }
                Err(code) => return Err(code),
            }
            self.extensions.fetch_add(1, Relaxed);
            self.flush()?;
        }
        self.slots.store(there, Relaxed);
        Ok(())
    }

    fn zero_slots(&self, first: u32, last: u32) -> Result<(), Code> {
        let geometry = self.geometry();
        let mut frame = first;
        while frame <= last {
            let run = (last - frame + 1).min(geometry.slots_in_a_row(frame));
            let begin = geometry.slot(frame);
            let end = begin + u64::from(run) * geometry.slot_bytes as u64;
            self.storage.zero(begin..end).map_err(|error| write_code(&error))?;
            frame += run;
        }
        Ok(())
    }

    /// Makes all earlier writes durable.
    pub fn flush(&self) -> Result<(), Code> {
        self.storage.flush().map_err(|error| unsynced(sync_code(&error)))
    }

    /// The file is about to be cut, or another process may have cut it before it began the WAL
    /// anew. What is there is looked up before the next write.
    fn forget_space(&self) {
        let mut writing = lock(&self.writing);
        self.slots.store(0, Relaxed);
        writing.lane_pieces.clear();
    }

    /// Leaves nothing of the WAL but its header's place. Nobody reads or writes frames.
    pub fn cut(&self) -> Result<(), Code> {
        self.begin_wal(&[0; HEADER_BYTES as usize])?;
        self.forget_space();
        self.storage.cut(self.geometry().bytes_min()).map_err(|error| write_code(&error))
    }

    /// Writes what the file has from this frame on again, up to `last`. After a failed sync nobody
    /// knows whether the device has it. None of it was acknowledged.
    pub fn write_again(&self, first: u32, last: u32) -> Result<(), Code> {
        let geometry = self.geometry();
        if !self.is_unbegun()? && self.read_page_one()?.is_none() {
            // The sync that failed may have been that of this mark.
            self.forget_page_one()?;
        }
        if first == 1 {
            self.write_wal_header(&self.read_wal_header()?)?;
        }
        for frame in first..=last {
            let mut slot = self.buffer(geometry.slot_bytes);
            let offset = geometry.slot(frame);
            self.storage.read_at(&mut slot, offset).map_err(|error| read_code(&error))?;
            self.write_blocks(&slot, offset, false)?;
            self.give_back(slot);
            if geometry.displaces() {
                let mut lane = self.buffer(geometry.block_bytes);
                match self.storage.read_at(&mut lane, geometry.lane(frame)) {
                    Ok(()) if lane.iter().any(|&byte| byte != 0) => {
                        self.write_blocks(&lane, geometry.lane(frame), false)?;
                    }
                    _ => {}
                }
                self.give_back(lane);
            }
        }
        self.flush()
    }

    /// Sees to it that the log has a copy of this page 1. A copy that is there stays as it is: the
    /// database file may have a part of the page only.
    pub fn keep_page_one(&self, page: &[u8]) -> Result<(), Code> {
        if self.read_page_one()?.is_some_and(|copy| copy == page) {
            return Ok(());
        }
        self.write_page_one(page)
    }

    /// Writes a copy of page 1, durably.
    pub fn write_page_one(&self, page: &[u8]) -> Result<(), Code> {
        let geometry = self.geometry();
        let mut copy = self.buffer(geometry.copy_bytes());
        copy.fill(0);
        copy[..page.len()].copy_from_slice(page);
        let at = copy.len() - geometry.block_bytes;
        copy[at..at + 8].copy_from_slice(&COPY_MAGIC);
        copy[at + 8..at + 12].copy_from_slice(&page_crc(page).to_le_bytes());
        copy[at + 12..at + 28].copy_from_slice(&self.uuid().0);
        let written = self.storage.write_durable(&copy, geometry.copy());
        self.give_back(copy);
        written.map_err(|error| sync_code(&error))
    }

    /// The copy of page 1. `None`: there is none, or not a whole one.
    pub fn read_page_one(&self) -> Result<Option<Vec<u8>>, Code> {
        let geometry = self.geometry();
        self.read_blocks(geometry.copy(), geometry.copy_bytes(), |copy| {
            let (page, trailer) = copy.split_at(copy.len() - geometry.block_bytes);
            let page = &page[..geometry.page_bytes];
            let is_whole = trailer[..8] == COPY_MAGIC
                && trailer[8..12] == page_crc(page).to_le_bytes()
                && trailer[12..28] == self.uuid().0;
            is_whole.then(|| page.to_vec())
        })
    }
}

fn read_code(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Code::SHORT_READ,
        _ => Code::IOERR_READ,
    }
}

/// Of a write with a sync.
fn sync_code(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::NotFound => Code::NAME_LOST,
        _ if is_full(error) => Code::FULL,
        _ => Code::IOERR_FSYNC,
    }
}

/// Whatever else it was, it is a sync that failed.
fn unsynced(code: Code) -> Code {
    if code.is_of_sync() { code } else { Code::IOERR_FSYNC }
}

fn write_code(error: &io::Error) -> Code {
    if is_full(error) { Code::FULL } else { Code::IOERR_WRITE }
}
