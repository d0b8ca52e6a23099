//! A log in one preallocated file: a record is one aligned write and one flush.
//!
//! ```text
//! | header | lane 0 | lane 1 | lane 0 | lane 1 | …      chunks of 256 KiB, alternately
//!
//! epoch 1 in lane 1   ■■■■■■■■■■□□□□□□
//! epoch 2 in lane 0   ■■■■■■□□□□□□□□□□   begun when nothing of epoch 1 was needed any more
//! epoch 3 in lane 1   ■■                 overwrites epoch 1 when nothing of epoch 2 is needed any more
//! ```
//! **Two lanes, not a ring.** Epoch `e` lives in lane `e % 2`, from its position 0. A new epoch is begun only when nothing in the
//! one before it is needed any more; its first record goes to the *other* lane. If that record is torn, the epoch before it is
//! still whole, and replaying it does no harm. So
//! - no block that says where the log begins is ever rewritten: there is none, and none can be torn;
//! - nothing wraps, so no record is in two parts, and the end of the log never meets its beginning;
//! - old and new records of a lane differ in their epoch, which is in every checksum;
//! - growing is extending the file.
//!
//! The price: the file is twice as large as what an epoch can hold, and recovery reads both lanes, to tell a torn end from damage.
//!
//! **Promises.** A record is durable when [`Log::append`] returns. After a loss of power [`Log::scan`] answers all the
//! records that were acknowledged, and perhaps the one that was being written, or it answers an error. A record is never
//! written in a block that holds another, and none is taken for valid that was not written at this place, in this epoch, behind
//! this record (V1 to V8, at the head of `record.rs` and in `docs/log-format.md`). CRC32C finds accidents, not forgers.
//!
//! Nothing here has threads, state outside of the values, or files, but [`DirectFile`]; the rest sees a [`Storage`]. Where the
//! next record goes is plain data, a [`Head`], which the caller keeps (processes: in shared memory), and appends are for one
//! caller at a time. [`delta`] and [`group`] are what the strategy `eager` puts into its records.
//!
//! Where to look: bytes of block 0 `header.rs`, places `layout.rs`, validity `record.rs`, writing `log.rs`, recovery `scan.rs`.

mod aligned;
pub mod belonging;
mod bytes;
pub mod delta;
mod direct;
mod error;
pub mod group;
mod head;
mod header;
mod layout;
mod log;
#[cfg(not(feature = "mutants"))]
mod mutant;
#[cfg(feature = "mutants")]
pub mod mutant;
pub mod page_cache;
mod record;
mod scan;
mod storage;
mod varint;

pub use aligned::AlignedBuffer;
pub use direct::{DirectFile, DurableWrite, is_full, sync_directory};
pub use error::Error;
pub use head::{Epoch, Head, Lsn, Uuid};
pub use layout::{CHUNK_BYTES, FIRST_CHUNK_BYTES};
pub use log::{Log, shows_records};
pub use scan::{ReadRecord, Salvage};
pub use storage::Storage;
