//! The base VFS: SQLite's calls on simulated disks, as its "unix" VFS makes them on real ones.
//!
//! `ffi.rs` is the only unsafe file of this crate. What it copies from "unix", because commits depend on it: the first sync
//! of a journal or WAL that was opened with `SQLITE_OPEN_CREATE`, new or not, also syncs its directory; a deletion does where SQLite asks for it; a file of no bytes
//! does not "exist"; a short write is `SQLITE_FULL`; powersafe overwrite is claimed. What it does not copy: "unix" ignores an
//! error of that directory sync, this one reports it.

#[allow(unsafe_code)]
mod ffi;
mod locks;
mod volume;

pub use ffi::{RegisterError, VFS_NAME, register, seed_sqlite};
pub use volume::{Mounted, locked};
