//! A board without a file.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use super::{Common, Holder, WORDS};
use crate::engine::ProcessBatching;
use crate::error::Code;
use crate::strategy::tickets::Tickets;
use crate::sync::{Condvar, Mutex, lock, wait_timeout};

/// A board within one process. On a simulated disk each "process" is a group of connections. It is
/// also the board where there is no log.
pub struct Private {
    words: Box<[AtomicU64]>,
    tickets: Tickets,
    batching: ProcessBatching,
    state: Mutex<PrivateState>,
    changed: Condvar,
}

#[derive(Default)]
struct PrivateState {
    locked: bool,
    alone: bool,
    users: u32,
    holds_frames: bool,
}

impl Default for Private {
    fn default() -> Private {
        Private {
            words: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            tickets: Tickets::default(),
            batching: ProcessBatching::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl Common for Private {
    fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    fn lock_unless(
        &self,
        _: u32,
        patience: Duration,
        done: &dyn Fn() -> bool,
    ) -> Result<bool, Code> {
        let deadline = Instant::now() + patience;
        let mut state = lock(&self.state);
        loop {
            if done() {
                return Ok(false);
            }
            if !state.locked {
                state.locked = true;
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Code::BUSY);
            }
            state = wait_timeout(&self.changed, state, left);
        }
    }

    fn unlock(&self, _: Range<u32>) {
        lock(&self.state).locked = false;
        self.changed.notify_all();
    }

    fn holder(&self) -> Option<Holder> {
        None
    }

    fn is_locked(&self) -> bool {
        lock(&self.state).locked
    }

    fn wait_for_unlock(&self, _: Duration) {}

    fn tickets(&self) -> &Tickets {
        &self.tickets
    }

    fn batching(&self) -> &ProcessBatching {
        &self.batching
    }

    fn be_alone(&self) -> Result<bool, Code> {
        let mut state = lock(&self.state);
        state.alone = state.users == 0 && !state.alone;
        Ok(state.alone)
    }

    fn begin_use(&self) -> Result<(), Code> {
        let mut state = lock(&self.state);
        state.alone = false;
        state.users += 1;
        Ok(())
    }

    fn show_use(&self) {}

    fn read_frames(&self) -> Result<bool, Code> {
        Ok(!lock(&self.state).holds_frames)
    }

    /// Who uses the log may read frames.
    fn hold_frames(&self) -> Result<bool, Code> {
        let mut state = lock(&self.state);
        state.holds_frames |= state.users == 1;
        Ok(state.holds_frames && state.users == 1)
    }

    fn show_frames(&self) {
        lock(&self.state).holds_frames = false;
    }

    /// Here a process that joins always needs the lock.
    fn is_shown(&self) -> bool {
        false
    }

    fn is_there(&self) -> bool {
        true
    }

    fn leave(&self) {
        let mut state = lock(&self.state);
        state.users = state.users.saturating_sub(1);
    }

    fn identity(&self, _: &str) -> u64 {
        0
    }
}
