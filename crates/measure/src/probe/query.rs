//! What the file system says of a file: statx(2).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, Statx, StatxFlags};
use serde::Serialize;

/// STATX_WRITE_ATOMIC of Linux 6.11.
const WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x0001_0000);

/// `statx(STATX_DIOALIGN)`, Linux 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "direct_io", rename_all = "snake_case")]
pub enum DirectIo {
    Refused,
    /// It can be opened so, but the kernel does not tell the alignment.
    Unknown,
    Aligned {
        memory_bytes: u32,
        offset_bytes: u32,
    },
}

/// `statx(STATX_WRITE_ATOMIC)`, Linux 6.11: a write of this size is on the device as a whole or not
/// at all. It is no provider of `maw`: a commit is seldom one aligned range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AtomicWrite {
    pub unit_bytes_min: u32,
    pub unit_bytes_max: u32,
    /// Up to here the device does it. Above, the file system. 0: nothing is said of it.
    pub unit_bytes_max_opt: u32,
    pub segments_max: u32,
}

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
    let says = |what: StatxFlags| stat.stx_mask & what.bits() != 0;
    let says_alignment = says(StatxFlags::DIOALIGN);
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
    let offers_atomic = says(WRITE_ATOMIC) && stat.stx_atomic_write_unit_max > 0;
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

fn statx(file: &File) -> io::Result<Statx> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN | WRITE_ATOMIC;
    // The empty path is the descriptor itself.
    Ok(rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, mask)?)
}
