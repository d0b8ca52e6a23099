//! What every call does. No panic leaves it, and a failure leaves its message in the handle.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
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

/// The message of the last oneflush_mvbt_create(), _make(), _open() or _close() of this thread
/// that failed; "" if none has. It stays until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn oneflush_mvbt_open_error() -> *const c_char {
    OPEN_ERROR.with(|error| error.try_borrow().map_or(c"".as_ptr(), |error| error.as_ptr()))
}

/// Where the answer of a call goes. After a failure it is not written.
#[derive(Clone, Copy)]
pub enum Out<T> {
    /// Null is misuse, and then nothing is done.
    Needed(*mut T),
    /// Null is right.
    IfAsked(*mut T),
}

impl Out<()> {
    /// Of a call that answers nothing but its code.
    pub const NOTHING: Out<()> = Out::IfAsked(std::ptr::null_mut());
}

/// What C has a pointer to. Any thread may use it.
pub trait Handle: Send + Sync {
    /// The message of a null pointer.
    const NULL: &CStr;

    fn error(&self) -> &LastError;
}

/// Runs a call without a handle.
///
/// # Safety
/// `out` is null or may be written.
pub unsafe fn without_handle<T: Copy>(
    out: Out<T>,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Code {
    let note = |text: &str| OPEN_ERROR.with(|error| *error.borrow_mut() = c_text(text));
    // SAFETY: by the contract of this function.
    unsafe { answer(out, work, note) }
}

/// Runs a call with a handle. Null is misuse.
///
/// # Safety
/// `handle` is null or leads to a handle that is not given back before this returns. `out` is null
/// or may be written.
pub unsafe fn with<H: Handle, T: Copy>(
    handle: *const H,
    out: Out<T>,
    work: impl FnOnce(&H) -> Result<T, Failure>,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        match handle.as_ref() {
            Some(handle) => answer(out, || work(handle), |text| handle.error().note(text)),
            None => Code::ONEFLUSH_MVBT_MISUSE,
        }
    }
}

/// Runs a call that makes a handle with another one. After a failure `*new` is null.
///
/// # Safety
/// As `with`: `new` is null or may be written.
pub unsafe fn make<H: Handle, N: Handle>(
    handle: *const H,
    new: *mut *mut N,
    work: impl FnOnce(&H) -> Result<N, Failure>,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with(handle, emptied(new), |handle| Ok(boxed(work(handle)?))) }
}

/// Where a handle goes. It is null until then.
///
/// # Safety
/// `new` is null or may be written.
pub unsafe fn emptied<N>(new: *mut *mut N) -> Out<*mut N> {
    if !new.is_null() {
        // SAFETY: by the contract of this function; it need not hold a value yet.
        unsafe { new.write(std::ptr::null_mut()) };
    }
    Out::Needed(new)
}

/// The pointer that C gets, until `take_back`.
pub fn boxed<H: Handle>(handle: H) -> *mut H {
    Box::into_raw(Box::new(handle))
}

/// Takes a handle back. Null is right.
///
/// # Safety
/// `handle` is null, or `boxed` has made it and no call uses it, now or later.
pub unsafe fn take_back<H: Handle>(
    handle: *mut H,
    end: impl FnOnce(H) -> Result<(), Failure>,
) -> Code {
    let take = || match handle.is_null() {
        true => Ok(()),
        // SAFETY: by the contract of this function.
        false => end(*unsafe { Box::from_raw(handle) }),
    };
    // SAFETY: nothing is written.
    unsafe { without_handle(Out::NOTHING, take) }
}

/// The message of the last call with a handle that failed.
///
/// # Safety
/// `handle` is null or leads to a handle.
pub unsafe fn message<H: Handle>(handle: *const H) -> *const c_char {
    // SAFETY: by the contract of this function.
    unsafe { handle.as_ref() }.map_or(H::NULL.as_ptr(), |handle| handle.error().text())
}

