//! A file in memory.

use std::io;
use std::ops::Range;
use std::sync::Mutex;

use oneflush_blocklog::Storage;

/// A hostile file makes no file longer than this.
const BYTES_MAX: usize = 32 << 20;

#[derive(Default)]
pub struct Memory(pub Mutex<Vec<u8>>);

impl Memory {
    fn put(&self, offset: u64, bytes: &[u8]) {
        let mut file = self.0.lock().unwrap();
        let end = offset as usize + bytes.len();
        assert!(end <= BYTES_MAX, "the file grows to {end} bytes");
        let size = file.len().max(end);
        file.resize(size, 0);
        file[offset as usize..end].copy_from_slice(bytes);
    }
}

impl Storage for Memory {
    fn block_bytes(&self) -> usize {
        4096
    }

    fn alignment_bytes(&self) -> usize {
        512
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let file = self.0.lock().unwrap();
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let end = from.checked_add(buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(file.get(from..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.put(offset, blocks);
        Ok(())
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.put(offset, blocks);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.put(size_bytes, &[]);
        Ok(())
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        let length = (range.end - range.start) as usize;
        assert!(length <= BYTES_MAX, "{length} zeros");
        self.put(range.start, &vec![0; length]);
        Ok(())
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        unreachable!("a database is never cut: {size_bytes}")
    }
}
