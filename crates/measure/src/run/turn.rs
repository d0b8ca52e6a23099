//! Whose turn it is, among threads that work in turns.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    whose: Option<usize>,
    /// Somebody uses it.
    taken: bool,
    closed: bool,
}

/// The turns of one mode's writer.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    pub(super) turns: &'a Turns,
    pub(super) whose: usize,
}

/// A turn that is used: it does not end before this is dropped.
pub struct Taken<'a>(&'a Turns);

impl Turns {
    pub(super) fn begin(&self, whose: usize) {
        self.lock().whose = Some(whose);
        self.changed.notify_all();
    }

    /// Waits for who uses it.
    pub(super) fn end(&self) {
        self.lock().whose = None;
        let state = self.changed.wait_while(self.lock(), |state| state.taken);
        drop(state.unwrap_or_else(PoisonError::into_inner));
    }

    /// There are no more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Turn<'a> {
    /// Waits for it; none: there are no more.
    pub fn take(self) -> Option<Taken<'a>> {
        let is_not_there = |state: &mut State| !state.closed && state.whose != Some(self.whose);
        let state = self.turns.changed.wait_while(self.turns.lock(), is_not_there);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        state.taken = true;
        Some(Taken(self.turns))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.lock().taken = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_turn_comes_to_its_owner_alone_and_does_not_end_while_it_is_used() {
        let turns = Turns::default();
        thread::scope(|scope| {
            let turn = Turn { turns: &turns, whose: 1 };
            turns.begin(1);
            let taken = turn.take().unwrap();
            let other = scope.spawn(|| Turn { turns: &turns, whose: 0 }.take().is_some());
            let ended = scope.spawn(|| turns.end());
            thread::sleep(Duration::from_millis(30));
            assert!(!ended.is_finished() && !other.is_finished());
            drop(taken);
            ended.join().unwrap();
            turns.begin(0);
            assert!(other.join().unwrap(), "it is the other's now");
            turns.end();
            let waits = scope.spawn(move || turn.take().is_none());
            turns.close();
            assert!(waits.join().unwrap(), "there are no more");
        });
    }
}
