//! What the page cache holds of a file, and how to have it written.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// cachestat(2), since Linux 6.5; the number is the same on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// How often [`write_out`] looks, and for how long.
const LOOK_AFTER: Duration = Duration::from_micros(100);
const LOOK_MAX: Duration = Duration::from_millis(500);

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// Counts of a file's pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedPages {
    pub cached: u64,
    pub dirty: u64,
    /// On their way to the device.
    pub in_writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The pages in the page cache of `length` bytes from `offset` on. `None`: the kernel cannot say.
pub fn cached_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> Option<CachedPages> {
    let range = Range { offset, length };
    let mut pages = CachedPages::default();
    // SAFETY: the descriptor is open during the call. The kernel reads one struct and writes the
    // other; both are laid out as in <linux/mman.h> and live on this stack.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut pages,
            0 as libc::c_uint,
        )
    };
    (result == 0).then_some(pages)
}

/// Writes `length` bytes from `offset` on to the device, and waits for that for half a second at
/// most. This makes nothing durable. It asks for no error, so the next sync of the file still
/// reports one (`SYNC_FILE_RANGE_WAIT_AFTER` would take it away). Where the kernel cannot say when
/// the writing is done, it is only begun.
pub fn write_out(file: BorrowedFd<'_>, offset: u64, length: u64) {
    let (Ok(at), Ok(bytes)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: the descriptor is open during the call, and no memory is passed.
    let result =
        unsafe { libc::sync_file_range(file.as_raw_fd(), at, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    let began = Instant::now();
    while result == 0
        && began.elapsed() < LOOK_MAX
        && cached_pages(file, offset, length).is_some_and(|pages| pages.in_writeback > 0)
    {
        std::thread::sleep(LOOK_AFTER);
    }
}
