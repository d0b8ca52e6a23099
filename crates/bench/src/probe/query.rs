//! What the file system says of a file: statx(2).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{AtomicWrite, DirectIo};

pub(super) struct Facts {
    pub(super) direct_io: DirectIo,
    pub(super) atomic_write: Option<AtomicWrite>,
}

pub(super) fn file(dir: &Path) -> io::Result<Facts> {
    let named = tempfile::NamedTempFile::new_in(dir)?;
    let opens_direct =
        match OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(named.path()) {
            Ok(_) => true,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => false,
            Err(error) => return Err(error),
        };
    let stat = statx(named.as_file())?;
    let says_alignment = stat.stx_mask & libc::STATX_DIOALIGN != 0;
    let direct_io = match (opens_direct, says_alignment) {
        (false, _) => DirectIo::Refused,
        // Both 0: the kernel would take the flag and not do it.
        (true, true) if stat.stx_dio_offset_align == 0 => DirectIo::Refused,
        (true, true) => DirectIo::Aligned {
            memory_bytes: stat.stx_dio_mem_align,
            offset_bytes: stat.stx_dio_offset_align,
        },
        (true, false) => DirectIo::Unknown,
    };
    let offers_atomic =
        stat.stx_mask & libc::STATX_WRITE_ATOMIC != 0 && stat.stx_atomic_write_unit_max > 0;
    Ok(Facts {
        direct_io,
        atomic_write: offers_atomic.then_some(AtomicWrite {
            unit_bytes_min: stat.stx_atomic_write_unit_min,
            unit_bytes_max: stat.stx_atomic_write_unit_max,
            unit_bytes_max_opt: stat.stx_atomic_write_unit_max_opt,
            segments_max: stat.stx_atomic_write_segments_max,
        }),
    })
}

fn statx(file: &File) -> io::Result<libc::statx> {
    let mask = libc::STATX_BASIC_STATS | libc::STATX_DIOALIGN | libc::STATX_WRITE_ATOMIC;
    // SAFETY: the struct is plain numbers, for which all zeros is a value.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is an empty C string (the descriptor itself is meant), and `stat` is ours to
    // write.
    let result = unsafe {
        libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, mask, &raw mut stat)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(stat) }
}
