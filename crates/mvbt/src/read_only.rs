//! A file that is not written, whatever is asked for.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use oneflush_blocklog::{AlignedBuffer, Storage};

/// Recovery's choice stays in memory. What a process that died has written is seen, and not
/// flushed: a loss of power may still take it away.
pub struct ReadOnly(pub Arc<dyn Storage>);

fn refused() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it was opened for reading only"))
}

impl Storage for ReadOnly {
    fn block_bytes(&self) -> usize {
        self.0.block_bytes()
    }

    fn alignment_bytes(&self) -> usize {
        self.0.alignment_bytes()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.0.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }

    fn read_many(&self, reads: Vec<(AlignedBuffer, u64)>) -> io::Result<Vec<AlignedBuffer>> {
        self.0.read_many(reads)
    }

    fn write_durable(&self, _: &[u8], _: u64) -> io::Result<()> {
        refused()
    }

    fn write(&self, _: &[u8], _: u64) -> io::Result<()> {
        refused()
    }

    /// Nothing was written.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn extend(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn zero(&self, _: Range<u64>) -> io::Result<()> {
        refused()
    }

    fn cut(&self, _: u64) -> io::Result<()> {
        refused()
    }
}
