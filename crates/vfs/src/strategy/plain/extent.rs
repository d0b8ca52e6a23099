//! The WAL's space, made ahead of its use (WALDIO section 3.1, "Preallocation with Explicit
//! Journaling").
//!
//! A write behind the end of a file allocates blocks and changes the size. The flush that makes it
//! durable then writes the file system's journal too. So the file is extended by a whole chunk of
//! zeros and synced once. The zeros are *written*, not `fallocate`d: an unwritten extent needs the
//! journal again at its first write. Some devices make written blocks of zeros without a write.
//! Zeros behind the last frame are no frame to any SQLite, since page number 0 does not exist.
//!
//! Differences to the paper:
//!
//! - The file keeps its name, format and buffered writes.
//! - The file is extended as it grows instead of being made in one size.
//! - A commit that meets a full disk goes on without space ahead.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::{Code, Error};
use crate::port::Below;
use crate::strategy::chunk::chunk_at;

/// Zeros are written in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;
static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// How far the WAL of one database is known to reach. Only the holder of the write lock extends the
/// file.
#[derive(Default)]
pub struct Extent {
    end_bytes: AtomicU64,
    extensions: AtomicU64,
    laid_out_bytes: AtomicU64,
}

impl Extent {
    /// Forgets the end: the file was opened, truncated or begun anew, perhaps by another process.
    pub fn forget(&self) {
        self.end_bytes.store(0, Relaxed);
    }

    pub fn extensions(&self) -> u64 {
        self.extensions.load(Relaxed)
    }

    /// Zeros that were written ahead.
    pub fn laid_out_bytes(&self) -> u64 {
        self.laid_out_bytes.load(Relaxed)
    }

    /// Makes sure that the file reaches `needed_bytes`.
    ///
    /// The file grows by whole chunks of `chunk_bytes`, or by less while it is small. An error is
    /// one of `flush`, which syncs the whole file. A failed write, as on a full disk, only means
    /// that there is no space ahead. `without_writing` answers whether the device has made these
    /// zeros.
    pub fn reserve(
        &self,
        wal: &dyn Below,
        needed_bytes: u64,
        chunk_bytes: u64,
        without_writing: impl FnOnce(Range<u64>) -> bool,
        flush: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if chunk_bytes == 0 || needed_bytes <= self.end_bytes.load(Relaxed) {
            return Ok(());
        }
        let end_bytes = wal.size_bytes()?;
        if needed_bytes <= end_bytes {
            self.end_bytes.store(end_bytes, Relaxed);
            return Ok(());
        }
        let wanted_bytes = needed_bytes.next_multiple_of(chunk_at(end_bytes, chunk_bytes));
        let is_made = without_writing(end_bytes..wanted_bytes);
        if !is_made && write_zeros(wal, end_bytes, wanted_bytes).is_err() {
            // The zeros that were written are taken back. A full disk is to have room for the
            // commit itself.
            let _ = wal.truncate(end_bytes);
            self.end_bytes.store(needed_bytes, Relaxed);
            return Ok(());
        }
        if !is_made {
            self.laid_out_bytes.fetch_add(wanted_bytes - end_bytes, Relaxed);
        }
        // The flush covers the size and the directory entry too, not only the data.
        flush()?;
        self.end_bytes.store(wanted_bytes, Relaxed);
        self.extensions.fetch_add(1, Relaxed);
        Ok(())
    }
}

fn write_zeros(wal: &dyn Below, from_bytes: u64, to_bytes: u64) -> Result<(), Code> {
    let mut at = from_bytes;
    while at < to_bytes {
        let len = (to_bytes - at).min(PIECE_BYTES as u64) as usize;
        wal.write(&ZEROS[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::test_wal::Wal;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_needed_is_there_with_zeros_behind_it_and_one_flush_each_time() {
        let (wal, extent) = (Wal::default(), Extent::default());
        let mut flushes = 0;
        let mut sizes = Vec::new();
        const K: u64 = 1024;
        for needed in [
            1,
            64 * K,
            64 * K + 1,
            130 * K,
            300 * K,
            700 * K,
            MIB + 1,
            9 * MIB - 1,
            9 * MIB + 1,
            11 * MIB,
        ] {
            let flush = || {
                flushes += 1;
                Ok(())
            };
            assert!(extent.reserve(&wal, needed, MIB, |_| false, flush).is_ok());
            let size = wal.size_bytes().unwrap();
            assert!(size >= needed);
            sizes.push(size / K);
        }
        assert_eq!(sizes, [64, 64, 128, 256, 512, 1024, 2048, 9216, 10_240, 12_288]);
        assert_eq!((flushes, extent.extensions()), (9, 9));
        assert_eq!(extent.laid_out_bytes(), wal.size_bytes().unwrap());
        assert!(wal.bytes().iter().all(|byte| *byte == 0));
        // Another process has written on. That is no extension of this process.
        wal.extend([1; 100]);
        extent.forget();
        assert!(extent.reserve(&wal, 12 * MIB + 50, MIB, |_| false, || unreachable!()).is_ok());
        // What the device makes is not written.
        let size = wal.size_bytes().unwrap();
        let by_device = |new| new == (size..15 * MIB);
        assert!(extent.reserve(&wal, 12 * MIB + 101, MIB, by_device, || Ok(())).is_ok());
        assert_eq!(wal.size_bytes().unwrap(), size);
        assert_eq!(extent.laid_out_bytes(), 12 * MIB);
    }
}
