//! The functions of SQLite that the VFS calls.
//!
//! In a statically linked library they come from the linker. In the loadable extension they come
//! from the table that SQLite hands to the entry point. The table of an older host ends earlier
//! than the type of the bindings. So only fields are read that SQLite 3.40 already has.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use libsqlite3_sys as sqlite;
use oneflush_blocklog::messages;

// Where SQLite is the system's, libsqlite3-sys below 0.36 has no bindings for these.
pub(super) const SQLITE_FCNTL_CKPT_DONE: c_int = 37;
pub(super) const SQLITE_FCNTL_CKPT_START: c_int = 39;
pub(super) const SQLITE_OPEN_SUPER_JOURNAL: c_int = 0x4000;

/// The oldest SQLite that the VFS is tested with.
pub const LIBVERSION_NUMBER_MIN: c_int = 3_040_000;

/// One SQLite. A process may contain several, for example Python's own and APSW's. Each has its own
/// VFSs and its own allocator, so nothing here is global.
#[derive(Clone, Copy)]
pub struct Api {
    libversion_number: unsafe extern "C" fn() -> c_int,
    log: unsafe extern "C" fn(c_int, *const c_char, ...),
    malloc64: unsafe extern "C" fn(sqlite::sqlite3_uint64) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    vfs_find: unsafe extern "C" fn(*const c_char) -> *mut sqlite::sqlite3_vfs,
    vfs_register: unsafe extern "C" fn(*mut sqlite::sqlite3_vfs, c_int) -> c_int,
    // For connections of our own (`checkpoint.rs`).
    pub(super) open_v2: unsafe extern "C" fn(
        *const c_char,
        *mut *mut sqlite::sqlite3,
        c_int,
        *const c_char,
    ) -> c_int,
    pub(super) close: unsafe extern "C" fn(*mut sqlite::sqlite3) -> c_int,
    pub(super) errmsg: unsafe extern "C" fn(*mut sqlite::sqlite3) -> *const c_char,
    pub(super) exec: Exec,
    pub(super) db_name: unsafe extern "C" fn(*mut sqlite::sqlite3, c_int) -> *const c_char,
    pub(super) file_control:
        unsafe extern "C" fn(*mut sqlite::sqlite3, *const c_char, c_int, *mut c_void) -> c_int,
    pub(super) wal_checkpoint_v2: unsafe extern "C" fn(
        *mut sqlite::sqlite3,
        *const c_char,
        c_int,
        *mut c_int,
        *mut c_int,
    ) -> c_int,
}

type Exec = unsafe extern "C" fn(
    *mut sqlite::sqlite3,
    *const c_char,
    sqlite::sqlite3_callback,
    *mut c_void,
    *mut *mut c_char,
) -> c_int;

#[cfg(not(feature = "loadable"))]
pub fn linked() -> Api {
    Api {
        libversion_number: sqlite::sqlite3_libversion_number,
        log: sqlite::sqlite3_log,
        malloc64: sqlite::sqlite3_malloc64,
        free: sqlite::sqlite3_free,
        uri_parameter: sqlite::sqlite3_uri_parameter,
        vfs_find: sqlite::sqlite3_vfs_find,
        vfs_register: sqlite::sqlite3_vfs_register,
        open_v2: sqlite::sqlite3_open_v2,
        close: sqlite::sqlite3_close,
        errmsg: sqlite::sqlite3_errmsg,
        exec: sqlite::sqlite3_exec,
        db_name: sqlite::sqlite3_db_name,
        file_control: sqlite::sqlite3_file_control,
        wal_checkpoint_v2: sqlite::sqlite3_wal_checkpoint_v2,
    }
}

/// The API of the SQLite that loads the extension. None if the table lacks a function that is
/// needed.
///
/// # Safety
/// `routines` is the table that SQLite 3.39 or newer passed to the entry point.
#[cfg(feature = "loadable")]
pub unsafe fn loaded(routines: *const sqlite::sqlite3_api_routines) -> Option<Api> {
    // SAFETY: the caller passes SQLite's own table. Only single fields are read, through the raw
    // pointer. All of them lie in the part that SQLite 3.39 already had; the last, `db_name`, came
    // with that version.
    unsafe {
        Some(Api {
            libversion_number: (*routines).libversion_number?,
            log: (*routines).log?,
            malloc64: (*routines).malloc64?,
            free: (*routines).free?,
            uri_parameter: (*routines).uri_parameter?,
            vfs_find: (*routines).vfs_find?,
            vfs_register: (*routines).vfs_register?,
            open_v2: (*routines).open_v2?,
            close: (*routines).close?,
            errmsg: (*routines).errmsg?,
            exec: (*routines).exec?,
            db_name: (*routines).db_name?,
            file_control: (*routines).file_control?,
            wal_checkpoint_v2: (*routines).wal_checkpoint_v2?,
        })
    }
}

