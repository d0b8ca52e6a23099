//! Writes: frames go to the image in one write a commit, and it is known which of them end a commit.
//!
//! Only what SQLite has said to be committed may be logged, and only it says so: by the sync of a commit, under the write lock, or by
//! `SQLITE_FCNTL_COMMIT_PHASETWO`. A frame that ends a commit may be written and the commit fail after it.

use std::sync::atomic::Ordering::Relaxed;

use super::FramePart;
use super::store::Eager;
use crate::engine::doing;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::port::Below;
use crate::sync::lock;
use crate::wal_file;

/// When frames that are held back are written: with one more page they must stay below 128 KiB, because the "unix" VFS writes no more
/// at once (`seekAndWriteFd` takes 17 bits of the length).
const HELD_BYTES_MAX: usize = 60 << 10;
const _: () = assert!(HELD_BYTES_MAX + (64 << 10) + wal_file::FRAME_HEADER_BYTES < 128 << 10);

/// The frame that is being written.
#[derive(Debug, Default)]
pub struct Frame {
    /// Where its header is, the last that was written.
    header: u64,
    ends_commit: bool,
    /// Where the header of a frame is that ends a commit, and whose page is not complete; 0: of none.
    ending: u64,
}

impl Eager {
    /// SQLite writes to the image.
    pub(super) fn write_frames(&self, image: &dyn Below, data: &[u8], offset: u64) -> Result<(), Error> {
        self.doing.store(doing::WRITES, Relaxed);
        if offset == 0 {
            return self.begin_image(image, data);
        }
        self.shared.flush.failure().map_or(Ok(()), Err)?;
        // Asks for the log's own failure, too.
        if !self.unsynced_frames.load(Relaxed) {
            // The first of a transaction: if this fails nothing has changed.
            self.wait_for_log()?;
        }
        let part = self.store().before_frame(image, data, offset)?;
        self.follow_frames(&part, data, offset);
        self.unsynced_frames.store(true, Relaxed);
        let mut held = lock(&self.held);
        // Without powersafe overwrite SQLite syncs in the middle of a frame that only fills a sector.
        let is_part = ![wal_file::FRAME_HEADER_BYTES, part.page_bytes].contains(&data.len());
        if held.is_written_over(offset) || is_part {
            held.reaches(offset + data.len() as u64);
            drop(held);
            self.write_held(image)?;
            image.write(data, offset).inspect_err(|_| self.own.commit_frame.store(0, Relaxed))?;
            lock(&self.own.frames).clear();
            return Ok(());
        }
        if !held.is_continued_at(offset) {
            drop(held);
            self.write_held(image)?;
            held = lock(&self.held);
        }
        held.add(data, offset);
        // SQLite's last write of a commit is the page of the frame that ends it.
        let ends = self.own.commit_frame.load(Relaxed) != 0 && data.len() > wal_file::FRAME_HEADER_BYTES;
        let is_much = held.len() >= HELD_BYTES_MAX;
        drop(held);
        if ends || is_much {
            self.write_held(image)?;
        }
        Ok(())
    }

    /// SQLite begins its WAL anew, with this header.
    fn begin_image(&self, image: &dyn Below, header: &[u8]) -> Result<(), Error> {
        self.refuse_if_failed()?;
        self.write_held(image)?;
        let main = lock(&self.main);
        self.restart_image(main.as_deref().ok_or(Error::Below(Code::READONLY))?, image)?;
        self.unsynced_frames.store(false, Relaxed);
        Ok(image.write(header, 0)?)
    }

    /// A checkpoint writes a page to the database file.
    pub(super) fn copy_page(&self, main: &dyn Below, page: &[u8], offset: u64) -> Result<(), Error> {
        let image = lock(&self.wal);
        let Some(image) = image.as_deref() else { return Ok(main.write(page, offset)?) };
        if !self.checkpoint.prepared.swap(true, Relaxed) {
            self.store()
                .before_checkpoint(main, image, self.published_frames())
                .inspect_err(|_| self.checkpoint.prepared.store(false, Relaxed))?;
            KillPoint::Prepared.reached();
        }
        match self.store().guarded(page, offset) {
            Some(page) => main.write(&page, offset)?,
            None => main.write(page, offset)?,
        }
        Ok(self.pace_checkpoint(page, offset)?)
    }

