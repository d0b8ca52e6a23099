//! Writes of frames to the log. The frames of a transaction are held back until the commit is
//! complete ([`transaction`](super::transaction)), and then written at once.

use std::sync::atomic::Ordering::Relaxed;

use super::grouping::{Added, Form};
use super::slot_file::{SlotFile, Write};
use super::store::Waldio;
use super::transaction::Transaction;
use crate::config::WalSync;
use crate::engine::doing;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::port::{Below, SyncRequest};
use crate::strategy::board::Board;
use crate::strategy::guard;
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
        let log = self.log()?.0;
        let geometry = log.file.geometry();
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
        self.header_unsynced.store(true, Relaxed);
        self.unsynced_frames.store(false, Relaxed);
        let write = || wal.write(header, 0).inspect(|()| KillPoint::HeaderWritten.reached());
        Ok(self.begin_anew(write)?)
    }

    /// The WAL begins anew by this write: of its header, or of its end.
    pub(super) fn begin_anew(&self, write: impl FnOnce() -> Result<(), Code>) -> Result<(), Code> {
        let board = self.store().board();
        let durable = board.logged();
        self.store().begins_anew();
        let written = self.noting_write(&board, false, write);
        // Processes that have read the salts meanwhile read them again.
        self.store().begins_anew();
        if written.as_ref().is_err_and(|code| code.is_of_sync()) {
            // The WAL is as it was ([`SlotFile::begin_wal`]). Its frames are in the database file
            // by now. Where they are written again, and power is lost, the WAL ends too early.
            board.set_unsure_behind(durable);
        }
        written.map(|_| ())
    }

    /// Writes a commit that is complete, or puts it into the buffer of group synch.
    fn write_commit(&self) -> Result<(), Error> {
        self.own.is_complete.store(true, Relaxed);
        let Some(form) = self.form() else { return self.write_held(false) };
        let mut transaction = lock(&self.own.transaction);
        let runs = transaction.dirty_runs();
        if let [(first, frames)] = &runs[..]
            && self.buffer(form, *first, frames)?
        {
            transaction.written();
            return Ok(());
        }
        self.store().grouping.write_out()?;
        self.write_runs(&mut transaction, &runs)
    }

    /// Puts a commit into the buffer of group synch. False: the caller writes it.
    fn buffer(&self, form: Form, first: u32, frames: &[u8]) -> Result<bool, Error> {
        let log = self.log()?.0;
        let last = first + (frames.len() as u64 / log.file.geometry().frame_bytes()) as u32 - 1;
        self.lay_out(&log.file, last)?;
        log.board.writes_over(first);
        match self.store().grouping.add(&log, form, first, frames)? {
            Added::Buffered => {
                log.board.wrote(first, last);
                let is_acknowledged = matches!(form, Form::Acknowledges { .. });
                self.own.is_buffered.store(is_acknowledged, Relaxed);
                return Ok(true);
            }
            Added::OthersAreThere => self.store().say_others_are_there(),
            Added::NotHere => {}
        }
        Ok(false)
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
        let runs = transaction.dirty_runs();
        self.write_runs(&mut transaction, &runs)?;
        if shrinks {
            transaction.shrink(self.log()?.0.file.geometry().frame_bytes() as usize);
        }
        Ok(())
    }

    fn write_runs(
        &self,
        transaction: &mut Transaction,
        runs: &[(u32, Vec<u8>)],
    ) -> Result<(), Error> {
        let log = self.log()?.0;
        let (file, board) = (&log.file, &log.board);
        let durable = self.options.wal_sync == WalSync::Pd && self.own.is_synced.load(Relaxed);
        for (first, frames) in runs {
            let last = first + (frames.len() as u64 / file.geometry().frame_bytes()) as u32 - 1;
            self.lay_out(file, last)?;
            let how = Write { is_first: *first > self.own.written.load(Relaxed), durable };
            board.writes_over(*first);
            let all_durable =
                self.noting_write(board, durable, || file.write_frames(*first, frames, how))?;
            KillPoint::FramesWritten.reached();
            board.wrote_over(*first, last);
            if let Some(writes) = all_durable {
                board.note_durable(writes, last);
            }
            self.own.written.fetch_max(last, Relaxed);
        }
        transaction.written();
        Ok(())
    }

    fn lay_out(&self, file: &SlotFile, last: u32) -> Result<(), Code> {
        file.lay_out(last, self.options.prealloc_bytes)
            .inspect_err(|&code| self.fail_if_unsynced(code))
    }

    /// A sync has failed within a write. It may have lost what others have written, and the next
    /// sync would not say so.
    fn fail_if_unsynced(&self, code: Code) {
        if code.is_of_sync() {
            self.shared.flush.poison(code.told());
            self.store().fail(code);
        }
    }

    /// Notes a write before and after it, for [`is_flushed`](Board::is_flushed). Answers the count
    /// of writes if they are all durable now.
    pub(super) fn noting_write(
        &self,
        board: &Board,
        durable: bool,
        write: impl FnOnce() -> Result<(), Code>,
    ) -> Result<Option<u64>, Code> {
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
        let Some(log) = self.in_use() else { return Ok(main.write(page, offset)?) };
        log.board.set_database_unsynced(true);
        match guard::guarded(page, offset, || Some(log.file.uuid())) {
            Some(page) => main.write(&page, offset)?,
            None => main.write(page, offset)?,
        }
        Ok(self.pace_checkpoint(page, offset)?)
    }
}
