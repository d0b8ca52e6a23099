//! Frames that SQLite has written to its WAL and that are held back in memory.

/// Frames, or a frame's header, that SQLite has written in pieces and that are to be written at
/// once.
#[derive(Default)]
pub struct Held {
    offset: u64,
    bytes: Vec<u8>,
    /// The bytes have been given out.
    is_taken: bool,
    /// Where the frames of this transaction end.
    end_bytes: u64,
}

impl Held {
    /// Ends the transaction. What is still held of it was rolled back.
    pub fn end_transaction(&mut self) {
        self.is_taken = true;
        self.end_bytes = 0;
    }

    /// The next bytes are in front of what was written. What is held stays held.
    pub fn begin_anew(&mut self) {
        self.end_bytes = 0;
    }

    /// Bytes up to `end_bytes` were written without being held.
    pub fn reaches(&mut self, end_bytes: u64) {
        self.end_bytes = self.end_bytes.max(end_bytes);
    }

    /// True if this transaction has already written at `offset`.
    ///
    /// SQLite writes over pages that it had spilled. After the commit's last frame it writes anew
    /// the checksums of all frames behind the first such page. Nothing tells when SQLite is done
    /// with that, so such writes cannot be held back.
    pub fn is_written_over(&self, offset: u64) -> bool {
        offset < self.end_bytes
    }

    pub fn len(&self) -> usize {
        if self.is_taken { 0 } else { self.bytes.len() }
    }

    pub fn is_continued_at(&self, offset: u64) -> bool {
        self.len() == 0 || self.offset + self.bytes.len() as u64 == offset
    }

    pub fn add(&mut self, data: &[u8], offset: u64) {
        if self.len() == 0 {
            self.bytes.clear();
            self.offset = offset;
            self.is_taken = false;
        }
        self.bytes.extend_from_slice(data);
        self.end_bytes = offset + data.len() as u64;
    }

    /// Gives out the held bytes and their offset. Nothing is held afterwards. The writer may take
    /// the bytes out of the vector.
    pub fn take(&mut self) -> Option<(&mut Vec<u8>, u64)> {
        if self.len() == 0 {
            return None;
        }
        self.is_taken = true;
        Some((&mut self.bytes, self.offset))
    }

    /// The bytes given out last could not be written. They are held again.
    pub fn put_back(&mut self) {
        self.is_taken = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_is_held_again_and_goes_on() {
        let mut held = Held::default();
        held.add(&[1; 4], 32);
        assert_eq!(held.take(), Some((&mut vec![1; 4], 32)));
        held.put_back();
        assert!(held.is_continued_at(36) && !held.is_continued_at(40));
        held.add(&[2; 2], 36);
        assert_eq!(held.take(), Some((&mut vec![1, 1, 1, 1, 2, 2], 32)));
        assert_eq!(held.take(), None);
    }
}
