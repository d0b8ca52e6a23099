//! Record locks of open files (`F_OFD_SETLK`, Linux 3.15): on single bytes, which need not be
//! there. The kernel takes them away when the last descriptor of the open file is closed.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// A record lock of the open file, on one byte. `command` takes the lock or asks what is in
/// its way. The answer is the kind of that lock.
pub fn record_lock_at(
    file: impl AsFd,
    command: libc::c_int,
    kind: libc::c_int,
    byte: i64,
) -> Result<libc::c_int, Errno> {
    record_lock_in(file, command, kind, byte..byte + 1)
}

/// The same on several bytes.
pub fn record_lock_in(
    file: impl AsFd,
    command: libc::c_int,
    kind: libc::c_int,
    bytes: Range<i64>,
) -> Result<libc::c_int, Errno> {
    asked(file, command, kind, bytes).map(|lock| libc::c_int::from(lock.l_type))
}

/// The process whose lock is in the way of this open file's exclusive one. `None`: nothing is. A
/// lock of another open file has no process, which is -1 then.
pub fn holder(file: impl AsFd, bytes: Range<i64>) -> Result<Option<libc::pid_t>, Errno> {
    let lock = asked(file, libc::F_OFD_GETLK, libc::F_WRLCK, bytes)?;
    Ok((libc::c_int::from(lock.l_type) != libc::F_UNLCK).then_some(lock.l_pid))
}

fn asked(
    file: impl AsFd,
    command: libc::c_int,
    kind: libc::c_int,
    bytes: Range<i64>,
) -> Result<libc::flock, Errno> {
    // SAFETY: all zeros is a value of this structure; `l_pid` has to be 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = bytes.start as libc::off_t;
    lock.l_len = (bytes.end - bytes.start) as libc::off_t;
    // SAFETY: an open file, and a structure that lives during the call.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &mut lock) } {
        0 => Ok(lock),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
