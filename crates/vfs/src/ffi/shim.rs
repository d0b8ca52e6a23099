//! What our VFS is in one SQLite.

use std::ffi::CString;
use std::sync::Arc;

use libsqlite3_sys as sqlite;

use super::api::Api;
use crate::config::Options;
use crate::engine::RunCheckpoint;
use crate::error::{Code, Error};
use crate::strategy::LogFiles;
use crate::sync::Mutex;

/// What `pAppData` points to: our VFS in one SQLite.
pub struct Shim {
    pub(super) api: Api,
    pub(super) below: *mut sqlite::sqlite3_vfs,
    /// Options of the environment. The URI parameters of an open take precedence.
    pub(super) defaults: Mutex<Options>,
    pub(super) run_checkpoint: Arc<dyn RunCheckpoint>,
    pub(super) side_files: Arc<dyn LogFiles>,
    /// The VFS below is one of SQLite's own for Unix.
    pub(super) is_over_unix: bool,
    /// The VFS below is the "unix" VFS itself, and not one of those with other locks.
    pub(super) has_posix_locks: bool,
    /// The registered VFS. SQLite keeps the pointer, so neither it nor the shim is ever freed.
    pub(super) vfs: *mut sqlite::sqlite3_vfs,
}

// SAFETY: a VFS is not written to after `vfs_register` other than by SQLite, under its own mutex.
unsafe impl Send for Shim {}
// SAFETY: as above.
unsafe impl Sync for Shim {}

pub(super) fn c_name(path: &str) -> Result<CString, Error> {
    CString::new(path).map_err(|_| Error::Below(Code::CANTOPEN))
}
