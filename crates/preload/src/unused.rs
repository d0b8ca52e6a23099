//! At the end of a program that opened no database through `libsqlite3.so`: a word on standard
//! error, since Oneflush was asked for.
//!
//! Only the process that `oneflush run` became says it, and only if it started no other process:
//! that one may have opened databases. It is said where Oneflush's messages go to standard error,
//! and descriptor 2 is still what it was at the start.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed};

/// The process that is to say it; 0: none.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
static USED: AtomicBool = AtomicBool::new(false);
static FORKED: AtomicBool = AtomicBool::new(false);
/// Device and inode of descriptor 2.
static STDERR: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

// SAFETY: the section holds functions of this type, which run once the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

// SAFETY: the section holds functions of this type, which run in `exit()`.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

/// A database is being opened.
pub fn is_used() {
    USED.store(true, Relaxed);
}

extern "C" fn at_start() {
    // SAFETY: has no preconditions.
    let process = unsafe { libc::getpid() };
    if variable(c"ONEFLUSH_RUN_PID")
        .is_some_and(|pid| pid.to_bytes() == process.to_string().as_bytes())
    {
        let [device, inode] = stderr();
        STDERR[0].store(device, Relaxed);
        STDERR[1].store(inode, Relaxed);
        // SAFETY: the function lives as long as this library, which stays loaded.
        unsafe { libc::pthread_atfork(None, Some(forked), None) };
        PROGRAM.store(process, Relaxed);
    }
}

unsafe extern "C" fn forked() {
    FORKED.store(true, Relaxed);
}

extern "C" fn at_end() {
    // SAFETY: has no preconditions.
    let is_program = PROGRAM.load(Relaxed) == unsafe { libc::getpid() };
    let is_known = stderr() == [STDERR[0].load(Relaxed), STDERR[1].load(Relaxed)];
    let is_wanted = variable(c"ONEFLUSH_LOG")
        .is_some_and(|word| word.to_bytes().eq_ignore_ascii_case(b"stderr"));
    if !is_program
        || USED.load(Relaxed)
        || FORKED.load(Relaxed)
        || had_children()
        || !is_known
        || !is_wanted
        || !takes_a_line()
    {
        return;
    }
    let name = std::env::args_os().next().unwrap_or_default();
    let line = format!(
        "oneflush run: {} opened no database through libsqlite3.so, so Oneflush was not in use; \
         a program with SQLite built in needs the extension: see oneflush run --help [OF-507]\n",
        name.to_string_lossy()
    );
    // SAFETY: the bytes are the line's. Nobody is left to tell of an error.
    let _ = unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// A line that would have to wait is not said, and one without readers would change how the program
/// ends (`SIGPIPE`).
fn takes_a_line() -> bool {
    let mut polled = libc::pollfd { fd: 2, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one element, which lives.
    let count = unsafe { libc::poll(&mut polled, 1, 0) };
    count == 1 && polled.revents == libc::POLLOUT
}

/// Programs start others without a call of `fork()`, too (`vfork`, `posix_spawn`); most wait for
/// them.
fn had_children() -> bool {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: zeros are a valid value, which the kernel replaces.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_maxrss > 0
}

fn stderr() -> [u64; 2] {
    let mut stat = MaybeUninit::<libc::stat64>::zeroed();
    // SAFETY: zeros are a valid value, which the kernel replaces if the descriptor is open.
    let stat = unsafe {
        libc::fstat64(2, stat.as_mut_ptr());
        stat.assume_init()
    };
    [stat.st_dev, stat.st_ino]
}

/// Without the locks of the standard library: other threads may be ending, too.
fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a NUL; the value is looked at before anything else runs.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}
