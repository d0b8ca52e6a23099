//! The log as SQLite sees it: a WAL, byte for byte, at SQLite's offsets.
//!
//! | SQLite reads | where it is |
//! |---|---|
//! | the WAL's header, at 0 | in a block of its own |
//! | whole frames | in slots, many at once |
//! | a page, or a header, alone | in the buffer of group synch, or in a slot |

use std::sync::Arc;

use oneflush_blocklog::Error as LogError;

use super::grouping::Grouping;
use super::slot_file::SlotFile;
use crate::error::Code;
use crate::port::{Below, DeviceCharacteristics, LockLevel, SyncRequest};
use crate::strategy::log_files::LogFile;
use crate::strategy::log_life::onlooker::LoggedWal;
use crate::wal_file::{FRAME_HEADER_BYTES, HEADER_BYTES};

/// Opens a log for a connection that only reads.
pub fn open_to_read(file: LogFile) -> Result<Arc<dyn LoggedWal>, LogError> {
    Ok(Arc::new(SlotFile::open(file)?))
}

impl LoggedWal for SlotFile {
    fn begins_reading(&self) -> Result<(), Code> {
        self.read_wal_header().map(drop)
    }

    fn as_wal(self: Arc<Self>) -> Box<dyn Below> {
        Box::new(WalView { file: self, grouping: None })
    }
}

const WAL_HEADER_BYTES: usize = HEADER_BYTES as usize;

/// A WAL of SQLite's that has no file of its own.
pub struct WalView {
    pub file: Arc<SlotFile>,
    /// Frames that are not in their slots yet.
    pub grouping: Option<Arc<Grouping>>,
}

/// A part of one frame.
struct Part {
    frame: u32,
    /// The first byte of it in the frame, and the count.
    at: usize,
    length: usize,
}

impl WalView {
    fn part_at(&self, offset: u64, length: usize) -> Result<Part, Code> {
        let geometry = self.file.geometry();
        let (frame, at) = geometry.frame_at(offset).ok_or(Code::MISUSE)?;
        let left = geometry.frame_bytes() as usize - at;
        Ok(Part { frame, at, length: length.min(left) })
    }

    /// How many whole frames begin at the beginning of these bytes.
    fn whole_frames(&self, part: &Part, length: usize) -> usize {
        if part.at == 0 { length / self.file.geometry().frame_bytes() as usize } else { 0 }
    }

    /// Reads the part that `rest` begins with, or whole frames from there on.
    /// Answers their bytes. `slots`: how many slots the file is known to have.
    fn read_first(&self, part: &Part, rest: &mut [u8], slots: &mut u32) -> Result<usize, Code> {
        let frame_bytes = self.file.geometry().frame_bytes() as usize;
        let grouping = self.grouping.as_ref().filter(|grouping| grouping.has_frames());
        if grouping.is_some_and(|grouping| {
            grouping.read(frame_bytes, part.frame, part.at, &mut rest[..part.length])
        }) {
            return Ok(part.length);
        }
        // A frame leaves the buffer after it is in its slot. So the file is asked second.
        if part.frame > *slots {
            *slots = self.file.slots_there()?;
            if part.frame > *slots {
                rest.fill(0);
                return Err(Code::SHORT_READ);
            }
        }
        // Frames behind this one may be in memory.
        let whole = if grouping.is_some() { 0 } else { self.whole_frames(part, rest.len()) };
        let whole = whole.min((*slots - part.frame + 1) as usize);
        if whole == 0 {
            self.read_part(part, &mut rest[..part.length])?;
            return Ok(part.length);
        }
        let length = whole * frame_bytes;
        self.file.read_frames(part.frame, &mut rest[..length])?;
        Ok(length)
    }

    fn read_part(&self, part: &Part, buffer: &mut [u8]) -> Result<(), Code> {
        let geometry = self.file.geometry();
        if part.at == FRAME_HEADER_BYTES && part.length == geometry.page_bytes {
            return self.file.read_page(part.frame, buffer);
        }
        let mut frame = vec![0; geometry.frame_bytes() as usize];
        self.file.read_frames(part.frame, &mut frame)?;
        buffer.copy_from_slice(&frame[part.at..part.at + part.length]);
        Ok(())
    }
}

impl Below for WalView {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        let (mut at, mut offset) = (0, offset);
        if offset < HEADER_BYTES {
            let header = self.file.read_wal_header()?;
            let from = offset as usize;
            at = buffer.len().min(WAL_HEADER_BYTES - from);
            buffer[..at].copy_from_slice(&header[from..from + at]);
            offset += at as u64;
        }
        let mut slots = 0;
        while at < buffer.len() {
            let part = self.part_at(offset, buffer.len() - at)?;
            let length = self.read_first(&part, &mut buffer[at..], &mut slots)?;
            at += length;
            offset += length as u64;
        }
        Ok(())
    }

    /// Only the header. Frames come by a transaction ([`writing`](super::writing)).
    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        let header = data.try_into().ok().filter(|_| offset == 0);
        self.file.begin_wal(header.ok_or(Code::MISUSE)?)
    }

    /// SQLite cuts its WAL after a checkpoint that has copied everything. To a size other than 0 it
    /// cuts what it does not need; here that is space made ahead.
    fn truncate(&self, size_bytes: u64) -> Result<(), Code> {
        if size_bytes == 0 { self.file.cut() } else { Ok(()) }
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        self.file.flush()
    }

    /// Without slots the WAL is empty: it is to SQLite as if it had been cut.
    fn size_bytes(&self) -> Result<u64, Code> {
        Ok(match self.file.slots_there()? {
            0 => 0,
            slots => HEADER_BYTES + u64::from(slots) * self.file.geometry().frame_bytes(),
        })
    }

    fn lock(&self, _: LockLevel) -> Result<(), Code> {
        Ok(())
    }

    fn unlock(&self, _: LockLevel) -> Result<(), Code> {
        Ok(())
    }

    fn sector_size(&self) -> i32 {
        self.file.geometry().block_bytes as i32
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        DeviceCharacteristics(0)
    }
}
