//! Memory that direct I/O accepts.

use std::ops::{Deref, DerefMut};

/// The strictest alignment that direct I/O asks for in practice: a page.
const ALIGNMENT_BYTES: usize = 4096;

/// A buffer whose start is aligned to [`ALIGNMENT_BYTES`]. It allocates a bit more than it uses,
/// and so needs no unsafe code.
pub(crate) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    pub(crate) fn zeroed(length: usize) -> AlignedBuffer {
        let memory = vec![0; length + ALIGNMENT_BYTES];
        let start = memory.as_ptr().align_offset(ALIGNMENT_BYTES);
        AlignedBuffer { memory, start, length }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_is_aligned_and_length_is_exact() {
        let buffer = AlignedBuffer::zeroed(8192);
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT_BYTES, 0);
        assert_eq!(buffer.len(), 8192);
    }
}
