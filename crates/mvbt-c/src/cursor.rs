//! Cursors.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex};

use mvbt::{Cursor, Error, Order, Probe, Source, TreeId, WriteTransaction};

use crate::call::{self, Failure, Handle, LastError, Out, bytes, locked, misuse};
use crate::code::Code;
use crate::compare::{CompareFunction, OrderFunction, compare, order};
use crate::transaction::{Transaction, TransactionHandle};

/// A place in a tree.
pub struct CursorHandle {
    cursor: Mutex<Cursor>,
    transaction: Arc<Mutex<Transaction>>,
    /// Of cells that the transaction may change: what `oneflush_mvbt_cursor_cells` has answered.
    copies: Mutex<Vec<u8>>,
    error: LastError,
}

impl Handle for CursorHandle {
    const NULL: &CStr = c"the cursor is null";

    fn error(&self) -> &LastError {
        &self.error
    }
}

/// Where a cursor stands after a change of its tree.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "these are the names in C")]
pub enum Restored {
    /// On its cell.
    ONEFLUSH_MVBT_SAME = 0,
    /// Its cell is gone; on the one behind it. The following oneflush_mvbt_cursor_next() stays
    /// there.
    ONEFLUSH_MVBT_NEXT = 1,
    /// Its cell is gone, and there is none behind it; on the one before it. The following
    /// oneflush_mvbt_cursor_previous() stays there.
    ONEFLUSH_MVBT_PREVIOUS = 2,
    /// On no cell: it stood on none, or the tree is empty.
    ONEFLUSH_MVBT_NOWHERE = 3,
}

impl From<mvbt::Restored> for Restored {
    fn from(restored: mvbt::Restored) -> Restored {
        match restored {
            mvbt::Restored::Same => Restored::ONEFLUSH_MVBT_SAME,
            mvbt::Restored::Next => Restored::ONEFLUSH_MVBT_NEXT,
            mvbt::Restored::Previous => Restored::ONEFLUSH_MVBT_PREVIOUS,
            mvbt::Restored::Nowhere => Restored::ONEFLUSH_MVBT_NOWHERE,
        }
    }
}

/// Runs a call with a cursor, and what its transaction sees.
unsafe fn with_cursor<T: Copy>(
    cursor: *const CursorHandle,
    out: Out<T>,
    work: impl FnOnce(&mut Cursor, &dyn Source) -> Result<T, Failure>,
) -> Code {
    let place = |handle: &CursorHandle| {
        let transaction = locked(&handle.transaction)?;
        work(&mut *locked(&handle.cursor)?, transaction.reader()?.source())
    };
    // SAFETY: by the contract of the caller.
    unsafe { call::with(cursor, out, place) }
}

/// The same for a call that moves it: whether it stands on a cell then.
unsafe fn move_it(
    cursor: *mut CursorHandle,
    is_on_cell: *mut bool,
    go: impl FnOnce(&mut Cursor, &dyn Source) -> mvbt::Result<()>,
) -> Code {
    let go = |cursor: &mut Cursor, source: &dyn Source| {
        go(cursor, source)?;
        Ok(cursor.is_on_cell())
    };
    // SAFETY: by the contract of the caller.
    unsafe { with_cursor(cursor, Out::IfAsked(is_on_cell), go) }
}

/// The same for a call that changes the cell on which it stands.
unsafe fn change_at(
    cursor: *mut CursorHandle,
    change: impl FnOnce(&mut WriteTransaction, &mut Cursor) -> Result<(), Failure>,
) -> Code {
    let change = |handle: &CursorHandle| {
        let mut transaction = locked(&handle.transaction)?;
        change(transaction.writer()?, &mut *locked(&handle.cursor)?)
    };
    // SAFETY: by the contract of the caller.
    unsafe { call::with(cursor, Out::NOTHING, change) }
}

/// Makes a cursor that stands on no cell yet. A change of its tree takes the place from it: then it
/// has to seek again, or to be restored. After a failure `*cursor` is null, and the message is the
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
    let open = |txn: &TransactionHandle| {
        let made = locked(&txn.shared)?.reader()?.cursor(TreeId(tree))?;
        Ok(CursorHandle {
            cursor: Mutex::new(made),
            transaction: Arc::clone(&txn.shared),
            copies: Mutex::default(),
            error: LastError::default(),
        })
    };
    // SAFETY: by the contract of this function.
    unsafe { call::make(txn, cursor, open) }
}

/// Gives the handle back. Null is right.
///
/// # Safety
/// `cursor` is null or a handle that no call uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_close(cursor: *mut CursorHandle) {
    // SAFETY: `oneflush_mvbt_cursor_open` made it, and it is given back once.
    unsafe { call::take_back(cursor, |_| Ok(())) };
}

