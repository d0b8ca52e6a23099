//! The door: turns between processes.
//!
//! The queue of turns ends at the border of a process, and behind it SQLite polls. A process that
//! commits all the time takes the write lock again before another has woken up. So while several
//! processes write, the connection that has its turn goes through a door first. The door is an
//! advisory `flock` on the WAL, for which the kernel keeps a queue. SQLite itself never locks the
//! WAL, so nobody else is disturbed. A process that does not know of the door, such as stock
//! SQLite, is simply not in that queue.
//!
//! | state of the door here | begins with | ends with |
//! |---|---|---|
//! | free | `leave`, or an idle holder | `enter`, `wait` |
//! | waiting: the thread waits in the kernel | `enter` fails, `wait` | the kernel gives the lock |
//! | held | the kernel gives the lock | `leave`, or after [`IDLE_MAX`] without the write lock |
//!
//! A process that has the write lock nearly all the time is never told "busy". It would not learn
//! that another process waits, which finds the lock taken whenever it looks. So it looks at the
//! door now and then. It also takes frames behind its own that it did not write for a sign.
//!
//! A `flock` has no time limit, so a thread does the waiting. A connection that gives up leaves.
//! The thread then passes the door on as soon as it gets it.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. The door is a courtesy, like a turn. Without it everything works, only less fairly.
//! 2. At most one connection of a process uses the door: the holder of the turn.
//! 3. A door that is held and not wanted is let go at once. A door that is held without the write
//!    lock is let go after [`IDLE_MAX`], since its user may have given up without a word.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::engine::Gate;
use crate::own_file::OwnFile;
use crate::sync::{Condvar, Mutex, MutexGuard, lock, ranks, wait, wait_timeout};
use crate::threads;

/// How long the door may be held without the write lock.
const IDLE_MAX: Duration = Duration::from_millis(5);

pub struct Door {
    /// The path of the WAL.
    path: String,
    state: Mutex<State, { ranks::FILES }>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    file: Option<Arc<OwnFile>>,
    thread_lives: bool,
    /// A connection of this process wants to go through, or is through.
    wanted: bool,
    /// The thread waits in the kernel.
    waiting: bool,
    held: bool,
    held_since: Option<Instant>,
    /// The connection that went through has the write lock.
    writing: bool,
    stopping: bool,
}

impl Door {
    pub fn new(wal: &str) -> Arc<Door> {
        Arc::new(Door { path: wal.to_owned(), state: Mutex::default(), changed: Condvar::new() })
    }

    /// Forgets the file: the WAL was opened, and perhaps made anew. The door is a lock on the file
    /// of that name.
    pub fn forget_file(&self) {
        let mut state = self.state();
        if !state.held && !state.waiting {
            state.file = None;
        }
    }

    pub fn stop(&self) {
        self.state().stopping = true;
        self.changed.notify_all();
    }

    fn wait_in_kernel(&self) {
        loop {
            let mut state = self.state();
            while !state.stopping && (state.held || !state.wanted) {
                state = match state.held_since.filter(|_| state.held && !state.writing) {
                    Some(since) if since.elapsed() >= IDLE_MAX => {
                        state.wanted = false;
                        Door::close_if_unwanted(&mut state);
                        state
                    }
                    Some(_) => wait_timeout(&self.changed, state, IDLE_MAX),
                    None => wait(&self.changed, state),
                };
            }
            if state.stopping {
                return;
            }
            let Some(file) = self.file(&mut state) else {
                state.thread_lives = false;
                return;
            };
            state.waiting = true;
            drop(state);
            let result = flock(&*file, FlockOperation::LockExclusive);
            let mut state = self.state();
            state.waiting = false;
            if result.is_ok() {
                self.opened(&mut state);
            }
            Door::close_if_unwanted(&mut state);
            self.changed.notify_all();
            if result.is_err() {
                state.thread_lives = false;
                return;
            }
        }
    }

    /// The thread has ended by a panic. The door stands open.
    fn has_panicked(&self) {
        let mut state = self.state();
        (state.thread_lives, state.waiting, state.wanted) = (false, false, false);
        Door::close_if_unwanted(&mut state);
        self.changed.notify_all();
    }

    fn opened(&self, state: &mut State) {
        debug_assert!(!state.held && !state.waiting, "invariant 2: the door is opened once");
        state.held = true;
        state.held_since = Some(Instant::now());
        state.writing = false;
    }

    fn has_thread(self: &Arc<Self>, state: &mut State) -> bool {
        if !state.thread_lives {
            let (me, ended) = (Arc::clone(self), Arc::clone(self));
            let panicked = move || ended.has_panicked();
            let spawned = threads::spawn("oneflush-door", panicked, move || me.wait_in_kernel());
            state.thread_lives = spawned.is_ok();
        }
        state.thread_lives
    }

    /// Invariant 3.
    fn close_if_unwanted(state: &mut State) {
        if state.held && !state.wanted {
            debug_assert!(state.file.is_some(), "invariant 3: a held door can be let go");
            state.held = false;
            if let Some(file) = &state.file {
                // The lock of an open file can always be released.
                let _ = flock(&**file, FlockOperation::Unlock);
            }
        }
    }