/// # Safety
/// `out` is null or may be written.
unsafe fn answer<T: Copy>(
    out: Out<T>,
    work: impl FnOnce() -> Result<T, Failure>,
    note: impl FnOnce(&str),
) -> Code {
    let work = || match out {
        Out::Needed(to) if to.is_null() => Err(misuse("a pointer for the answer is null")),
        _ => work(),
    };
    // What a panic leaves half done is behind a lock, which is poisoned then.
    let done = catch_unwind(AssertUnwindSafe(work));
    match done.unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(value) => {
            let (Out::Needed(to) | Out::IfAsked(to)) = out;
            if !to.is_null() {
                // SAFETY: by the contract of this function; it need not hold a value yet.
                unsafe { to.write(value) };
            }
            Code::ONEFLUSH_MVBT_OK
        }
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
            let text = "another call uses this handle or its transaction just now".to_owned();
            Err(Failure { code: Code::ONEFLUSH_MVBT_BUSY, text })
        }
        Err(TryLockError::Poisoned(_)) => {
            let text = "an earlier call had a fault of the library; close the handle".to_owned();
            Err(Failure { code: Code::ONEFLUSH_MVBT_INTERNAL, text })
        }
    }
}

/// Writes as many of them as there is room for. Answers how many there are.
///
/// # Safety
/// `to` is null or has room for `capacity` of them.
pub unsafe fn fill<T>(
    to: *mut T,
    capacity: usize,
    all: impl ExactSizeIterator<Item = T>,
) -> Result<usize, Failure> {
    if to.is_null() && capacity > 0 {
        return Err(misuse("the list is null, and its capacity is not 0"));
    }
    let count = all.len();
    for (index, one) in all.take(capacity).enumerate() {
        // SAFETY: there is room for `capacity` of them, and `index` is less.
        unsafe { to.add(index).write(one) };
    }
    Ok(count)
}

/// The path that the caller gives.
///
/// # Safety
/// `path` is null or a text that ends with a zero, and does not change while the result lives.
pub unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path, Failure> {
    if path.is_null() {
        return Err(misuse("the path is null"));
    }
    // SAFETY: by the contract of this function.
    let text = unsafe { CStr::from_ptr(path) };
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
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
    struct Number {
        state: Mutex<u32>,
        error: LastError,
    }

    impl Handle for Number {
        const NULL: &CStr = c"the number is null";

        fn error(&self) -> &LastError {
            &self.error
        }
    }

    fn call<T: Copy>(number: &Number, out: Out<T>, work: impl FnOnce(&mut u32) -> T) -> Code {
        // SAFETY: the number outlives the call, and so does what is written.
        unsafe { with(&raw const *number, out, |one| Ok(work(&mut *locked(&one.state)?))) }
    }

    #[test]
    fn a_panic_is_an_answer_and_poisons_the_handle() {
        let number = Number::default();
        assert_eq!(call(&number, Out::NOTHING, |state| *state = 1), Code::ONEFLUSH_MVBT_OK);
        let code = call(&number, Out::NOTHING, |_| panic!("not\0thought of"));
        assert_eq!(code, Code::ONEFLUSH_MVBT_INTERNAL);
        // SAFETY: the text stays until the next failure.
        let text = unsafe { CStr::from_ptr(message(&raw const number)) };
        assert_eq!(text, c"a fault of the library: not");
        let code = call(&number, Out::NOTHING, |state| *state = 2);
        assert_eq!(code, Code::ONEFLUSH_MVBT_INTERNAL);
    }

    #[test]
    fn a_call_without_a_place_for_its_answer_does_nothing() {
        let (number, null) = (Number::default(), std::ptr::null_mut());
        let add = |state: &mut u32| {
            *state += 1;
            *state
        };
        assert_eq!(call(&number, Out::Needed(null), add), Code::ONEFLUSH_MVBT_MISUSE);
        assert_eq!(call(&number, Out::IfAsked(null), add), Code::ONEFLUSH_MVBT_OK);
        let mut answer = 0;
        assert_eq!(call(&number, Out::Needed(&raw mut answer), add), Code::ONEFLUSH_MVBT_OK);
        assert_eq!(answer, 2);
    }
}
