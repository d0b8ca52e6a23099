//! The last close: what SQLite does then, as far as a VFS can tell, and what becomes of the WAL. The invariants are those of [`plain`](super).

use std::sync::atomic::Ordering::Relaxed;

use super::Plain;
use super::kept::{self, Kept};
use crate::strategy::{Below, Deletion, LockLevel};
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
    /// SQLite asked whether the WAL is to stay, as it does only at the end of a close, and it is to be of use again.
    Kept,
    /// The WAL has its mark, and is closed. SQLite deletes it next, unless the program has asked for `SQLITE_FCNTL_PERSIST_WAL`.
    Marked,
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

    /// SQLite asks whether the WAL is to stay; `stays`: the program wants that. Where it would do harm, the answer is no.
    pub(super) fn asked_at_the_close(&self, stays: bool) -> bool {
        let mut closing = lock(&self.closing);
        // A WAL that is still there would be opened again at once while SQLite takes the database to be in a rollback mode, and a
        // new page size would then destroy it. (SQLite alone does that with SQLITE_FCNTL_PERSIST_WAL.)
        if *closing == Closing::Leaving {
            return false;
        }
        // With nothing left to copy there is nothing between the lock and this.
        *closing = match *closing {
            Closing::Exclusive | Closing::Complete if stays || self.options.keep_wal => Closing::Kept,
            _ => Closing::No,
        };
        stays
    }

    /// SQLite deletes the WAL: if it has just been closed and marked, it gets another name instead.
    pub(super) fn keep_closed_wal(&self) -> Deletion {
        let closing = std::mem::take(&mut *lock(&self.closing));
        let is_kept = closing == Closing::Marked && self.shared.files.keep_wal(&self.shared.path).is_ok();
        if is_kept { Deletion::Renamed } else { Deletion::Delete }
    }

    /// Before the WAL is opened. The connection has a shared lock on the database.
    pub(super) fn take_kept_wal_back(&self) {
        let main = lock(&self.main);
        let Some(main) = main.as_deref().filter(|_| self.level() >= LockLevel::Shared) else { return };
        if self.options.keep_wal && !self.is_read_only {
            let mut same = None;
            let mut fits = |wal: &dyn Below| match kept::look_at(wal, main) {
                Some(Kept::Same(found)) => {
                    same = Some(found);
                    true
                }
                Some(Kept::Nothing) => true,
                None => false,
            };
            let is_back = self.shared.files.take_back_wal(&self.shared.path, &mut fits);
            *lock(&self.kept) = same.filter(|_| is_back);
        }
    }

    /// SQLite closes the WAL, or the image.
    pub(super) fn close_wal(&self) {
        let wal = lock(&self.wal).take();
        if wal.is_some() && self.shared.open_wals.fetch_sub(1, Relaxed) == 1 {
            self.shared.directory_synced.store(false, Relaxed);
        }
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
            let marked = kept::close(wal, self.shared.generation.end_bytes());
            // If it fails, SQLite deletes the WAL; or it stays, and the next opener recovers what the database file has.
            *lock(&self.closing) = if marked.is_ok() { Closing::Marked } else { Closing::No };
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
