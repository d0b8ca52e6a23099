//! A process that a test starts, and that does not outlive it.
//!
//! 1. When the test ends, by an assertion that fails too, the process is killed and waited for:
//!    [`Running`] is dropped.
//! 2. When the test's process dies without unwinding (`kill -9`, a time limit), the kernel kills
//!    the process.
//!
//! Neither reaches what the process itself has started: a test starts no shell or `timeout` around
//! a program that does not end by itself.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output};

/// Has the kernel kill the command's process when the calling thread, which is the test, ends.
pub fn dies_with_test(command: &mut Command) -> &mut Command {
    let ask = || {
        // SAFETY: the call takes a signal and no pointer.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(ask) }
}

/// Copies the test's own program there, to be started.
///
/// Another process writes the copy. If this one did, a process that another test starts meanwhile
/// could inherit the descriptor. The kernel starts no file that is open for writing ("text file
/// busy").
pub fn copy_program(to: &std::path::Path) {
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "cannot copy to {}", to.display());
}

/// Gives the command's process a mount namespace of its own, from which nothing reaches others.
#[cfg(feature = "fuse")]
pub fn with_own_mounts(command: &mut Command) -> &mut Command {
    let leave = || {
        // SAFETY: the first call takes a number. The second takes a C string, and null for what
        // `MS_PRIVATE` does not use.
        let left = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    std::ptr::null(),
                    c"/".as_ptr(),
                    std::ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    std::ptr::null(),
                ) == 0
        };
        if left { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(leave) }
}

/// A child that is killed when this is dropped. `None` inside: it was waited for.
#[derive(Debug)]
pub struct Running(Option<Child>);

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let child = dies_with_test(command).spawn();
        Running(Some(
            child.unwrap_or_else(|error| {
                panic!("cannot start {:?}: {error}", command.get_program())
            }),
        ))
    }

    /// As [`Child::wait_with_output`].
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        self.0.take().expect("it is there until here").wait_with_output()
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("only `wait_with_output` takes it")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("only `wait_with_output` takes it")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // An error: it has ended, and has been waited for.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a command that must succeed, and answers what it prints.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{said}");
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn is_there(pid: u32) -> bool {
        Path::new("/proc").join(pid.to_string()).exists()
    }

    #[test]
    fn a_process_is_gone_when_the_test_that_started_it_fails() {
        let pid = std::sync::Mutex::new(0);
        let failed = std::panic::catch_unwind(|| {
            let running = Running::start(Command::new("sleep").arg("1000"));
            *pid.lock().unwrap() = running.id();
            assert!(is_there(running.id()));
            std::panic::resume_unwind(Box::new("the test fails"));
        });
        let pid = *pid.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert!(failed.is_err() && pid != 0 && !is_there(pid));
    }

    #[test]
    fn a_process_that_nobody_ends_dies_with_its_thread() {
        let thread = std::thread::spawn(|| {
            dies_with_test(Command::new("sleep").arg("1000")).spawn().unwrap()
        });
        let mut child = thread.join().unwrap();
        // The test ends in any case: without the kernel's signal after 1000 seconds, and with
        // success.
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    }
}