impl Api {
    /// True if both are the same SQLite.
    pub fn is(&self, other: &Api) -> bool {
        self.place() == other.place()
    }

    /// An address in this SQLite.
    pub fn place(&self) -> usize {
        self.vfs_register as usize
    }

    pub fn libversion_number(&self) -> c_int {
        // SAFETY: takes nothing and may be called at any time.
        unsafe { (self.libversion_number)() }
    }

    /// Writes a message to SQLite's error log (`SQLITE_CONFIG_LOG`), and to where `ONEFLUSH_LOG`
    /// says. In SQLite's log it may take several lines, because SQLite cuts a line at 210 bytes
    /// (`SQLITE_PRINT_BUF_SIZE`).
    pub fn log(&self, code: c_int, message: &str) {
        messages::say(message);
        let mut rest = message;
        while !rest.is_empty() {
            let line = first_line(rest);
            rest = rest[line.len()..].trim_start();
            let line = c_string(line);
            // SAFETY: the format takes one string and gets one, which SQLite copies before it
            // returns.
            unsafe { (self.log)(code, c"%s".as_ptr(), line.as_ptr()) }
        }
    }

    /// A copy of `text` that SQLite frees. Null if there is no memory for it.
    pub fn string(&self, text: &str) -> *mut c_char {
        let text = c_string(text);
        let bytes = text.as_bytes_with_nul();
        // SAFETY: the copy goes into memory of exactly its size.
        unsafe {
            let copy = (self.malloc64)(bytes.len() as u64).cast::<u8>();
            if !copy.is_null() {
                copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
            copy.cast()
        }
    }

    /// # Safety
    /// `text` came from SQLite's allocator, or is null.
    pub unsafe fn free(&self, text: *mut c_char) {
        // SAFETY: as the caller promises; null is allowed.
        unsafe { (self.free)(text.cast()) }
    }

    /// The value of a URI parameter. None if the parameter is not there.
    ///
    /// # Safety
    /// `name` is what `xOpen` got together with `SQLITE_OPEN_URI`.
    pub unsafe fn uri_parameter(&self, name: *const c_char, parameter: &CStr) -> Option<String> {
        // SAFETY: the parameters of a URI follow such a name. The answer lives as long as the name.
        unsafe {
            let value = (self.uri_parameter)(name, parameter.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
        }
    }

    /// The VFS of that name, or the default one. Null if there is none.
    pub fn vfs_find(&self, name: Option<&CStr>) -> *mut sqlite::sqlite3_vfs {
        // SAFETY: null asks for the default VFS. The call initialises SQLite if need be.
        unsafe { (self.vfs_find)(name.map_or(std::ptr::null(), CStr::as_ptr)) }
    }

    /// # Safety
    /// `vfs` and all that it points to stay where they are for the rest of the process.
    pub unsafe fn vfs_register(&self, vfs: *mut sqlite::sqlite3_vfs, default: bool) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { (self.vfs_register)(vfs, c_int::from(default)) }
    }
}

/// A text for SQLite ends at its first NUL.
fn c_string(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// As much of a message as SQLite logs in one line. It ends between two words if it has more than
/// one.
fn first_line(message: &str) -> &str {
    const BYTES_MAX: usize = 200;
    if message.len() <= BYTES_MAX {
        return message;
    }
    let end = (0..=BYTES_MAX).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(BYTES_MAX);
    let line = &message[..end];
    line.rfind(' ').filter(|&at| at > 0).map_or(line, |at| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::first_line;

    #[test]
    fn a_long_message_is_cut_between_words_and_nothing_of_it_is_lost() {
        let message = "ü1234567 ".repeat(100);
        let (mut rest, mut lines) = (message.as_str(), Vec::new());
        while !rest.is_empty() {
            let line = first_line(rest);
            assert!(!line.is_empty() && line.len() <= 200);
            lines.push(line);
            rest = rest[line.len()..].trim_start();
        }
        assert!(lines.len() > 4);
        assert_eq!(lines.join(" ").trim_end(), message.trim_end());
        assert_eq!(first_line(&"x".repeat(300)).len(), 200);
        assert_eq!(first_line("short"), "short");
    }
}
