//! Group Synch, as the paper has it (WALDIO section 4.3): commits are acknowledged when their
//! frames are in a buffer. The buffer is written when it has so many frames (`group`), or after a
//! time (`interval`). A crash takes what is in the buffer.
//!
//! That is weaker than `synchronous=FULL`, and only for those who ask for it. The strict form is
//! the default: while other writers wait, commits are buffered too, and wait for the flush that
//! they share. The flush writes the buffer first. So a batch is one write and one flush.
//!
//! Invariants, cited by number:
//!
//! 1. Other processes find a published frame in its slot. So frames are buffered only while no
//!    other process may read any: this process *holds* the frames ([`Common::hold_frames`]). It
//!    stops when the buffer is empty.
//! 2. Readers of this process find a buffered frame here until it is in its slot.
//! 3. Frames are written in the order in which they came. After a failure none is written, and
//!    nothing more is acknowledged.
//! 4. Slots of buffered frames are there. A full disk is found out before a commit is acknowledged.
//!
//! [`Common::hold_frames`]: crate::strategy::board::Common::hold_frames

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::in_use::InUse;
use super::slot_file::Write;
use crate::config::WalSync;
use crate::error::Code;
use crate::strategy::board::Covered;
use crate::sync::{Condvar, Mutex, lock, ranks, wait, wait_timeout};
use crate::threads;

/// The frames of commits that are acknowledged and not written.
#[derive(Default)]
pub struct Grouping {
    state: Mutex<State, { ranks::GROUP }>,
    changed: Condvar,
    /// Held over a write of the buffer (invariant 3).
    writing: Mutex<(), { ranks::GROUP_WRITING }>,
    has_frames: AtomicBool,
}

#[derive(Default)]
struct State {
    log: Option<Log>,
    first: u32,
    frames: Vec<u8>,
    /// Frames that are being written.
    in_flight: Option<(u32, Arc<Vec<u8>>)>,
    /// This process holds the frames (invariant 1).
    holds: bool,
    /// When the oldest frame of an acknowledged commit came.
    since: Option<Instant>,
    interval: Duration,
    sync: WalSync,
    has_thread: bool,
    is_stopping: bool,
    /// What was said of a group that is not there.
    is_said: bool,
}

#[derive(Clone)]
struct Log {
    in_use: Arc<InUse>,
    /// A child of a fork has a copy of the buffer, which is its parent's.
    pid: u32,
}

/// The strict form buffers no more than this.
const STRICT_BYTES_MAX: usize = 1 << 20;

/// While commits wait for the interval, another process may come to wait for them.
const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// What a commit in the buffer is worth.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// It is acknowledged. The buffer is written when it has so many frames, or is so old.
    Acknowledges { frames: u32, interval: Duration, sync: WalSync },
    /// It waits for a flush, which writes the buffer.
    Waits,
}

/// What became of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// They are buffered.
    Buffered,
    /// The caller writes them.
    NotHere,
    /// The same, because another process has the database open. The user is told that `group` is
    /// not in force.
    OthersAreThere,
}

impl Grouping {
    /// True if frames are here that are not in their slots.
    pub fn has_frames(&self) -> bool {
        self.has_frames.load(SeqCst)
    }

