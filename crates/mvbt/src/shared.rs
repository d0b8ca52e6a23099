//! What a database and its transactions have in common. A transaction keeps it alive.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::commons::board::{Board, Missed, Seen};
use crate::options::Options;
use crate::readers::Readers;
use crate::store::Store;
use crate::writer_lock::WriterLock;
use crate::{PageNo, Result, Version};

pub struct Shared {
    pub store: Arc<Store>,
    pub options: Arc<Options>,
    /// With all users of the database.
    pub board: Arc<Board>,
    pub readers: Readers,
    pub writer: WriterLock,
    /// Up to where the cache knows what other users have changed.
    seen: Mutex<Seen>,
}

impl Shared {
    pub fn new(store: Store, options: Options, board: Board, writer: WriterLock) -> Shared {
        let board = Arc::new(board);
        let readers = Readers::new(Arc::clone(&board));
        let (store, options) = (Arc::new(store), Arc::new(options));
        // The first look reads the anchor.
        Shared { store, options, board, readers, writer, seen: Mutex::default() }
    }

    /// Has the cache and the void intervals up to date with what other users have done.
    pub fn catch_up(&self) -> Result<()> {
        let mut seen = self.seen.lock();
        let now = self.board.seen();
        if now.generation != seen.generation {
            *self.store.voids.write() = self.store.newest_anchor()?.voids();
            self.store.forget_all();
        } else if now.changes != seen.changes {
            match self.board.missed(seen.changes, now.changes) {
                Missed::Pages(pages) => pages.into_iter().for_each(|no| self.store.forget(no)),
                Missed::All => self.store.forget_all(),
            }
        }
        *seen = now;
        Ok(())
    }

    /// Says that a version of this user is durable. Its pages are in the cache.
    pub fn publish(&self, version: Version, changed: &[PageNo], used_ring: bool) {
        let mut seen = self.seen.lock();
        seen.changes = self.board.publish(version, changed, used_ring);
    }
}
