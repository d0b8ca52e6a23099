//! `waldio`: the WAL in preallocated slots, written by direct I/O (Lee, Lee and Won, "WALDIO:
//! Eliminating the Filesystem Journaling in Resolving the Journaling of Journal Anomaly", 2015).
//!
//! The log, `DB-waldio`, *is* SQLite's WAL. Frame *n* stands in slot *n*, with its header in the
//! slot. SQLite, and all processes, see the WAL that they know ([`view`]).
//!
//! | step of a commit | what survives a crash after it |
//! |---|---|
//! | 1. SQLite writes the frames: one direct write to slots | nothing, or by luck the commit |
//! | 2. SQLite syncs the WAL: one flush of the device | the commit |
//! | 3. SQLite publishes the frames and releases the write lock | the commit |
//! | 4. `SQLITE_FCNTL_COMMIT_PHASETWO`, acknowledgement | the commit |
//!
//! - **Group commit, turns, checkpoints** are those of [the engine](crate::engine).
//! - **Preallocation with Explicit Journaling**: slots are written with zeros and synced before
//!   they are used ([`slot_file`], invariant 1). So a commit changes no metadata.
//! - **Header Embedding**: the frame's header is in the page's own bytes ([`slots`]).
//! - **The guard** keeps other SQLites out while the log may hold commits.
//! - **Recovery** is SQLite's own: it reads the WAL. Before that the VFS mends what SQLite could
//!   not see ([`log_life`]).
//!
//! Invariants, cited by number:
//!
//! 1. No block that holds acknowledged bytes is written before the WAL begins anew.
//! 2. The WAL begins anew only when the database file has everything and is synced, as with SQLite.
//! 3. While page 1 of the database file is being written, the log has it: in a frame, or in its
//!    copy. So a page 1 that a crash has garbled can be mended. The copy counts in the first life
//!    of the WAL only, for a checkpoint of that life may write a newer page 1.
//! 4. After a failed write or sync no process acknowledges anything until all have closed.
//!
//! | question | file |
//! |---|---|
//! | where a frame stands, and how its header is embedded | [`slots`] |
//! | the bytes of the first block | [`header`] |
//! | reads and writes of slots, and their making | [`slot_file`] |
//! | what SQLite sees | [`view`] |
//! | how SQLite's calls reach the log | [`store`], [`writing`], [`reading`] |
//! | the paper's group synch | [`grouping`] |
//! | which frames are kept in memory | [`transaction`], [`cache`] |
//! | how the frames of a log stand, for the crash simulator | [`counted`] |
//! | how the log is made, joined, mended and retired | [`kept`], [`log_life`] |
//!
//! # Differences to the paper
//!
//! - The paper changes SQLite. Here SQLite is as it is, and the VFS translates.
//! - The paper's log has one size that is made at once, or grows by an extent. Here it grows by
//!   chunks of written zeros. `NO_HIDE_STALE` is in no kernel.
//! - The paper's group synch acknowledges commits before they are written. Here commits wait for
//!   the flush that they share, unless the user asks for the paper's way.
//! - "Reliable write" of eMMC is `RWF_DSYNC` here: a forced write (FUA) where the device has it.
//!
//! [`log_life`]: crate::strategy::log_life

mod cache;
mod counted;
mod grouping;
#[cfg(all(test, not(feature = "shuttle")))]
mod grouping_tests;
mod header;
mod in_use;
mod kept;
mod reading;
mod slot_file;
#[cfg(all(test, not(feature = "shuttle")))]
mod slot_file_tests;
mod slots;
mod store;
mod transaction;
mod view;
mod writing;

pub use self::counted::{SlotCounts, count_slots};
pub use self::kept::OpenLog;
pub use self::slot_file::SlotFile;
pub use self::store::{Waldio, WaldioReport, WaldioStore};
pub use self::view::open_to_read;
