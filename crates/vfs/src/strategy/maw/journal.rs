//! A rollback journal in memory. SQLite sees an ordinary file.

use crate::error::Code;

/// The contents of the journal.
#[derive(Default)]
pub struct Journal {
    bytes: Vec<u8>,
}

/// The header of a journal that SQLite has finished ends here: PERSIST writes so many zeros over it
/// ("Rollback Journal File Format").
pub const FINISHED_BYTES: usize = 28;

/// The header's magic number and its count of records. Without them the journal is not played back.
pub const VALID_BYTES: usize = 12;

/// "Rollback Journal Header Format".
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

impl Journal {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets the contents and, after a long transaction, the memory.
    pub fn clear(&mut self) {
        const KEPT_BYTES_MAX: usize = 1 << 20;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
    }

    pub fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        let from = usize::try_from(offset).map_or(self.bytes.len(), |at| at.min(self.bytes.len()));
        let there = buffer.len().min(self.bytes.len() - from);
        buffer[..there].copy_from_slice(&self.bytes[from..from + there]);
        buffer[there..].fill(0);
        if there == buffer.len() { Ok(()) } else { Err(Code::SHORT_READ) }
    }

    pub fn write(&mut self, data: &[u8], offset: u64) -> Result<(), Code> {
        let offset = usize::try_from(offset).map_err(|_| Code::FULL)?;
        let end = offset.checked_add(data.len()).ok_or(Code::FULL)?;
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(data);
        Ok(())
    }

    pub fn truncate(&mut self, size_bytes: u64) {
        let size_bytes = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        self.bytes.truncate(size_bytes);
    }

    /// True if this write finishes the journal, as PERSIST and exclusive locking mode do.
    pub fn is_finished_by(data: &[u8], offset: u64) -> bool {
        offset == 0 && data.len() == FINISHED_BYTES && data.iter().all(|&byte| byte == 0)
    }

    /// True if this write makes records valid that were written before. SQLite writes the header so
    /// where it syncs, and a second time after a sync at FULL only.
    pub fn is_validated_by(data: &[u8]) -> bool {
        data.len() == VALID_BYTES && data.starts_with(&MAGIC)
    }

    /// True if SQLite begins to play back the whole journal with this read.
    ///
    /// Before it looks at anything else, it reads the length of a super-journal's name, 16 bytes
    /// before the end (`readSuperJournal()`). Savepoints are played back without that read. No
    /// commit of the transaction follows.
    pub fn begins_playback(&self, len: usize, offset: u64) -> bool {
        const BEFORE_END: u64 = 16;
        len == 4 && offset.checked_add(BEFORE_END) == Some(self.size_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_rest_is_zeros() {
        let mut journal = Journal::default();
        journal.write(b"header", 0).unwrap();
        journal.write(b"page", 512).unwrap();
        let mut read = [9; 8];
        journal.read(&mut read, 508).unwrap();
        assert_eq!(&read, b"\0\0\0\0page");
        assert_eq!(journal.read(&mut read, 512), Err(Code::SHORT_READ));
        assert_eq!(&read, b"page\0\0\0\0");
        assert_eq!(journal.read(&mut read, u64::MAX), Err(Code::SHORT_READ));
        journal.truncate(3);
        assert_eq!((journal.size_bytes(), journal.bytes()), (3, &b"hea"[..]));
    }

    #[test]
    fn a_journal_is_finished_by_28_zeros_at_its_beginning_only() {
        assert!(Journal::is_finished_by(&[0; 28], 0));
        assert!(!Journal::is_finished_by(&[0; 28], 28));
        assert!(!Journal::is_finished_by(&[0; 512], 0));
        assert!(!Journal::is_finished_by(&[1; 28], 0));
    }

    #[test]
    fn only_the_read_of_a_super_journals_length_begins_a_playback() {
        let mut journal = Journal::default();
        assert!(!journal.begins_playback(4, 0), "an empty journal has no such place");
        journal.write(&[1; 600], 0).unwrap();
        assert!(journal.begins_playback(4, 584));
        assert!(!journal.begins_playback(8, 584) && !journal.begins_playback(4, 588));
    }
}
