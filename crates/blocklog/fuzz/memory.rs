//! A log's storage in memory, for fuzz targets.

use std::io;
use std::sync::Mutex;

use oneflush_blocklog::Storage;

pub const BLOCK: usize = 512;

#[derive(Default)]
pub struct Memory(pub Mutex<Vec<u8>>);

impl Storage for &Memory {
    fn block_bytes(&self) -> usize {
        BLOCK
    }
    fn alignment_bytes(&self) -> usize {
        BLOCK
    }
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let part = bytes
            .get(offset as usize..offset as usize + buffer.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(part);
        Ok(())
    }
    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.0.lock().unwrap()[offset as usize..offset as usize + blocks.len()]
            .copy_from_slice(blocks);
        Ok(())
    }
    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.write_durable(blocks, offset)
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let size = bytes.len().max(size_bytes as usize);
        bytes.resize(size, 0);
        Ok(())
    }
    fn zero(&self, range: std::ops::Range<u64>) -> io::Result<()> {
        unreachable!("a log of records is extended: {range:?}")
    }
    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        unreachable!("a log of records is never cut: {size_bytes}")
    }
}
