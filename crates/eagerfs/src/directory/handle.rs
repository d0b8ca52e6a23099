//! The kernel's file handles (`name_to_handle_at(2)`): number and generation of an object.
//!
//! A handle stays the same over renames and mounts. It opens the object again as long as that
//! exists, whatever names it has. Only who may read everything may open by it.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread;

/// `MAX_HANDLE_SZ`.
const HANDLE_BYTES_MAX: usize = 128;

/// As `struct file_handle`, with room for the longest.
#[repr(C)]
struct Raw {
    bytes: u32,
    kind: c_int,
    handle: [u8; HANDLE_BYTES_MAX],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    pub kind: i32,
    pub bytes: Vec<u8>,
}

/// `None`: this file system has none.
pub fn of(object: impl AsFd) -> io::Result<Option<Handle>> {
    let mut raw = Raw { bytes: HANDLE_BYTES_MAX as u32, kind: 0, handle: [0; HANDLE_BYTES_MAX] };
    let mut mount: c_int = 0;
    // SAFETY: `raw` is laid out as `struct file_handle`, and says how much room it has. The name is
    // a C string. Both pointers outlive the call.
    let answer = unsafe {
        libc::name_to_handle_at(
            object.as_fd().as_raw_fd(),
            c"".as_ptr(),
            (&raw mut raw).cast(),
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if answer < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EOVERFLOW) => Ok(None),
            _ => Err(error),
        };
    }
    let bytes = raw.handle.get(..raw.bytes as usize).unwrap_or_default().to_vec();
    Ok(Some(Handle { kind: raw.kind, bytes }))
}

/// So often an object is looked for whose number is being given to another one.
const ATTEMPTS: u32 = 100;

/// Opens without any right to read or write (`O_PATH`). `mount`: an object of the same mount,
/// opened for reading. `ESTALE`: there is no such object any more. `EPERM`: this process may not.
pub fn open(mount: impl AsFd, handle: &Handle) -> io::Result<OwnedFd> {
    // ext4 says so while it makes an object of this number (`iget_locked`).
    let is_being_made = |error: &io::Error| error.raw_os_error() == Some(libc::ENOMEM);
    let mut opened = open_once(mount.as_fd(), handle);
    for _ in 1..ATTEMPTS {
        if !opened.as_ref().is_err_and(is_being_made) {
            break;
        }
        thread::yield_now();
        opened = open_once(mount.as_fd(), handle);
    }
    opened
}

fn open_once(mount: BorrowedFd<'_>, handle: &Handle) -> io::Result<OwnedFd> {
    let mut raw = Raw { bytes: handle.bytes.len() as u32, kind: handle.kind, handle: [0; _] };
    let Some(place) = raw.handle.get_mut(..handle.bytes.len()) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    place.copy_from_slice(&handle.bytes);
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: `raw` is laid out as `struct file_handle`, and says how long it is. It outlives the
    // call.
    let opened =
        unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut raw).cast(), flags) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}
