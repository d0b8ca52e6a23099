//! The board: shared memory of all processes that use one database with a log.
//!
//! The log has one tail and many writers. A process appends only while it holds the board's lock.
//! The kernel takes that lock back when its holder dies. The board says where the next record goes,
//! up to which frame the log has everything, and what a checkpoint still has to log.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. The board is changed only under its lock. The exceptions are the words `Committed`,
//!    `Written`, `ImageBytes`, `ImageCuts` and `DatabaseUnsynced` ([`words`]). With `waldio` the
//!    holder of SQLite's write lock changes it ([`wal`]).
//! 2. `Busy` is set before log or board is changed, and cleared when both agree again. A process
//!    that takes the lock and finds `Busy` set knows that another died in between. It believes only
//!    the log itself. The last record there may be in the page cache alone, and a flush before may
//!    have failed. So that record is written again ([`Board::unsure`]).
//! 3. `Logged` grows only after those frames are durable. So a reader without the lock may trust
//!    it.
//! 4. After a failed write or sync `Failed` stays set until no process has the database open.
//! 5. A process that finds itself alone makes the board anew. One case is excepted: board and image
//!    are as the last user left them, and the system has not been restarted. Then the process goes
//!    on with both, as if it had been there when the last user died. (A commit that asked for no
//!    durability outlives its process.)
//!
//! # Joining
//!
//! A stopped process (`SIGSTOP`, a debugger, a frozen cgroup) may hold the board's lock for as long
//! as it is stopped. So every wait for the lock has a limit, and a process can join the users of
//! the log without it. For this there are three locks on the log. The kernel takes all of them back
//! from a dead process.
//!
//! | lock | held by | kind |
//! |---|---|---|
//! | *use* | each process that has joined, or is about to | shared |
//! | *alone* | a process that found no other with *use* | *use*, exclusively |
//! | *shown* | each process that has joined | shared; can be seen without being taken |
//!
//! | state of a process | holds | entered by |
//! |---|---|---|
//! | alone | the board's lock, *alone* | [`Common::be_alone`] |
//! | opening | the board's lock, *use*, *shown*; `Open` is clear | [`Board::join`], alone |
//! | joined | *use*, *shown*; `Open` is set | [`Board::set_open`] after that |
//! | joined | the same | [`Board::join`] or [`Board::join_beside`], beside others |
//! | gone | nothing | [`Common::leave`], or death |
//!
//! 6. A process is alone only if it has *alone*. A process that tries for *alone*, or takes *shown*
//!    by another way than 9, has the board's lock.
//! 7. `Open` says that board and image are whole. A process that is alone clears `Open` before it
//!    releases *alone*. It sets `Open` under the board's lock, when board and image are made or
//!    checked. So while any process has *use*, `Open` is not cleared.
//! 8. Only a process that was alone, and has kept the board's lock since, recovers, rebuilds or
//!    makes the board anew.
//! 9. A process joins without the board's lock in this order:
//!    - it sees *shown*: so a process lives that has joined, and the board is of this start of the
//!      system;
//!    - it takes *use*;
//!    - it checks that log and board are still the files of those names, and that `Open` is set;
//!    - it takes *shown*.
//!
//!    By 7 no process has been alone since `Open` was set, and none will be. A connection that only
//!    reads does the same and does not take *shown*.
//! 10. A process may have the board's lock, not be alone, and find `Open` clear. Then another
//!     process is between two steps of 9, and the answer is "busy".
//! 11. A process that retires the log has the database locked exclusively. A process that joins has
//!     a shared lock on the database.
//!
//! # Waiting
//!
//! 12. A process that waits for the lock gives up when nobody has released it for a while. What is
//!     not published then is answered "busy" and stays as it was. A published commit fails, and its
//!     process acknowledges nothing more.
//! 13. A panic under the lock is a failed write: 4 holds, and then the lock is released.

mod frames;
mod joining;
mod log;
mod private;
mod seat;
mod wal;
mod words;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use oneflush_blocklog::invariant;

use super::tickets::{Ticket, Tickets};
use crate::engine::{Gate, ProcessBatching};
use crate::error::Code;
use crate::sync::{Mutex, dies_in_the_model, lock};

pub use log::Shown;
pub use private::Private;
pub use seat::Seat;
pub use wal::Covered;
pub use words::{Look, WORDS, is_busy, is_open, look, read_words};

/// The last close of a log waits for company as long as so many flushes take. The close and the
/// next open make some ten, and keep all others waiting meanwhile.
const COMPANY_FLUSHES: u32 = 20;
/// The longest wait for company.
const COMPANY_MAX: Duration = Duration::from_millis(100);
/// That wait where nobody knows yet how long a flush takes.
const COMPANY_UNMEASURED: Duration = Duration::from_millis(5);

