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
//! | what a transaction may do, and what it ends with | `transaction.rs`, `writer.rs` |
//! | anchors, commit blocks, where they stand | `anchor.rs`, `ring.rs`, `layout.rs` |
//! | what is done after a crash | `recovery.rs`, `scrub.rs` |
//! | who may still read what | `readers.rs`, `history.rs`, `garbage.rs` |
//! | whether a database is sound | `check.rs` |

mod anchor;
mod bytes;
mod cache;
mod check;
mod cursor;
mod db;
mod error;
mod garbage;
mod history;
mod ids;
mod layout;
#[cfg(feature = "mutants")]
pub mod mutant;
#[cfg(not(feature = "mutants"))]
mod mutant;
mod options;
mod page;
mod payload;
mod reach;
mod read;
mod readers;
mod recovery;
mod ring;
mod scrub;
mod search;
mod store;
mod transaction;
mod voids;
mod work;
mod writer;

pub use check::{Order, Report};
pub use cursor::Cursor;
pub use db::Database;
pub use error::{Error, Result};
pub use history::{History, Mark, Retain};
pub use ids::{PageNo, TreeId, Version};
pub use options::Options;
pub use read::{Read, ReadTransaction};
pub use search::{Probe, Source, TreeRef};
pub use store::Counters;
pub use transaction::WriteTransaction;
pub use work::META_WORDS;
