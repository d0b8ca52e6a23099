//! `plain`: SQLite's own WAL files without the waste.
//!
//! Group commit is the engine's. The preallocation is after WALDIO, ATC'15.
//!
//! The commit sequence, and what survives a crash after each step, is that of [the
//! engine](crate::engine). The store's part:
//!
//! 1. The frames go to the WAL, in space made ahead ([`extent`]).
//! 2. A flush is a sync of the WAL.
//!
//! This store adds one invariant to the engine's:
//!
//! 5. After a clean close the WAL that is kept holds no frame that anybody would recover
//!    ([`kept`]). Its name is one that SQLite does not open (`kept_file.rs`).

mod closing;
mod door;
mod doubts;
mod extent;
mod kept;
mod salts;
mod shown;
mod store;
mod unsure;
mod writing;

#[cfg(all(test, not(feature = "shuttle")))]
pub use door::Door;
pub use kept::is_marked;
pub use store::{PlainReport, PlainStore};

use crate::engine::WalConnection;

/// A connection with `plain`.
pub type Plain = WalConnection<PlainStore>;
