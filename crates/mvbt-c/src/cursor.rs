//! Cursors.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};

use mvbt::{Cursor, Probe, Source, TreeId};

use crate::call::{self, Failure, LastError, locked, misuse, put, put_if_asked};
use crate::code::Code;
use crate::compare::{CompareFunction, compare};
use crate::transaction::{Transaction, TransactionHandle, with_transaction};

/// A place in a tree.
pub struct CursorHandle {
    cursor: Mutex<Cursor>,
    transaction: Arc<Mutex<Transaction>>,
    error: LastError,
}

/// Runs a call with a cursor, and what its transaction sees.
unsafe fn with_cursor(
    cursor: *const CursorHandle,
    work: impl FnOnce(&mut Cursor, &dyn Source) -> Result<(), Failure>,
) -> Code {
    let place = |handle: &CursorHandle| {
        let transaction = locked(&handle.transaction)?;
        work(&mut *locked(&handle.cursor)?, transaction.reader()?.source())
    };
    // SAFETY: by the contract of the caller.
    unsafe { call::with(cursor, |cursor| &cursor.error, place) }
}

/// The same for a call that moves it: whether it stands on a cell then.
unsafe fn move_it(
    cursor: *mut CursorHandle,
    is_on_cell: *mut bool,
    go: impl FnOnce(&mut Cursor, &dyn Source) -> mvbt::Result<()>,
) -> Code {
    let go = |cursor: &mut Cursor, source: &dyn Source| {
        go(cursor, source)?;
        // SAFETY: by the contract of the caller.
        unsafe { put_if_asked(is_on_cell, cursor.is_on_cell()) };
        Ok(())
    };
    // SAFETY: by the contract of the caller.
    unsafe { with_cursor(cursor, go) }
}

/// Makes a cursor that stands on no cell yet. A change of its tree takes the place from it:
/// then it has to seek again. After a failure `*cursor` is null, and the message is the
/// transaction's.
///
/// # Safety
/// `txn` is null or a handle, and `cursor` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_open(
    txn: *const TransactionHandle,
    tree: u32,
    cursor: *mut *mut CursorHandle,
) -> Code {
    // SAFETY: by the contract of this function.
    let shared = unsafe { txn.as_ref() }.map(|txn| Arc::clone(&txn.shared));
    let open = |transaction: &mut Transaction| {
        // SAFETY: by the contract of this function.
        unsafe { put(cursor, std::ptr::null_mut()) }?;
        let made = transaction.reader()?.cursor(TreeId(tree))?;
        let handle = CursorHandle {
            cursor: Mutex::new(made),
            transaction: shared.ok_or_else(|| misuse("the transaction is null"))?,
            error: LastError::default(),
        };
        // SAFETY: by the contract of this function.
        unsafe { put(cursor, Box::into_raw(Box::new(handle))) }
    };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, open) }
}

/// Gives the handle back. Null is right.
///
/// # Safety
/// `cursor` is null or a handle that no call uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_close(cursor: *mut CursorHandle) {
    call::without_handle(|| {
        if !cursor.is_null() {
            // SAFETY: `oneflush_mvbt_cursor_open` made it, and it is given back once.
            drop(unsafe { Box::from_raw(cursor) });
        }
        Ok(())
    });
}

/// The message of the last call with this handle that failed. It stays until the next one.
///
/// # Safety
/// `cursor` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_error(cursor: *const CursorHandle) -> *const c_char {
    // SAFETY: by the contract of this function.
    unsafe { cursor.as_ref() }.map_or(c"the cursor is null".as_ptr(), |cursor| cursor.error.text())
}

/// Goes to the first cell. `is_on_cell` may be null; it gets false if the tree is empty.
///
/// # Safety
/// `cursor` is null or a handle, and `is_on_cell` null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_first(
    cursor: *mut CursorHandle,
    is_on_cell: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { move_it(cursor, is_on_cell, Cursor::first) }
}

/// Goes to the last cell. Otherwise as oneflush_mvbt_cursor_first().
///
/// # Safety
/// As oneflush_mvbt_cursor_first().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_last(
    cursor: *mut CursorHandle,
    is_on_cell: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { move_it(cursor, is_on_cell, Cursor::last) }
}

/// Goes to the next cell. `is_on_cell` gets false behind the last one.
///
/// # Safety
/// As oneflush_mvbt_cursor_first().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_next(
    cursor: *mut CursorHandle,
    is_on_cell: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { move_it(cursor, is_on_cell, Cursor::next) }
}

