//! The base VFS: SQLite's calls on simulated disks, as its "unix" VFS makes them on real ones.
//!
//! `ffi.rs` and `settings.rs` are the only unsafe files of this crate. `ffi.rs` copies from "unix"
//! what commits depend on:
//!
//! - The first sync of a journal or WAL that was opened with `SQLITE_OPEN_CREATE`, new or not, also
//!   syncs its directory.
//! - A deletion syncs the directory where SQLite asks for it.
//! - A file of no bytes does not "exist".
//! - A short write is `SQLITE_FULL`.
//! - Powersafe overwrite is claimed.
//!
//! One thing is not copied: "unix" ignores an error of that directory sync, and this VFS reports
//! it.

mod exchanged;
#[allow(unsafe_code)]
mod ffi;
mod locks;
mod place;
#[allow(unsafe_code)]
mod settings;
mod volume;

pub use ffi::{RegisterError, register};
pub use settings::{reserve_bytes, seed_sqlite};
pub use volume::{Mounted, VFS_NAME};
