//! A file of SQLite's with nothing of the VFS below: a [`Below`] of ours in the place where the VFS
//! below would have its file. So the rest of the FFI layer treats both alike, at the same cost.
//!
//! A WAL, a journal or a super-journal is opened so. SQLite neither locks nor maps them.

use std::ffi::{c_int, c_void};
use std::mem::{self, size_of};
use std::{ptr, slice};

use libsqlite3_sys as sqlite;

use super::carried::carried;
use crate::port::{Below, SyncRequest};

/// What lies in the place of the file below.
#[repr(C)]
pub struct VirtualFile {
    /// It is first, because SQLite sees it as a `sqlite3_file`.
    methods: *const sqlite::sqlite3_io_methods,
    /// Made by [`place`], dropped by `xClose`.
    file: *mut Box<dyn Below>,
}

/// The bytes that such a file needs.
pub const BYTES: usize = size_of::<VirtualFile>();

static METHODS: sqlite::sqlite3_io_methods = sqlite::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(x_close),
    xRead: Some(x_read),
    xWrite: Some(x_write),
    xTruncate: Some(x_truncate),
    xSync: Some(x_sync),
    xFileSize: Some(x_file_size),
    xLock: Some(x_lock),
    xUnlock: Some(x_lock),
    xCheckReservedLock: Some(x_check_reserved_lock),
    xFileControl: Some(x_file_control),
    xSectorSize: Some(x_sector_size),
    xDeviceCharacteristics: Some(x_device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Puts an open file in this place.
///
/// # Safety
/// `place` has room for [`BYTES`] bytes, aligned to 8, that nobody else uses until `xClose`.
pub unsafe fn place(place: *mut sqlite::sqlite3_file, file: Box<dyn Below>) {
    let file = Box::into_raw(Box::new(file));
    // SAFETY: as the caller promises.
    unsafe { place.cast::<VirtualFile>().write(VirtualFile { methods: &METHODS, file }) }
}

/// Puts another file in the place of one that came with a fork. That one is the parent's and is not
/// dropped. Answers it, for [`put_back`].
///
/// # Safety
/// `place` has an open file that was made by [`place`], and nobody uses that meanwhile.
pub unsafe fn replace(at: *mut sqlite::sqlite3_file, file: Box<dyn Below>) -> VirtualFile {
    // SAFETY: as the caller promises. A file is plain memory.
    unsafe {
        let before = at.cast::<VirtualFile>().read();
        place(at, file);
        before
    }
}

/// Undoes [`replace`].
///
/// # Safety
/// As for [`replace`], and `before` is its answer.
pub unsafe fn put_back(at: *mut sqlite::sqlite3_file, before: VirtualFile) {
    // SAFETY: as the caller promises.
    unsafe {
        x_close(at);
        at.cast::<VirtualFile>().write(before);
    }
}

/// # Safety
/// `file` was made by [`place`] and is not closed.
unsafe fn below<'a>(file: *mut sqlite::sqlite3_file) -> &'a dyn Below {
    // SAFETY: as the caller promises. The box lives until `xClose`.
    unsafe { &**(*file.cast::<VirtualFile>()).file }
}

// These functions are called by the FFI layer, where a panic goes on (`carried.rs`). The arguments
// come from `BelowFile`, which has made them of slices and unsigned numbers.

unsafe extern "C" fn x_close(file: *mut sqlite::sqlite3_file) -> c_int {
    // SAFETY: nobody uses the place meanwhile.
    let file = unsafe { mem::replace(&mut (*file.cast::<VirtualFile>()).file, ptr::null_mut()) };
    carried(|| {
        // Null: who closes has met a panic, and closes what is left.
        if !file.is_null() {
            // SAFETY: `place` has made it, and it is not used afterwards.
            drop(unsafe { Box::from_raw(file) });
        }
        Ok(())
    })
}

unsafe extern "C" fn x_read(
    file: *mut sqlite::sqlite3_file,
    buffer: *mut c_void,
    amount: c_int,
    offset: sqlite::sqlite3_int64,
) -> c_int {
    // SAFETY: the caller has a buffer of so many bytes that nobody else uses meanwhile.
    let (below, buffer) =
        unsafe { (below(file), slice::from_raw_parts_mut(buffer.cast(), amount as usize)) };
    carried(|| below.read(buffer, offset as u64))
}

unsafe extern "C" fn x_write(
    file: *mut sqlite::sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: sqlite::sqlite3_int64,
) -> c_int {
    // SAFETY: the caller has so many bytes, which stay as they are meanwhile.
    let (below, data) =
        unsafe { (below(file), slice::from_raw_parts(data.cast(), amount as usize)) };
    carried(|| below.write(data, offset as u64))
}

unsafe extern "C" fn x_truncate(
    file: *mut sqlite::sqlite3_file,
    size: sqlite::sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open.
    let below = unsafe { below(file) };
    carried(|| below.truncate(size as u64))
}

unsafe extern "C" fn x_sync(file: *mut sqlite::sqlite3_file, flags: c_int) -> c_int {
    let request = SyncRequest {
        full: flags & 0x0f == sqlite::SQLITE_SYNC_FULL,
        data_only: flags & sqlite::SQLITE_SYNC_DATAONLY != 0,
    };
    // SAFETY: the file is open.
    let below = unsafe { below(file) };
    carried(|| below.sync(request))
}

unsafe extern "C" fn x_file_size(
    file: *mut sqlite::sqlite3_file,
    size: *mut sqlite::sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open, and there is a place for the answer.
    let (below, size) = unsafe { (below(file), &mut *size) };
    carried(|| {
        *size = below.size_bytes()? as i64;
        Ok(())
    })
}

unsafe extern "C" fn x_lock(_: *mut sqlite::sqlite3_file, _: c_int) -> c_int {
    sqlite::SQLITE_OK
}

unsafe extern "C" fn x_check_reserved_lock(
    _: *mut sqlite::sqlite3_file,
    result: *mut c_int,
) -> c_int {
    // SAFETY: there is a place for the answer.
    unsafe { *result = 0 };
    sqlite::SQLITE_OK
}

unsafe extern "C" fn x_file_control(
    _: *mut sqlite::sqlite3_file,
    _: c_int,
    _: *mut c_void,
) -> c_int {
    sqlite::SQLITE_NOTFOUND
}

unsafe extern "C" fn x_sector_size(file: *mut sqlite::sqlite3_file) -> c_int {
    // SAFETY: the file is open.
    unsafe { below(file) }.sector_size()
}

unsafe extern "C" fn x_device_characteristics(file: *mut sqlite::sqlite3_file) -> c_int {
    // SAFETY: the file is open.
    unsafe { below(file) }.device_characteristics().0
}
