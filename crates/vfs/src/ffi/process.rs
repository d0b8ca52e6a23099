//! What a guest needs from its process by system calls: signals of our threads, forks, and the end.

use std::mem::MaybeUninit;
use std::panic::catch_unwind;
use std::sync::Once;

use super::{at_exit, forked};

/// From now on our threads have ended when a fork comes, and `exit()` closes what is left open.
/// Called before the first file is opened, by a library that stays loaded. It acts once.
pub fn follow_process() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: three functions that exist as long as the process. Without memory to note them, a
        // fork is not prepared.
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

/// Signals that an instruction of the thread itself raises. If they were blocked, they would end
/// the process without its handler, which may be a crash reporter's or a runtime's.
const OF_THE_THREAD: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Runs `body` with all signals blocked that somebody else may send. A thread that `body` starts
/// inherits the mask, so it has them blocked from its first instruction on. In this thread the
/// signals arrive afterwards.
pub fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::uninit();
    // SAFETY: two sets of this frame, each filled before it is used. The numbers are signals.
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
