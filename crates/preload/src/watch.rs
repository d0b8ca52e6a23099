//! Says that a database is opened by a SQLite that Oneflush is not in: built into the program, or
//! the second one of the process. With `oneflush run --require` it ends the process.
//!
//! So this library stands before the C library's `open`. An open is a SQLite's if all of these
//! hold:
//!
//! 1. the code that calls is in an object that has SQLite: the text of its schema table. Neither we
//!    nor the program itself have loaded Oneflush into that SQLite;
//! 2. the file is opened for writing, or by a name that may be no link (`O_NOFOLLOW`), as SQLite
//!    does since 3.31. A program that copies or serves databases does neither;
//! 3. the file begins as a database, or it is empty or not there and the flags are SQLite's. So a
//!    new database is known before anything is made of it.
//!
//! No descriptor is opened or closed here: a close would take SQLite's locks away. Programs whose
//! opens do not go through the C library are Go's. `oneflush run` looks at them before they start.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};

use crate::{caller, objects, say, serve};

/// At the beginning of each database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// How every SQLite since 3.20 describes its schema table to itself.
const OF_SQLITE: &[u8] = b"type text,name text,tbl_name text,rootpage int";
/// In each object that has Oneflush itself, as a program that links it.
const OF_ONEFLUSH: &[u8] = b"this SQLite has no default VFS to build on";
/// What `--require` ends a process with.
const REFUSED: c_int = 3;

const NEW: c_int = libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW;
const NEW_AMONG: c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_EXCL;

type Open = unsafe extern "C" fn(*const c_char, c_int, libc::mode_t) -> c_int;

static IS_ON: AtomicBool = AtomicBool::new(false);
static IS_REQUIRED: AtomicBool = AtomicBool::new(false);
/// Where an object begins that called last and has no SQLite.
static WITHOUT: AtomicUsize = AtomicUsize::new(0);
/// The functions that come after ours.
static OPEN: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static OPEN64: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

caller::with_caller! {
    /// # Safety
    /// As the C library's function of this name, which it passes the call on to.
    fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) => 3 open_small
}

caller::with_caller! {
    /// # Safety
    /// As the C library's function of this name, which it passes the call on to.
    fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) => 3 open_large
}

unsafe extern "C" fn open_small(
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
    caller: usize,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { opened(&OPEN, path, flags, mode, caller) }
}

unsafe extern "C" fn open_large(
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
    caller: usize,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { opened(&OPEN64, path, flags, mode, caller) }
}

pub fn at_start() {
    // SAFETY: the names end with a NUL.
    unsafe {
        let open = libc::dlsym(libc::RTLD_NEXT, c"open".as_ptr()).cast();
        let open64: *mut () = libc::dlsym(libc::RTLD_NEXT, c"open64".as_ptr()).cast();
        OPEN.store(open, Relaxed);
        OPEN64.store(if open64.is_null() { open } else { open64 }, Relaxed);
    }
    let is_set = |name| say::variable(name).is_some();
    IS_ON.store(is_set(c"ONEFLUSH_EXTENSION") || is_set(c"ONEFLUSH_SQLITE"), Relaxed);
    IS_REQUIRED.store(is_set(c"ONEFLUSH_RUN_REQUIRE"), Relaxed);
    if say::is_this_process(c"ONEFLUSH_RUN_TOLD") {
        say::is_known();
    }
}

/// # Safety
/// The arguments are those of `open`.
unsafe fn opened(
    next: &AtomicPtr<()>,
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
    caller: usize,
) -> c_int {
    let is_suspect = IS_ON.load(Relaxed)
        && (flags & libc::O_ACCMODE == libc::O_RDWR || flags & libc::O_NOFOLLOW != 0)
        && !serve::is_served(caller)
        && (IS_REQUIRED.load(Relaxed) || !say::is_said());
    let next = next.load(Relaxed);
    // SAFETY: the function after ours has this type; the arguments are the caller's. Before this
    // library has begun there is none, and the kernel is asked.
    let open = || unsafe {
        if next.is_null() {
            libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int
        } else {
            std::mem::transmute::<*mut (), Open>(next)(path, flags, mode)
        }
    };
    if !is_suspect {
        return open();
    }
    // SAFETY: the path is the caller's, who has to pass one that ends with a NUL.
    if flags & NEW_AMONG == NEW && unsafe { is_new(path) } {
        // SAFETY: the kernel has looked at the path.
        keeping_errno(|| unsafe { judge(path, caller) });
    }
    let file = open();
    if file >= 0 {
        keeping_errno(|| {
            if begins_as_a_database(file) {
                // SAFETY: the file was opened by this path.
                unsafe { judge(path, caller) }
            }
        });
    }
    file
}

fn keeping_errno(act: impl FnOnce()) {
    // SAFETY: the thread's own number.
    unsafe {
        let before = *errno();
        act();
        *errno() = before;
    }
}

/// # Safety
/// `path` is null or ends with a NUL.
unsafe fn is_new(path: *const c_char) -> bool {
    let mut stat = MaybeUninit::<libc::stat64>::zeroed();
    // SAFETY: zeros are a valid value; the kernel checks the path.
    let (answer, stat, error) = unsafe {
        let before = *errno();
        let answer = libc::lstat64(path, stat.as_mut_ptr());
        let error = *errno();
        *errno() = before;
        (answer, stat.assume_init(), error)
    };
    match answer {
        0 => stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_size == 0,
        _ => error == libc::ENOENT,
    }
}

fn begins_as_a_database(file: c_int) -> bool {
    let mut stat = MaybeUninit::<libc::stat64>::zeroed();
    let mut begin = [0; MAGIC.len()];
    // SAFETY: zeros are a valid value, and there are so many bytes. Devices are not read.
    unsafe {
        libc::fstat64(file, stat.as_mut_ptr()) == 0
            && stat.assume_init().st_mode & libc::S_IFMT == libc::S_IFREG
            && libc::pread64(file, begin.as_mut_ptr().cast(), begin.len(), 0) == 16
            && begin == *MAGIC
    }
}

/// # Safety
/// `path` ends with a NUL.
unsafe fn judge(path: *const c_char, caller: usize) {
    let all = objects::all();
    let Some(object) = all.iter().find(|object| object.contains(caller)) else { return };
    let start = object.range().start;
    if serve::is_served(caller) || WITHOUT.load(Relaxed) == start {
        return;
    }
    if !object.has_bytes(OF_SQLITE) || object.has_bytes(OF_ONEFLUSH) {
        WITHOUT.store(start, Relaxed);
        return;
    }
    if serve::is_loaded_by_the_program(&all, object.range()) {
        return;
    }
    let why = match serve::is_any_served() {
        true => "oneflush run serves another SQLite of this process, and only one",
        false => "a program with SQLite built in needs the extension: see oneflush run --help",
    };
    // SAFETY: as the caller promises.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    say::once(&format!(
        "{path} is opened by the SQLite in {}, and Oneflush is not in use there; {why} [OF-533]",
        object.path().display()
    ));
    if IS_REQUIRED.load(Relaxed) {
        say::line(&format!(
            "{} ends here, with exit code {REFUSED}: --require was given, and {path} is opened \
                without Oneflush [OF-536]",
            say::program()
        ));
        // SAFETY: ends the process at once. Its handlers must not go on with the database.
        unsafe { libc::_exit(REFUSED) }
    }
}

fn errno() -> *mut c_int {
    // SAFETY: the thread's own number, which is there as long as the thread.
    unsafe { libc::__errno_location() }
}
