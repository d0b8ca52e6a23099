//! Waits for the board's lock, none of which is without a limit, and what is said of whoever has it and does not go on. The invariants are
//! those of the [board](super::board).
//!
//! | who waits | for how long, while nobody releases the lock | then |
//! |---|---|---|
//! | an opener, where the log cannot be joined without the lock | [`OPEN_PATIENCE`]; soon after that was in vain [`OPEN_AGAIN`] | `SQLITE_BUSY` |
//! | a writer, before it has the write lock, or before its first frame | [`EagerLog::is_stuck`], in its busy handler | `SQLITE_BUSY` |
//! | a commit that nobody waits behind, before it is noted | the same | `SQLITE_BUSY` |
//! | a checkpoint, a WAL that is begun anew, a close | [`REFUSED_AFTER`] | `SQLITE_BUSY`: all stays as it is |
//! | a commit that is noted, and may be published | [`failed_after`] | `SQLITE_IOERR_FSYNC`, and nothing more is acknowledged in this process |

use std::time::{Duration, Instant};

use super::EagerLog;
use super::board::Board;
use crate::error::Code;
use crate::port::BusyHandler;
use crate::stats::clock;
use crate::sync::{Condvar, Mutex, lock, wait_timeout};

pub const OPEN_PATIENCE: Duration = Duration::from_millis(500);
/// SQLite's busy handler counts how often it is called, and not how long an open has taken.
const OPEN_AGAIN: Duration = Duration::from_millis(20);
const OPEN_AGAIN_WITHIN: Duration = Duration::from_secs(10);

pub const REFUSED_AFTER: Duration = Duration::from_secs(1);

/// A device may stall for long, and to fail is the end of the database in this process.
const FAILED_AFTER: Duration = Duration::from_secs(30);

/// An append that takes longer than this, and than so many flushes, is taken not to go on.
const STUCK_AFTER: Duration = Duration::from_millis(20);
const STUCK_FLUSHES: u32 = 8;

/// From then on it is said.
const SAID_AFTER: Duration = Duration::from_millis(500);

#[cfg(not(feature = "kill-points"))]
pub fn failed_after() -> Duration {
    FAILED_AFTER
}

/// In the test that stops processes it need not take so long.
#[cfg(feature = "kill-points")]
pub fn failed_after() -> Duration {
    let told = std::env::var("ONEFLUSH_TEST_PATIENCE_MS").ok().and_then(|told| told.parse().ok());
    told.map_or(FAILED_AFTER, Duration::from_millis)
}

/// What is known of waits that were in vain.
#[derive(Default)]
pub struct Waits {
    /// When an open was.
    open_refused: Mutex<Option<Instant>>,
    /// Since when the holder that was named last has the lock.
    said_ns: Mutex<u64>,
}

/// One thread at a time, with a limit.
#[derive(Default)]
pub struct Gate {
    taken: Mutex<bool>,
    freed: Condvar,
}

pub struct Entered<'a>(&'a Gate);

impl Gate {
    /// None: it was not free within `patience`.
    pub fn enter(&self, patience: Duration) -> Option<Entered<'_>> {
        let mut taken = lock(&self.taken);
        if *taken {
            let deadline = Instant::now() + patience;
            while *taken {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                taken = wait_timeout(&self.freed, taken, left);
            }
        }
        *taken = true;
        Some(Entered(self))
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if dies_in_the_model() {
            return;
        }
        *lock(&self.0.taken) = false;
        self.0.freed.notify_one();
    }
}

/// The board's lock. A panic under it is a failed write, of which nobody knows how far it came.
pub struct Locked<'a> {
    pub board: &'a Board,
    pub logged_before: u32,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Locked { board, logged_before } = *self;
        if dies_in_the_model() {
            return;
        }
        if std::thread::panicking() {
            board.fail(Code::IOERR_FSYNC, Some(board.next_lsn()));
            board.set_busy(false);
        }
        board.common().unlock(logged_before + 1..board.logged() + 1);
    }
}

/// The model checker lets threads die by unwinding, and a process that dies does nothing any more: the checker plays the kernel, too.
fn dies_in_the_model() -> bool {
    cfg!(all(test, feature = "shuttle")) && std::thread::panicking()
}

impl EagerLog {
    /// How long an opener waits for the lock.
    pub(super) fn open_patience(&self) -> Duration {
        let was_refused = lock(&self.waits.open_refused).is_some_and(|at| at.elapsed() < OPEN_AGAIN_WITHIN);
        if was_refused { OPEN_AGAIN } else { OPEN_PATIENCE }
    }

    /// An opener has waited in vain.
    #[cold]
    pub(super) fn open_refused(&self) {
        if lock(&self.waits.open_refused).replace(Instant::now()).is_none()
            && let Ok(Some(common)) = self.files.common_in_use(&self.path)
        {
            self.say_who_holds(&Board::new(common));
        }
    }

    pub(super) fn opened(&self) {
        *lock(&self.waits.open_refused) = None;
    }

    /// Another process has the board's lock and does not go on. It costs next to nothing where nobody has it.
    pub fn is_log_stuck(&self) -> bool {
        let board = self.board();
        let Some(holder) = board.common().holder() else { return false };
        let held = Duration::from_nanos(clock::now_ns().saturating_sub(holder.since_ns));
        if held < self.stuck_after(&board) || !board.common().is_locked() || board.common().holder() != Some(holder) {
            return false;
        }
        if held >= SAID_AFTER {
            self.say_who_holds(&board);
        }
        true
    }

    fn stuck_after(&self, board: &Board) -> Duration {
        STUCK_AFTER.max(board.common().batching().flush_time() * STUCK_FLUSHES)
    }

    /// Another process has the board's lock.
    pub fn is_held(&self) -> bool {
        self.board().common().holder().is_some()
    }

    /// Before anything that cannot be taken back: waits while the board's lock is with somebody who does not go on, as long as the busy handler says.
    pub fn wait_while_stuck(&self, handler: Option<&dyn BusyHandler>) -> Result<(), Code> {
        while self.is_log_stuck() {
            if !handler.is_some_and(BusyHandler::wait) {
                return Err(Code::BUSY);
            }
        }
        Ok(())
    }

    /// The same while it is with anybody.
    #[cold]
    pub fn wait_while_held(&self, handler: Option<&dyn BusyHandler>) -> Result<(), Code> {
        let board = self.board();
        let Some(holder) = board.common().holder() else { return Ok(()) };
        while board.common().holder() == Some(holder) && board.common().is_locked() {
            if self.is_log_stuck() {
                self.wait_while_stuck(handler)?;
            } else {
                board.common().wait_for_unlock(STUCK_AFTER);
            }
        }
        Ok(())
    }

    /// Names whoever has the lock, once.
    #[cold]
    pub(super) fn say_who_holds(&self, board: &Board) {
        let Some(holder) = board.common().holder().filter(|_| board.common().is_locked()) else { return };
        if std::mem::replace(&mut *lock(&self.waits.said_ns), holder.since_ns) == holder.since_ns {
            return;
        }
        let (pid, path) = (holder.pid, &self.path);
        let held_ms = clock::now_ns().saturating_sub(holder.since_ns) / 1_000_000;
        self.files.warn(&format!(
            "oneflush: {path}: process {pid} has had the lock of the log for {held_ms} ms and does not go on. It may be stopped (SIGSTOP, a debugger, a frozen \
             cgroup), or its device is slow. Until it goes on or ends nobody can commit: kill -CONT {pid}, or kill -KILL {pid}"
        ));
    }
}
