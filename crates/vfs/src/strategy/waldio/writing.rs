//! Writes of frames to the log. The frames of a transaction are held back until the commit is
//! complete ([`transaction`](super::transaction)), and then written at once.

use std::sync::atomic::Ordering::Relaxed;

use super::grouping::{Added, Form};
use super::slot_file::Write;
use super::store::Waldio;
use crate::config::WalSync;
use crate::engine::doing;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::port::{Below, SyncRequest};
use crate::strategy::mutant::{self, Mutant};
use crate::sync::lock;

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
        let file = self.log()?.0;
        let geometry = file.geometry();
        self.unsynced_frames.store(true, Relaxed);
        let (mut offset, mut rest, mut is_complete) = (offset, data, false);
        let mut transaction = lock(&self.own.transaction);
        while !rest.is_empty() {
            let (frame, at) = geometry.frame_at(offset).ok_or(Error::Below(Code::MISUSE))?;
            let length = rest.len().min(geometry.frame_bytes() as usize - at);
            let (now, later) = rest.split_at(length);
            is_complete |= transaction.write(geometry, frame, at, now, |frame_bytes| {
                wal.read(frame_bytes, geometry.offset_of(frame))
            })?;
            (rest, offset) = (later, offset + length as u64);
        }
        let is_large = transaction.is_large(geometry.frame_bytes() as usize);
        drop(transaction);
        // SQLite may publish a complete commit without a call.
        if is_complete {
            self.write_commit()
        } else if is_large {
            self.write_held(true)
        } else {
            Ok(())
        }
    }

    /// SQLite begins its WAL anew, with this header.
    fn begin_wal(&self, wal: &dyn Below, header: &[u8]) -> Result<(), Error> {
        self.refuse_if_failed()?;
        // What is left of a transaction was rolled back.
        lock(&self.own.transaction).begin();
        self.store().grouping.write_out()?;
        self.store().begins_anew();
        self.header_unsynced.store(true, Relaxed);
        self.unsynced_frames.store(false, Relaxed);
        let written = self.noting_write(|| wal.write(header, 0));
        KillPoint::HeaderWritten.reached();
        // Processes that have read the salts meanwhile read them again.
        self.store().begins_anew();
        Ok(written?)
    }

    /// Writes a commit that is complete, or puts it into the buffer of group synch.
    fn write_commit(&self) -> Result<(), Error> {
        self.own.is_complete.store(true, Relaxed);
        let Some(form) = self.form() else { return self.write_held(false) };
        let mut transaction = lock(&self.own.transaction);
        let (file, board) = (self.log()?.0, self.store().board());
        if let [(first, frames)] = &transaction.dirty_runs()[..] {
            let last = first + (frames.len() as u64 / file.geometry().frame_bytes()) as u32 - 1;
            self.lay_out(last)?;
            board.writes_over(*first);
            match self.store().grouping.add((&file, &board), form, *first, frames)? {
                Added::Buffered => {
                    board.wrote(*first, last);
                    transaction.written();
                    let is_acknowledged = matches!(form, Form::Acknowledges { .. });
                    self.own.is_buffered.store(is_acknowledged, Relaxed);
                    return Ok(());
                }
                Added::OthersAreThere if matches!(form, Form::Acknowledges { .. }) => {
                    self.store().say_others_are_there();
                }
                Added::OthersAreThere | Added::NotHere => {}
            }
        }
        drop(transaction);
        self.store().grouping.write_out()?;
        self.write_held(false)
    }

    /// How a commit may be buffered now. None: it is written at once.
    fn form(&self) -> Option<Form> {
        let (frames, interval) = (self.options.group_frames, self.options.group_interval);
        if frames > 0 {
            return Some(Form::Acknowledges { frames, interval, sync: self.options.wal_sync });
        }
        let is_shared = self.options.group_commit
            && self.options.wal_sync != WalSync::Ns
            && self.own.is_synced.load(Relaxed)
            && self.shared.writers_wait();
        is_shared.then_some(Form::Waits)
    }

    /// Writes the frames that are held. `shrinks`: only as many are kept as are wanted.
    #[inline(never)]
    pub(super) fn write_held(&self, shrinks: bool) -> Result<(), Error> {
        let mut transaction = lock(&self.own.transaction);
        if transaction.is_empty() {
            return Ok(());
        }
        let file = self.log()?.0;
        let frame_bytes = file.geometry().frame_bytes() as usize;
        let durable = self.options.wal_sync == WalSync::Pd && self.own.is_synced.load(Relaxed);
        let board = self.store().board();
        for (first, frames) in transaction.dirty_runs() {
            let last = first + (frames.len() / frame_bytes) as u32 - 1;
            self.lay_out(last)?;
            let how = Write { is_first: first > self.own.written.load(Relaxed), durable };
            board.writes_over(first);
            let all_durable =
                self.noting_write_of(durable, || file.write_frames(first, &frames, how))?;
            KillPoint::FramesWritten.reached();
            board.wrote_over(first, last);
            if let Some(writes) = all_durable {
                board.note_durable(writes, last);
            }
            self.own.written.fetch_max(last, Relaxed);
        }
        transaction.written();
        if shrinks {
            transaction.shrink(frame_bytes);
        }
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
    /// [`is_flushed`](crate::strategy::board::Board::is_flushed). Answers the count of writes if
    /// they are all durable now.
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
