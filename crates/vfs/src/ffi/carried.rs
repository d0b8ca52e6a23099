//! A panic in a file of ours that stands in the place of one below. No panic crosses an
//! `extern "C"` function. So it is stopped there, and goes on behind it.

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use libsqlite3_sys as sqlite;

use crate::error::Code;

/// What stands for a panic in the answer of a file.
const PANICS: Code = Code(sqlite::SQLITE_IOERR | 0xff << 8);

thread_local! {
    static PANIC: Cell<Option<Box<dyn Any + Send>>> = const { Cell::new(None) };
}

/// Runs the body of a function that [`arrived`] hears the answer of.
pub fn carried(body: impl FnOnce() -> Result<(), Code>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result.map_or_else(|Code(code)| code, |()| sqlite::SQLITE_OK),
        Err(panic) => carry(panic),
    }
}

/// The answer that stands for this panic. The crash simulator's files give it, too.
pub fn carry(panic: Box<dyn Any + Send>) -> c_int {
    PANIC.set(Some(panic));
    PANICS.0
}

/// The answer of a file below.
#[inline]
pub fn arrived(code: c_int) -> Result<(), Code> {
    if code == sqlite::SQLITE_OK { Ok(()) } else { Err(failed(Code(code))) }
}

#[cold]
fn failed(code: Code) -> Code {
    if code == PANICS
        && let Some(panic) = PANIC.take()
    {
        resume_unwind(panic);
    }
    code
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_panic_goes_on_behind_the_function_that_it_may_not_cross() {
        extern "C" fn crossed(panics: bool) -> c_int {
            carried(|| if panics { resume_unwind(Box::new("here")) } else { Err(Code::FULL) })
        }
        assert_eq!(arrived(crossed(false)), Err(Code::FULL));
        let panic = catch_unwind(|| arrived(crossed(true))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"here"));
    }
}
