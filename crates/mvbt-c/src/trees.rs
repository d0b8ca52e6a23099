//! Trees, inserts and deletes, meta words.

use std::ffi::c_void;

use mvbt::{Error, META_WORDS, TreeId};

use crate::call::{Out, bytes, fill};
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
    let create =
        |transaction: &mut Transaction| Ok(transaction.writer()?.create_tree(is_record)?.0);
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::Needed(tree), create) }
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
    unsafe { with_transaction(txn, Out::NOTHING, drop_tree) }
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
    let clear =
        |transaction: &mut Transaction| Ok(transaction.writer()?.clear_tree(TreeId(tree))?);
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::IfAsked(cells), clear) }
}

/// How many cells a tree has. Reads all pages of the tree, but long payloads.
///
/// # Safety
/// `txn` is null or a handle, and `cells` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_tree_count(
    txn: *const TransactionHandle,
    tree: u32,
    cells: *mut u64,
) -> Code {
    let count = |transaction: &mut Transaction| Ok(transaction.reader()?.count(TreeId(tree))?);
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::Needed(cells), count) }
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
    // SAFETY: by the contract of this function.
    unsafe {
        with_transaction(txn, Out::Needed(count), |transaction| {
            let all = transaction.reader()?.trees()?;
            fill(trees, capacity, all.iter().map(|tree| tree.0))
        })
    }
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
        Ok(*word)
    };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::Needed(value), get) }
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
    unsafe { with_transaction(txn, Out::NOTHING, set) }
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
    let count = |transaction: &mut Transaction| Ok(transaction.reader()?.page_count()?);
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::Needed(pages), count) }
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
        with_transaction(txn, Out::IfAsked(replaced), |transaction| {
            let payload = bytes(payload, length)?;
            Ok(transaction.writer()?.insert(TreeId(tree), key, payload)?)
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
        with_transaction(txn, Out::IfAsked(replaced), |transaction| {
            let (record, compare) = (bytes(record, length)?, compare(function, context)?);
            Ok(transaction.writer()?.insert_record(TreeId(tree), record, &compare)?)
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
    let delete =
        |transaction: &mut Transaction| Ok(transaction.writer()?.delete(TreeId(tree), key)?);
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::IfAsked(found), delete) }
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
        with_transaction(txn, Out::IfAsked(found), |transaction| {
            let compare = compare(function, context)?;
            Ok(transaction.writer()?.delete_record(TreeId(tree), &compare)?)
        })
    }
}
