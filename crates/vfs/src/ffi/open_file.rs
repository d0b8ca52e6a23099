//! An open file of ours, as SQLite has it.

use std::ffi::CString;
use std::mem::{MaybeUninit, align_of, size_of};
use std::sync::Arc;

use libsqlite3_sys as sqlite;

use super::api::Api;
use super::below::BelowFile;
use super::reserve::Handle;
use crate::file::File;
use crate::sync::Barrier;

/// What SQLite allocates for us (`szOsFile`): this header, then the file of the VFS below.
#[repr(C, align(8))]
pub struct OpenFile {
    /// "The pMethods member of sqlite3_file". It is first, because SQLite sees an `OpenFile` as a
    /// `sqlite3_file`.
    pub methods: *const sqlite::sqlite3_io_methods,
    /// Made by `xOpen`, dropped by `xClose`; uninitialised while `methods` is null.
    pub state: MaybeUninit<State>,
}

pub struct State {
    pub api: &'static Api,
    pub file: File<BelowFile>,
    /// The barrier that `xShmBarrier` passes instead of the one of the VFS below. Every read passes
    /// it twice. The barrier of the "unix" VFS is a fence, and "for redundancy" a mutex, taken and
    /// released, that all connections of the process share.
    pub barrier: Option<Arc<Barrier>>,
    /// Where the connection of a main database file is, for `reserve.rs`.
    pub handle: Handle,
    /// The name that was used in place of SQLite's. The VFS below may keep the pointer.
    pub _name: Option<CString>,
}

/// Bytes before the file of the VFS below. A multiple of 8, as SQLite aligns what it allocates.
pub const HEADER_BYTES: usize = size_of::<OpenFile>();
const _: () = assert!(HEADER_BYTES.is_multiple_of(8) && align_of::<OpenFile>() <= 8);
