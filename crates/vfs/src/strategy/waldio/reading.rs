//! Reads of the WAL. A page in the WAL may be one of this transaction, in the cache, in the buffer
//! of a batch, or in its slot.

use std::sync::atomic::Ordering::Relaxed;

use super::slot_file::{AHEAD_FRAMES, SlotFile};
use super::store::Waldio;
use super::transaction::Transaction;
use crate::engine::doing;
use crate::error::Code;
use crate::port::Below;
use crate::sync::lock;
use crate::wal_file::{FRAME_HEADER_BYTES, HEADER_BYTES};

/// A read of a page that the cache lacks reads so many bytes.
const RUN_BYTES: usize = 32 << 10;

impl Waldio {
    /// The last frame of which SQLite knows that it is committed.
    fn last_committed(&self) -> u32 {
        self.published_frames().unwrap_or_else(|| self.own.committed.load(Relaxed))
    }

    pub(super) fn read_wal(
        &self,
        wal: &dyn Below,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Code> {
        let (store, (log, generation)) = (self.store(), self.log()?);
        let geometry = log.file.geometry();
        let Some((frame, at)) = geometry.frame_at(offset) else {
            lock(&self.own.ahead).1.clear();
            return wal.read(buffer, offset);
        };
        let frame_bytes = geometry.frame_bytes() as usize;
        if self.doing.load(Relaxed) == doing::WRITES && at + buffer.len() <= frame_bytes {
            let mut transaction = lock(&self.own.transaction);
            if transaction.read(frame, at, buffer) {
                return Ok(());
            }
            if buffer.len() == frame_bytes && frame < transaction.last() {
                // SQLite writes checksums anew, and reads one frame after the other.
                return read_written(wal, &mut transaction, frame, buffer);
            }
        }
        if at == FRAME_HEADER_BYTES && buffer.len() == geometry.page_bytes {
            if store.cache.get(generation, frame, buffer) {
                return Ok(());
            }
            return self.read_into_cache(wal, &log.file, generation, frame, buffer);
        }
        if at == 0 && buffer.len() as u64 == geometry.frame_bytes() && self.recovering.load(Relaxed)
        {
            return self.read_ahead(wal, frame, buffer, offset);
        }
        wal.read(buffer, offset)
    }

    /// Reads a page that the cache lacks, and the frames behind it. A read of the device takes
    /// about as long for some as for one, and a checkpoint wants most of them next.
    #[cold]
    fn read_into_cache(
        &self,
        wal: &dyn Below,
        file: &SlotFile,
        generation: u64,
        frame: u32,
        page: &mut [u8],
    ) -> Result<(), Code> {
        let geometry = file.geometry();
        let frame_bytes = geometry.frame_bytes() as usize;
        let in_run = (RUN_BYTES / frame_bytes).max(1) as u32;
        let mut last = self.last_committed().min(frame.saturating_add(in_run - 1));
        // Asked after the last frame: what is committed later is not read here.
        if self.store().grouping.has_frames() {
            // Those behind this one may be in memory. Their slots have something else.
            last = last.min(frame);
        }
        if last <= frame {
            wal.read(page, geometry.offset_of(frame) + FRAME_HEADER_BYTES as u64)?;
        } else {
            let count = (last - frame + 1).min(geometry.slots_in_a_row(frame)) as usize;
            let mut frames = vec![0; count * frame_bytes];
            file.read_frames(frame, &mut frames)?;
            if !file.is_of_this_life(&frames) {
                return file.read_page(frame, page);
            }
            page.copy_from_slice(&frames[FRAME_HEADER_BYTES..frame_bytes]);
            for (frame, bytes) in (frame + 1..).zip(frames.chunks_exact(frame_bytes).skip(1)) {
                self.store().cache.put(generation, frame, &bytes[FRAME_HEADER_BYTES..]);
            }
        }
        if frame <= last {
            self.store().cache.put(generation, frame, page);
        }
        Ok(())
    }

    /// A recovery of SQLite's reads one frame after the other.
    #[cold]
    fn read_ahead(
        &self,
        wal: &dyn Below,
        frame: u32,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Code> {
        let mut ahead = lock(&self.own.ahead);
        let (first, frames) = &mut *ahead;
        let length = buffer.len();
        let mut at = frame.wrapping_sub(*first) as usize * length;
        if frame < *first || at + length > frames.len() {
            let there = ((wal.size_bytes()?.saturating_sub(HEADER_BYTES)) / length as u64) as u32;
            frames.clear();
            if there < frame {
                return wal.read(buffer, offset);
            }
            *frames = read_run(wal, frame, there, length)?;
            (*first, at) = (frame, 0);
        }
        buffer.copy_from_slice(&frames[at..at + length]);
        Ok(())
    }
}

/// Reads a frame of this transaction that was written and forgotten, and some behind it.
#[cold]
fn read_written(
    wal: &dyn Below,
    transaction: &mut Transaction,
    frame: u32,
    buffer: &mut [u8],
) -> Result<(), Code> {
    let frames = read_run(wal, frame, transaction.last(), buffer.len())?;
    buffer.copy_from_slice(&frames[..buffer.len()]);
    transaction.keep(frame, &frames, buffer.len());
    Ok(())
}

/// Reads a frame and those behind it, up to `last` at most.
fn read_run(wal: &dyn Below, first: u32, last: u32, frame_bytes: usize) -> Result<Vec<u8>, Code> {
    let count = (last - first + 1).min(AHEAD_FRAMES) as usize;
    let mut frames = vec![0; count * frame_bytes];
    wal.read(&mut frames, HEADER_BYTES + u64::from(first - 1) * frame_bytes as u64)?;
    Ok(frames)
}
