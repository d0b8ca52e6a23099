//! A log in one preallocated file: a record is one aligned write and one flush.
//!
//! ```text
//! | header | lane 0 | lane 1 | lane 0 | lane 1 | …      chunks up to 256 KiB, alternately
//!
//! epoch 1 in lane 1   ■■■■■■■■■■□□□□□□
//! epoch 2 in lane 0   ■■■■■■□□□□□□□□□□   begun when nothing of epoch 1 was needed any more
//! epoch 3 in lane 1   ■■                 overwrites epoch 1 when nothing of epoch 2 is needed
//! ```
//!
//! **Two lanes, not a ring.** Epoch `e` lives in lane `e % 2`, from its position 0. A new epoch
//! begins only when nothing of the epoch before is needed any more. Its first record goes to the
//! *other* lane. If that record is torn, the epoch before is still whole, and replaying it does no
//! harm. So
//!
//! - no block says where the log begins, so none is rewritten and none can be torn;
//! - nothing wraps, so no record is in two parts, and the end of the log never meets its beginning;
//! - old and new records of a lane differ in their epoch, which is in every checksum;
//! - growing is extending the file.
//!
//! The price: the file is twice as large as what an epoch can hold. And recovery reads both lanes,
//! to tell a torn end from damage.
//!
//! **The log of a directory** may have two epochs that are needed, one in each lane. A record says
//! when the older one is needed no more, and only then the next one begins (`epochs.rs`).
//!
//! **Promises.**
//!
//! - A record is durable when [`Log::append`] returns.
//! - After a loss of power [`Log::scan`] answers all records that were acknowledged, and perhaps
//!   the one that was being written. Or it answers an error.
//! - A record is never written in a block that holds another record.
//! - A record is valid only at the place, in the epoch and behind the record that it was written
//!   for (V1 to V8, at the head of `record.rs` and in `docs/log-format.md`).
//! - CRC32C finds accidents, not forgers.
//!
//! **What the caller keeps.** Where the next record goes is plain data, a [`Head`]. Processes keep
//! it in shared memory. Appends are for one caller at a time. Nothing in this crate has threads, or
//! state outside of its values, but for [`messages`]. Only [`DirectFile`] has files: the rest sees
//! a [`Storage`]. The strategy `eager` puts [`delta`]s into its records, in [`group`]s.
//!
//! | question | file |
//! |---|---|
//! | the bytes of block 0 | `header.rs` |
//! | where a lane's bytes are in the file | `layout.rs` |
//! | when a record is valid | `record.rs` |
//! | writing | `log.rs` |
//! | what a file has at a place | `reader.rs` |
//! | recovery | `scan.rs` |
//! | the log of a directory, and its recovery | `directory.rs`, `epochs.rs` |
//! | which file systems keep what a sync promises | `ground.rs` |
//! | where messages for people go | `messages.rs` |

mod aligned;
pub mod belonging;
#[doc(hidden)]
pub mod bytes;
pub mod delta;
mod direct;
mod directory;
mod epochs;
mod error;
#[doc(hidden)]
pub mod ground;
pub mod group;
mod head;
mod header;
pub mod invariant;
#[doc(hidden)]
pub mod kill_point;
mod layout;
mod log;
#[doc(hidden)]
pub mod messages;
#[cfg(not(feature = "mutants"))]
mod mutant;
#[cfg(feature = "mutants")]
pub mod mutant;
mod numbers;
pub mod page_cache;
mod reader;
mod record;
#[doc(hidden)]
pub mod record_lock;
mod scan;
mod storage;
mod varint;

pub use aligned::AlignedBuffer;
pub use direct::{DirectFile, DurableWrite, is_full, sync_directory, zero_without_writing};
pub use directory::KIND_RELEASE;
pub use error::Error;
pub use head::{Head, Uuid};
pub use layout::{CHUNK_BYTES, FIRST_CHUNK_BYTES};
pub use log::{Log, shows_records};
pub use numbers::{Epoch, Lsn};
pub use scan::{ReadRecord, Salvage};
pub use storage::{Storage, Written};
