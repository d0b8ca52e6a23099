//! How long an opener waits for the board's lock, and what is said of a process that does not go
//! on. The invariants are those of the [board](crate::strategy::board).
//!
//! A process that is slow looks like one that is stopped, as under `strace` or on a busy machine.
//! So it is only named at first. Advice to end it comes with a second look, some seconds later: it
//! has not released the lock meanwhile, and no thread of it has run.

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

/// A holder that has not run between two looks so far apart counts as stopped.
const STOPPED_AFTER: Duration = Duration::from_secs(3);

/// What is known of waits that were in vain.
#[derive(Default)]
pub struct Patience {
    /// When an open last waited in vain.
    open_refused: Mutex<Option<Instant>>,
    holder: Mutex<Option<Look>>,
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

/// A holder of the lock, as it was found at some time.
struct Look {
    /// When it took the lock.
    since_ns: u64,
    at: Instant,
    /// How long its threads have run, in clock ticks. `None`: the process cannot be seen from here.
    ran_ticks: Option<u64>,
    is_said_to_be_stopped: bool,
}

#[derive(Debug, PartialEq)]
enum Says {
    Waits,
    IsStopped,
}

impl Patience {
    /// What is to be said of a holder that took the lock at `since_ns`. Each is said once.
    fn looks(
        &self,
        since_ns: u64,
        at: Instant,
        ran_ticks: impl FnOnce() -> Option<u64>,
    ) -> Option<Says> {
        let mut before = lock(&self.holder);
        let seen = before.as_mut().filter(|seen| seen.since_ns == since_ns);
        if let Some(seen) = seen {
            if seen.is_said_to_be_stopped || at.duration_since(seen.at) < STOPPED_AFTER {
                return None;
            }
            let ran_ticks = ran_ticks();
            seen.is_said_to_be_stopped = ran_ticks.is_some() && ran_ticks == seen.ran_ticks;
            (seen.at, seen.ran_ticks) = (at, ran_ticks);
            return seen.is_said_to_be_stopped.then_some(Says::IsStopped);
        }
        let ran_ticks = ran_ticks();
        *before = Some(Look { since_ns, at, ran_ticks, is_said_to_be_stopped: false });
        Some(Says::Waits)
    }
}

/// How long all threads of a process have run, by proc(5).
fn ran_ticks(pid: impl std::fmt::Display) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may have spaces and brackets.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
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
        *lock(&self.patience.open_refused) = Some(Instant::now());
        if let Ok(Some(common)) = self.files.common_in_use(&self.path, &self.log_path()) {
            self.say_who_holds(&Board::new(common));
        }
    }

    /// Names the holder of the lock in SQLite's error log, at most twice a holder.
    #[cold]
    pub fn say_who_holds(&self, board: &Board) {
        let Some(holder) = board.common().holder().filter(|_| board.common().is_locked()) else {
            return;
        };
        let (pid, path) = (holder.pid, &self.path);
        let says = self.patience.looks(holder.since_ns, Instant::now(), || ran_ticks(pid));
        let held_ms = clock::now_ns().saturating_sub(holder.since_ns) / 1_000_000;
        match says {
            None => {}
            Some(Says::Waits) => self.files.warn(&format!(
                "oneflush: {path}: process {pid} has had the lock of the log for {held_ms} ms; \
                    others wait for it [OF-236]"
            )),
            Some(Says::IsStopped) => self.files.warn(&format!(
                "oneflush: {path}: process {pid} has had the lock of the log for {held_ms} ms and \
                    has not run for {} s of these. It may be stopped (SIGSTOP, a debugger, a \
                    frozen cgroup), or its device is slow. Until it goes on or ends nobody can \
                    commit: kill -CONT {pid}, or kill -KILL {pid} [OF-201]",
                STOPPED_AFTER.as_secs()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under `strace` a commit took 0.6 s, and everybody was advised to kill the process.
    #[test]
    fn only_a_holder_that_has_not_run_for_seconds_is_said_to_be_stopped() {
        let (patience, began) = (Patience::default(), Instant::now());
        let looks = |since_ns, ms, ticks| {
            patience.looks(since_ns, began + Duration::from_millis(ms), || ticks)
        };
        assert_eq!(looks(7, 0, Some(10)), Some(Says::Waits));
        assert_eq!(looks(7, 2900, Some(10)), None);
        assert_eq!(looks(7, 3100, Some(11)), None, "it runs");
        assert_eq!(looks(7, 6000, Some(11)), None);
        assert_eq!(looks(7, 6200, Some(11)), Some(Says::IsStopped));
        assert_eq!(looks(7, 9900, Some(11)), None, "once");
        assert_eq!(looks(8, 9900, None), Some(Says::Waits), "another commit");
        assert_eq!(looks(8, 13_000, None), None, "nobody knows");
        let before = ran_ticks(std::process::id()).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while ran_ticks("self") == Some(before) {
            assert!(Instant::now() < until, "a thread that runs is seen");
        }
    }
}
