//! Comparisons of records that the caller brings.

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
