//! Writes with `eager`: frames go to the image in one write a commit, and it is known which of them end a commit.
//!
//! Only what SQLite has said to be committed may be logged, and only it says so: by the sync of a commit, under the write lock, or by
//! `SQLITE_FCNTL_COMMIT_PHASETWO`. A frame that ends a commit may be written and the commit fail after it.

use std::sync::atomic::Ordering::Relaxed;

use super::{Plain, doing};
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::role::Role;
use crate::strategy::eager::{EagerLog, FramePart};
use crate::strategy::{Below, wal_file};
use crate::sync::lock;

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

impl Plain {
    /// With `eager`: the commit whose last frame is written is known to be complete.
    pub(super) fn note_commit(&self, log: &EagerLog) {
        let offset = self.commit_frame.swap(0, Relaxed);
        if offset != 0 {
            log.note_commit(offset, &mut lock(&self.frames));
        }
    }

    /// The same, where SQLite has not said so yet.
    pub(super) fn note_written(&self, log: &EagerLog) {
        let offset = self.commit_frame.swap(0, Relaxed);
        if offset != 0 {
            log.note_written(offset, &mut lock(&self.frames));
            self.released_frame.store(offset, Relaxed);
        }
    }

    /// A write with `eager`.
    pub(super) fn write_logged(
        &self,
        log: &EagerLog,
        below: &dyn Below,
        role: Role,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        // Invariant 2; and no page may go into the database that the log is not sure to have.
        match role {
            Role::Wal if offset == 0 => {
                self.doing.store(doing::WRITES, Relaxed);
                self.refuse_if_failed()?;
                self.write_held(log, below)?;
                let main = lock(&self.main);
                self.restart_image(log, main.as_deref().ok_or(Error::Below(Code::READONLY))?, below)?;
                self.unsynced_frames.store(false, Relaxed);
                Ok(below.write(data, offset)?)
            }
            Role::Wal => {
                self.doing.store(doing::WRITES, Relaxed);
                self.shared.flush.failure().map_or(Ok(()), Err)?;
                // Asks for the log's own failure, too.
                if !self.unsynced_frames.load(Relaxed) {
                    // The first of a transaction: if this fails nothing has changed.
                    self.wait_for_log(log)?;
                }
                let part = log.before_frame(below, data, offset)?;
                self.follow_frames(&part, data, offset);
                self.unsynced_frames.store(true, Relaxed);
                let mut held = lock(&self.held);
                // Without powersafe overwrite SQLite syncs in the middle of a frame that only fills a sector.
                let is_part = ![wal_file::FRAME_HEADER_BYTES, part.page_bytes].contains(&data.len());
                if held.is_written_over(offset) || is_part {
                    held.reaches(offset + data.len() as u64);
                    drop(held);
                    self.write_held(log, below)?;
                    below.write(data, offset).inspect_err(|_| self.commit_frame.store(0, Relaxed))?;
                    lock(&self.frames).clear();
                    return Ok(());
                }
                if !held.is_continued_at(offset) {
                    drop(held);
                    self.write_held(log, below)?;
                    held = lock(&self.held);
                }
                held.add(data, offset);
                // SQLite's last write of a commit is the page of the frame that ends it.
                let ends = self.commit_frame.load(Relaxed) != 0 && data.len() > wal_file::FRAME_HEADER_BYTES;
                let is_much = held.len() >= HELD_BYTES_MAX;
                drop(held);
                if ends || is_much {
                    self.write_held(log, below)?;
                }
                Ok(())
            }
            Role::Db => {
                self.refuse_if_failed()?;
                let image = lock(&self.wal);
                let Some(image) = image.as_deref() else { return Ok(below.write(data, offset)?) };
                if !self.checkpoint_prepared.swap(true, Relaxed) {
                    log.before_checkpoint(below, image, self.published_frames(below))
                        .inspect_err(|_| self.checkpoint_prepared.store(false, Relaxed))?;
                    KillPoint::Prepared.reached();
                }
                match log.guarded(data, offset) {
                    Some(page) => below.write(&page, offset)?,
                    None => below.write(data, offset)?,
                }
                Ok(self.pace_checkpoint(data, offset)?)
            }
            Role::RollbackJournal | Role::SuperJournal | Role::Temp => Ok(below.write(data, offset)?),
        }
    }

