//! Places where a process can be made to die, for the test that kills processes at each of them
//! (feature `kill-points`).
//!
//! Without the feature nothing of it is compiled.

oneflush_blocklog::kill_points! {
    /// The write lock is taken; it is about to be released. A read lock of who is about to write.
    WriteLocked = "write-locked",
    Releasing = "releasing",
    ReadLocked = "read-locked",
    /// A flush has ended, and nobody was told.
    Flushed = "flushed",
    /// A checkpoint has its lock; it has copied a page.
    CheckpointLocked = "checkpoint-locked",
    Copied = "copied",
    /// The connection has the exclusive lock; it is about to close the WAL; to close the database.
    ExclusivelyLocked = "exclusively-locked",
    ClosingWal = "closing-wal",
    Closing = "closing",
    /// A commit is noted on the board and not logged.
    Noted = "noted",
    /// The board's lock is taken.
    Locked = "locked",
    /// The same, and others have been waited for.
    BatchAwaited = "batch-awaited",
    /// The board says that somebody changes the log.
    Busy = "busy",
    /// A record is durable, and the board does not know of it.
    Recorded = "recorded",
    /// The board has half of what is new.
    HalfShown = "half-shown",
    /// The board has all of it and still says "busy".
    Shown = "shown",
    /// The lock is about to be released.
    Unlocking = "unlocking",
    /// A commit is durable, and SQLite has not published it.
    Durable = "durable",
    /// The image was synced, and no record says so.
    ImageSynced = "image-synced",
    /// The image is begun anew: the board knows no frame any more.
    RestartNoted = "restart-noted",
    /// The log has forgotten its frames, and the board has not.
    Forgotten = "forgotten",
    /// A frame of a commit that failed is about to be overwritten.
    TakenBack = "taken-back",
    /// A checkpoint's connection is about to be opened.
    CheckpointBegun = "checkpoint-begun",
    /// A checkpoint may write to the database file.
    Prepared = "prepared",
    /// Another process has died, and its doings are being repaired.
    Repairing = "repairing",
    /// Set up: the log is made; page 1 is logged; the guard is set.
    LogMade = "log-made",
    PageOneLogged = "page-one-logged",
    Guarded = "guarded",
    /// Joining with the board's lock: found alone, or not, and about to use the log.
    Alone = "alone",
    /// Joining without it: others are there; the log is used, and whether the board is open not
    /// known again.
    Seen = "seen",
    Using = "using",
    /// Recovery: joined; the image is built; the board is filled.
    Joined = "joined",
    Rebuilt = "rebuilt",
    Opened = "opened",
    /// With `waldio`: frames are written, and not synced.
    FramesWritten = "frames-written",
    /// With `waldio`: displaced bytes are in the lane, and their frames are not written.
    LaneWritten = "lane-written",
    /// With `waldio`: the WAL has begun anew, and the board does not say so for the second time.
    HeaderWritten = "header-written",
    /// Joining beside others: the log is open.
    LogOpened = "log-opened",
    /// With `maw`: one page of a commit is in place; all are, and the board still says "busy".
    HalfInPlace = "half-in-place",
    InPlace = "in-place",
    /// With `maw`: a log has named the databases that will be linked to it; one is linked.
    Announced = "announced",
    Linked = "linked",
    /// With `maw`: the rollback journal was written out; the pages are in place beside it.
    JournalWritten = "journal-written",
    Materialised = "materialised",
    /// Clean close: the guard is taken away; the board is deleted.
    GuardHidden = "guard-hidden",
    BoardDeleted = "board-deleted",
}

#[cfg(all(feature = "kill-points", not(feature = "shuttle")))]
impl KillPoint {
    pub fn reached(self) {
        oneflush_blocklog::kill_point::reached(self.name());
    }
}

/// How a thread of the model checker that plays a process ends.
#[cfg(all(test, feature = "shuttle"))]
pub struct Died;

/// How one is stopped.
#[cfg(all(test, feature = "shuttle"))]
pub struct Stopped;

#[cfg(all(test, feature = "shuttle"))]
mod model {
    use std::cell::{Cell, RefCell};

    use super::{Died, KillPoint, Stopped};

    shuttle::thread_local! {
        static LEFT: Cell<u32> = Cell::new(0);
        static STOPS: RefCell<Option<Box<dyn Fn()>>> = RefCell::new(None);
    }

    impl Stopped {
        /// This thread does this at the `points`-th place that it comes to, and goes on.
        pub fn after(points: u32, stops: Box<dyn Fn()>) {
            LEFT.with(|left| left.set(points));
            STOPS.with(|all| *all.borrow_mut() = Some(stops));
        }
    }

    impl Died {
        /// This thread ends at the `points`-th place that it comes to.
        pub fn after(points: u32) {
            LEFT.with(|left| left.set(points));
        }
    }

    impl KillPoint {
        pub fn reached(self) {
            shuttle::thread::yield_now();
            let dies = LEFT.with(|left| left.replace(left.get().saturating_sub(1)) == 1);
            if dies {
                match STOPS.with(|stops| stops.borrow_mut().take()) {
                    Some(stops) => stops(),
                    None => std::panic::resume_unwind(Box::new(Died)),
                }
            }
        }
    }
}

#[cfg(not(any(
    all(feature = "kill-points", not(feature = "shuttle")),
    all(test, feature = "shuttle")
)))]
impl KillPoint {
    #[inline(always)]
    pub fn reached(self) {}
}
