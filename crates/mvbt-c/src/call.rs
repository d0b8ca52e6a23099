//! What every call does. No panic leaves it, and a failure leaves its message in the handle.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use mvbt::Error;

use crate::code::Code;

/// Why a call fails.
pub struct Failure {
    pub code: Code,
    pub text: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { code: Code::of(&error), text: error.to_string() }
    }
}

pub fn misuse(text: &str) -> Failure {
    Failure { code: Code::ONEFLUSH_MVBT_MISUSE, text: text.to_owned() }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = format!("a fault of the library: {}", words.unwrap_or("it panicked"));
    Failure { code: Code::ONEFLUSH_MVBT_INTERNAL, text }
}

/// Where a message stands until the next failure.
#[derive(Default)]
pub struct LastError(Mutex<CString>);

impl LastError {
    fn note(&self, text: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = c_text(text);
    }

    /// "" before the first failure.
    pub fn text(&self) -> *const c_char {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ptr()
    }
}

/// As C has it: without what follows a zero.
pub fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

thread_local! {
    /// Of a call that makes no handle if it fails.
    static OPEN_ERROR: RefCell<CString> = RefCell::default();
}

/// The message of the last oneflush_mvbt_create(), _open() or _close() of this thread that failed;
/// "" if none has. It stays until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn oneflush_mvbt_open_error() -> *const c_char {
    OPEN_ERROR.with(|error| error.try_borrow().map_or(c"".as_ptr(), |error| error.as_ptr()))
}

/// Runs a call without a handle.
pub fn without_handle(work: impl FnOnce() -> Result<(), Failure>) -> Code {
    answer(work, |text| OPEN_ERROR.with(|error| *error.borrow_mut() = c_text(text)))
}

/// Runs a call with a handle. Null is misuse.
///
/// # Safety
/// `handle` is null or leads to a handle that is not given back before this returns.
pub unsafe fn with<H>(
    handle: *const H,
    error: impl FnOnce(&H) -> &LastError,
    work: impl FnOnce(&H) -> Result<(), Failure>,
) -> Code {
    // SAFETY: by the contract of this function.
    match unsafe { handle.as_ref() } {
        Some(handle) => answer(|| work(handle), |text| error(handle).note(text)),
        None => Code::ONEFLUSH_MVBT_MISUSE,
    }
}

fn answer(work: impl FnOnce() -> Result<(), Failure>, note: impl FnOnce(&str)) -> Code {
    // What a panic leaves half done is behind a lock, which is poisoned then.
    let done = catch_unwind(AssertUnwindSafe(work));
    match done.unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(()) => Code::ONEFLUSH_MVBT_OK,
        Err(failure) => {
            note(&failure.text);
            failure.code
        }
    }
}

/// What a handle guards. Nobody waits: whoever comes second, or out of a comparison, is told so.
pub fn locked<T>(lock: &Mutex<T>) -> Result<MutexGuard<'_, T>, Failure> {
    match lock.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::WouldBlock) => {
            let text = "another call uses this transaction just now".to_owned();
            Err(Failure { code: Code::ONEFLUSH_MVBT_BUSY, text })
        }
        Err(TryLockError::Poisoned(_)) => {
            let text = "an earlier call had a fault of the library; close the handle".to_owned();
            Err(Failure { code: Code::ONEFLUSH_MVBT_INTERNAL, text })
        }
    }
}

/// Writes an answer.
///
/// # Safety
/// `out` is null or may be written.
pub unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(misuse("a pointer for the answer is null"));
    }
    // SAFETY: by the contract of this function; it need not hold a value yet.
    unsafe { out.write(value) };
    Ok(())
}

/// The same where the caller need not ask.
///
/// # Safety
/// `out` is null or may be written.
pub unsafe fn put_if_asked<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: by the contract of this function.
        unsafe { out.write(value) };
    }
}

/// Bytes that the caller gives. Null is right for none.
///
/// # Safety
/// `bytes` is null or leads to `length` bytes that do not change while the result lives.
pub unsafe fn bytes<'a>(bytes: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    match (bytes.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(misuse("bytes are null, and their length is not 0")),
        // No allocation is longer (the documentation of `from_raw_parts`).
        (false, length) if length > isize::MAX as usize => Err(misuse("a length is impossible")),
        // SAFETY: by the contract of this function.
        (false, length) => Ok(unsafe { std::slice::from_raw_parts(bytes, length) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Handle {
        state: Mutex<u32>,
        error: LastError,
    }

    #[test]
    fn a_panic_is_an_answer_and_poisons_the_handle() {
        let handle = Handle::default();
        let call = |work: &dyn Fn(&mut u32)| {
            let change = |handle: &Handle| {
                work(&mut *locked(&handle.state)?);
                Ok(())
            };
            // SAFETY: the handle outlives the call.
            unsafe { with(&raw const handle, |handle| &handle.error, change) }
        };
        assert_eq!(call(&|state| *state = 1), Code::ONEFLUSH_MVBT_OK);
        assert_eq!(call(&|_| panic!("not\0thought of")), Code::ONEFLUSH_MVBT_INTERNAL);
        // SAFETY: the text stays until the next failure.
        let text = unsafe { std::ffi::CStr::from_ptr(handle.error.text()) };
        assert_eq!(text, c"a fault of the library: not");
        assert_eq!(call(&|state| *state = 2), Code::ONEFLUSH_MVBT_INTERNAL);
    }
}
