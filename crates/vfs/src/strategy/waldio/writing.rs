//! Writes of frames to the log. The frames of a commit are held back until they are complete, and
//! then written at once.

use std::sync::atomic::Ordering::Relaxed;

use super::slot_file::Write;
use super::store::Waldio;
use crate::config::WalSync;
use crate::engine::doing;
use crate::error::{Code, Error};
use crate::port::{Below, SyncRequest};
use crate::strategy::mutant::{self, Mutant};
use crate::sync::lock;
use crate::wal_file::FRAME_HEADER_BYTES;

/// Held frames are written when they reach this size.
const HELD_BYTES_MAX: usize = 256 << 10;

/// Where the last header that SQLite wrote is, and whether its frame ends a commit.
#[derive(Debug, Default)]
pub struct LastHeader {
    offset: u64,
    ends_commit: bool,
}

impl LastHeader {
    /// True from the last frame of a commit to the commit's end. A sync meanwhile is the commit's.
    /// Any other is a checkpoint's, and no lock may say so: the last close has them all.
    pub fn ends_commit(&self) -> bool {
        self.ends_commit
    }

    /// The commit has ended, or its frames are not written.
    pub fn forget_commit(&mut self) {
        self.ends_commit = false;
    }
}

impl Waldio {
    /// SQLite writes to its WAL.
    pub(super) fn write_frames(
        &self,
        wal: &dyn Below,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        self.doing.store(doing::WRITES, Relaxed);
        self.forget_closing();
        if offset == 0 {
            return self.begin_wal(wal, data);
        }
        self.refuse_if_failed()?;
        if self.promises_full() && self.header_unsynced.load(Relaxed) {
            // Frames with the new salts must not reach the disk before their header.
            self.sync_shared(wal, SyncRequest::ALL)?;
        }
        let page_bytes = self.slot_file()?.geometry().page_bytes;
        let is_header = data.len() == FRAME_HEADER_BYTES;
        if is_header {
            let ends_commit = data[4..8] != [0; 4];
            *lock(&self.own.last_header) = LastHeader { offset, ends_commit };
        }
        self.unsynced_frames.store(true, Relaxed);
        let mut held = lock(&self.held);
        let is_part = !is_header && data.len() != page_bytes;
        if held.is_written_over(offset) || is_part {
            held.reaches(offset + data.len() as u64);
            drop(held);
            self.write_held(wal)?;
            return self.write_over(wal, data, offset);
        }
        if !held.is_continued_at(offset) {
            drop(held);
            self.write_held(wal)?;
            held = lock(&self.held);
        }
        held.add(data, offset);
        let ends = !is_header && {
            let last = lock(&self.own.last_header);
            last.ends_commit && offset == last.offset + FRAME_HEADER_BYTES as u64
        };
        let is_much = !is_header && held.len() >= HELD_BYTES_MAX;
        drop(held);
        // SQLite's last write of a commit is the page of the frame that ends it. After that it may
        // publish the commit without a call.
        if ends || is_much { self.write_held(wal) } else { Ok(()) }
    }

    /// SQLite begins its WAL anew, with this header.
    fn begin_wal(&self, wal: &dyn Below, header: &[u8]) -> Result<(), Error> {
        self.refuse_if_failed()?;
        self.write_held(wal)?;
        lock(&self.held).begin_anew();
        self.store().begins_anew();
        self.header_unsynced.store(true, Relaxed);
        self.unsynced_frames.store(false, Relaxed);
        let written = self.noting_write(|| wal.write(header, 0));
        // Processes that have read the salts meanwhile read them again.
        self.store().begins_anew();
        Ok(written?)
    }