/// The message of the last call with this handle that failed. It stays until the next one.
///
/// # Safety
/// `cursor` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_error(cursor: *const CursorHandle) -> *const c_char {
    // SAFETY: by the contract of this function.
    unsafe { call::message(cursor) }
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
        check_kind(cursor, false)?;
        Ok(cursor.seek(source, Probe::Integer(key))?)
    };
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, Out::IfAsked(found), seek) }
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
    // SAFETY: by the contract of this function.
    unsafe {
        with_cursor(cursor, Out::IfAsked(found), |cursor, source| {
            check_kind(cursor, true)?;
            let compare = compare(function, context)?;
            Ok(cursor.seek(source, Probe::Record(&compare))?)
        })
    }
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
    unsafe { with_cursor(cursor, Out::Needed(is_on_cell), |cursor, _| Ok(cursor.is_on_cell())) }
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
        check_kind(cursor, false)?;
        cursor.integer_key(source)?.ok_or_else(|| misuse(NO_CELL))
    };
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, Out::Needed(key), ask) }
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
        cursor.payload_length(source)?.ok_or_else(|| misuse(NO_CELL))
    };
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, Out::Needed(length), ask) }
}

/// The cell of a cursor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Cell {
    /// In an integer tree. In a record tree it is 0.
    pub key: i64,
    /// How many bytes the payload has, or the record.
    pub length: u64,
    /// So many of its first bytes were copied.
    pub copied: usize,
}

/// All of a cell at once: its key, its length, and as many of its first bytes as the buffer takes
/// and as stand beside the key. A long payload has more: oneflush_mvbt_cursor_payload().
///
/// # Safety
/// `cursor` is null or a handle, `cell` may be written, and `buffer` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_cell(
    cursor: *const CursorHandle,
    cell: *mut Cell,
    buffer: *mut u8,
    capacity: usize,
) -> Code {
    let copy = |cursor: &mut Cursor, source: &dyn Source| {
        if buffer.is_null() && capacity > 0 {
            return Err(misuse("the buffer is null"));
        }
        let copied = cursor.with_cell(source, |key, length, local| {
            let copied = local.len().min(capacity);
            if copied > 0 {
                // SAFETY: there is room for so many bytes, and nobody else uses the buffer.
                unsafe { std::ptr::copy_nonoverlapping(local.as_ptr(), buffer, copied) };
            }
            Cell { key, length, copied }
        });
        copied?.ok_or_else(|| misuse(NO_CELL))
    };
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, Out::Needed(cell), copy) }
}

/// So many bytes behind those of a cell may be read. They mean nothing.
const READABLE_BEHIND: usize = 32;

/// A cell at or behind a cursor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CellAhead {
    /// In an integer tree. In a record tree it is 0.
    pub key: i64,
    /// How many bytes the payload has, or the record.
    pub length: u64,
    /// Its first bytes, those that stand beside the key, and how many they are. 32 bytes behind
    /// them may be read.
    pub local: *const u8,
    pub local_length: usize,
}

/// The cell on which the cursor stands and some of those behind it, without a copy where that can
/// be. The cursor stays: oneflush_mvbt_cursor_advance() moves it over them. `count` gets how many
/// there are, at least 1 and at most `capacity`. They stay until the cursor moves or is closed, or
/// this is called again. ONEFLUSH_MVBT_MISUSE: the cursor stands on no cell, or `capacity` is 0.
///
/// # Safety
/// `cursor` is null or a handle, `cells` has room for `capacity` cells, and `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_cells(
    cursor: *const CursorHandle,
    cells: *mut CellAhead,
    capacity: usize,
    count: *mut usize,
) -> Code {
    let list = |handle: &CursorHandle| {
        if cells.is_null() || capacity == 0 {
            return Err(misuse("there is no room for cells"));
        }
        let transaction = locked(&handle.transaction)?;
        let mut copies = locked(&handle.copies)?;
        copies.clear();
        // The copies, and where they begin: the bytes may move until all are copied.
        let mut copied: Vec<(usize, usize)> = Vec::new();
        let mut found = 0;
        locked(&handle.cursor)?.with_cells(transaction.reader()?.source(), |cell| {
            if !cell.is_held || cell.behind < READABLE_BEHIND {
                copied.push((found, copies.len()));
                copies.extend_from_slice(cell.local);
                copies.extend_from_slice(&[0; READABLE_BEHIND]);
            }
            let (local, local_length) = (cell.local.as_ptr(), cell.local.len());
            let ahead = CellAhead { key: cell.key, length: cell.length, local, local_length };
            // SAFETY: there is room for `capacity` cells, and `found` is less.
            unsafe { cells.add(found).write(ahead) };
            found += 1;
            found < capacity
        })?;
        for (index, from) in copied {
            // SAFETY: this cell was written a moment ago.
            unsafe { (*cells.add(index)).local = copies[from..].as_ptr() };
        }
        if found == 0 { Err(misuse(NO_CELL)) } else { Ok(found) }
    };
    // SAFETY: by the contract of this function.
    unsafe { call::with(cursor, Out::Needed(count), list) }
}

