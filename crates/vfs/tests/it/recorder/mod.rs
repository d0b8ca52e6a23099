//! A VFS over "unix" that notes every call with its arguments and its answer, and passes it on.

// A test instrument: every pointer below is SQLite's own, passed on as it came.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, Once};

use rusqlite::ffi as sqlite;

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
static BELOW: Mutex<usize> = Mutex::new(0);

#[repr(C)]
struct Recorded {
    methods: *const sqlite::sqlite3_io_methods,
    id: usize,
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Registers the recorder, and our VFS over it. The recorder is global, so the tests of a program
/// take turns.
pub fn begin() -> MutexGuard<'static, ()> {
    static ONCE: Once = Once::new();
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    ONCE.call_once(|| {
        register();
        oneflush_vfs::register().unwrap();
    });
    guard
}

/// Takes what was noted so far.
pub fn take() -> Vec<String> {
    std::mem::take(&mut LOG.lock().unwrap())
}

fn note(line: String) {
    LOG.lock().unwrap().push(line);
}

fn unix() -> *mut sqlite::sqlite3_vfs {
    *BELOW.lock().unwrap() as *mut sqlite::sqlite3_vfs
}

unsafe fn real(file: *mut sqlite::sqlite3_file) -> *mut sqlite::sqlite3_file {
    unsafe { file.byte_add(size_of::<Recorded>()) }
}

unsafe fn base_name(name: *const c_char) -> String {
    if name.is_null() {
        return "-".to_owned();
    }
    let path = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A method that is noted, with its answer and with the arguments that can be compared between two
/// runs.
macro_rules! method {
    ($name:ident, $method:ident, ($($argument:ident: $type:ty),*) $show:expr) => {
        unsafe extern "C" fn $name(
            file: *mut sqlite::sqlite3_file
            $(, $argument: $type)*
        ) -> c_int {
            unsafe {
                let below = real(file);
                let code = (*(*below).pMethods).$method.unwrap()(below $(, $argument)*);
                note(format!("{} {} {} = \
                    {code}", stringify!($method), (*file.cast::<Recorded>()).id, $show));
                code
            }
        }
    };
}

method!(close, xClose, () "");
method!(
    read, xRead,
    (buffer: *mut c_void, amount: c_int, offset: i64) format!("{amount}@{offset}")
);
method!(
    write, xWrite,
    (data: *const c_void, amount: c_int, offset: i64) format!("{amount}@{offset}")
);
method!(truncate, xTruncate, (size: i64) size);
method!(sync, xSync, (flags: c_int) flags);
method!(file_size, xFileSize, (size: *mut i64) *size);
method!(lock, xLock, (level: c_int) level);
method!(unlock, xUnlock, (level: c_int) level);
method!(check_reserved, xCheckReservedLock, (result: *mut c_int) *result);
method!(control, xFileControl, (op: c_int, argument: *mut c_void) op);
method!(sector_size, xSectorSize, () "");
method!(characteristics, xDeviceCharacteristics, () "");
method!(
    shm_map, xShmMap,
    (page: c_int, size: c_int, extend: c_int, result: *mut *mut c_void)
    format!("{page} {size} {extend}")
);
method!(shm_lock, xShmLock, (offset: c_int, n: c_int, flags: c_int) format!("{offset} {n} \
    {flags}"));
method!(shm_unmap, xShmUnmap, (delete: c_int) delete);
method!(
    fetch, xFetch,
    (offset: i64, amount: c_int, result: *mut *mut c_void)
    format!("{amount}@{offset} {}", (*result).is_null())
);
method!(unfetch, xUnfetch, (offset: i64, page: *mut c_void) format!("{offset} {}", page.is_null()));

unsafe extern "C" fn shm_barrier(file: *mut sqlite::sqlite3_file) {
    unsafe {
        let below = real(file);
        (*(*below).pMethods).xShmBarrier.unwrap()(below);
        note(format!("xShmBarrier {}", (*file.cast::<Recorded>()).id));
    }
}

static METHODS: sqlite::sqlite3_io_methods = sqlite::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

unsafe extern "C" fn open(
    _: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    unsafe {
        let code = (*unix()).xOpen.unwrap()(unix(), name, real(file), flags, flags_out);
        let id = LOG.lock().unwrap().iter().filter(|line| line.starts_with("xOpen")).count();
        note(format!("xOpen {} {flags:x} -> file {id} = {code}", base_name(name)));
        let recorded = file.cast::<Recorded>();
        (*recorded).id = id;
        (*recorded).methods =
            if (*real(file)).pMethods.is_null() { std::ptr::null() } else { &METHODS };
        code
    }
}

unsafe extern "C" fn delete(
    _: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
    sync_dir: c_int,
) -> c_int {
    unsafe {
        let code = (*unix()).xDelete.unwrap()(unix(), name, sync_dir);
        note(format!("xDelete {} {sync_dir} = {code}", base_name(name)));
        code
    }
}

unsafe extern "C" fn access(
    _: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    result: *mut c_int,
) -> c_int {
    unsafe {
        let code = (*unix()).xAccess.unwrap()(unix(), name, flags, result);
        note(format!("xAccess {} {flags} {} = {code}", base_name(name), *result));
        code
    }
}

/// Registers the recorder as `recorder` and as the default, so that the VFS under test is built on
/// it.
fn register() {
    unsafe {
        let unix = sqlite::sqlite3_vfs_find(c"unix".as_ptr());
        assert!(!unix.is_null());
        *BELOW.lock().unwrap() = unix as usize;
        let mut vfs = *unix;
        vfs.zName = CString::new("unix-recorder").unwrap().into_raw();
        vfs.szOsFile += size_of::<Recorded>() as c_int;
        vfs.pNext = std::ptr::null_mut();
        vfs.xOpen = Some(open);
        vfs.xDelete = Some(delete);
        vfs.xAccess = Some(access);
        assert_eq!(
            sqlite::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 1),
            sqlite::SQLITE_OK
        );
    }
}