    /// The file behind the door. None: the WAL is no file of this system.
    fn file(&self, state: &mut State) -> Option<Arc<OwnFile>> {
        if state.file.is_none() {
            state.file = OwnFile::open(|| File::open(&self.path)).ok().map(Arc::new);
        }
        state.file.clone()
    }

    fn state(&self) -> MutexGuard<'_, State, { ranks::FILES }> {
        lock(&self.state)
    }
}

impl Gate for Arc<Door> {
    /// A `flock` costs a system call, so the door is used only while other processes write.
    const IS_ALWAYS_USED: bool = false;

    /// Goes through, unless another process is there. True: it is through, or there is no door.
    fn enter(&self) -> bool {
        let mut state = self.state();
        state.wanted = true;
        if !state.held && !state.waiting {
            let Some(file) = self.file(&mut state) else { return true };
            match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    self.opened(&mut state);
                    if !self.has_thread(&mut state) {
                        // Without the thread nobody would let an idle door go.
                        state.wanted = false;
                        Door::close_if_unwanted(&mut state);
                        return true;
                    }
                    self.changed.notify_all();
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                // The file system has no such locks.
                Err(_) => return true,
            }
        }
        state.held
    }

    /// Waits at the door. True: the door is open for this process now, or there is no door.
    fn wait(&self, at_most: Duration) -> bool {
        if self.enter() {
            return true;
        }
        let deadline = Instant::now() + at_most;
        let mut state = self.state();
        if !self.has_thread(&mut state) {
            return true;
        }
        self.changed.notify_all();
        loop {
            let now = Instant::now();
            if state.held || now >= deadline {
                return state.held;
            }
            let left = deadline.saturating_duration_since(now);
            state = wait_timeout(&self.changed, state, left);
        }
    }

    fn begin_writing(&self) {
        self.state().writing = true;
    }

    fn leave(&self) {
        let mut state = self.state();
        state.wanted = false;
        Door::close_if_unwanted(&mut state);
    }

    /// True if another process is through and nobody of this process is at the door.
    fn is_wanted(&self) -> bool {
        let mut state = self.state();
        if state.wanted || state.waiting || state.held {
            return false;
        }
        let Some(file) = self.file(&mut state) else { return false };
        match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let _ = flock(&*file, FlockOperation::Unlock);
                false
            }
            Err(error) => error == rustix::io::Errno::WOULDBLOCK,
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    /// Two doors on one file act as two processes: a `flock` belongs to an open file.
    fn two_processes() -> (tempfile::TempDir, Arc<Door>, Arc<Door>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db-wal").display().to_string();
        std::fs::write(&path, b"").unwrap();
        (dir, Door::new(&path), Door::new(&path))
    }

    #[test]
    fn one_process_at_a_time_is_through_the_door() {
        let (_dir, one, other) = two_processes();
        assert!(one.enter());
        one.begin_writing();
        assert!(one.enter());
        assert!(!other.enter());
        one.leave();
        assert!(other.enter());
    }

    #[test]
    fn who_waits_is_let_through_when_the_other_leaves() {
        let (_dir, one, other) = two_processes();
        assert!(one.enter());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let open = other.wait(LONG);
                other.begin_writing();
                open
            });
            std::thread::sleep(Duration::from_millis(20));
            one.leave();
            assert!(waiter.join().unwrap());
        });
        assert!(!one.enter());
        other.leave();
        assert!(one.wait(LONG));
    }

    #[test]
    fn who_gave_up_does_not_keep_the_door() {
        let (_dir, one, other) = two_processes();
        assert!(one.enter());
        one.begin_writing();
        assert!(!other.wait(Duration::from_millis(5)));
        other.leave();
        one.leave();
        assert!(one.wait(LONG), "the thread of the other passes the door on");
    }

    #[test]
    fn an_idle_door_is_let_go_and_one_in_use_is_not() {
        let (_dir, one, other) = two_processes();
        assert!(one.enter());
        assert!(other.wait(LONG), "the user of the first never wrote");
        other.begin_writing();
        assert!(!one.wait(5 * IDLE_MAX));
        other.leave();
        assert!(one.wait(LONG));
    }

    #[test]
    fn a_door_that_another_process_has_is_seen_from_outside() {
        let (_dir, one, other) = two_processes();
        assert!(!one.is_wanted());
        assert!(other.enter());
        other.begin_writing();
        assert!(one.is_wanted());
        assert!(!other.is_wanted(), "by itself");
        other.leave();
        assert!(!one.is_wanted());
        assert!(other.enter(), "looking does not keep it");
    }

    #[test]
    fn without_a_file_there_is_no_door() {
        let door = Door::new("/nonexistent/a.db-wal");
        assert!(!door.is_wanted());
        assert!(door.enter());
        assert!(door.wait(LONG));
        door.leave();
    }
}
