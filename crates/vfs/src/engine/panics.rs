//! A panic that was stopped at a callback.
//!
//! Nobody knows what is half done of the state that the callback has changed. So a panic ends the
//! commits of this process, as a failed flush does (invariant 2 of the engine). SQLite gets an
//! error, rolls back, and releases what it knows to have. What it does not know of is let go here,
//! for others wait for it.

use std::sync::atomic::Ordering::Relaxed;

use super::connection::WalConnection;
use super::shared::Shared;
use super::store::Store;
use crate::error::Code;
use crate::port::ShmLock;
use crate::sync::lock;

impl<S: Store> WalConnection<S> {
    /// `released`: what the callback was to take or to release of the WAL index, and nobody has
    /// now.
    #[cold]
    pub fn panicked(&self, released: Option<ShmLock>) {
        self.shared.panicked();
        let has_released = |slot| released.is_some_and(|lock| lock.exclusive && lock.covers(slot));
        if has_released(ShmLock::WRITE) {
            lock(&self.held).end_transaction();
            self.writing.store(false, Relaxed);
            if self.is_checkpointer() {
                self.shared.checkpointer.writes(false);
            }
        }
        if has_released(ShmLock::CHECKPOINT) {
            self.checkpoint.running.store(false, Relaxed);
            self.checkpoint.automatic.store(false, Relaxed);
        }
        if !self.writing.load(Relaxed) {
            self.shared.leave(self.id);
        }
    }
}

impl<S: Store> Shared<S> {
    /// The same where it is not known whose callback it was.
    pub fn panicked(&self) {
        let is_first = self.flush.failure().is_none();
        self.flush.poison(Code::PANICKED);
        self.store.panicked();
        if is_first {
            self.checkpointer.warn(&told(&self.path));
        }
    }
}

pub(crate) fn told(database: &str) -> String {
    format!(
        "oneflush: {database}: an internal error was stopped. This process acknowledges no commit \
            until it has closed all connections to the database [OF-244]"
    )
}
