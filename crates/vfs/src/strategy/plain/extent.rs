//! The WAL's space, made ahead of its use (WALDIO section 3.1, "Preallocation with Explicit Journaling").
//!
//! A write behind the end of a file allocates blocks and changes the size, and the flush that makes it durable then writes the
//! file system's journal too. So the file is extended by a whole chunk of zeros, *written*, not `fallocate`d (an unwritten
//! extent needs the journal again at its first write), and synced once. Zeros behind the last frame are no frame to any SQLite:
//! page number 0 does not exist.
//!
//! Differences to the paper: the file keeps its name, format and buffered writes; it is extended as it grows instead of being made in
//! one size; and a commit that meets a full disk goes on without.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::{Code, Error};
use crate::strategy::Below;

/// Zeros are written in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;
static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// How far the WAL of one database is known to reach. Only the holder of the write lock extends the file.
#[derive(Default)]
pub struct Extent {
    end_bytes: AtomicU64,
    extensions: AtomicU64,
}

impl Extent {
    /// The file was opened, truncated or begun anew, perhaps by another process: its end is not known any more.
    pub fn forget(&self) {
        self.end_bytes.store(0, Relaxed);
    }

    pub fn extensions(&self) -> u64 {
        self.extensions.load(Relaxed)
    }

    /// Makes sure that the file reaches `needed_bytes`, by whole chunks. An error is one of `flush`, which syncs the whole file; a write that fails, as on a
    /// full disk, only means that there is no space ahead.
    pub fn reserve(
        &self,
        wal: &dyn Below,
        needed_bytes: u64,
        chunk_bytes: u64,
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
        let wanted_bytes = needed_bytes.next_multiple_of(chunk_bytes);
        if write_zeros(wal, end_bytes, wanted_bytes).is_err() {
            // What was written of it is taken back: a full disk is to have room for the commit itself, if for anything.
            let _ = wal.truncate(end_bytes);
            self.end_bytes.store(needed_bytes, Relaxed);
            return Ok(());
        }
        // The size and the directory entry too, not only the data.
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
