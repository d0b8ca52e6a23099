//! The last close: what SQLite does then, as far as a VFS can tell, and what becomes of the WAL. The invariants are those of [`plain`](super).

use std::sync::atomic::Ordering::Relaxed;

use super::{Plain, kept};
use crate::strategy::{Below, LockLevel};
use crate::sync::lock;

/// How far the last close of a database has come: only in this order, with nothing between, is the WAL's content known to be in the
/// database file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closing {
    #[default]
    No,
    /// SQLite asked whether the database file has been moved, as it does right before it closes the WAL of a connection that is closed.
    Announced,
    /// The database is locked exclusively, and no close was announced: what comes is the end of WAL mode, if it is about the WAL.
    Leaving,
    /// The database is locked exclusively.
    Exclusive,
    /// A checkpoint has written its pages.
    Copied,
    /// It has also cut the database to its size, as it does only if it is complete.
    Complete,
    /// SQLite asked whether the WAL is to be kept, as it does only at the end of a close.
    Kept,
}

impl Plain {
    /// A step came. Where the one before was not `from`, nothing is known any more.
    pub(super) fn advance(&self, from: Closing, to: Closing) {
        let mut closing = lock(&self.closing);
        *closing = match *closing {
            now if now == from => to,
            Closing::Leaving => Closing::Leaving,
            _ => Closing::No,
        };
    }

    /// The connection has the database's exclusive lock.
    pub(super) fn locked_exclusively(&self, main: &dyn Below) {
        let mut closing = lock(&self.closing);
        *closing = if *closing == Closing::Announced { Closing::Exclusive } else { Closing::Leaving };
        if *closing == Closing::Exclusive {
            self.believe_taken_up(main);
        }
    }

    /// SQLite asks whether the WAL is to be kept; asked where that would do harm, the answer is no.
    pub(super) fn may_keep_wal(&self) -> bool {
        // A WAL that is still there would be opened again at once while SQLite takes the database to be in a rollback mode, and a
        // new page size would then destroy it. (SQLite alone does that with SQLITE_FCNTL_PERSIST_WAL.)
        if *lock(&self.closing) == Closing::Leaving {
            return false;
        }
        // With nothing left to copy there is nothing between the lock and this.
        let mut closing = lock(&self.closing);
        *closing = match *closing {
            Closing::Exclusive | Closing::Complete => Closing::Kept,
            _ => Closing::No,
        };
        true
    }

    /// SQLite closes the WAL, or the image.
    pub(super) fn close_wal(&self) {
        let wal = lock(&self.wal).take();
        if *lock(&self.level) == LockLevel::Exclusive {
            self.shared.checkpointer.forget();
        }
        if let Some(log) = &self.shared.log {
            log.closed_image();
            return;
        }
        // Invariant 4.
        let closing = *lock(&self.closing);
        if let Some(wal) = wal.as_deref().filter(|_| closing == Closing::Kept) {
            // If it fails, the next opener recovers what the database file has.
            let _ = kept::close(wal, self.directory_synced.load(Relaxed), self.shared.generation.end_bytes());
        }
        // The checkpoint of the last close was refused, so the WAL stays. SQLite says that the pages are copied also where it could not.
        let was_refused = matches!(closing, Closing::Exclusive | Closing::Copied);
        if let Some(wal) = wal.as_deref().filter(|_| was_refused)
            && let Ok(end_bytes) = wal.size_bytes()
        {
            // If it fails, it stays noted.
            let _ = self.shared.mend(wal, end_bytes);
        }
        self.shared.extent.forget();
    }
}
