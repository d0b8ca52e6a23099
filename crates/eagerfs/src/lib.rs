//! Eager synching for every application.
//!
//! After *Fast synchronous file writing for flash storage in Android devices* (P.-H. Sung, National
//! Chiao Tung University, 2013): a sync writes only what belongs to the synced file, to one
//! sequential log. Everything else reaches its place lazily.
//!
//! | question | file |
//! |---|---|
//! | what is asked of the directory below | `lower.rs` |
//! | what a record holds | `entry.rs` |
//! | numbers of objects and operations | `numbers.rs` |
//! | how entries become records | `records.rs` |
//! | how bytes are packed | `pack.rs` (P1 to P3) |
//! | operations, syncs, epochs | `tree/` (invariants T1 to T9 at its head) |
//! | what the log wants the lower to have | `fold.rs` (F1 to F4) |
//! | a real directory below | `directory/` (D1 to D4) |
//! | mounting it by FUSE | `mount/` (M1 to M3, P1, P2) |
//! | recovery | `replay/` (R1 to R7) |
//!
//! **Differences to the paper.** The thesis changes ext4, and its isets are of pages of metadata.
//! Here they are of operations, and the file system below is any. A record has *all* pending
//! operations by default: `tree/pending.rs` says why the paper's choice is not safe for programs.

#[cfg(feature = "mount")]
pub mod directory;
pub mod entry;
pub mod fold;
pub mod lower;
pub mod mark;
#[cfg(feature = "mount")]
pub mod mount;
pub mod mutant;
mod numbers;
pub mod pack;
pub mod records;
pub mod recovery;
pub mod replay;
pub mod tree;
