//! Writes to the image. The frames of a commit go to it in one write, and this module finds out
//! which frame ends the commit.
//!
//! Only SQLite knows whether a commit succeeded. A commit can fail after its last frame was
//! written. So a commit is logged only when SQLite has said that it is one, in either of two ways:
//!
//! - by the sync of a commit, under the write lock;
//! - by `SQLITE_FCNTL_COMMIT_PHASETWO`.

use std::sync::atomic::Ordering::Relaxed;

use super::FramePart;
use super::store::Eager;
use crate::engine::doing;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::port::Below;
use crate::sync::lock;
use crate::wal_file;

/// Held frames are written when they reach this size. With one more page they must stay below 128
/// KiB: the "unix" VFS writes no more at once (`seekAndWriteFd` takes 17 bits of the length).
const HELD_BYTES_MAX: usize = 60 << 10;
const _: () = assert!(HELD_BYTES_MAX + (64 << 10) + wal_file::FRAME_HEADER_BYTES < 128 << 10);

impl Eager {
    /// SQLite writes to the image.
    pub(super) fn write_frames(
        &self,
        image: &dyn Below,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        self.doing.store(doing::WRITES, Relaxed);
        if offset == 0 {
            return self.begin_image(image, data);
        }
        self.shared.flush.failure().map_or(Ok(()), Err)?;
        // `wait_for_log` fails with the log's own failure, too.
        if !self.unsynced_frames.load(Relaxed) {
            // The first frame of a transaction. If this fails, nothing has changed.
            self.wait_for_log()?;
        }
        let part = self.store().before_frame(image, data, offset)?;
        self.follow_frames(&part, data, offset);
        self.unsynced_frames.store(true, Relaxed);
        let mut held = lock(&self.held);
        // A part of a frame. Without powersafe overwrite SQLite fills the sector behind a commit
        // with more frames, and syncs in the middle of one.
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
        let ends =
            self.own.commit_frame.load(Relaxed) != 0 && data.len() > wal_file::FRAME_HEADER_BYTES;
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
    pub(super) fn copy_page(
        &self,
        main: &dyn Below,
        page: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
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

    /// Finds the frame that ends the commit, when its page is complete. Two things look alike: the
    /// frames that fill a sector behind it also say that they end a commit. And after pages were
    /// written over, SQLite writes the headers of complete frames again, without their pages.
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
        if known != 0
            && frame.header <= known
            && offset == frame.header + wal_file::FRAME_HEADER_BYTES as u64
        {
            // The known commit failed. Another takes its place.
            self.own.commit_frame.store(0, Relaxed);
            frame.ending = if frame.ends_commit { frame.header } else { 0 };
        }
        let end_bytes = (wal_file::FRAME_HEADER_BYTES + part.page_bytes) as u64 + frame.ending;
        if frame.ending != 0 && offset + data.len() as u64 >= end_bytes {
            self.own.commit_frame.store(std::mem::take(&mut frame.ending), Relaxed);
        }
    }

    /// SQLite begins the image anew. A sync that failed must not be tried again, so a failure ends
    /// the log for this process.
    pub(super) fn restart_image(&self, main: &dyn Below, image: &dyn Below) -> Result<(), Code> {
        self.refuse_if_failed()?;
        self.store().restart(main, image).inspect_err(|&code| {
            // "Busy": the log's lock could not be had, and nothing was tried.
            if code != Code::BUSY {
                self.shared.flush.poison(code);
            }
        })
    }

    /// SQLite deletes the image. A failure ends the log for this process, as in
    /// [`Eager::restart_image`].
    pub(super) fn retire_log(&self, main: &dyn Below) -> Result<(), Error> {
        self.refuse_if_failed()?;
        self.store().retire(main).inspect_err(|error| {
            // "Busy": log and guard stay for the next opener.
            if !matches!(error, Error::Below(Code::BUSY)) {
                self.shared.flush.poison(Code::IOERR_FSYNC);
            }
        })
    }

    /// Waits in the busy handler while the process that has the log does not go on.
    pub(super) fn wait_for_log(&self) -> Result<(), Code> {
        if !self.store().is_stuck() {
            return Ok(());
        }
        let handler = lock(&self.busy_handler).clone();
        self.store().wait_while_stuck(handler.as_deref())
    }

    /// Waits for another process that has the log, before a commit that keeps others out is noted.
    /// A noted commit cannot be answered "busy" any more.
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

    /// Writes the frames that are held.
    #[inline(never)]
    pub(super) fn write_held(&self, image: &dyn Below) -> Result<(), Error> {
        let mut held = lock(&self.held);
        let Some((bytes, offset)) = held.take() else { return Ok(()) };
        let mut frames = lock(&self.own.frames);
        if let Err(code) = self.store().write_frames(
            image,
            bytes,
            offset,
            &mut frames,
            self.options.prealloc_bytes,
        ) {
            // The commit is not in the image, so it is none. SQLite believes that these frames are
            // written. Where only a read has failed, SQLite need not end the transaction. So the
            // frames are kept for the next write, which writes them or fails too.
            self.own.commit_frame.store(0, Relaxed);
            held.put_back();
            return Err(code.into());
        }
        Ok(())
    }
}
