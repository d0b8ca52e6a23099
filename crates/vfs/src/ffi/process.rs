//! What the system calls of a process are needed for: signals of our threads, and its forks.

use std::mem::MaybeUninit;
use std::panic::catch_unwind;
use std::sync::Once;

use super::{at_exit, forked};

/// From now on a fork finds our threads away, and `exit()` closes what is left open. Once, before the first file is opened; of a library that stays loaded.
pub fn follow_process() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: three functions that are there as long as the process. Without memory for the note of them a fork is as without us.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
        // SAFETY: as above.
        unsafe { libc::atexit(ends) };
    });
}

extern "C" fn prepare() {
    let _ = catch_unwind(forked::prepare);
}

extern "C" fn in_parent() {
    let _ = catch_unwind(forked::in_parent);
}

extern "C" fn in_child() {
    let _ = catch_unwind(forked::in_child);
}

/// Signals that a thread's own instruction raises. Blocked, they would end the process without its handler, which may be a crash reporter's or
/// a runtime's.
const OF_THE_THREAD: [i32; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Runs this with all signals blocked that somebody else may send. A thread that it starts has them blocked from its first instruction on, as a
/// thread inherits its creator's mask; in this thread they come afterwards.
pub fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::uninit();
    // SAFETY: two sets of this frame; the first is filled before it is used. The numbers are signals'.
    let blocked = unsafe {
        let mut all = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        for signal in OF_THE_THREAD {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let result = body();
    if blocked {
        // SAFETY: the mask that the call above has filled in.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    result
}

extern "C" fn ends() {
    let _ = catch_unwind(at_exit::ends);
}