    /// Buffers the frames of a commit, or says that the caller has to write them.
    pub fn add(
        self: &Arc<Self>,
        log: &Arc<InUse>,
        form: Form,
        first: u32,
        frames: &[u8],
    ) -> Result<Added, Code> {
        let InUse { file, board } = &**log;
        let frame_bytes = file.geometry().frame_bytes() as usize;
        let group = match form {
            Form::Acknowledges { frames, .. } => frames as usize,
            Form::Waits => STRICT_BYTES_MAX / frame_bytes,
        };
        // Invariant 4.
        let is_small = frames.len() / frame_bytes <= group && !file.needs_lane(frames);
        let mut state = lock(&self.state);
        if first < state.first + (state.frames.len() / frame_bytes) as u32 {
            // The frames from here on are of a commit that failed after it was buffered.
            let kept = first.saturating_sub(state.first) as usize * frame_bytes;
            state.frames.truncate(kept);
        }
        let next = state.first + (state.frames.len() / frame_bytes) as u32;
        let follows = state.frames.is_empty() || first == next;
        if !is_small || !follows || board.frames_are_wanted() {
            drop(state);
            self.write_out()?;
            return Ok(if board.frames_are_wanted() { self.others(form) } else { Added::NotHere });
        }
        // Invariant 1.
        if !state.holds && !board.common().hold_frames()? {
            drop(state);
            self.write_out()?;
            return Ok(self.others(form));
        }
        state.holds = true;
        if state.frames.is_empty() {
            state.first = first;
        }
        state.log = Some(Log { in_use: Arc::clone(log), pid: std::process::id() });
        if let Form::Acknowledges { interval, sync, .. } = form {
            state.since.get_or_insert_with(Instant::now);
            (state.interval, state.sync) = (interval, sync);
        }
        state.frames.extend_from_slice(frames);
        self.has_frames.store(true, SeqCst);
        // The buffer counts as written and not flushed.
        board.writes();
        let is_full = state.frames.len() / frame_bytes >= group;
        match form {
            Form::Waits => {
                drop(state);
                if is_full {
                    self.write_out()?;
                }
            }
            Form::Acknowledges { .. } => {
                let is_due = is_full || !self.has_thread(&mut state);
                drop(state);
                self.changed.notify_all();
                if is_due {
                    self.write_and_sync()?;
                }
            }
        }
        Ok(Added::Buffered)
    }

    /// Another process reads the log. Who wanted a group that is not there hears it once.
    fn others(&self, form: Form) -> Added {
        match form {
            Form::Acknowledges { .. } if !lock(&self.state).is_said => {
                lock(&self.state).is_said = true;
                Added::OthersAreThere
            }
            _ => Added::NotHere,
        }
    }

    /// Copies a part of a buffered frame (invariant 2). False: the frame is not here.
    pub fn read(&self, frame_bytes: usize, frame: u32, at: usize, buffer: &mut [u8]) -> bool {
        if !self.has_frames() {
            return false;
        }
        let state = lock(&self.state);
        let find = |first: u32, frames: &[u8], buffer: &mut [u8]| {
            let begin = (frame.checked_sub(first)? as usize).checked_mul(frame_bytes)? + at;
            buffer.copy_from_slice(frames.get(begin..begin + buffer.len())?);
            Some(())
        };
        find(state.first, &state.frames, buffer).is_some()
            || state
                .in_flight
                .as_ref()
                .is_some_and(|(first, frames)| find(*first, frames, buffer).is_some())
    }

    /// Writes what is buffered to the slots.
    pub fn write_out(&self) -> Result<(), Code> {
        self.write_out_then(false)
    }

    /// The same, and makes it as durable as `sync` has it.
    fn write_and_sync(&self) -> Result<(), Code> {
        self.write_out_then(true)
    }

    fn write_out_then(&self, syncs: bool) -> Result<(), Code> {
        if !self.has_frames() {
            return Ok(());
        }
        let _writing = lock(&self.writing);
        let mut state = lock(&self.state);
        // Frames in flight are of a write that failed meanwhile (invariant 3).
        let is_empty = state.frames.is_empty() && state.in_flight.is_none();
        let Some(log) = state.log.clone().filter(|_| !is_empty) else {
            return Ok(());
        };
        if log.pid != std::process::id() {
            state.frames.clear();
            self.has_frames.store(false, SeqCst);
            return Ok(());
        }
        let board = &log.in_use.board;
        board.failure().map_or(Ok(()), Err)?;
        let (first, frames) = (state.first, Arc::new(std::mem::take(&mut state.frames)));
        state.in_flight = Some((first, Arc::clone(&frames)));
        state.since = None;
        let sync = if syncs { state.sync } else { WalSync::Ns };
        // All that has counted is written before, or in these frames.
        let covered = board.covered();
        drop(state);
        let written = log.write(first, &frames, sync, &covered);
        let mut state = lock(&self.state);
        let result = written.inspect_err(|&code| {
            // Invariant 3. What is buffered is lost, as by a crash.
            board.fail_behind(code, board.logged());
        });
        if result.is_ok() {
            state.in_flight = None;
            if state.frames.is_empty() {
                self.has_frames.store(false, SeqCst);
                state.holds = false;
                board.common().show_frames();
            }
        }
        result
    }

