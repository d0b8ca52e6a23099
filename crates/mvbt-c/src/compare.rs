//! Comparisons and orders of records that the caller brings.

use std::cmp::Ordering;
use std::ffi::{c_int, c_void};

use crate::call::{Failure, misuse};

/// Compares a stored record with the one that is sought, which the context leads to. Less than 0:
/// the stored one comes before it. 0: it is that. More than 0: it comes behind it. The record is
/// there until the function returns. It may be called from no other thread than the one that
/// calls. It must not leave by longjmp() or an exception.
pub type CompareFunction =
    Option<unsafe extern "C" fn(context: *mut c_void, record: *const u8, length: usize) -> c_int>;

/// As the engine asks.
///
/// # Safety
/// The function may be called with the context until the result is dropped.
pub unsafe fn compare(
    function: CompareFunction,
    context: *mut c_void,
) -> Result<impl Fn(&[u8]) -> Ordering, Failure> {
    let function = function.ok_or_else(|| misuse("the comparison is null"))?;
    Ok(move |record: &[u8]| {
        // SAFETY: by the contract of this function; the record outlives the call.
        unsafe { function(context, record.as_ptr(), record.len()) }.cmp(&0)
    })
}

/// Compares two records. Less than 0: `a` comes before `b`. 0: they are equal. More than 0: `a`
/// comes behind `b`. Otherwise as oneflush_mvbt_compare.
pub type OrderFunction = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        a: *const u8,
        a_length: usize,
        b: *const u8,
        b_length: usize,
    ) -> c_int,
>;

/// As the engine asks. None: the caller gives none.
///
/// # Safety
/// The function may be called with the context until the result is dropped.
pub unsafe fn order(
    function: OrderFunction,
    context: *mut c_void,
) -> Option<impl Fn(&[u8], &[u8]) -> Ordering> {
    function.map(|function| {
        move |a: &[u8], b: &[u8]| {
            // SAFETY: by the contract of this function; the records outlive the call.
            unsafe { function(context, a.as_ptr(), a.len(), b.as_ptr(), b.len()) }.cmp(&0)
        }
    })
}