/// Goes to the cell before. `is_on_cell` gets false before the first one.
///
/// # Safety
/// As oneflush_mvbt_cursor_first().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_previous(
    cursor: *mut CursorHandle,
    is_on_cell: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { move_it(cursor, is_on_cell, Cursor::previous) }
}

/// Goes to the first cell whose key is not less. `found` may be null; it gets whether the key is
/// that one. Whether there is a cell at all says oneflush_mvbt_cursor_is_on_cell().
///
/// # Safety
/// `cursor` is null or a handle, and `found` null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_seek_integer(
    cursor: *mut CursorHandle,
    key: i64,
    found: *mut bool,
) -> Code {
    let seek = |cursor: &mut Cursor, source: &dyn Source| {
        if cursor.tree().is_record {
            return Err(mvbt::Error::WrongKind { tree: cursor.tree().id }.into());
        }
        let is_it = cursor.seek(source, Probe::Integer(key))?;
        // SAFETY: by the contract of this function.
        unsafe { put_if_asked(found, is_it) };
        Ok(())
    };
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, seek) }
}

/// Goes to the first record that does not come before what the comparison seeks. Otherwise as
/// oneflush_mvbt_cursor_seek_integer().
///
/// # Safety
/// As oneflush_mvbt_cursor_seek_integer(), and `function` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_seek_record(
    cursor: *mut CursorHandle,
    function: CompareFunction,
    context: *mut c_void,
    found: *mut bool,
) -> Code {
    let seek = |cursor: &mut Cursor, source: &dyn Source| {
        if !cursor.tree().is_record {
            return Err(mvbt::Error::WrongKind { tree: cursor.tree().id }.into());
        }
        // SAFETY: by the contract of this function.
        let compare = unsafe { compare(function, context) }?;
        let is_it = cursor.seek(source, Probe::Record(&compare))?;
        // SAFETY: by the contract of this function.
        unsafe { put_if_asked(found, is_it) };
        Ok(())
    };
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, seek) }
}

/// Whether it stands on a cell.
///
/// # Safety
/// `cursor` is null or a handle, and `is_on_cell` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_is_on_cell(
    cursor: *const CursorHandle,
    is_on_cell: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, |cursor, _| put(is_on_cell, cursor.is_on_cell())) }
}

/// The key of its cell, in an integer tree.
///
/// # Safety
/// `cursor` is null or a handle, and `key` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_key(
    cursor: *const CursorHandle,
    key: *mut i64,
) -> Code {
    let ask = |cursor: &mut Cursor, source: &dyn Source| {
        if cursor.tree().is_record {
            return Err(mvbt::Error::WrongKind { tree: cursor.tree().id }.into());
        }
        let own = cursor.integer_key(source)?.ok_or_else(|| misuse(NO_CELL))?;
        // SAFETY: by the contract of this function.
        unsafe { put(key, own) }
    };
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, ask) }
}

/// How many bytes the payload of its cell has, or the record.
///
/// # Safety
/// `cursor` is null or a handle, and `length` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_payload_length(
    cursor: *const CursorHandle,
    length: *mut u64,
) -> Code {
    let ask = |cursor: &mut Cursor, source: &dyn Source| {
        let own = cursor.payload_length(source)?.ok_or_else(|| misuse(NO_CELL))?;
        // SAFETY: by the contract of this function.
        unsafe { put(length, own) }
    };
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, ask) }
}

/// Copies `length` bytes of the payload or record from `offset` on. ONEFLUSH_MVBT_MISUSE: it does
/// not have so many. After another failure the buffer may have been changed.
///
/// # Safety
/// `cursor` is null or a handle, and `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_payload(
    cursor: *const CursorHandle,
    offset: u64,
    buffer: *mut u8,
    length: usize,
) -> Code {
    let copy = |cursor: &mut Cursor, source: &dyn Source| {
        let has = cursor.payload_length(source)?.ok_or_else(|| misuse(NO_CELL))?;
        if offset.checked_add(length as u64).is_none_or(|end| end > has) {
            return Err(misuse("the payload does not have so many bytes"));
        }
        if buffer.is_null() && length > 0 {
            return Err(misuse("the buffer is null"));
        }
        let mut nothing = [];
        let part = match length {
            0 => &mut nothing[..],
            // SAFETY: there is room for so many bytes, no more than a payload has. They are
            // written first: without values they would be no slice.
            length => unsafe {
                std::ptr::write_bytes(buffer, 0, length);
                std::slice::from_raw_parts_mut(buffer, length)
            },
        };
        Ok(cursor.payload_part(source, offset, part)?)
    };
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, copy) }
}

const NO_CELL: &str = "the cursor stands on no cell";
