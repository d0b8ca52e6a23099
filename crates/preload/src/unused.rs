//! At the end of a program that opened no database through `libsqlite3.so`: a word, since Oneflush
//! was asked for.
//!
//! Only the process that `oneflush run` became says it, and only if it started no other process:
//! that one may have opened databases. A program that opens a file with a SQLite of its own hears
//! it then (`watch.rs`).

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

use crate::{objects, say, serve, watch};

/// The process that is to say it; 0: none.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
static USED: AtomicBool = AtomicBool::new(false);
static FORKED: AtomicBool = AtomicBool::new(false);

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
    say::at_start();
    watch::at_start();
    if say::is_this_process(c"ONEFLUSH_RUN_PID") {
        // SAFETY: the function lives as long as this library, which stays loaded; the number has no
        // preconditions.
        unsafe {
            libc::pthread_atfork(None, Some(forked), None);
            PROGRAM.store(libc::getpid(), Relaxed);
        }
    }
}

unsafe extern "C" fn forked() {
    FORKED.store(true, Relaxed);
}

extern "C" fn at_end() {
    // SAFETY: has no preconditions.
    let is_program = PROGRAM.load(Relaxed) == unsafe { libc::getpid() };
    if !is_program
        || USED.load(Relaxed)
        || FORKED.load(Relaxed)
        || had_children()
        || serve::is_loaded_by_the_program(&objects::all(), 1..usize::MAX)
    {
        return;
    }
    say::once(&format!(
        "{} opened no database through libsqlite3.so, so Oneflush was not in use; a program with \
            SQLite built in needs the extension: see oneflush run --help [OF-507]",
        say::program()
    ));
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
