//! The engine of the strategies for WAL mode: when a commit is written, flushed, shared and acknowledged. What makes it durable is a
//! [`Store`], and who may write next between processes is a [`Gate`].
//!
//! Commit sequence, for a commit that nobody waits behind (what survives a crash after each step):
//!
//! 1. SQLite writes the frames to its WAL, and the store takes them            nothing, or by luck the whole commit
//! 2. SQLite syncs the WAL: the store's one flush                               the commit
//! 3. SQLite publishes the frames in the WAL index and releases the write lock
//! 4. `SQLITE_FCNTL_COMMIT_PHASETWO`, acknowledgement
//!
//! Behind which another writer waits ([`turns`]), or lately came in time to share its flush ([`flush`]), group commit:
//!
//! 1. as above
//! 2. the sync is put off: the commit only takes a number ([`flush`])            nothing, or by luck the whole commit
//! 3. as above; the next writer goes on and may read what is not durable yet
//! 4. in `SQLITE_FCNTL_COMMIT_PHASETWO` the commit waits for a flush that began after 2; if that fails, so does the commit
//!
//! Either way a commit is acknowledged after a flush that began when its frames were written, and a WAL is a prefix: whoever
//! commits on top of a commit that is not durable yet writes behind it, and the flush that saves the later saves the earlier.
//! Checkpoints sync the WAL before they copy and the database before the WAL is used again; those syncs, and the sync of a new
//! WAL header, are never put off. One flush a commit or less; a checkpoint adds two for each of its passes ([`checkpointer`]).
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. A sync is put off only by the holder of the write lock, for frames, and only if this connection is sure to get the
//!    `COMMIT_PHASETWO` of the same transaction and that SQLite hears its answer: its WAL is linked to it exactly, and no super-journal is open.
//! 2. After a failed sync of the WAL, or of the database by a checkpoint, no connection of this process gets a commit acknowledged, until all have closed.
//! 3. Whatever waits, waits no longer than the connection's busy handler allows; a connection without one does not wait.
//! 4. At a clean close the database file has everything.

mod batching_processes;
mod batching_threads;
mod checkpointer;
mod closing;
mod connection;
mod crowded;
mod flush;
mod gate;
mod held;
mod locking;
mod pacing;
mod seen;
mod shared;
mod store;
mod syncing;
mod turns;
mod unchained;
mod waiter;

pub use batching_processes::ProcessBatching;
pub use checkpointer::{Checkpointer, Progress, RunCheckpoint};
pub use closing::Closing;
pub use connection::WalConnection;
pub(crate) use connection::{InWalMode, doing};
pub use gate::Gate;
pub use held::Held;
#[cfg(all(test, not(feature = "shuttle")))]
pub use locking::READ_PATIENCE;
pub use locking::sleep;
pub use shared::{Shared, WalReport};
pub use store::{Header, Store};
pub use syncing::For;