    /// Finds the frame that ends the commit, when its page is complete. Frames that fill a sector behind it say the same of themselves; and
    /// when pages were written over, SQLite writes the headers of complete frames once more, without their pages.
    fn follow_frames(&self, part: &FramePart, data: &[u8], offset: u64) {
        let frame = &mut *lock(&self.frame);
        let known = self.commit_frame.load(Relaxed);
        if let Some(ends_commit) = part.ends_commit {
            (frame.header, frame.ends_commit) = (offset, ends_commit);
            if known == 0 || offset > known {
                frame.ending = if ends_commit { offset } else { 0 };
                if !ends_commit {
                    self.commit_frame.store(0, Relaxed);
                }
            }
            return;
        }
        if known != 0 && frame.header <= known && offset == frame.header + wal_file::FRAME_HEADER_BYTES as u64 {
            // The commit that was known failed, and this is another in its place.
            self.commit_frame.store(0, Relaxed);
            frame.ending = if frame.ends_commit { frame.header } else { 0 };
        }
        let end_bytes = (wal_file::FRAME_HEADER_BYTES + part.page_bytes) as u64 + frame.ending;
        if frame.ending != 0 && offset + data.len() as u64 >= end_bytes {
            self.commit_frame.store(std::mem::take(&mut frame.ending), Relaxed);
        }
    }

    /// SQLite begins the image anew. A sync that failed must not be tried again, so that is the end of it.
    pub(super) fn restart_image(&self, log: &EagerLog, main: &dyn Below, image: &dyn Below) -> Result<(), Code> {
        self.refuse_if_failed()?;
        log.restart(main, image).inspect_err(|&code| {
            // Where the log's lock could not be had nothing was tried.
            if code != Code::BUSY {
                self.shared.flush.poison(code);
            }
        })
    }

    /// SQLite deletes the image: the same.
    pub(super) fn retire_log(&self, log: &EagerLog, main: &dyn Below) -> Result<(), Error> {
        self.refuse_if_failed()?;
        log.retire(main).inspect_err(|error| {
            // Else log and guard stay for the next opener.
            if !matches!(error, Error::Below(Code::BUSY)) {
                self.shared.flush.poison(Code::IOERR_FSYNC);
            }
        })
    }

    /// Waits in the busy handler while the log is with a process that does not go on.
    pub(super) fn wait_for_log(&self, log: &EagerLog) -> Result<(), Code> {
        if !log.is_stuck() {
            return Ok(());
        }
        let handler = lock(&self.busy_handler).clone();
        log.wait_while_stuck(handler.as_deref())
    }

    /// Before a commit that nobody waits behind is noted: another process that has the log is waited for. Whoever has noted a commit cannot
    /// be told "busy" any more.
    #[cold]
    pub(super) fn wait_before_commit(&self, log: &EagerLog, image: &dyn Below) -> Result<(), Code> {
        let handler = lock(&self.busy_handler).clone();
        log.wait_while_held(handler.as_deref()).inspect_err(|_| {
            let offset = self.commit_frame.swap(0, Relaxed);
            if offset != 0 && log.unwrite(image, offset).is_err() {
                self.shared.flush.poison(Code::IOERR_FSYNC);
            }
        })
    }

    /// What the WAL index says of commits, if this connection uses the one that all share.
    pub(super) fn published_frames(&self, main: &dyn Below) -> Option<u32> {
        self.shares_index.load(Relaxed).then(|| main.published_frames()).flatten()
    }

    /// Writes the frames that are held back.
    #[inline(never)]
    pub(super) fn write_held(&self, log: &EagerLog, image: &dyn Below) -> Result<(), Error> {
        let mut held = lock(&self.held);
        let Some((bytes, offset)) = held.take() else { return Ok(()) };
        let mut frames = lock(&self.frames);
        if let Err(code) = log.write_frames(image, bytes, offset, &mut frames, self.options.prealloc_bytes) {
            // A commit that is not in the image is none. SQLite takes the frames for written, and need not end the transaction where only a read has
            // failed: they go with the next write, or that fails too.
            self.commit_frame.store(0, Relaxed);
            held.put_back();
            return Err(code.into());
        }
        Ok(())
    }
}
