//! The engine of the strategies for WAL mode: when a commit is written, flushed, shared and
//! acknowledged.
//!
//! A [`Store`] makes a commit durable. A [`Gate`] decides between processes which one may write
//! next.
//!
//! The sequence of a commit, and what survives a crash after each step:
//!
//! ```text
//! step                                            inline sync         group commit
//! 1 SQLite writes the frames; the store           nothing, or by      nothing, or by
//!   takes them                                    luck the commit     luck the commit
//! 2 SQLite syncs the WAL                          flush: the commit   put off: as after 1
//! 3 SQLite publishes the frames in the WAL        the commit          as after 1; others may
//!   index and releases the write lock                                 read the commit already
//! 4 SQLITE_FCNTL_COMMIT_PHASETWO                  the commit          flush: the commit
//! 5 the commit is acknowledged                    the commit          the commit
//! ```
//!
//! Group commit is used in two cases:
//!
//! - another writer waits behind the commit, in this process ([`turns`]) or, as far as is known, in
//!   another one ([`shared`]);
//! - other commits lately came in time to share a flush ([`flush`]).
//!
//! In step 2 a group commit only takes a number ([`flush`]). In step 4 it waits for a flush that
//! began after step 2. If that flush fails, the commit fails.
//!
//! In both cases a commit is acknowledged only after a flush that began when its frames were
//! written. A WAL is a prefix. A commit on top of one that is not durable yet is written behind it.
//! The flush that saves the later commit therefore saves the earlier one.
//!
//! A checkpoint syncs the WAL before it copies pages. It syncs the database before the WAL is used
//! again. Those syncs, and the sync of a new WAL header, are never put off. The cost is one flush a
//! commit or less. A checkpoint adds two flushes for each of its passes ([`checkpointer`]).
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. Only the holder of the write lock puts off a sync, and only a sync of frames. This connection
//!    is sure to get the `COMMIT_PHASETWO` of the same transaction, and SQLite hears its answer.
//!    For that, the WAL is linked to exactly this connection, and no super-journal is open.
//! 2. After a failed sync of the WAL, or of the database by a checkpoint, this process acknowledges
//!    no commit. That holds until all connections of the process have closed.
//! 3. Nothing waits longer than the connection's busy handler allows. A connection without a busy
//!    handler does not wait. Three waits are not bound by this: the wait for a flush, the wait for
//!    the checkpointer of the same process ([`checkpointer`]), and the wait for the turn to close
//!    and for company ([`mod@closing`]), which is 2.1 s at most.
//! 4. After a clean close the database file has everything.

mod batching_processes;
mod batching_threads;
mod checkpointer;
mod closing;
mod company;
mod connection;
#[cfg(all(test, not(feature = "shuttle")))]
mod connection_tests;
mod contents;
mod crowded;
mod flush;
mod gate;
mod harm;
mod held;
mod locking;
mod names;
mod orphans;
mod pacing;
mod panics;
mod rewound;
mod shared;
mod store;
mod syncing;
mod turns;
mod unchained;
mod waiter;

pub use batching_processes::ProcessBatching;
pub use checkpointer::{Checkpointer, Progress, RunCheckpoint};
pub use closing::{Closing, wait_for_turn_to_close};
pub use connection::WalConnection;
pub(crate) use connection::{InWalMode, doing};
pub use gate::Gate;
pub(crate) use harm::{Harm, Saved};
pub use held::Held;
pub use locking::sleep;
pub(crate) use orphans::{ORPHANS, orphan_path, save, while_whole};
pub(crate) use panics::told as told_panic;
pub use shared::{Shared, WalReport};
pub use store::{Header, Store};
pub use syncing::For;
