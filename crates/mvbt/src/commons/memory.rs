//! Users of one storage in one process.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use super::board::{SLOTS, WORDS};
use super::{Commons, Then};
use crate::sync::{Condvar, Mutex, wait_until};
use crate::{Error, Result};

/// What they share.
pub struct Memory {
    words: Box<[AtomicU64]>,
    state: Mutex<State>,
    /// A writer has ended.
    is_unlocked: Condvar,
    /// Held while somebody comes or goes.
    door: Mutex<()>,
}

#[derive(Default)]
struct State {
    is_held: Vec<bool>,
    /// The slot of the writer.
    writer: Option<usize>,
}

/// One of the users. When it is dropped, its lock and its slot are free, as those of a process that
/// dies.
pub struct Member {
    memory: Arc<Memory>,
    slot: usize,
    has_left: AtomicBool,
    /// Open as long as the user is there, for the locks that it has.
    _file: Option<File>,
}

impl Memory {
    pub fn new() -> Arc<Memory> {
        Arc::new(Memory {
            words: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            state: Mutex::new(State { is_held: vec![false; SLOTS], writer: None }),
            is_unlocked: Condvar::new(),
            door: Mutex::new(()),
        })
    }

    /// Comes in. The call is told whether nobody else is there.
    pub fn join<R>(
        self: &Arc<Memory>,
        call: impl FnOnce(Arc<dyn Commons>, bool) -> Result<R>,
    ) -> Result<R> {
        self.join_with(None, call)
    }

    /// The same, with a file that is open as long as this user is there.
    pub(super) fn join_with<R>(
        self: &Arc<Memory>,
        file: Option<File>,
        call: impl FnOnce(Arc<dyn Commons>, bool) -> Result<R>,
    ) -> Result<R> {
        let _door = self.door.lock();
        let (slot, is_alone) = {
            let mut state = self.state.lock();
            let free = state.is_held.iter().position(|is_held| !is_held);
            let slot = free.ok_or(Error::Busy { what: "too many handles are open" })?;
            let is_alone = !state.is_held.contains(&true);
            state.is_held[slot] = true;
            (slot, is_alone)
        };
        if is_alone {
            self.words.iter().for_each(|word| word.store(0, SeqCst));
        }
        let (memory, has_left) = (Arc::clone(self), AtomicBool::new(false));
        call(Arc::new(Member { memory, slot, has_left, _file: file }), is_alone)
    }
}

impl Member {
    fn leave(&self) {
        let mut state = self.memory.state.lock();
        // Somebody else may have its slot by now.
        if self.has_left.swap(true, SeqCst) {
            return;
        }
        state.is_held[self.slot] = false;
        if state.writer == Some(self.slot) {
            state.writer = None;
            self.memory.is_unlocked.notify_all();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Commons for Member {
    fn load(&self, index: usize) -> u64 {
        self.memory.words[index].load(SeqCst)
    }

    fn store(&self, index: usize, value: u64) {
        self.memory.words[index].store(value, SeqCst);
    }

    fn add(&self, index: usize, more: u64) {
        self.memory.words[index].fetch_add(more, SeqCst);
    }

    fn raise(&self, index: usize, least: u64) {
        self.memory.words[index].fetch_max(least, SeqCst);
    }

    fn check_user(&self) -> Result<()> {
        Ok(())
    }

    fn slot(&self) -> usize {
        self.slot
    }

    fn is_held(&self, slot: usize) -> bool {
        self.memory.state.lock().is_held[slot]
    }

    fn lock_writer(&self, until: Option<Instant>) -> Result<bool> {
        let mut state = self.memory.state.lock();
        while state.writer.is_some() {
            let is_over;
            (state, is_over) = wait_until(&self.memory.is_unlocked, state, until);
            if is_over && state.writer.is_some() {
                return Ok(false);
            }
        }
        state.writer = Some(self.slot);
        Ok(true)
    }

    fn unlock_writer(&self) {
        self.memory.state.lock().writer = None;
        self.memory.is_unlocked.notify_one();
    }

    fn has_writer(&self) -> bool {
        self.memory.state.lock().writer.is_some()
    }

    fn settle(&self, call: &mut dyn FnMut(bool) -> Result<Then>) -> Result<()> {
        let _door = self.memory.door.lock();
        let users = self.memory.state.lock().is_held.iter().filter(|is_held| **is_held).count();
        if call(users == 1)? == Then::Leave {
            self.leave();
        }
        Ok(())
    }
}