    /// Finds the frame that ends the commit, when its page is complete. Frames that fill a sector behind it say the same of themselves; and
    /// when pages were written over, SQLite writes the headers of complete frames once more, without their pages.
    fn follow_frames(&self, part: &FramePart, data: &[u8], offset: u64) {
        let frame = &mut *lock(&self.own.frame);
        let known = self.own.commit_frame.load(Relaxed);
        if let Some(ends_commit) = part.ends_commit {
            (frame.header, frame.ends_commit) = (offset, ends_commit);
            if known == 0 || offset > known {
                frame.ending = if ends_commit { offset } else { 0 };
                if !ends_commit {
                    self.own.commit_frame.store(0, Relaxed);
                }
            }
            return;
        }
        if known != 0 && frame.header <= known && offset == frame.header + wal_file::FRAME_HEADER_BYTES as u64 {
            // The commit that was known failed, and this is another in its place.
            self.own.commit_frame.store(0, Relaxed);
            frame.ending = if frame.ends_commit { frame.header } else { 0 };
        }
        let end_bytes = (wal_file::FRAME_HEADER_BYTES + part.page_bytes) as u64 + frame.ending;
        if frame.ending != 0 && offset + data.len() as u64 >= end_bytes {
            self.own.commit_frame.store(std::mem::take(&mut frame.ending), Relaxed);
        }
    }

    /// SQLite begins the image anew. A sync that failed must not be tried again, so that is the end of it.
    pub(super) fn restart_image(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Code> {
        self.refuse_if_failed()?;
        self.store().restart(main, image).inspect_err(|&code| {
            // Where the log's lock could not be had nothing was tried.
            if code != Code::BUSY {
                self.shared.flush.poison(code);
            }
        })
    }

    /// SQLite deletes the image: the same.
    pub(super) fn retire_log(&self, main: &dyn Below) -> Result<(), Error> {
        self.refuse_if_failed()?;
        self.store().retire(main).inspect_err(|error| {
            // Else log and guard stay for the next opener.
            if !matches!(error, Error::Below(Code::BUSY)) {
                self.shared.flush.poison(Code::IOERR_FSYNC);
            }
        })
    }

    /// Waits in the busy handler while the log is with a process that does not go on.
    pub(super) fn wait_for_log(&self) -> Result<(), Code> {
        if !self.store().is_log_stuck() {
            return Ok(());
        }
        let handler = lock(&self.busy_handler).clone();
        self.store().wait_while_stuck(handler.as_deref())
    }

    /// Before a commit that nobody waits behind is noted: another process that has the log is waited for. Whoever has noted a commit cannot
    /// be told "busy" any more.
    #[cold]
    pub(super) fn wait_before_commit(&self, image: &dyn Below) -> Result<(), Code> {
        let handler = lock(&self.busy_handler).clone();
        self.store().wait_while_held(handler.as_deref()).inspect_err(|_| {
            let offset = self.own.commit_frame.swap(0, Relaxed);
            if offset != 0 && self.store().unwrite(image, offset).is_err() {
                self.shared.flush.poison(Code::IOERR_FSYNC);
            }
        })
    }

    /// Writes the frames that are held back.
    #[inline(never)]
    pub(super) fn write_held(&self, image: &dyn Below) -> Result<(), Error> {
        let mut held = lock(&self.held);
        let Some((bytes, offset)) = held.take() else { return Ok(()) };
        let mut frames = lock(&self.own.frames);
        if let Err(code) = self.store().write_frames(image, bytes, offset, &mut frames, self.options.prealloc_bytes) {
            // A commit that is not in the image is none. SQLite takes the frames for written, and need not end the transaction where only a read has
            // failed: they go with the next write, or that fails too.
            self.own.commit_frame.store(0, Relaxed);
            held.put_back();
            return Err(code.into());
        }
        Ok(())
    }
}