    /// The thread that writes the buffer after the interval. False: there is none.
    fn has_thread(self: &Arc<Self>, state: &mut State) -> bool {
        if !state.has_thread {
            let me = Arc::downgrade(self);
            let ended = Arc::downgrade(self);
            let panicked = move || {
                if let Some(grouping) = ended.upgrade() {
                    grouping.has_panicked();
                }
            };
            let spawned = threads::spawn("oneflush-group", panicked, move || {
                while let Some(grouping) = me.upgrade() {
                    if !grouping.wait_and_write() {
                        return;
                    }
                }
            });
            state.has_thread = spawned.is_ok();
        }
        state.has_thread
    }

    /// The thread has ended by a panic.
    fn has_panicked(&self) {
        lock(&self.state).has_thread = false;
        self.panicked();
    }

    /// A panic was stopped. What is buffered is whole, and is written. If the panic came from such
    /// a write, what is buffered is lost, as by a crash. This process holds the frames then, so
    /// others hear of the failure (invariant 1).
    pub fn panicked(&self) {
        let is_being_written = {
            let _writing = lock(&self.writing);
            lock(&self.state).in_flight.is_some()
        };
        let write_out = AssertUnwindSafe(|| self.write_out());
        if !is_being_written && catch_unwind(write_out).is_ok_and(|written| written.is_ok()) {
            return;
        }
        let state = lock(&self.state);
        if let Some(Log { in_use, pid }) = &state.log
            && state.holds
            && *pid == std::process::id()
        {
            in_use.board.fail_behind(Code::IOERR_FSYNC, in_use.board.logged());
        }
    }

    /// Waits until a buffer is due, and writes it. False: the thread is not needed any more.
    fn wait_and_write(&self) -> bool {
        let mut state = lock(&self.state);
        loop {
            if state.is_stopping {
                state.has_thread = false;
                return false;
            }
            let is_wanted =
                state.log.as_ref().is_some_and(|log| log.in_use.board.frames_are_wanted());
            state = match state.since.map(|since| since.elapsed()) {
                None => wait(&self.changed, state),
                Some(age) if age >= state.interval || is_wanted => break,
                Some(age) => {
                    let left = (state.interval - age).min(LOOKS_EVERY);
                    wait_timeout(&self.changed, state, left)
                }
            };
        }
        drop(state);
        if self.write_and_sync().is_err() {
            // The board says so to all. The frames stay for the readers of this process.
            lock(&self.state).since = None;
        }
        true
    }

    /// The last connection has closed the WAL. What is buffered was written before.
    pub fn stop(&self) {
        let mut state = lock(&self.state);
        state.is_stopping = true;
        state.frames.clear();
        state.in_flight = None;
        self.has_frames.store(false, SeqCst);
        let log = state.log.take().filter(|log| log.pid == std::process::id());
        if std::mem::take(&mut state.holds)
            && let Some(log) = log
        {
            // After a failure they are lost, and nobody has to wait for them any more.
            log.in_use.board.common().show_frames();
        }
        drop(state);
        self.changed.notify_all();
    }

    /// A connection opens the WAL.
    pub fn start(&self) {
        lock(&self.state).is_stopping = false;
    }
}

impl Log {
    fn write(
        &self,
        first: u32,
        frames: &[u8],
        sync: WalSync,
        covered: &Covered,
    ) -> Result<(), Code> {
        let (InUse { file, board }, durable) = (&*self.in_use, sync == WalSync::Pd);
        file.write_frames(first, frames, Write { is_first: true, durable })?;
        if sync == WalSync::Fs {
            file.flush()?;
            board.note_flushed(covered);
        }
        Ok(())
    }
}
