//! How long an opener waits for the board's lock, and what is said of a process that does not go
//! on. The invariants are those of the [board](crate::strategy::board).

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::{KeptLog, LogLife};
use crate::error::Code;
use crate::port::Below;
use crate::stats::clock;
use crate::strategy::board::{Board, Holder};
use crate::strategy::guard;
use crate::sync::{Mutex, lock};

/// How long the first opener waits.
const OPEN_PATIENCE: Duration = Duration::from_millis(500);
/// How long an opener waits soon after another waited in vain. SQLite's busy handler counts its
/// calls, and not how long an open has taken.
const OPEN_AGAIN: Duration = Duration::from_millis(20);
/// How long "soon after" is.
const OPEN_AGAIN_WITHIN: Duration = Duration::from_secs(10);

/// What is known of waits that were in vain.
#[derive(Default)]
pub struct Patience {
    /// When an open last waited in vain.
    open_refused: Mutex<Option<Instant>>,
    /// When the holder that was named last took the lock.
    said_ns: Mutex<u64>,
    /// Connections of this process that are opening the log.
    opening: AtomicU32,
}

/// A connection that is opening the log.
pub struct Opening<'a>(&'a AtomicU32);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl<L: KeptLog> LogLife<L> {
    /// How long an opener waits for the lock now.
    pub(super) fn open_patience(&self) -> Duration {
        let was_refused =
            lock(&self.patience.open_refused).is_some_and(|at| at.elapsed() < OPEN_AGAIN_WITHIN);
        if was_refused { OPEN_AGAIN } else { OPEN_PATIENCE }
    }

    /// Opens the board and takes its lock.
    pub fn lock_board(&self) -> Result<Board, Code> {
        self.lock_board_within(self.open_patience())
    }

    pub(super) fn lock_board_within(&self, patience: Duration) -> Result<Board, Code> {
        let common = self.files.common(&self.path, &self.log_path(), patience);
        match &common {
            Ok(_) => *lock(&self.patience.open_refused) = None,
            Err(Code::BUSY) => self.open_refused(),
            Err(_) => {}
        }
        Ok(Board::new(common?))
    }

    /// True if another process makes the log, for which it needs the database for itself. The
    /// caller shares the database. If the other one does not go on, that changes nothing.
    pub(super) fn is_in_the_way(&self, main: &dyn Below) -> Result<bool, Code> {
        if guard::of(&guard::header(main)?).is_some() {
            return Ok(false);
        }
        let common = self.files.common_in_use(&self.path, &self.log_path())?;
        let holder = common.and_then(|common| common.holder());
        let held_ns = |holder: Holder| clock::now_ns().saturating_sub(holder.since_ns);
        Ok(holder.is_some_and(|holder| held_ns(holder) < OPEN_PATIENCE.as_nanos() as u64))
    }

    /// A connection is about to open the log. "Busy": another one of this process is at it, and
    /// there is none yet. Its maker needs the database for itself, which the caller shares.
    pub fn begin_opening(&self, main: &dyn Below) -> Result<Opening<'_>, Code> {
        let is_first = self.patience.opening.fetch_add(1, SeqCst) == 0;
        let opening = Opening(&self.patience.opening);
        if is_first || guard::of(&guard::header(main)?).is_some() {
            return Ok(opening);
        }
        Err(Code::BUSY)
    }

    /// An opener has waited in vain.
    #[cold]
    fn open_refused(&self) {
        if lock(&self.patience.open_refused).replace(Instant::now()).is_none()
            && let Ok(Some(common)) = self.files.common_in_use(&self.path, &self.log_path())
        {
            self.say_who_holds(&Board::new(common));
        }
    }

    /// Names the holder of the lock in SQLite's error log, once a holder.
    #[cold]
    pub fn say_who_holds(&self, board: &Board) {
        let Some(holder) = board.common().holder().filter(|_| board.common().is_locked()) else {
            return;
        };
        if std::mem::replace(&mut *lock(&self.patience.said_ns), holder.since_ns) == holder.since_ns
        {
            return;
        }
        let (pid, path) = (holder.pid, &self.path);
        let held_ms = clock::now_ns().saturating_sub(holder.since_ns) / 1_000_000;
        self.files.warn(&format!(
            "oneflush: {path}: process {pid} has had the lock of the log for {held_ms} ms and does \
                not go on. It may be stopped (SIGSTOP, a debugger, a frozen \
             cgroup), or its device is slow. Until it goes on or ends nobody can commit: kill \
             -CONT {pid}, or kill -KILL {pid} [OF-201]"
        ));
    }
}