/// Goes forward over so many cells of those that oneflush_mvbt_cursor_cells() has listed, as by
/// oneflush_mvbt_cursor_next(). 0: it stays. ONEFLUSH_MVBT_MISUSE: its page has not so many.
///
/// # Safety
/// As oneflush_mvbt_cursor_first().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_advance(
    cursor: *mut CursorHandle,
    cells: usize,
    is_on_cell: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { move_it(cursor, is_on_cell, |cursor, source| cursor.advance(source, cells)) }
}

/// Goes back up to `most` cells, and no further than into one page. `moved` gets how many: 0 if the
/// cursor stands before the first cell now. oneflush_mvbt_cursor_cells() then lists those that it
/// has come by.
///
/// # Safety
/// `cursor` is null or a handle, and `moved` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_retreat(
    cursor: *mut CursorHandle,
    most: usize,
    moved: *mut usize,
) -> Code {
    let back = |cursor: &mut Cursor, source: &dyn Source| {
        if most == 0 {
            return Err(misuse("it goes back by one cell at least"));
        }
        Ok(cursor.retreat(source, most)?)
    };
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, Out::Needed(moved), back) }
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
    unsafe { with_cursor(cursor, Out::NOTHING, copy) }
}

/// About how many cells the tree has, from those of the pages between root and cursor. 0: the
/// cursor stands on no cell.
///
/// # Safety
/// `cursor` is null or a handle, and `cells` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_estimate(
    cursor: *const CursorHandle,
    cells: *mut u64,
) -> Code {
    let ask = |cursor: &mut Cursor, source: &dyn Source| Ok(cursor.estimate(source)?);
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, Out::Needed(cells), ask) }
}

/// Keeps the key on which the cursor stands, or a copy of the record. Call it before the tree is
/// changed: else oneflush_mvbt_cursor_restore() does not know what to look for. Until the cursor
/// moves, another call costs nothing.
///
/// # Safety
/// `cursor` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_save(cursor: *mut CursorHandle) -> Code {
    let save = |cursor: &mut Cursor, source: &dyn Source| Ok(cursor.save(source)?);
    // SAFETY: by the contract of this function.
    unsafe { with_cursor(cursor, Out::NOTHING, save) }
}

/// Goes back to the cell that was saved, or beside it. If the tree has not changed, this looks for
/// nothing. `function` orders the records of a record tree; for an integer tree it may be null.
/// `restored` may be null; it gets where the cursor stands. ONEFLUSH_MVBT_MISUSE: the tree has
/// changed, and the cursor was not saved before.
///
/// # Safety
/// `cursor` is null or a handle, `function` is null or may be called with `context`, and `restored`
/// is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_restore(
    cursor: *mut CursorHandle,
    function: OrderFunction,
    context: *mut c_void,
    restored: *mut Restored,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        with_cursor(cursor, Out::IfAsked(restored), |cursor, source| {
            let order = order(function, context);
            let order = order.as_ref().map(|order| order as Order<'_>);
            Ok(Restored::from(cursor.restore(source, order)?))
        })
    }
}

/// Takes out the cell on which the cursor stands. The cursor is saved before:
/// oneflush_mvbt_cursor_restore() puts it beside the cell. `function` as there.
/// ONEFLUSH_MVBT_MISUSE: it stands on no cell, or its own cell is gone.
///
/// # Safety
/// `cursor` is null or a handle, and `function` is null or may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_delete(
    cursor: *mut CursorHandle,
    function: OrderFunction,
    context: *mut c_void,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        change_at(cursor, |writer, cursor| {
            let order = order(function, context);
            let order = order.as_ref().map(|order| order as Order<'_>);
            Ok(writer.delete_at(cursor, order)?)
        })
    }
}

/// Puts another payload at the key on which the cursor stands, in an integer tree. The cursor is
/// saved before. `payload` may be null if `length` is 0. ONEFLUSH_MVBT_MISUSE: as
/// oneflush_mvbt_cursor_delete().
///
/// # Safety
/// `cursor` is null or a handle, and `payload` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_replace(
    cursor: *mut CursorHandle,
    payload: *const u8,
    length: usize,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        change_at(cursor, |writer, cursor| Ok(writer.replace_at(cursor, bytes(payload, length)?)?))
    }
}

/// Changes bytes of that payload from `offset` on. It keeps its length. All of it is read, and is
/// written anew. ONEFLUSH_MVBT_MISUSE: also where the bytes end behind the payload.
///
/// # Safety
/// As oneflush_mvbt_cursor_replace().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_cursor_overwrite(
    cursor: *mut CursorHandle,
    offset: u64,
    part: *const u8,
    length: usize,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        change_at(cursor, |writer, cursor| {
            Ok(writer.overwrite(cursor, offset, bytes(part, length)?)?)
        })
    }
}

fn check_kind(cursor: &Cursor, is_record: bool) -> Result<(), Failure> {
    match cursor.tree().is_record == is_record {
        true => Ok(()),
        false => Err(Error::WrongKind { tree: cursor.tree().id }.into()),
    }
}

const NO_CELL: &str = "the cursor stands on no cell";
