//! Trees, inserts and deletes, meta words.

use std::ffi::c_void;

use mvbt::{Error, META_WORDS, TreeId};

use crate::call::{bytes, misuse, put, put_if_asked};
use crate::code::Code;
use crate::compare::{CompareFunction, compare};
use crate::transaction::{Transaction, TransactionHandle, with_transaction};

/// Makes a tree: of records, or of integer keys. Answers its number, which it keeps.
///
/// # Safety
/// `txn` is null or a handle, and `tree` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_tree_create(
    txn: *mut TransactionHandle,
    is_record: bool,
    tree: *mut u32,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        with_transaction(txn, |transaction| {
            let writer = transaction.writer()?;
            put(tree, 0)?;
            put(tree, writer.create_tree(is_record)?.0)
        })
    }
}

/// Removes a tree and all that is in it.
///
/// # Safety
/// `txn` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_tree_drop(txn: *mut TransactionHandle, tree: u32) -> Code {
    let drop_tree =
        |transaction: &mut Transaction| Ok(transaction.writer()?.drop_tree(TreeId(tree))?);
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, drop_tree) }
}

/// Takes all cells out of a tree. `cells` may be null; it gets how many there were.
///
/// # Safety
/// `txn` is null or a handle, and `cells` null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_tree_clear(
    txn: *mut TransactionHandle,
    tree: u32,
    cells: *mut u64,
) -> Code {
    let clear = |transaction: &mut Transaction| {
        let count = transaction.writer()?.clear_tree(TreeId(tree))?;
        // SAFETY: by the contract of this function.
        unsafe { put_if_asked(cells, count) };
        Ok(())
    };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, clear) }
}

/// The numbers of all trees, in order. `count` gets how many there are, also if that is more than
/// `capacity`: then `trees` has the first ones. `trees` may be null if `capacity` is 0.
///
/// # Safety
/// `txn` is null or a handle, `trees` has room for `capacity` numbers, and `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_tree_list(
    txn: *const TransactionHandle,
    trees: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> Code {
    let list = |transaction: &mut Transaction| {
        let all = transaction.reader()?.trees()?;
        if trees.is_null() && capacity > 0 {
            return Err(misuse("the trees are null, and their capacity is not 0"));
        }
        for (index, tree) in all.iter().take(capacity).enumerate() {
            // SAFETY: there is room for `capacity` numbers, and `index` is less.
            unsafe { trees.add(index).write(tree.0) };
        }
        // SAFETY: by the contract of this function.
        unsafe { put(count, all.len()) }
    };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, list) }
}

/// One of 16 words that the database keeps for you: `index` from 0. New ones are 0.
///
/// # Safety
/// `txn` is null or a handle, and `value` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_meta_get(
    txn: *const TransactionHandle,
    index: u32,
    value: *mut u32,
) -> Code {
    let get = |transaction: &mut Transaction| {
        let words: [u32; META_WORDS] = transaction.reader()?.meta()?;
        let word = words.get(index as usize).ok_or(Error::Misuse { what: "there are 16 words" })?;
        // SAFETY: by the contract of this function.
        unsafe { put(value, *word) }
    };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, get) }
}

/// Changes one of these words.
///
/// # Safety
/// `txn` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_meta_set(
    txn: *mut TransactionHandle,
    index: u32,
    value: u32,
) -> Code {
    let set = |transaction: &mut Transaction| {
        Ok(transaction.writer()?.set_meta(index as usize, value)?)
    };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, set) }
}

/// How many pages the database has, used and free.
///
/// # Safety
/// `txn` is null or a handle, and `pages` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_page_count(
    txn: *const TransactionHandle,
    pages: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, |transaction| put(pages, transaction.reader()?.page_count()?)) }
}

/// Puts a payload at a key. `replaced` may be null; it gets whether something was there. `payload`
/// may be null if `length` is 0.
///
/// # Safety
/// `txn` is null or a handle, `payload` has `length` bytes, and `replaced` is null or may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_insert_integer(
    txn: *mut TransactionHandle,
    tree: u32,
    key: i64,
    payload: *const u8,
    length: usize,
    replaced: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        with_transaction(txn, |transaction| {
            let payload = bytes(payload, length)?;
            let was_there = transaction.writer()?.insert(TreeId(tree), key, payload)?;
            put_if_asked(replaced, was_there);
            Ok(())
        })
    }
}

/// Puts a record where the comparison says, in the place of one that is equal to it.
///
/// # Safety
/// As oneflush_mvbt_insert_integer(), and `function` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_insert_record(
    txn: *mut TransactionHandle,
    tree: u32,
    record: *const u8,
    length: usize,
    function: CompareFunction,
    context: *mut c_void,
    replaced: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        with_transaction(txn, |transaction| {
            let (record, compare) = (bytes(record, length)?, compare(function, context)?);
            let writer = transaction.writer()?;
            let was_there = writer.insert_record(TreeId(tree), record, &compare)?;
            put_if_asked(replaced, was_there);
            Ok(())
        })
    }
}

/// Takes out the cell at a key. `found` may be null; it gets whether it was there.
///
/// # Safety
/// `txn` is null or a handle, and `found` null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_delete_integer(
    txn: *mut TransactionHandle,
    tree: u32,
    key: i64,
    found: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        with_transaction(txn, |transaction| {
            put_if_asked(found, transaction.writer()?.delete(TreeId(tree), key)?);
            Ok(())
        })
    }
}

/// Takes out the record that the comparison finds equal.
///
/// # Safety
/// As oneflush_mvbt_delete_integer(), and `function` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_delete_record(
    txn: *mut TransactionHandle,
    tree: u32,
    function: CompareFunction,
    context: *mut c_void,
    found: *mut bool,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        with_transaction(txn, |transaction| {
            let compare = compare(function, context)?;
            let was_there = transaction.writer()?.delete_record(TreeId(tree), &compare)?;
            put_if_asked(found, was_there);
            Ok(())
        })
    }
}
