//! Memory that direct I/O accepts.

use std::ops::{Deref, DerefMut};

/// The strictest alignment that direct I/O asks for in practice: a page.
pub(crate) const MEMORY_ALIGNMENT_BYTES: usize = 4096;

/// A buffer whose start is aligned to 4096 bytes, made to be used again. Safe code only: it
/// allocates a bit more than it uses.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    pub fn zeroed(length: usize) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::default();
        buffer.reset(length);
        buffer
    }

    /// Makes the buffer `length` bytes long. Its contents are zeros, or what it held before.
    pub fn reset(&mut self, length: usize) {
        if self.memory.len() < self.start + length || self.memory.is_empty() {
            // Nothing of the old contents is kept. So nothing is copied, and both are never held at
            // once.
            self.memory = Vec::new();
            self.memory = vec![0; length + MEMORY_ALIGNMENT_BYTES];
            self.start = self.memory.as_ptr().align_offset(MEMORY_ALIGNMENT_BYTES);
        }
        self.length = length;
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
    fn start_is_aligned_and_length_is_exact_also_after_growth() {
        let mut buffer = AlignedBuffer::zeroed(8192);
        for length in [8192, 0, 512, 8192, 300_000, 4096] {
            buffer.reset(length);
            assert_eq!(buffer.as_ptr() as usize % MEMORY_ALIGNMENT_BYTES, 0);
            assert_eq!(buffer.len(), length);
        }
    }
}
