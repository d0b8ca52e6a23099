//! What becomes of `plain`'s WAL at the last close, and at the next open.

use std::sync::atomic::Ordering::Relaxed;

use super::Plain;
use super::kept::{self, Kept};
use crate::engine::{Closing, InWalMode};
use crate::port::{Below, Deletion, LockLevel, Purpose};
use crate::sync::lock;

impl Plain {
    /// SQLite deletes the WAL. A WAL that has just been closed and marked gets another name
    /// instead.
    pub(super) fn keep_closed_wal(&self) -> Deletion {
        let closing = std::mem::take(&mut *lock(&self.closing));
        let is_kept =
            closing == Closing::Marked && self.store().files.keep_wal(&self.store().path).is_ok();
        if is_kept { Deletion::Renamed } else { Deletion::Delete }
    }

    /// Called before the WAL is opened. The connection has a shared lock on the database.
    pub(super) fn take_kept_wal_back(&self) {
        let main = lock(&self.main);
        let Some(main) = main.as_deref().filter(|_| self.level() >= LockLevel::Shared) else {
            return;
        };
        if self.options.keep_wal && self.purpose != Purpose::ReadOnly {
            let mut same = None;
            let mut fits = |wal: &dyn Below| match kept::look_at(wal, main) {
                Some(Kept::Same(found)) => {
                    same = Some(found);
                    true
                }
                Some(Kept::Nothing) => true,
                None => false,
            };
            let is_back = self.store().files.take_back_wal(&self.store().path, &mut fits);
            *lock(&self.own.kept) = same.filter(|_| is_back);
        }
    }

    /// SQLite closes the WAL.
    pub(super) fn close_wal(&self, wal: Option<&dyn Below>) {
        let store = self.store();
        if wal.is_some() && store.open_wals.fetch_sub(1, Relaxed) == 1 {
            store.directory_synced.store(false, Relaxed);
        }
        if store.open_wals.load(Relaxed) == 0 {
            store.shown.end();
        }
        // Invariant 5.
        let closing = *lock(&self.closing);
        if let Some(wal) = wal.filter(|_| closing == Closing::Kept) {
            // Invariant 2 of `shown`. If the mark fails, SQLite deletes the WAL. Or the WAL stays,
            // and the next opener recovers what the database file has.
            let is_marked = !store.shown.is_shown_by_others()
                && kept::close(wal, store.salts.end_bytes()).is_ok();
            *lock(&self.closing) = if is_marked { Closing::Marked } else { Closing::No };
        }
        // The checkpoint of the last close was refused, so the WAL stays. SQLite reports the pages
        // as copied even where it could not copy them.
        let was_refused = matches!(closing, Closing::Exclusive | Closing::Copied);
        if let Some(wal) = wal.filter(|_| was_refused)
            && let Ok(end_bytes) = wal.size_bytes()
        {
            // After an error the WAL stays noted as unsure.
            let _ = store.mend(wal, end_bytes);
        }
        store.extent.forget();
    }
}
