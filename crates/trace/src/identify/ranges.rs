//! Where writes went: ranges of sectors, or of bytes in a trace of system calls. A range is its
//! first sector and the one behind its last.

pub(super) type Range = (u64, u64);

/// The longest write that may be a page alone: a page of the kernel's cache.
pub(super) const PAGE_BYTES_MAX: u64 = 4096;

pub(super) fn holds(ranges: &[Range], sector: u64) -> bool {
    ranges.iter().any(|&(begin, end)| begin <= sector && sector < end)
}
