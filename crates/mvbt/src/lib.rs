//! A multi-version B-tree with lazy split, as a crash-safe store.
//!
//! Kim, Nam, Park and Won: *Resolving Journaling of Journal Anomaly in Android I/O: Multi-Version
//! B-tree with Lazy Split*, FAST'14. There is no journal and no log: what recovery needs stands in
//! the tree. A transaction is its dirty pages and one flush. The paper relies on writes of pages
//! being whole, and scans every page after a crash. Here a page may be torn by sectors, and
//! recovery reads some ten blocks and the pages of the last transaction. The format, its
//! invariants and their proof are in docs/mvbt-format.md.
//!
//! ```text
//! Database ── WriteTransaction ── Work ──┐ drafts of pages
//!     │                                  ▼
//!     └────── ReadTransaction ──▶ search ── Store ── Storage
//! ```
//!
//! | question | file |
//! |---|---|
//! | the bytes of a page, and which of its two directories counts | `page/` |
//! | what a transaction changes, and how it is committed | `work/` |
//! | a place in a tree, also after a change | `cursor.rs`, `near.rs`, `restore.rs` |
//! | what a transaction may do | `transaction.rs` |
//! | what it ends with | `prepared.rs`, `writer.rs` |
//! | who may write now | `writer_lock.rs` |
//! | anchors, commit blocks, where they stand | `anchor.rs`, `ring.rs`, `layout.rs` |
//! | what is done after a crash | `recovery.rs`, `scrub.rs` |
//! | who may still read what | `readers.rs` |
//! | what processes share | `commons/` |
//! | a copy of a snapshot in a new file | `backup.rs`, `load.rs` |
//! | whether a database is sound | `check.rs` |
//! | what was done, and how full the file is | `stats.rs` |
//! | what the bytes of a file say | `inspect.rs` |

mod anchor;
mod backup;
mod bytes;
mod cache;
mod check;
mod closing;
mod commons;
mod cursor;
mod db;
mod error;
mod garbage;
mod history;
mod ids;
pub mod inspect;
mod kill_point;
mod layout;
mod load;
#[cfg(feature = "mutants")]
pub mod mutant;
#[cfg(not(feature = "mutants"))]
mod mutant;
mod near;
mod opening;
mod options;
mod page;
mod payload;
mod prepared;
mod reach;
mod read;
mod read_only;
mod readers;
mod recovery;
mod restore;
mod ring;
mod scrub;
mod search;
mod shared;
mod shrink;
mod stats;
mod store;
mod sync;
mod transaction;
mod voids;
mod work;
mod writer;
mod writer_lock;

pub use backup::Backup;
pub use check::{Order, Report};
#[doc(hidden)]
pub use commons::memory::Memory;
pub use cursor::{CellAhead, Cursor};
pub use db::Database;
pub use error::{Error, Result};
pub use history::{History, Mark, Retain};
pub use ids::{PageNo, TreeId, Version};
#[cfg(feature = "kill-points")]
pub use kill_point::KillPoint;
pub use options::Options;
pub use prepared::Prepared;
pub use read::{Read, ReadTransaction};
pub use restore::Restored;
#[doc(hidden)]
pub use search::PageRef;
pub use search::{Probe, Source, TreeRef};
pub use shrink::Shrunk;
pub use stats::Stats;
pub use store::Counters;
pub use transaction::WriteTransaction;
pub use work::META_WORDS;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
