//! A process becomes another program, and nothing of it stays but its number.
//!
//! Before `main`, Rust's runtime ignores `SIGPIPE`. Its `exec` gives the program an empty signal
//! mask and the default of `SIGPIPE`. A supervisor may have decided otherwise: systemd ignores
//! `SIGPIPE` in all services unless told not to. So the settings that this process began with are
//! noted before the runtime begins, and put back.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IGNORED_PIPE: AtomicBool = AtomicBool::new(false);

// SAFETY: the section holds functions of this type, which run once, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = note_what_is_ignored;

extern "C" fn note_what_is_ignored() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks for the action and sets none; zeros are a valid one.
    let (answer, action) = unsafe {
        let answer = libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr());
        (answer, action.assume_init())
    };
    IGNORED_PIPE.store(answer == 0 && action.sa_sigaction == libc::SIG_IGN, Relaxed);
}

/// Becomes `command`, with the signal mask of this thread and the ignored signals that this process
/// began with. Returns only if that fails.
pub fn become_program(command: &mut Command) -> io::Error {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: asks for the mask and sets none; zeros are a valid one.
    let mask = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
        mask.assume_init()
    };
    let put_back = move || {
        // SAFETY: both are async-signal-safe, and the mask lives in this closure.
        unsafe {
            if IGNORED_PIPE.load(Relaxed) {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: the closure runs in this very process, after the standard library's own settings, and
    // allocates nothing.
    unsafe { command.pre_exec(put_back) };
    command.exec()
}
