//! Copies of a database.

use std::ffi::{CStr, c_char};
use std::sync::Mutex;

use mvbt::Backup;

use crate::call::{self, Failure, Handle, LastError, Out, locked, path};
use crate::code::Code;
use crate::database::{DatabaseHandle, with_database};

/// A copy that is being made.
pub struct BackupHandle {
    backup: Mutex<Backup>,
    error: LastError,
}

impl Handle for BackupHandle {
    const NULL: &CStr = c"the backup is null";

    fn error(&self) -> &LastError {
        &self.error
    }
}

/// Runs a call with a backup.
unsafe fn with_backup<T: Copy>(
    backup: *const BackupHandle,
    out: Out<T>,
    work: impl FnOnce(&mut Backup) -> Result<T, Failure>,
) -> Code {
    // SAFETY: by the contract of the caller.
    unsafe { call::with(backup, out, |backup| work(&mut *locked(&backup.backup)?)) }
}

/// Begins a copy of the last committed version, in a file that must not exist. Writers go on
/// meanwhile. The copy is compact, and keeps the numbers of trees and the meta words. It has no
/// history, and keeps none. Until the handle is closed it reads its version. After a failure
/// `*backup` is null, and the message is the database's.
///
/// # Safety
/// `db` is null or a handle, `name` a text that ends with a zero, and `backup` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_backup_begin(
    db: *const DatabaseHandle,
    name: *const c_char,
    backup: *mut *mut BackupHandle,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        call::make(db, backup, |db| {
            let begun = db.database().backup(path(name)?)?;
            Ok(BackupHandle { backup: Mutex::new(begun), error: LastError::default() })
        })
    }
}

/// Copies about so many pages; a long payload is copied at once. UINT64_MAX: all that are left.
/// `is_done` may be null; it gets whether the copy is there under its name, durable. After a
/// failure there is no copy: close the handle, and begin anew.
///
/// # Safety
/// `backup` is null or a handle, and `is_done` null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_backup_step(
    backup: *mut BackupHandle,
    pages: u64,
    is_done: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_backup(backup, Out::IfAsked(is_done), |backup| Ok(backup.step(pages)?)) }
}

/// About how many pages are still to be copied. 0: the copy is done.
///
/// # Safety
/// `backup` is null or a handle, and `pages` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_backup_remaining(
    backup: *const BackupHandle,
    pages: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_backup(backup, Out::Needed(pages), |backup| Ok(backup.remaining())) }
}

/// How many pages the version has that is copied. The copy may have less.
///
/// # Safety
/// `backup` is null or a handle, and `pages` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_backup_page_count(
    backup: *const BackupHandle,
    pages: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_backup(backup, Out::Needed(pages), |backup| Ok(backup.page_count())) }
}

/// The message of the last call with this handle that failed. It stays until the next one.
///
/// # Safety
/// `backup` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_backup_error(backup: *const BackupHandle) -> *const c_char {
    // SAFETY: by the contract of this function.
    unsafe { call::message(backup) }
}

/// Gives the handle back. A copy that is not done leaves no file. Null is right.
///
/// # Safety
/// `backup` is null or a handle that no call uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_backup_close(backup: *mut BackupHandle) {
    // SAFETY: `oneflush_mvbt_backup_begin` made it, and it is given back once.
    unsafe { call::take_back(backup, |_| Ok(())) };
}

/// Makes such a copy at once. It is durable when this returns.
///
/// # Safety
/// `db` is null or a handle, and `name` a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_vacuum_into(
    db: *const DatabaseHandle,
    name: *const c_char,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_database(db, Out::NOTHING, |database| Ok(database.vacuum_into(path(name)?)?)) }
}