    /// A page, or a header, that SQLite writes over what it wrote in this transaction.
    fn write_over(&self, wal: &dyn Below, data: &[u8], offset: u64) -> Result<(), Error> {
        lock(&self.own.frames).clear();
        let end_bytes = offset + data.len() as u64;
        let file = self.slot_file()?;
        self.follow(&file)?;
        let geometry = *file.geometry();
        let frame_at = |offset| geometry.frame_at(offset).ok_or(Error::Below(Code::MISUSE));
        let ((first, _), (last, _)) = (frame_at(offset)?, frame_at(end_bytes - 1)?);
        self.lay_out(last)?;
        let board = self.store().board();
        board.writes_over(first);
        self.noting_write(|| wal.write(data, offset))?;
        board.wrote_over(first, last);
        Ok(())
    }

    /// Writes the frames that are held.
    #[inline(never)]
    pub(super) fn write_held(&self, wal: &dyn Below) -> Result<(), Error> {
        let mut held = lock(&self.held);
        let Some((bytes, offset)) = held.take() else { return Ok(()) };
        let file = self.slot_file()?;
        let geometry = file.geometry();
        let frame_bytes = geometry.frame_bytes() as usize;
        let (first, at) = geometry.frame_at(offset).ok_or(Error::Below(Code::MISUSE))?;
        if at != 0 || !bytes.len().is_multiple_of(frame_bytes) {
            // A header without its page, or the other way round.
            let bytes = std::mem::take(bytes);
            drop(held);
            return self.write_over(wal, &bytes, offset);
        }
        let last = first + (bytes.len() / frame_bytes) as u32 - 1;
        let durable = self.options.wal_sync == WalSync::Pd && self.own.is_synced.load(Relaxed);
        let how = Write { is_first: true, durable };
        let board = self.store().board();
        board.writes_over(first);
        let written = self
            .follow(&file)
            .and_then(|_| self.lay_out(last))
            .and_then(|()| self.noting_write_of(durable, || file.write_frames(first, bytes, how)));
        match written {
            Ok(all_durable) => {
                board.wrote(first, last);
                if let Some(writes) = all_durable {
                    board.note_durable(writes, last);
                }
            }
            Err(code) => {
                // SQLite believes that these frames are written. So they are kept for the next
                // write, which writes them or fails too.
                held.put_back();
                lock(&self.own.last_header).forget_commit();
                return Err(code.into());
            }
        }
        let mut frames = lock(&self.own.frames);
        frames.add(first, bytes, frame_bytes);
        Ok(())
    }

    fn lay_out(&self, last: u32) -> Result<(), Code> {
        let file = self.slot_file()?;
        file.lay_out(last, self.options.prealloc_bytes)
            .inspect_err(|&code| self.fail_if_unsynced(code))
    }

    /// A sync has failed within a write. It may have lost what others have written, and the next
    /// sync would not say so.
    fn fail_if_unsynced(&self, code: Code) {
        if code == Code::IOERR_FSYNC {
            self.shared.flush.poison(code);
            self.store().fail(code);
        }
    }

    fn noting_write(&self, write: impl FnOnce() -> Result<(), Code>) -> Result<(), Code> {
        self.noting_write_of(false, write).map(|_| ())
    }

    /// Notes a write before and after it, for
    /// [`is_flushed`](crate::strategy::board::Board::is_flushed). Answers the count of writes if they are all durable now.
    fn noting_write_of(
        &self,
        durable: bool,
        write: impl FnOnce() -> Result<(), Code>,
    ) -> Result<Option<u64>, Code> {
        let board = self.store().board();
        let was_flushed = board.is_flushed();
        board.writes();
        write().inspect_err(|&code| self.fail_if_unsynced(code))?;
        let writes = board.writes();
        Ok((durable && was_flushed).then_some(writes))
    }

    /// A checkpoint writes a page to the database file.
    pub(super) fn copy_page(
        &self,
        main: &dyn Below,
        page: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        if lock(&self.wal).is_none() {
            return Ok(main.write(page, offset)?);
        }
        self.store().board().set_database_unsynced(true);
        match self.store().guarded(page, offset).filter(|_| !mutant::is(Mutant::GuardClearedEarly))
        {
            Some(page) => main.write(&page, offset)?,
            None => main.write(page, offset)?,
        }
        Ok(self.pace_checkpoint(page, offset)?)
    }
}
