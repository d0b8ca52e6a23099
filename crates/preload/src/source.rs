//! The shell of SQLite takes only a library of the source that it was built from: it compares
//! `sqlite3_sourceid()` with its own before it does anything. `oneflush shell` gives it a newer
//! library, and says by `ONEFLUSH_SHELL_SOURCE` what the shell was built from. What the shell calls
//! besides is the public interface, which newer libraries keep.

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use crate::sqlite::used_by;

type SourceId = unsafe extern "C" fn() -> *const c_char;

/// # Safety
/// As SQLite's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_sourceid() -> *const c_char {
    static WANTED: OnceLock<Option<CString>> = OnceLock::new();
    let wanted = WANTED
        .get_or_init(|| CString::new(std::env::var_os("ONEFLUSH_SHELL_SOURCE")?.as_bytes()).ok());
    if let Some(wanted) = wanted {
        return wanted.as_ptr();
    }
    const NAME: &std::ffi::CStr = c"sqlite3_sourceid";
    // Nobody passes a handle here, so that of another SQLite does no harm.
    match used_by(0, NAME).and_then(|sqlite| sqlite.function(NAME)) {
        // SAFETY: the symbol has SQLite's documented type.
        Some(function) => unsafe { std::mem::transmute::<usize, SourceId>(function)() },
        None => c"".as_ptr(),
    }
}
