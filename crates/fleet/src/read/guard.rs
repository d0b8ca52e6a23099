//! Damaged files can make the Parquet library panic. Here that is an error like others, and nothing
//! is printed.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use parquet::errors::ParquetError;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What `read` gives back. What it leaves half done must not be used after an error.
pub(super) fn guarded<T>(
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, ParquetError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                loud(info);
            }
        }));
    });
    IS_GUARDED.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(read));
    IS_GUARDED.set(false);
    done.unwrap_or_else(|_| Err(ParquetError::General("it is damaged".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(guarded(|| Ok(7)).unwrap(), 7);
        let error = guarded::<()>(|| panic!("column start must not be negative")).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
        assert_eq!(guarded(|| Ok(8)).unwrap(), 8);
    }
}