/// Memory and locks that all processes share which use a database with a log.
pub trait Common: Send + Sync {
    /// [`WORDS`] words, all zero in a new board.
    fn words(&self) -> &[AtomicU64];
    /// Waits for the lock and takes it. False: not taken, because `done` says that it is not needed
    /// any more. `done` may change when `frame` is logged; 0: at no frame. `SQLITE_BUSY`: nobody
    /// has released the lock for `patience`. One caller at a time in each process.
    fn lock_unless(
        &self,
        frame: u32,
        patience: Duration,
        done: &dyn Fn() -> bool,
    ) -> Result<bool, Code>;
    /// Releases the lock. These frames were logged under it.
    fn unlock(&self, logged: Range<u32>);
    /// The holder of the lock, if it is another process. It may have died since.
    fn holder(&self) -> Option<Holder>;
    /// True if any process has the lock.
    fn is_locked(&self) -> bool;
    /// Waits until the lock is released. May end early.
    fn wait_for_unlock(&self, at_most: Duration);
    fn tickets(&self) -> &Tickets;
    fn batching(&self) -> &ProcessBatching;
    /// Takes *alone*, if no process has *use* (invariant 6).
    fn be_alone(&self) -> Result<bool, Code>;
    /// Takes *use*; gives *alone* back for it. `SQLITE_BUSY`: another process is alone, or has
    /// removed the log.
    fn begin_use(&self) -> Result<(), Code>;
    /// Takes *shown*. The caller has *use*.
    fn show_use(&self);
    /// Another process has *shown*.
    fn is_shown(&self) -> bool;
    /// This process may read frames of a log that is the WAL. False: another process holds frames
    /// that are not in their slots.
    fn read_frames(&self) -> Result<bool, Code>;
    /// Keeps other processes from reading frames. False: another process may read some.
    fn hold_frames(&self) -> Result<bool, Code>;
    /// Ends [`Common::hold_frames`].
    fn show_frames(&self);
    /// The files of board and log have been neither replaced nor removed.
    fn is_there(&self) -> bool;
    /// Releases all locks on the log that this process has.
    fn leave(&self);
    /// A number for this board, the log, the image at this path, and this start of the system.
    /// Another number means other files or another start. 0: that cannot be known. Its algorithm is
    /// part of the board's layout.
    fn identity(&self, image: &str) -> u64;
}

/// The process that has the board's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number, as the process sees it.
    pub pid: u32,
    /// When it took the lock, by the monotonic clock.
    pub since_ns: u64,
}

/// The board of one database. Where there is no log, it is a [`Private`] one.
#[derive(Clone)]
pub struct Board(Arc<dyn Common>);

impl Board {
    pub fn new(common: Arc<dyn Common>) -> Board {
        Board(common)
    }

    pub fn common(&self) -> &dyn Common {
        &*self.0
    }

    /// The caller has taken the lock. It is released with the answer. `stays_busy`: after a panic
    /// the database file may have a part of a commit, and `Busy` says so.
    pub fn locked(&self, stays_busy: bool) -> Locked<'_> {
        Locked { board: self, logged_before: self.logged(), stays_busy }
    }

    /// Before `Open` is set, no other process reads the board.
    fn changes(&self) {
        invariant!(
            "B1",
            "the board is changed while `Busy` says so",
            self.is_busy() || !self.is_open()
        );
    }

    pub fn is_of(&self, other: &Board) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The board's lock, held. A panic under it is a failed write (invariant 13): nobody knows how far
/// the write came.
pub struct Locked<'a> {
    board: &'a Board,
    logged_before: u32,
    stays_busy: bool,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Locked { board, logged_before, stays_busy } = *self;
        if dies_in_the_model() {
            return;
        }
        if std::thread::panicking() {
            board.fail(Code::IOERR_FSYNC, Some(board.next_lsn()));
            if !stays_busy {
                board.set_busy(false);
            }
        }
        board.common().unlock(logged_before + 1..board.logged() + 1);
    }
}

/// The board that the connections of this process use now. It is the gate of their strategy.
pub struct OwnBoard {
    board: Mutex<Board>,
    ticket: Ticket,
}

impl Default for OwnBoard {
    fn default() -> OwnBoard {
        OwnBoard { board: Mutex::new(private_board()), ticket: Ticket::default() }
    }
}

fn private_board() -> Board {
    Board::new(Arc::new(Private::default()))
}

impl OwnBoard {
    /// Without an open log it is a private one.
    pub fn get(&self) -> Board {
        lock(&self.board).clone()
    }

    pub fn set(&self, board: Board) {
        *lock(&self.board) = board;
    }

    /// Leaves the users of the log. Answers the board that was in use.
    pub fn leave(&self) -> Board {
        let board = std::mem::replace(&mut *lock(&self.board), private_board());
        self.ticket.give_back(board.common().tickets());
        board.common().leave();
        board
    }

    /// How long the last close of a log waits for company, if company is likely.
    pub fn patience_at_last_close(&self) -> Duration {
        match self.get().common().batching().flush_time() * COMPANY_FLUSHES {
            Duration::ZERO => COMPANY_UNMEASURED,
            takes => takes.min(COMPANY_MAX),
        }
    }
}

impl Gate for OwnBoard {
    /// A ticket costs next to nothing.
    const IS_ALWAYS_USED: bool = true;

    fn enter(&self) -> bool {
        self.ticket.take(self.get().common().tickets())
    }

    fn wait(&self, at_most: Duration) -> bool {
        self.ticket.wait(self.get().common().tickets(), at_most)
    }

    fn begin_writing(&self) {
        self.ticket.begin_writing(self.get().common().tickets());
    }

    fn leave(&self) {
        self.ticket.give_back(self.get().common().tickets());
    }

    fn is_wanted(&self) -> bool {
        self.ticket.is_not_alone(self.get().common().tickets())
    }
}
