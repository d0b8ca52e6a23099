//! Whether the program's SQLite is the one that `oneflush run --engine` wants it to have.
//!
//! A program may bring another one: by `DT_RPATH`, which the dynamic linker looks into first, or in
//! a library that has SQLite built in. Such a SQLite takes databases of LS-MVBT for damaged ones.

use std::ffi::{CStr, OsStr, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::sqlite;

pub fn check(wanted: &OsStr) -> Result<(), String> {
    let wanted = Path::new(wanted);
    let found = file_of(sqlite(c"sqlite3_open_v2")).unwrap_or_default();
    let real = |path: &Path| path.canonicalize().unwrap_or(path.to_owned());
    if real(&found) == real(wanted) {
        return Ok(());
    }
    Err(format!(
        "the program has a SQLite of its own, {}, and not {}, so --engine cannot be kept; run it \
            without --engine [OF-516]",
        found.display(),
        wanted.display()
    ))
}

/// The library or program that has this function.
fn file_of(function: *mut c_void) -> Option<PathBuf> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: zeros are a valid value, which is filled in if the address is known; the name ends
    // with a NUL and lives as long as the library.
    unsafe {
        if libc::dladdr(function, info.as_mut_ptr()) == 0 {
            return None;
        }
        let name = info.assume_init().dli_fname;
        (!name.is_null()).then(|| OsStr::from_bytes(CStr::from_ptr(name).to_bytes()).into())
    }
}
