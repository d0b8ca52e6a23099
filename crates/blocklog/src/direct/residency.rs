//! What the page cache holds of a file: the one sign of a file system that takes `O_DIRECT` and does buffered I/O.

use std::fs::File;
use std::os::fd::AsRawFd;

/// cachestat(2), since Linux 6.5; the number is the same on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of the first `length` bytes that are in the page cache; `None` where the kernel cannot say.
pub(super) fn pages(file: &File, length: u64) -> Option<u64> {
    let range = Range { offset: 0, length };
    let mut stat = CacheStat::default();
    // SAFETY: the descriptor is open during the call; the kernel reads one struct and writes the other, both are laid out as
    // in <linux/mman.h> and live on this stack.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0 as libc::c_uint) };
    (result == 0).then_some(stat.cache)
}
