//! Waits for the board's lock. Every wait has a limit. A holder that does not go on is named in
//! SQLite's error log. The invariants are those of the [board](crate::strategy::board).
//!
//! | who waits | limit without a release of the lock | then |
//! |---|---|---|
//! | an opener that cannot join without it | [`patience`] | "busy" |
//! | a writer, before write lock or first frame | [`EagerLog::wait_while_stuck`] | "busy" |
//! | a commit that keeps others out, not noted yet | [`EagerLog::wait_while_held`] | "busy" |
//! | a checkpoint, a WAL begun anew, a close | [`REFUSED_AFTER`] | "busy": all stays as it is |
//! | a commit that is noted | [`failed_after`] | it fails: it may be published |
//!
//! - "Busy" is `SQLITE_BUSY`. A writer and a commit wait as long as their busy handler says.
//! - A commit that fails gets `SQLITE_IOERR_FSYNC`. Its process acknowledges nothing more.
//!
//! [`patience`]: crate::strategy::log_life
//! [`REFUSED_AFTER`]: super::entrance::REFUSED_AFTER
//! [`failed_after`]: super::entrance::failed_after

use std::time::Duration;

use super::EagerLog;
use crate::error::Code;
use crate::port::BusyHandler;
use crate::stats::clock;
use crate::strategy::board::Board;

/// A holder counts as stuck after this time, or after [`STUCK_FLUSHES`] flushes if that is longer.
const STUCK_AFTER: Duration = Duration::from_millis(20);
const STUCK_FLUSHES: u32 = 8;

/// After this time the holder is named in SQLite's error log.
const SAID_AFTER: Duration = Duration::from_millis(500);

impl EagerLog {
    /// Another process has the board's lock and does not go on. Costs next to nothing where no
    /// process has the lock.
    pub fn is_stuck(&self) -> bool {
        let board = self.board();
        let Some(holder) = board.common().holder() else { return false };
        let held = Duration::from_nanos(clock::now_ns().saturating_sub(holder.since_ns));
        if held < self.stuck_after(&board)
            || !board.common().is_locked()
            || board.common().holder() != Some(holder)
        {
            return false;
        }
        if held >= SAID_AFTER {
            self.life.say_who_holds(&board);
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

    /// Waits while the holder of the board's lock does not go on, as long as the busy handler says.
    /// To be called before anything that cannot be taken back.
    pub fn wait_while_stuck(&self, handler: Option<&dyn BusyHandler>) -> Result<(), Code> {
        while self.is_stuck() {
            if !handler.is_some_and(BusyHandler::wait) {
                return Err(Code::BUSY);
            }
        }
        Ok(())
    }

    /// Waits while any other process has the lock.
    #[cold]
    pub fn wait_while_held(&self, handler: Option<&dyn BusyHandler>) -> Result<(), Code> {
        let board = self.board();
        let Some(holder) = board.common().holder() else { return Ok(()) };
        while board.common().holder() == Some(holder) && board.common().is_locked() {
            if self.is_stuck() {
                self.wait_while_stuck(handler)?;
            } else {
                board.common().wait_for_unlock(STUCK_AFTER);
            }
        }
        Ok(())
    }
}
