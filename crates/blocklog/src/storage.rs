//! What the log needs of a file.

use std::io;
use std::ops::Range;

use crate::AlignedBuffer;

/// One file, read and written in whole blocks.
///
/// - Memory is aligned to 4096 bytes ([`AlignedBuffer`](crate::AlignedBuffer)).
/// - Offsets and lengths are multiples of [`block_bytes`](Storage::block_bytes).
/// - No method has a default that could be wrong for some file: that would lose data.
pub trait Storage: Send + Sync {
    /// A power of two from 512 to 65536.
    fn block_bytes(&self) -> usize;
    /// The least that a write may be aligned to: a block, or a part of one.
    fn alignment_bytes(&self) -> usize;
    fn size_bytes(&self) -> io::Result<u64>;
    /// Fills the buffer, or fails. `UnexpectedEof`: the file ends before.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Answers these buffers in their order, each filled from its offset as by
    /// [`read_at`](Storage::read_at). A device may have them in flight together.
    fn read_many(&self, reads: Vec<(AlignedBuffer, u64)>) -> io::Result<Vec<AlignedBuffer>> {
        let read = |(mut buffer, offset): (AlignedBuffer, u64)| {
            self.read_at(&mut buffer, offset).map(|()| buffer)
        };
        reads.into_iter().map(read).collect()
    }
    /// Returns when the blocks survive a loss of power, with all that is needed to find them.
    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()>;
    /// Until [`flush`](Storage::flush) returns, the blocks may be lost, in whole or in any part.
    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()>;
    /// Writes all of these as [`write`](Storage::write) does, in any order. No two overlap. A
    /// device may have them in flight together.
    fn write_many(&self, writes: Vec<(AlignedBuffer, u64)>) -> io::Result<()> {
        writes.iter().try_for_each(|(blocks, offset)| self.write(blocks, *offset))
    }
    /// Makes all earlier writes durable, also those of a process that died before it could flush.
    fn flush(&self) -> io::Result<()>;
    /// Makes the file `size_bytes` long. The new bytes are written zeros (no hole, no unwritten
    /// extents), durable with the size.
    fn extend(&self, size_bytes: u64) -> io::Result<()>;
    /// Writes zeros in this range, which may lie behind the end of the file. What is between stays
    /// a hole. Until [`flush`](Storage::flush) returns, zeros and size may be lost. On a full disk
    /// the file keeps its size.
    fn zero(&self, range: Range<u64>) -> io::Result<()>;
    /// Makes the file `size_bytes` long. It was longer.
    fn cut(&self, size_bytes: u64) -> io::Result<()>;
    /// What was written by this handle. A file that does not count says nothing.
    fn written(&self) -> Written {
        Written::default()
    }
}

/// Bytes that were written to a file, for statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// All of them.
    pub bytes: u64,
    /// Of these: zeros, for space that is made ahead of its use.
    pub zeros_bytes: u64,
}
