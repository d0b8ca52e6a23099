//! The last close: what SQLite does then, as far as a VFS can tell, and what becomes of the WAL.
//!
//! ```text
//! No ─ asked_whether_moved ─▶ Announced ─ exclusive lock ─▶ Exclusive ─ checkpoint ▶ Copied
//! No ─ exclusive lock ──────▶ Leaving                           │                      │ cut
//!                                                               │ nothing to copy      ▼
//!                       Marked ◀─ the store closes the WAL ─ Kept ◀─ WAL is to stay ─ Complete
//! ```
//!
//! Any other step leads to `No`; [`advance`](WalConnection::advance) keeps `Leaving`. The
//! invariants are those of [the engine](super).
//!
//! SQLite asks once for the exclusive lock, and gives up if anybody shares the database. Of several
//! that close at the same moment, each would meet the others' locks, and nobody would be the last.
//! So they close one after the other: from before that question until nothing of the connection is
//! in the way any more, a connection has the *turn to close*.
//!
//! Where somebody else shares the database, the lock is not tried. SQLite takes the pending lock
//! first, and keeps it until the file is closed. That keeps out who opens the database meanwhile.
//!
//! With a log the last close and the next open cost several flushes each. A web application with a
//! connection a request has moments without one. So where a close of this process has lately found
//! others, the last one waits for [`company`]. Who comes meanwhile finds the log, and this
//! connection closes at once.

#[cfg(all(test, feature = "shuttle"))]
mod model;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::company;
use super::connection::{InWalMode, WalConnection};
use super::store::Store;
use crate::error::Code;
use crate::kill_point::KillPoint;
use crate::port::{Below, LockLevel};
use crate::sync::{ask_until, lock};

/// How long a connection waits for its turn to close. A process that is stopped may have the turn,
/// but it shares the database as well. So nobody could be the last.
const TURN_PATIENCE: Duration = Duration::from_secs(2);

/// How often it asks. As often the last connection looks for company.
const POLL: Duration = Duration::from_micros(200);

/// How far the last close of a database has come.
///
/// Only if the states come in this order, with nothing between, is the WAL's content known to be in
/// the database file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closing {
    #[default]
    No,
    /// SQLite asked whether the database file has been moved. It asks right before it closes a
    /// connection's WAL.
    Announced,
    /// The database is locked exclusively and no close was announced. If the lock is about the WAL,
    /// the end of WAL mode follows.
    Leaving,
    /// The database is locked exclusively after the announcement.
    Exclusive,
    /// A checkpoint has written its pages.
    Copied,
    /// The checkpoint has also cut the database to its size. SQLite does that only after a complete
    /// checkpoint.
    Complete,
    /// SQLite asked whether the WAL is to stay, as it does only at the end of a close. The WAL is
    /// to be of use again.
    Kept,
    /// The WAL has its mark and is closed. SQLite deletes it next, unless the program has asked for
    /// `SQLITE_FCNTL_PERSIST_WAL`.
    Marked,
}

/// Waits until `take` has the turn. False: somebody has kept it for too long.
pub fn wait_for_turn_to_close(take: impl Fn() -> bool) -> bool {
    ask_until(TURN_PATIENCE, POLL, take)
}

impl<S: Store> WalConnection<S> {
    /// Goes from state `from` to state `to`. From any other state but `Leaving`, nothing is known
    /// any more.
    pub(super) fn advance(&self, from: Closing, to: Closing) {
        let mut closing = lock(&self.closing);
        *closing = match *closing {
            now if now == from => to,
            Closing::Leaving => Closing::Leaving,
            _ => Closing::No,
        };
    }

    /// Waits for the turn to close, if this is a close. "Busy": another connection shares the
    /// database. It comes here as well when it closes.
    pub(super) fn take_turn_to_close(&self, main: &dyn Below) -> Result<(), Code> {
        if *lock(&self.closing) != Closing::Announced || !self.has_wal() {
            return Ok(());
        }
        let has_turn = wait_for_turn_to_close(|| main.turn_to_close(true).is_ok());
        self.has_turn_to_close.store(has_turn, Relaxed);
        let (path, patience) = (&self.shared.path, self.store().patience_at_last_close());
        let is_shared = || main.is_shared_by_others() || self.shared.open_wals.load(Relaxed) > 1;
        let has_company = is_shared()
            || (!patience.is_zero()
                && company::is_likely(path)
                && ask_until(patience, POLL, is_shared));
        if has_company {
            company::seen(path);
            return Err(Code::BUSY);
        }
        company::missed(path);
        Ok(())
    }

    /// The connection closes, and no other one of this process uses the database.
    pub(super) fn closes_last_here(&self) -> bool {
        *lock(&self.closing) == Closing::Announced && self.shared.users.load(Relaxed) == 1
    }

    /// The connection has taken the database's exclusive lock.
    pub(super) fn locked_exclusively(&self) {
        KillPoint::ExclusivelyLocked.reached();
        let is_announced = *lock(&self.closing) == Closing::Announced;
        *lock(&self.closing) = if is_announced { Closing::Exclusive } else { Closing::Leaving };
        let main = lock(&self.main).clone();
        if let Some(main) = main.filter(|_| is_announced) {
            self.store().closing_last(self, &*main);
        }
    }

    /// SQLite asked whether the main database file has been moved.
    pub fn asked_whether_moved(&self, has_moved: bool) {
        if has_moved {
            self.has_moved();
        } else {
            self.shared.saved.forget_move();
        }
        *lock(&self.closing) = Closing::Announced;
    }

    /// SQLite asks whether the WAL is to stay. `stays`: the program wants that. Where it would do
    /// harm, the answer is no.
    pub fn asked_whether_wal_stays(&self, stays: bool) -> bool {
        let mut closing = lock(&self.closing);
        // SQLite would open a remaining WAL again at once while it takes the database to be in a
        // rollback mode. A new page size would then destroy the database. (SQLite alone does that
        // with SQLITE_FCNTL_PERSIST_WAL.)
        if *closing == Closing::Leaving {
            return false;
        }
        // Where nothing is left to copy, this call comes right after the lock.
        *closing = match *closing {
            Closing::Exclusive | Closing::Complete if stays || self.options.keep_wal => {
                Closing::Kept
            }
            _ => Closing::No,
        };
        stays
    }

    /// A step came that is no part of a last close.
    pub(crate) fn forget_closing(&self) {
        *lock(&self.closing) = Closing::No;
    }

    /// SQLite closes the file that stands for its WAL.
    pub fn closing_wal(&self) {
        let wal = lock(&self.wal).take();
        self.wal_is_open.store(false, Relaxed);
        if wal.is_some()
            && !self.is_checkpointer()
            && self.shared.open_wals.fetch_sub(1, Relaxed) == 1
        {
            // From here on another process may close the database for the last time.
            lock(&self.shared.contents).forget();
            self.shared.last_seen.forget();
        }
        if *lock(&self.level) == LockLevel::Exclusive {
            self.shared.checkpointer.forget();
        }
        KillPoint::ClosingWal.reached();
        self.store().closing_wal(self, wal.as_deref());
    }
}
